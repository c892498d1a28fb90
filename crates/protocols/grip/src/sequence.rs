//! The order of items in one channel: de-duplication, and waiting for what comes before.
//!
//! Owns: the ids that were seen, the last id, and the items that wait. Never: reads a clock,
//! delivers, or drops an item in silence: all that is offered comes out again, or its
//! verdict says that it was a duplicate.
//!
//! Invariants
//! - At most `waiting_max` items wait, each at most `wait_ms`.
//! - No waiting item follows the last id.
//! - `seen` and `seen_order` hold the same ids, at most `ids_max`, oldest first.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use throng_types::{Load, Millis, Save, Saved, save_count};

/// Bounds of a [`Sequence`]. The defaults are Pushpin's, but for `ids_max`, which it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// Time that an item waits for the one before it (`message_wait`).
    pub wait_ms: u64,
    /// Items that wait; when one more would, the oldest goes out first.
    pub waiting_max: usize,
    /// Time that an id is remembered (`id_cache_ttl`); 0 remembers none.
    pub id_ttl_ms: u64,
    /// Ids that are remembered; when one more would be, the oldest is forgotten.
    pub ids_max: usize,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self {
            wait_ms: 5000,
            waiting_max: 100,
            id_ttl_ms: 60_000,
            ids_max: 10_000,
        }
    }
}

/// Outcome for an item that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum OfferOutcome {
    /// Appended to `out`, maybe with others that had waited for it.
    Delivered,
    /// Dropped, since its id was seen.
    Duplicate,
    /// Kept until the item before it comes, or until its time is over.
    Waiting,
}

/// The order of one channel's items.
#[derive(Clone, Debug)]
pub struct Sequence<T> {
    limits: SequenceLimits,
    last_id: Option<Arc<str>>,
    /// In the order of arrival. Bound: [`SequenceLimits::waiting_max`].
    waiting: VecDeque<Waiting<T>>,
    seen: BTreeSet<Arc<str>>,
    /// Ids with the time of their end, oldest first. Bound: [`SequenceLimits::ids_max`].
    seen_order: VecDeque<(Millis, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    until: Millis,
    id: Option<Arc<str>>,
    prev_id: Arc<str>,
    item: T,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemIds<'i> {
    pub id: Option<&'i str>,
    pub prev_id: Option<&'i str>,
}

impl<T> Sequence<T> {
    /// A channel of which nothing is known.
    #[must_use]
    pub fn new(limits: SequenceLimits) -> Self {
        Self {
            limits,
            last_id: None,
            waiting: VecDeque::new(),
            seen: BTreeSet::new(),
            seen_order: VecDeque::new(),
        }
    }

    /// The id of the item that went out last, if it had one: what a response hold with
    /// another `prev-id` has missed.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Takes an item. `in_order` is false for an item with `no-seq` and for a channel that
    /// nobody listens to: then only duplicates are looked for.
    /// What is to be delivered now is appended to `out`, in order.
    pub fn offer(
        &mut self,
        now: Millis,
        ids: ItemIds<'_>,
        in_order: bool,
        item: T,
        out: &mut Vec<T>,
    ) -> OfferOutcome {
        self.forget_old_ids(now);
        if let Some(id) = ids.id
            && !self.remember(now, id)
        {
            return OfferOutcome::Duplicate;
        }
        if !in_order {
            out.push(item);
            return OfferOutcome::Delivered;
        }
        let id = ids.id.map(Arc::from);
        match (self.last_id.as_deref(), ids.prev_id) {
            (Some(last), Some(prev)) if last != prev && self.limits.waiting_max > 0 => {
                self.waiting.push_back(Waiting {
                    until: now + self.limits.wait_ms,
                    id,
                    prev_id: prev.into(),
                    item,
                });
                if self.waiting.len() > self.limits.waiting_max {
                    self.release_oldest(out);
                }
                self.check_invariants();
                OfferOutcome::Waiting
            }
            _ => {
                self.deliver(id, item, out);
                self.check_invariants();
                OfferOutcome::Delivered
            }
        }
    }

    /// Notes the id of an item that went out past the order, because nobody listens: who comes
    /// with an older one has missed something.
    pub fn note_last(&mut self, id: Option<&str>) {
        if self.waiting.is_empty() {
            self.last_id = id.map(Arc::from);
        }
    }

    /// When [`Sequence::expire`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Millis> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// Delivers the items whose time to wait is over, and what had waited for them.
    pub fn expire(&mut self, now: Millis, out: &mut Vec<T>) {
        self.forget_old_ids(now);
        while self.next_timeout().is_some_and(|until| until <= now) {
            self.release_oldest(out);
        }
        self.check_invariants();
    }

    /// The last subscriber has left: the order begins anew, and what waited has no receiver.
    /// Ids that were seen stay known.
    pub fn forget_order(&mut self) {
        self.last_id = None;
        self.waiting.clear();
    }

    /// Tells whether nothing at all is known: the channel's entry can go.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.last_id.is_none() && self.waiting.is_empty() && self.seen_order.is_empty()
    }

    /// Notes an id; false if it was noted already.
    fn remember(&mut self, now: Millis, id: &str) -> bool {
        if self.limits.id_ttl_ms == 0 || self.limits.ids_max == 0 {
            return true;
        }
        if self.seen.contains(id) {
            return false;
        }
        if self.seen.len() >= self.limits.ids_max {
            self.forget_oldest_id();
        }
        let id: Arc<str> = id.into();
        self.seen.insert(Arc::clone(&id));
        self.seen_order.push_back((now + self.limits.id_ttl_ms, id));
        true
    }

    fn forget_old_ids(&mut self, now: Millis) {
        while self
            .seen_order
            .front()
            .is_some_and(|(until, _)| *until <= now)
        {
            self.forget_oldest_id();
        }
    }

