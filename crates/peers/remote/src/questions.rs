//! Questions of this node to the others, until all have answered.
//!
//! Rule for "full": [`QUESTIONS_MAX`] questions may be without all of their answers, and of those
//! that clients have caused [`CLIENTS_QUESTIONS_MAX`]; one more is answered as failed at once.

use std::collections::BTreeMap;

use crate::io::NodeIo;
use crate::queues::{CLIENTS_QUESTIONS_MAX, NodeCaller, NodeEvent, QUESTIONS_MAX};

/// Time for other nodes to answer, in milliseconds.
const ANSWER_MS: u64 = 3000;

/// Party on whose behalf a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    Operator,
    Client,
}

struct Question {
    whose: For,
    /// Bound: the nodes that were asked.
    answers: Vec<Vec<u8>>,
    /// Number of answers to come, once that is known.
    expected: Option<usize>,
    until_ms: u64,
}

/// Questions of this node, by shard and ticket.
#[derive(Default)]
pub struct PendingQueries {
    /// Bound: [`QUESTIONS_MAX`] and [`CLIENTS_QUESTIONS_MAX`].
    open: BTreeMap<(u8, u32), Question>,
    /// Number of them that clients have caused.
    of_clients: usize,
}

impl PendingQueries {
    /// Notes a question and gives the message to send to all nodes; none if there are too many.
    pub fn ask(
        &mut self,
        (shard, ticket): (u8, u32),
        whose: For,
        own: &str,
        question: &[u8],
        io: &mut NodeIo,
    ) -> Option<Vec<u8>> {
        let is_full = match whose {
            For::Operator => self.open.len() - self.of_clients >= QUESTIONS_MAX,
            For::Client => self.of_clients >= CLIENTS_QUESTIONS_MAX,
        };
        if is_full {
            io.tell_shard(shard, NodeEvent::Answered(ticket, None));
            return None;
        }
        self.of_clients += usize::from(whose == For::Client);
        let asked = Question {
            whose,
            answers: Vec::new(),
            expected: None,
            until_ms: io.now_ms + ANSWER_MS,
        };
        self.open.insert((shard, ticket), asked);
        let mut message = format!("{own} {shard} {ticket} ").into_bytes();
        message.extend_from_slice(question);
        Some(message)
    }

    /// So many other nodes got a question.
    pub fn expect(&mut self, (shard, ticket): (u8, u32), others: usize, io: &mut NodeIo) {
        if let Some(question) = self.open.get_mut(&(shard, ticket)) {
            question.expected = Some(others);
        }
        self.check(shard, ticket, io);
    }

    /// One of the nodes that were to answer is not there.
    pub fn one_less(&mut self, (shard, ticket): (u8, u32), io: &mut NodeIo) {
        if let Some(question) = self.open.get_mut(&(shard, ticket)) {
            question.expected = question.expected.map(|count| count.saturating_sub(1));
        }
        self.check(shard, ticket, io);
    }

    /// A question of some node, as [`Self::ask`] wrote it, goes to a shard.
    pub fn hear_question(own: &str, message: &[u8], io: &mut NodeIo) {
        let mut parts = message.splitn(4, |byte| *byte == b' ');
        let mut part = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
        let (Some(node), Some(shard), Some(ticket)) = (part(), part(), part()) else {
            return;
        };
        if own == node {
            return;
        }
        let asker = NodeCaller {
            who: format!("{node} {shard} {ticket}").into(),
            way: 0,
        };
        let question = parts.next().unwrap_or_default().to_vec();
        // Any shard will do.
        io.tell_shard(0, NodeEvent::Asked(asker, question));
    }

    /// The node that asked, and the message to send to it with an answer.
    #[must_use]
    pub fn answer<'a>(to: &'a NodeCaller, answer: &[u8]) -> Option<(&'a str, Vec<u8>)> {
        let (node, ticket) = to.who.split_once(' ')?;
        let mut message = format!("{ticket} ").into_bytes();
        message.extend_from_slice(answer);
        Some((node, message))
    }

    /// An answer of some node to a question of this one, as [`Self::answer`] wrote it.
    pub fn hear_answer(&mut self, message: &[u8], io: &mut NodeIo) {
        let mut parts = message.splitn(3, |byte| *byte == b' ');
        let mut part = || std::str::from_utf8(parts.next()?).ok()?.parse::<u32>().ok();
        let (Some(shard), Some(ticket)) = (part(), part()) else {
            return;
        };
        let shard = shard as u8;
        if let Some(question) = self.open.get_mut(&(shard, ticket)) {
            let answer = parts.next().unwrap_or_default().to_vec();
            question.answers.push(answer);
            self.check(shard, ticket, io);
        }
    }

    fn check(&mut self, shard: u8, ticket: u32, io: &mut NodeIo) {
        let question = self.open.get(&(shard, ticket));
        let is_complete = question.is_some_and(|it| {
            it.expected
                .is_some_and(|expected| it.answers.len() >= expected)
        });
        if is_complete && let Some(question) = self.open.remove(&(shard, ticket)) {
            self.of_clients -= usize::from(question.whose == For::Client);
            io.tell_shard(shard, NodeEvent::Answered(ticket, Some(question.answers)));
        }
    }

    /// Gives up questions whose time has come; all of them without a connection.
    pub fn give_up(&mut self, is_up: bool, io: &mut NodeIo) {
        self.open.retain(|(shard, ticket), question| {
            let is_over = !is_up || question.until_ms <= io.now_ms;
            if is_over {
                self.of_clients -= usize::from(question.whose == For::Client);
                io.tell_shard(*shard, NodeEvent::Answered(*ticket, None));
            }
            !is_over
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::io::RemoteOptions;
    use crate::queues::ShardQueues;

    fn io(shard: &Arc<ShardQueues>) -> NodeIo {
        NodeIo::new(
            RemoteOptions::for_tests(),
            vec![shard.clone()],
            Arc::default(),
        )
    }

    #[test]
    fn clients_leave_operators_their_places() {
        let shard = Arc::new(ShardQueues::new(Arc::new(|| {})));
        let mut io = io(&shard);
        let mut questions = PendingQueries::default();
        let ask = |questions: &mut PendingQueries, ticket: u32, whose, io: &mut NodeIo| {
            questions.ask((0, ticket), whose, "own", b"?", io).is_some()
        };
        // As docs/CLUSTER.md says.
        let (places, all) = (64, QUESTIONS_MAX as u32);
        for ticket in 0..places {
            assert!(ask(&mut questions, ticket, For::Client, &mut io));
        }
        assert!(!ask(&mut questions, places, For::Client, &mut io));
        let refused = Some(NodeEvent::Answered(places, None));
        assert_eq!(shard.next_from_nodes(), refused);
        for ticket in 0..all {
            assert!(ask(&mut questions, 10_000 + ticket, For::Operator, &mut io));
        }
        assert!(!ask(&mut questions, 9999, For::Operator, &mut io));
        // One that is answered leaves its place to the next.
        questions.expect((0, 3), 0, &mut io);
        assert!(ask(&mut questions, places, For::Client, &mut io));
        assert!(!ask(&mut questions, places + 1, For::Client, &mut io));
        io.now_ms += ANSWER_MS;
        questions.give_up(true, &mut io);
        for ticket in 0..places {
            assert!(ask(&mut questions, ticket, For::Client, &mut io));
        }
    }
}
