//! Messages that wait for room in the mailboxes of other shards, beside the hub's own mail.
//!
//! Rule for "full": at [`OUTBOX_MAX`], or [`OUTBOX_BYTES_MAX`], a gateway that asks is told that
//! there is no room, and refuses where the question began. Answers have room: there are never more
//! of them than questions. Surveys are at most one for each connection of the API port.

use std::collections::VecDeque;

use throng_session::{Survey, SurveyReply};
use throng_types::ShardId;

use crate::drain::Gone;
use crate::gateways::GatewayMail;

/// Messages that may wait for one shard before new questions are refused. Queue: `gateway outbox`.
pub(crate) const OUTBOX_MAX: usize = 65_536;

/// Bytes that those messages may keep beside themselves. Queue: `gateway outbox`.
pub(crate) const OUTBOX_BYTES_MAX: usize = 64 << 20;

/// A message to another shard's app.
pub(crate) enum Note {
    Survey {
        ticket: u32,
        survey: Survey,
    },
    SurveyReply {
        ticket: u32,
        reply: SurveyReply,
    },
    /// Progress of a shard that drains.
    Gone(Gone),
    Gateway(GatewayMail),
}

/// Messages that wait for one shard.
struct Queue {
    /// Each with its bytes.
    /// Bound: [`OUTBOX_MAX`] for questions; answers are never more than questions.
    notes: VecDeque<(usize, Note)>,
    bytes: usize,
}

/// Messages that wait for other shards. One queue for each; this shard's own stays empty.
pub(crate) struct Outboxes {
    queues: Vec<Queue>,
}

impl Outboxes {
    pub(crate) fn new(shards: u8) -> Self {
        Self {
            queues: (0..shards)
                .map(|_| Queue {
                    notes: VecDeque::new(),
                    bytes: 0,
                })
                .collect(),
        }
    }

    pub(crate) fn shards(&self) -> u8 {
        self.queues.len() as u8
    }

    pub(crate) fn has_room(&self, to: ShardId) -> bool {
        let queue = self.queues.get(to.index());
        queue.is_some_and(|queue| queue.notes.len() < OUTBOX_MAX && queue.bytes < OUTBOX_BYTES_MAX)
    }

    pub(crate) fn push(&mut self, to: ShardId, note: Note) {
        self.push_with(to, 0, note);
    }

    /// A gateway's mail that keeps so many bytes beside itself.
    pub(crate) fn push_gateway(&mut self, to: ShardId, bytes: usize, mail: GatewayMail) {
        self.push_with(to, bytes, Note::Gateway(mail));
    }

    fn push_with(&mut self, to: ShardId, bytes: usize, note: Note) {
        if let Some(queue) = self.queues.get_mut(to.index()) {
            queue.bytes += bytes;
            queue.notes.push_back((bytes, note));
        }
    }

    pub(crate) fn pop(&mut self, to: usize) -> Option<Note> {
        let queue = self.queues.get_mut(to)?;
        let (bytes, note) = queue.notes.pop_front()?;
        queue.bytes -= bytes;
        if queue.notes.is_empty() && queue.notes.capacity() > 1024 {
            queue.notes = VecDeque::new();
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use throng_session::{BackendMail, ProxyOptions};

    use super::*;

    fn mail() -> GatewayMail {
        GatewayMail::Plain(BackendMail::Renewed(ProxyOptions::default(), None))
    }

    #[test]
    fn mail_leaves_in_the_order_in_which_it_came_and_to_its_own_shard() {
        let mut outboxes = Outboxes::new(2);
        for ticket in [1, 2, 3] {
            let reply = SurveyReply::Unanswered;
            outboxes.push(ShardId(1), Note::SurveyReply { ticket, reply });
        }
        assert!(outboxes.pop(0).is_none());
        for expected in [1, 2, 3] {
            let note = outboxes.pop(1);
            assert!(matches!(note, Some(Note::SurveyReply { ticket, .. }) if ticket == expected));
        }
        assert!(outboxes.pop(1).is_none());
    }

    #[test]
    fn a_full_queue_takes_no_more_questions() {
        let mut outboxes = Outboxes::new(1);
        let to = ShardId(0);
        for _ in 0..OUTBOX_MAX {
            assert!(outboxes.has_room(to));
            outboxes.push_gateway(to, 0, mail());
        }
        assert!(!outboxes.has_room(to));
        assert!(!outboxes.has_room(ShardId(1)), "there is no such shard");
    }

    #[test]
    fn bytes_fill_a_queue_too_until_they_have_left() {
        let mut outboxes = Outboxes::new(1);
        let to = ShardId(0);
        outboxes.push_gateway(to, OUTBOX_BYTES_MAX - 1, mail());
        assert!(outboxes.has_room(to));
        outboxes.push_gateway(to, 1, mail());
        assert!(!outboxes.has_room(to));
        assert!(outboxes.pop(0).is_some());
        assert!(outboxes.has_room(to));
    }
}