    fn forget_oldest_id(&mut self) {
        if let Some((_, id)) = self.seen_order.pop_front() {
            self.seen.remove(&id);
        }
    }

    fn release_oldest(&mut self, out: &mut Vec<T>) {
        if let Some(waiting) = self.waiting.pop_front() {
            self.deliver(waiting.id, waiting.item, out);
        }
    }

    /// Delivers an item and the chain of items that waited for it.
    fn deliver(&mut self, id: Option<Arc<str>>, item: T, out: &mut Vec<T>) {
        self.last_id = id;
        out.push(item);
        while let Some(last) = &self.last_id {
            let Some(at) = self
                .waiting
                .iter()
                .position(|waiting| waiting.prev_id == *last)
            else {
                break;
            };
            let Some(next) = self.waiting.remove(at) else {
                break;
            };
            self.last_id = next.id;
            out.push(next.item);
        }
    }

    fn check_invariants(&self) {
        debug_assert!(self.waiting.len() <= self.limits.waiting_max);
        debug_assert!(self.seen.len() == self.seen_order.len());
        debug_assert!(
            self.waiting
                .iter()
                .all(|waiting| self.last_id.as_ref() != Some(&waiting.prev_id))
        );
    }
}

impl<T> Sequence<T> {
    /// Appends it, with each item that waits by `save_item`.
    pub fn save(&self, out: &mut Vec<u8>, save_item: impl Fn(&T, &mut Vec<u8>)) {
        (&self.last_id, &self.seen_order).save(out);
        save_count(self.waiting.len(), out);
        for waiting in &self.waiting {
            (waiting.until, &waiting.id, &waiting.prev_id).save(out);
            save_item(&waiting.item, out);
        }
    }

    /// Reads it back. What is more than the limits of now allow is left out: ids at once, and items
    /// as soon as another one comes.
    pub fn load(
        limits: SequenceLimits,
        from: &mut Saved<'_>,
        load_item: impl Fn(&mut Saved<'_>) -> Option<T>,
    ) -> Option<Self> {
        let mut this = Self::new(limits);
        let seen: Vec<(Millis, Arc<str>)>;
        (this.last_id, seen) = Load::load(from)?;
        let too_many = seen.len().saturating_sub(limits.ids_max);
        for (until, id) in seen.into_iter().skip(too_many) {
            if limits.id_ttl_ms > 0 && this.seen.insert(id.clone()) {
                this.seen_order.push_back((until, id));
            }
        }
        for _ in 0..from.count()? {
            let (until, id, prev_id) = Load::load(from)?;
            let item = load_item(from)?;
            // One that follows on the last id would not have waited.
            let waits = this.last_id.as_ref() != Some(&prev_id);
            if waits && this.waiting.len() < limits.waiting_max {
                this.waiting.push_back(Waiting {
                    until,
                    id,
                    prev_id,
                    item,
                });
            }
        }
        Some(this)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::cases;

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

    /// Each step: time, prev-id and id; its outcome, and the items that come out, by id.
    #[test]
    fn order() {
        let mut sequence = Sequence::new(LIMITS);
        for (step, expected) in cases(include_str!("sequence.txt")) {
            if step == "begin" {
                sequence = Sequence::new(LIMITS);
                continue;
            }
            let words: Vec<&str> = step.split(' ').map(|word| word.trim_matches('-')).collect();
            let [now, prev_id, id] = words[..] else {
                panic!("{step}: not three words");
            };
            let now = Millis(now.parse().unwrap());
            let mut out = Vec::new();
            sequence.expire(now, &mut out);
            let found = sequence.offer(now, ids(prev_id, id), true, id, &mut out);
            let out = out.iter().map(|id| if id.is_empty() { "-" } else { id });
            let found = format!("{found:?} {}", out.collect::<Vec<_>>().join(" "));
            assert_eq!(found.trim_end(), expected, "{step}");
        }
    }

    #[test]
    fn leaving_forgets_the_order_but_not_the_ids() {
        let mut sequence = Sequence::new(LIMITS);
        let mut out = Vec::new();
        assert_eq!(
            sequence.offer(Millis(0), ids("", "1"), true, 1, &mut out),
            OfferOutcome::Delivered
        );
        assert_eq!(
            sequence.offer(Millis(0), ids("5", "6"), true, 6, &mut out),
            OfferOutcome::Waiting
        );
        assert_eq!(
            sequence.offer(Millis(0), ids("8", "9"), false, 9, &mut out),
            OfferOutcome::Delivered
        );
        assert_eq!(
            (sequence.last_id(), sequence.next_timeout()),
            (Some("1"), Some(Millis(50)))
        );
        sequence.forget_order();
        assert_eq!((sequence.last_id(), sequence.next_timeout()), (None, None));
        assert_eq!(
            sequence.offer(Millis(1), ids("", "1"), true, 1, &mut out),
            OfferOutcome::Duplicate
        );
        assert_eq!(out, [1, 9]);
        assert!(!sequence.is_idle());
        assert_eq!(
            sequence.offer(Millis(500), ids("", ""), true, 2, &mut out),
            OfferOutcome::Delivered
        );
        assert!(sequence.is_idle());
    }

    /// Model without any structure: everything that ever came is in one list, and each question is
    /// answered by searching it. Time, prev-id, id, item, and whether it waits.
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
                duplicates += usize::from(verdict == OfferOutcome::Duplicate);
                came += out.len();
            }
            // Nothing is lost: what has not come out waits, and comes in the end.
            let mut rest = Vec::new();
            sequence.expire(Millis(now + 50), &mut rest);
            prop_assert_eq!(came + rest.len() + duplicates, offered);
        }
    }
}
