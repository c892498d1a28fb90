//! What waits for room in the mailboxes of other shards, beside the hub's own mail.
//!
//! Rule for "full": at [`OUTBOX_MAX`] a gateway that asks is told that there is no room, and
//! refuses where the question began. Answers have room: there are never more of them than
//! questions. Surveys are at most one for each connection of the API port.

use std::collections::VecDeque;

use throng_session::{Survey, SurveyReply};
use throng_types::ShardId;

/// Messages that may wait for one shard before new questions are refused. Queue: `gateway outbox`.
pub(crate) const OUTBOX_MAX: usize = 65_536;

/// A message to another shard's app.
pub(crate) enum Note<M> {
    /// Answer this.
    Survey { ticket: u32, survey: Survey },
    /// The answer.
    SurveyReply { ticket: u32, reply: SurveyReply },
    /// A gateway's.
    Gateway(M),
}

/// What waits for other shards. One queue for each; this shard's own stays empty.
pub(crate) struct Outboxes<M> {
    /// Bound: [`OUTBOX_MAX`] for questions; answers are never more than questions.
    queues: Vec<VecDeque<Note<M>>>,
}

impl<M> Outboxes<M> {
    pub(crate) fn new(shards: u8) -> Self {
        Self {
            queues: (0..shards).map(|_| VecDeque::new()).collect(),
        }
    }

    pub(crate) fn shards(&self) -> u8 {
        self.queues.len() as u8
    }

    pub(crate) fn has_room(&self, to: ShardId) -> bool {
        let queue = self.queues.get(to.index());
        queue.is_some_and(|queue| queue.len() < OUTBOX_MAX)
    }

    pub(crate) fn push(&mut self, to: ShardId, note: Note<M>) {
        if let Some(queue) = self.queues.get_mut(to.index()) {
            queue.push_back(note);
        }
    }

    pub(crate) fn push_gateway(&mut self, to: ShardId, mail: M) {
        self.push(to, Note::Gateway(mail));
    }

    pub(crate) fn pop(&mut self, to: usize) -> Option<Note<M>> {
        let queue = self.queues.get_mut(to)?;
        let note = queue.pop_front()?;
        if queue.is_empty() && queue.capacity() > 1024 {
            *queue = VecDeque::new();
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_leaves_in_the_order_in_which_it_came_and_to_its_own_shard() {
        let mut outboxes = Outboxes::new(2);
        for mail in [1, 2, 3] {
            outboxes.push_gateway(ShardId(1), mail);
        }
        assert!(outboxes.pop(0).is_none());
        for expected in [1, 2, 3] {
            assert!(matches!(outboxes.pop(1), Some(Note::Gateway(mail)) if mail == expected));
        }
        assert!(outboxes.pop(1).is_none());
    }

    #[test]
    fn a_full_queue_takes_no_more_questions() {
        let mut outboxes = Outboxes::new(1);
        let to = ShardId(0);
        for mail in 0..OUTBOX_MAX {
            assert!(outboxes.has_room(to));
            outboxes.push_gateway(to, mail);
        }
        assert!(!outboxes.has_room(to));
        assert!(!outboxes.has_room(ShardId(1)), "there is no such shard");
    }
}
