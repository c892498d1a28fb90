//! Whether it is this node's turn to read, by what the consumer says and by the numbers of its
//! deliveries. The head of the module above argues why that keeps the order.

use throng_nats_protocol::MessageMetadata;
use throng_types::Millis;

use crate::source::LOOK_MS;

/// Time for which nothing may move until messages that somebody may have given back are asked for,
/// in milliseconds.
const FIRST_TRY_MS: u64 = 1_000;
/// Number of waits without a result for messages that are given again. Times are not enough to say
/// that there are none: a node that sleeps does not ask.
const IN_VAIN: u32 = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) delivered: u64,
    /// All messages up to this number of the stream are acknowledged.
    pub(super) floor: u64,
    /// Messages that were delivered and are not acknowledged.
    pub(super) unacknowledged: u64,
    pub(super) undelivered: u64,
    pub(super) waiting: u64,
}

impl Look {
    /// Whether anybody did anything between the two.
    const fn has_moved(&self, before: &Self) -> bool {
        self.waiting > 0
            || self.delivered != before.delivered
            || self.floor != before.floor
            || self.unacknowledged != before.unacknowledged
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looks whether another node reads.
    Watches,
    /// Takes what is not acknowledged, and publishes nothing yet.
    Gathers,
    /// All that is not acknowledged is in its hands.
    Reads,
}

/// Messages in hand after some were gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gathered {
    /// All that is not acknowledged and that there still is.
    All,
    /// Some; more may come.
    Some,
    /// Not all, and nothing more comes: to be given back.
    Nothing,
}

pub(super) struct Turn {
    pub(super) stage: Stage,
    /// After so long the consumer gives again what is not acknowledged.
    ack_wait_ms: u64,
    /// Time that differs between nodes.
    jitter_ms: u64,
    /// State of the consumer, and since when it has not moved.
    quiet: Option<(Look, Millis)>,
    /// Messages that may have been given back were asked for, and were not all.
    has_tried: bool,
    /// Number of waits for messages to gather since the last one came.
    in_vain: u32,
    /// Number of messages to gather: those not acknowledged when that began, and new ones since.
    unacknowledged: u64,
    /// The number of the next delivery, if it is to this node.
    next: u64,
}

impl Turn {
    pub(super) const fn new(ack_wait_ms: u64, jitter_ms: u64) -> Self {
        Self {
            stage: Stage::Watches,
            ack_wait_ms,
            jitter_ms,
            quiet: None,
            has_tried: false,
            in_vain: 0,
            unacknowledged: 0,
            next: 0,
        }
    }

    pub(super) const fn unacknowledged(&self) -> usize {
        self.unacknowledged as usize
    }

    /// A look at the consumer while another node may read.
    pub(super) fn watched(&mut self, look: &Look, now: Millis) {
        let since = match &self.quiet {
            Some((before, since)) if !look.has_moved(before) => *since,
            Some((before, _)) => {
                // Who only tries to read does not get so far. If each that tries made the others
                // try again at once, none would ever wait for long enough.
                self.has_tried &= look.floor == before.floor;
                now
            }
            None => now,
        };
        self.quiet = Some((*look, since));
        let wait_ms = match (look.waiting, look.unacknowledged) {
            (1.., _) => return,
            (0, 0) => LOOK_MS,
            (0, _) if self.has_tried => self.ack_wait_ms,
            (0, _) => FIRST_TRY_MS,
        };
        if now.since(since) < wait_ms + self.jitter_ms {
            return;
        }
        self.next = look.delivered + 1;
        self.unacknowledged = look.unacknowledged;
        self.in_vain = 0;
        self.stage = match look.unacknowledged {
            0 => Stage::Reads,
            _ => Stage::Gathers,
        };
    }

    /// A delivery; false if an earlier one went to another node, or if it is nobody's turn. It is
    /// to be given back then.
    pub(super) fn came(&mut self, delivery: &MessageMetadata) -> bool {
        let is_next = self.stage != Stage::Watches && delivery.consumer_seq == self.next;
        self.next += u64::from(is_next);
        self.unacknowledged += u64::from(is_next && delivery.times == 1);
        self.in_vain = 0;
        is_next
    }

    /// A look at the consumer after more was asked for, and waited for unless it came.
    pub(super) fn gathered(&mut self, look: &Look, held: usize) -> Gathered {
        let has_all = look.delivered + 1 == self.next;
        if has_all && look.unacknowledged != self.unacknowledged {
            // Somebody has acknowledged some, and may have more that is in our hands or not.
            self.has_tried = false;
            return Gathered::Nothing;
        }
        if has_all && look.unacknowledged == held as u64 {
            self.stage = Stage::Reads;
            return Gathered::All;
        }
        self.in_vain += 1;
        match (self.has_tried, self.in_vain > IN_VAIN) {
            (false, _) => {
                self.has_tried = true;
                Gathered::Nothing
            }
            (true, false) => Gathered::Some,
            // All that others had was given again, and all of that to this node. What is missing
            // was deleted from the stream.
            (true, true) if has_all => {
                self.stage = Stage::Reads;
                Gathered::All
            }
            (true, true) => Gathered::Nothing,
        }
    }

    /// Notes that all in hand is given back.
    pub(super) fn leave(&mut self, jitter_ms: u64) {
        if self.stage != Stage::Gathers {
            self.has_tried = false;
        }
        self.stage = Stage::Watches;
        self.quiet = None;
        self.jitter_ms = jitter_ms;
    }
}

#[cfg(test)]
mod tests;
