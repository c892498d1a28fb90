use proptest::prelude::*;

use super::*;

const LIMITS: SequenceLimits = SequenceLimits {
    wait_ms: 50,
    waiting_max: 3,
    id_ttl_ms: 100,
    ids_max: 4,
};

fn ids<'i>(prev_id: &'i str, id: &'i str) -> ItemIds<'i> {
    ItemIds {
        id: Some(id).filter(|id| !id.is_empty()),
        prev_id: Some(prev_id).filter(|id| !id.is_empty()),
    }
}

/// Each step: time, prev-id, id ("" is none), and what comes out, by id.
#[track_caller]
fn check(steps: &[(u64, &'static str, &'static str, Verdict, &[&str])]) {
    let mut sequence = Sequence::new(LIMITS);
    for &(now, prev_id, id, verdict, expect) in steps {
        let mut out = Vec::new();
        sequence.expire(Millis(now), &mut out);
        let found = sequence.offer(Millis(now), ids(prev_id, id), true, id, &mut out);
        assert_eq!(
            (found, &*out),
            (verdict, expect),
            "at {now}: {prev_id} -> {id}"
        );
    }
}

#[test]
fn order() {
    use Verdict::{Delivered, Duplicate, Waiting};
    check(&[
        // The first goes out whatever it follows; then the chain must hold.
        (0, "7", "8", Delivered, &["8"]),
        (0, "9", "10", Waiting, &[]),
        (0, "10", "11", Waiting, &[]),
        (0, "8", "9", Delivered, &["9", "10", "11"]),
        (1, "8", "9", Duplicate, &[]),
    ]);
    check(&[
        (0, "", "1", Delivered, &["1"]),
        (0, "2", "3", Waiting, &[]),
        (49, "4", "5", Waiting, &[]),
        // Its time is over; what follows it comes with it.
        (50, "3", "4", Delivered, &["3", "4", "5"]),
    ]);
    check(&[
        (0, "", "1", Delivered, &["1"]),
        (0, "a", "b", Waiting, &[]),
        (0, "c", "d", Waiting, &[]),
        (0, "e", "f", Waiting, &[]),
        // One too many: the oldest goes out.
        (0, "g", "h", Waiting, &["b"]),
    ]);
    check(&[
        (0, "", "1", Delivered, &["1"]),
        (1, "", "2", Delivered, &["2"]),
        // Without an id the last one is unknown, so the next goes out.
        (2, "", "", Delivered, &[""]),
        (3, "x", "y", Delivered, &["y"]),
        // The id is forgotten when its time is over.
        (100, "y", "1", Delivered, &["1"]),
    ]);
    check(&[
        (0, "", "1", Delivered, &["1"]),
        (0, "", "2", Delivered, &["2"]),
        (0, "", "3", Delivered, &["3"]),
        (0, "", "4", Delivered, &["4"]),
        // A fifth id pushes out the first.
        (0, "", "5", Delivered, &["5"]),
        (0, "", "1", Delivered, &["1"]),
        (0, "", "5", Duplicate, &[]),
    ]);
}

#[test]
fn leaving_forgets_the_order_but_not_the_ids() {
    let mut sequence = Sequence::new(LIMITS);
    let mut out = Vec::new();
    assert_eq!(
        sequence.offer(Millis(0), ids("", "1"), true, 1, &mut out),
        Verdict::Delivered
    );
    assert_eq!(
        sequence.offer(Millis(0), ids("5", "6"), true, 6, &mut out),
        Verdict::Waiting
    );
    assert_eq!(
        sequence.offer(Millis(0), ids("8", "9"), false, 9, &mut out),
        Verdict::Delivered
    );
    assert_eq!(
        (sequence.last_id(), sequence.next_timeout()),
        (Some("1"), Some(Millis(50)))
    );
    assert_eq!(sequence.forget_order(), 1);
    assert_eq!((sequence.last_id(), sequence.next_timeout()), (None, None));
    assert_eq!(
        sequence.offer(Millis(1), ids("", "1"), true, 1, &mut out),
        Verdict::Duplicate
    );
    assert_eq!(out, [1, 9]);
    assert!(!sequence.is_idle());
    assert_eq!(
        sequence.offer(Millis(500), ids("", ""), true, 2, &mut out),
        Verdict::Delivered
    );
    assert!(sequence.is_idle());
}

