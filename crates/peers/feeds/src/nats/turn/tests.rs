//! Nodes that read one consumer, in a model of that consumer: whatever sleeps, dies or is deleted,
//! messages are published in order, and all of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const ACK_WAIT_MS: u64 = 8_000;
const BATCH: usize = 4;
const NODES: usize = 3;

/// A consumer as JetStream has it.
#[derive(Default)]
struct Model {
    now: Millis,
    /// The newest message, and those that were deleted.
    last: u64,
    deleted: BTreeSet<u64>,
    next_new: u64,
    delivered: u64,
    /// Messages without an acknowledgement, and when they are given again.
    pending: BTreeMap<u64, Millis>,
    again: VecDeque<u64>,
    /// Nodes that wait, and for how many messages.
    waiting: VecDeque<(usize, usize)>,
    /// Numbers that the broker has taken, in its order.
    published: Vec<u64>,
}

impl Model {
    fn look(&self) -> Look {
        let floor = self
            .pending
            .keys()
            .next()
            .map_or(self.next_new, |seq| seq - 1);
        Look {
            delivered: self.delivered,
            floor,
            unacknowledged: self.pending.len() as u64,
            undelivered: self.last - self.next_new,
            waiting: self.waiting.len() as u64,
        }
    }

    fn next_message(&mut self) -> Option<u64> {
        let (now, again) = (self.now, &mut self.again);
        let is_late = |seq: &u64, until: &Millis| *until <= now && !again.contains(seq);
        let late = self
            .pending
            .iter()
            .filter(|(seq, until)| is_late(seq, until));
        let late: Vec<u64> = late.map(|(seq, _)| *seq).collect();
        again.extend(late.iter().filter(|seq| !self.deleted.contains(seq)));
        for seq in late {
            self.pending.insert(seq, now + ACK_WAIT_MS);
        }
        while let Some(seq) = self.again.pop_front() {
            if self.pending.contains_key(&seq) && !self.deleted.contains(&seq) {
                return Some(seq);
            }
        }
        while self.next_new < self.last {
            self.next_new += 1;
            if !self.deleted.contains(&self.next_new) {
                return Some(self.next_new);
            }
        }
        None
    }

    /// Gives what it can to who waits.
    fn serve(&mut self, nodes: &mut [Node]) {
        while !self.waiting.is_empty() {
            let Some(seq) = self.next_message() else {
                return;
            };
            let before = self.pending.insert(seq, self.now + ACK_WAIT_MS);
            self.delivered += 1;
            let (node, left) = &mut self.waiting[0];
            let times = if before.is_some() { 2 } else { 1 };
            nodes[*node]
                .inbox
                .push_back(delivery(times, self.delivered, seq));
            *left -= 1;
            if *left == 0 {
                nodes[*node].has_pull = false;
                self.waiting.pop_front();
            }
        }
    }

    fn give_back(&mut self, seq: u64) {
        if self.pending.contains_key(&seq) && !self.again.contains(&seq) {
            self.again.push_back(seq);
        }
    }
}

fn delivery(times: u64, consumer_seq: u64, stream_seq: u64) -> MessageMetadata {
    MessageMetadata {
        times,
        stream_seq,
        consumer_seq,
        time_ns: 0,
        undelivered: 0,
    }
}

struct Node {
    turn: Turn,
    jitter_ms: u64,
    has_pull: bool,
    /// Deliveries on their way.
    inbox: VecDeque<MessageMetadata>,
    held: BTreeSet<u64>,
    batch: VecDeque<u64>,
    /// Those of the batch that are published and not acknowledged.
    done: VecDeque<u64>,
}

impl Node {
    fn new(number: usize) -> Self {
        let jitter_ms = 100 * number as u64;
        Self {
            turn: Turn::new(ACK_WAIT_MS, jitter_ms),
            jitter_ms,
            has_pull: false,
            inbox: VecDeque::new(),
            held: BTreeSet::new(),
            batch: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    fn leave(&mut self, number: usize, model: &mut Model) {
        for seq in std::mem::take(&mut self.held) {
            model.give_back(seq);
        }
        model.waiting.retain(|(node, _)| *node != number);
        self.has_pull = false;
        self.turn.leave(self.jitter_ms);
    }

    fn hear(&mut self, number: usize, model: &mut Model) {
        while let Some(delivery) = self.inbox.pop_front() {
            if self.turn.came(&delivery) {
                self.held.insert(delivery.stream_seq);
            } else {
                model.give_back(delivery.stream_seq);
                self.leave(number, model);
            }
        }
    }

    fn pull(&mut self, number: usize, count: usize, model: &mut Model) {
        if !self.has_pull && count > 0 {
            self.has_pull = true;
            model.waiting.push_back((number, count));
        }
    }

    /// One of the things that a feed does, one after the other.
    fn step(&mut self, number: usize, model: &mut Model) {
        let now = model.now;
        if let Some(seq) = self.batch.pop_front() {
            if !model.published.contains(&seq) {
                model.published.push(seq);
            }
            self.done.push_back(seq);
            return;
        }
        if let Some(seq) = self.done.pop_front() {
            model.pending.remove(&seq);
            return;
        }
        self.hear(number, model);
        match self.turn.stage {
            Stage::Watches => self.turn.watched(&model.look(), now),
            Stage::Gathers => {
                let look = model.look();
                match self.turn.gathered(&look, self.held.len()) {
                    Gathered::Nothing => self.leave(number, model),
                    Gathered::All => {}
                    Gathered::Some => self.gather(number, model),
                }
            }
            Stage::Reads if !self.held.is_empty() => {
                while self.batch.len() < BATCH
                    && let Some(seq) = self.held.pop_first()
                {
                    self.batch.push_back(seq);
                }
            }
            Stage::Reads => self.pull(number, BATCH, model),
        }
        if self.turn.stage == Stage::Gathers && self.inbox.is_empty() && !self.has_pull {
            self.gather(number, model);
        }
    }

    fn gather(&mut self, number: usize, model: &mut Model) {
        let missing = self.turn.unacknowledged().saturating_sub(self.held.len());
        self.pull(number, missing, model);
    }
}

#[derive(Clone, Debug)]
enum Act {
    Send(u64),
    Wait(u64),
    Step(usize),
    /// A node steps so often that it gets somewhere.
    Steps(usize),
    Kill(usize),
    Delete(u64),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => (1..12_u64).prop_map(Act::Send),
        6 => (1..3000_u64).prop_map(Act::Wait),
        12 => (0..NODES).prop_map(Act::Step),
        12 => (0..NODES).prop_map(Act::Steps),
        1 => (0..NODES).prop_map(Act::Kill),
        1 => (0..8_u64).prop_map(Act::Delete),
    ]
}

fn run(acts: &[Act]) -> Model {
    let mut model = Model::default();
    let mut nodes: Vec<Node> = (0..NODES).map(Node::new).collect();
    let step = |number: usize, nodes: &mut Vec<Node>, model: &mut Model| {
        model.serve(nodes);
        nodes[number].step(number, model);
        model.serve(nodes);
    };
    for act in acts {
        match *act {
            Act::Send(count) => model.last += count,
            Act::Wait(ms) => model.now = model.now + ms,
            Act::Step(number) => step(number, &mut nodes, &mut model),
            Act::Steps(number) => {
                for _ in 0..20 {
                    model.now = model.now + 50;
                    step(number, &mut nodes, &mut model);
                }
            }
            Act::Kill(number) => {
                model.waiting.retain(|(node, _)| *node != number);
                nodes[number] = Node::new(number);
            }
            Act::Delete(back) => {
                let seq = model.last.saturating_sub(back);
                if seq > 0 && !model.published.contains(&seq) {
                    model.deleted.insert(seq);
                }
            }
        }
    }
    // All of them are well for a while.
    for round in 0..4000 {
        model.now = model.now + 20;
        step(round % NODES, &mut nodes, &mut model);
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn messages_are_published_in_order_and_all_of_them(
        acts in proptest::collection::vec(act(), 1..120),
    ) {
        let model = run(&acts);
        let published = &model.published;
        // What was deleted while a node slept that has it may come late: nobody waits for it.
        let kept = published.iter().filter(|seq| !model.deleted.contains(seq));
        prop_assert!(kept.is_sorted(), "{published:?}");
        for seq in 1..=model.last {
            let is_there = published.contains(&seq) || model.deleted.contains(&seq);
            prop_assert!(is_there, "{seq} is missing in {published:?}");
        }
    }
}

fn look(delivered: u64, unacknowledged: u64) -> Look {
    Look {
        delivered,
        unacknowledged,
        ..Look::default()
    }
}

#[test]
fn a_node_begins_when_nobody_reads() {
    let at = Millis;
    let mut turn = Turn::new(ACK_WAIT_MS, 0);
    assert!(!turn.came(&delivery(1, 1, 1)), "it is nobody's turn");
    turn.watched(&look(7, 0), at(0));
    assert_eq!(turn.stage, Stage::Watches, "one look is none");
    let waits = Look {
        waiting: 1,
        ..look(7, 0)
    };
    turn.watched(&waits, at(1000));
    turn.watched(&look(7, 0), at(1100));
    assert_eq!(turn.stage, Stage::Watches, "somebody waited a moment ago");
    turn.watched(&look(7, 0), at(1400));
    assert_eq!(turn.stage, Stage::Reads);
    assert!(turn.came(&delivery(1, 8, 8)) && turn.came(&delivery(1, 9, 9)));
    assert!(
        !turn.came(&delivery(1, 11, 11)),
        "another node has the one before"
    );
}

#[test]
fn who_acknowledges_meanwhile_may_have_more() {
    let at = Millis;
    let mut turn = Turn::new(ACK_WAIT_MS, 0);
    turn.watched(&look(2, 2), at(0));
    turn.watched(&look(2, 2), at(1000));
    // One of the two came again, and that one is acknowledged by who has both.
    assert!(turn.came(&delivery(2, 3, 1)));
    assert_eq!(turn.gathered(&look(3, 1), 1), Gathered::Nothing);
}

#[test]
fn what_was_given_back_is_taken_soon_and_what_was_not_later() {
    let at = Millis;
    for is_given_back in [true, false] {
        let mut turn = Turn::new(ACK_WAIT_MS, 0);
        turn.watched(&look(7, 2), at(0));
        turn.watched(&look(7, 2), at(1000));
        assert_eq!((turn.stage, turn.unacknowledged()), (Stage::Gathers, 2));
        let times = if is_given_back { 2 } else { 1 };
        assert!(turn.came(&delivery(times, 8, 8)) && turn.came(&delivery(times, 9, 9)));
        if is_given_back {
            assert_eq!(turn.gathered(&look(9, 2), 2), Gathered::All);
            assert_eq!(turn.stage, Stage::Reads);
            continue;
        }
        // Two others came.
        assert_eq!(turn.gathered(&look(9, 4), 2), Gathered::Nothing);
        turn.leave(0);
        turn.watched(&look(9, 4), at(1100));
        turn.watched(&look(9, 4), at(9000));
        assert_eq!(turn.stage, Stage::Watches);
        turn.watched(&look(9, 4), at(9100));
        assert_eq!(turn.stage, Stage::Gathers);
        // Of the four one was deleted meanwhile.
        assert!((10..=12).all(|number| turn.came(&delivery(2, number, number))));
        for _ in 0..IN_VAIN {
            assert_eq!(turn.gathered(&look(12, 4), 3), Gathered::Some);
        }
        assert_eq!(turn.gathered(&look(12, 4), 3), Gathered::All);
        assert_eq!(turn.stage, Stage::Reads);
    }
}