#[test]
fn what_a_client_follows() {
    assert_eq!(follow(None, None), Follow::Deliver);
    assert_eq!(follow(None, Some("1")), Follow::Deliver);
    assert_eq!(follow(Some("1"), Some("1")), Follow::Deliver);
    assert_eq!(follow(Some("1"), Some("2")), Follow::Recover);
    assert_eq!(follow(Some("1"), None), Follow::Recover);
}

/// The same rules without any structure: everything that ever came is in one list, and
/// each question is answered by searching it.
/// When, prev-id, id, item, and whether it waits.
type Arrived = (u64, Option<u8>, Option<u8>, usize, bool);

#[derive(Default)]
struct Model {
    arrived: Vec<Arrived>,
    accepted_ids: Vec<(u64, u8)>,
    last: Option<u8>,
}

impl Model {
    fn release(&mut self, index: usize, out: &mut Vec<usize>) {
        let mut next = Some(index);
        while let Some(at) = next {
            let (_, _, id, item, waiting) = &mut self.arrived[at];
            *waiting = false;
            out.push(*item);
            self.last = *id;
            next = self.last.and_then(|last| {
                (0..self.arrived.len())
                    .find(|&at| self.arrived[at].4 && self.arrived[at].1 == Some(last))
            });
        }
    }

    fn oldest(&self) -> Option<usize> {
        self.arrived.iter().position(|arrived| arrived.4)
    }

    fn step(
        &mut self,
        now: u64,
        prev: Option<u8>,
        id: Option<u8>,
        item: usize,
        out: &mut Vec<usize>,
    ) {
        while let Some(at) = self.oldest().filter(|&at| self.arrived[at].0 + 50 <= now) {
            self.release(at, out);
        }
        if let Some(id) = id {
            let known = self.accepted_ids.iter().rev().take(4);
            if known
                .clone()
                .any(|&(at, other)| other == id && at + 100 > now)
            {
                return;
            }
            self.accepted_ids.push((now, id));
        }
        let waits = self.last.is_some() && prev.is_some() && self.last != prev;
        self.arrived.push((now, prev, id, item, waits));
        if !waits {
            self.release(self.arrived.len() - 1, out);
        } else if self.arrived.iter().filter(|arrived| arrived.4).count() > 3 {
            let oldest = self.oldest().unwrap();
            self.release(oldest, out);
        }
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(
        steps in proptest::collection::vec(
            (0_u64..30, proptest::option::of(0_u8..8), proptest::option::of(0_u8..8)),
            0..60,
        )
    ) {
        let names: Vec<String> = (0..8).map(|n| n.to_string()).collect();
        let name = |id: Option<u8>| id.map(|id| names[usize::from(id)].as_str());
        let (mut model, mut sequence) = (Model::default(), Sequence::new(LIMITS));
        let mut now = 0;
        let (mut offered, mut duplicates, mut came) = (0, 0, 0);
        for (item, (later, prev, id)) in steps.into_iter().enumerate() {
            now += later;
            let (mut expect, mut out) = (Vec::new(), Vec::new());
            model.step(now, prev, id, item, &mut expect);
            sequence.expire(Millis(now), &mut out);
            let ids = ItemIds { id: name(id), prev_id: name(prev) };
            let verdict = sequence.offer(Millis(now), ids, true, item, &mut out);
            prop_assert_eq!(&out, &expect, "at {}", now);
            offered += 1;
            duplicates += usize::from(verdict == Verdict::Duplicate);
            came += out.len();
        }
        // Nothing is lost: what has not come out waits, and comes in the end.
        let mut rest = Vec::new();
        sequence.expire(Millis(now + 50), &mut rest);
        prop_assert_eq!(came + rest.len() + duplicates, offered);
    }
}
