//! Questions to the other nodes, and their answers.
//!
//! A question goes to everybody by one message; Redis says how many got it, so it is known how many
//! answers there will be. Each goes to the node that asked.
//!
//! Rule for "full": [`QUESTIONS_MAX`] questions of this node may be without all of their answers;
//! one more is not asked. The same holds for those of others that this node has not answered.

use redis::Value;

use crate::answer;
use crate::flight::Flight;
use crate::node::Node;
use crate::peer::{Asker, PeerEvent, QUESTIONS_MAX, Question, ToPeers};

/// How long other nodes may take to answer, in milliseconds.
const ANSWER_MS: u64 = 3000;

impl Node {
    /// Takes what shards want of other nodes.
    pub(crate) fn take_peers(&mut self) {
        for lane in 0..self.lanes.len() as u8 {
            while let Some(wanted) = self.lanes[usize::from(lane)].next_to_peers() {
                match wanted {
                    ToPeers::Ask(ticket, question) => self.ask(lane, ticket, &question),
                    ToPeers::Answer(Asker(to), answer) => self.answer_peer(&to, &answer),
                }
            }
        }
    }

    fn ask(&mut self, lane: u8, ticket: u32, question: &[u8]) {
        let Some(link) = &self.link else {
            return self.tell_answers(lane, ticket, None);
        };
        if self.questions.len() >= QUESTIONS_MAX {
            return self.tell_answers(lane, ticket, None);
        }
        let mut message = format!("{} {lane} {ticket} ", link.incarnation).into_bytes();
        message.extend_from_slice(question);
        let asked = Question {
            answers: Vec::new(),
            expected: None,
            until_ms: self.now_ms + ANSWER_MS,
        };
        self.questions.insert((lane, ticket), asked);
        let everybody = self.keys.everybody();
        let flight = Flight::Asked(lane, ticket);
        self.send(flight, &[b"PUBLISH", everybody.as_bytes(), &message]);
    }

    fn answer_peer(&mut self, to: &str, answer: &[u8]) {
        let Some((node, ticket)) = to.split_once(' ').filter(|_| self.link.is_some()) else {
            return;
        };
        let mut message = format!("{ticket} ").into_bytes();
        message.extend_from_slice(answer);
        let there = self.keys.probe(node);
        self.send(Flight::Nothing, &[b"PUBLISH", there.as_bytes(), &message]);
    }

    /// Redis has said how many nodes got a question, this one among them.
    pub(crate) fn asked(&mut self, lane: u8, ticket: u32, value: &Value) -> bool {
        let Some(receivers) = answer::number(value) else {
            return false;
        };
        if let Some(question) = self.questions.get_mut(&(lane, ticket)) {
            question.expected = Some((receivers as usize).saturating_sub(1));
        }
        self.check_answers(lane, ticket);
        true
    }

    /// A question of some node.
    pub(crate) fn hear_question(&mut self, message: &[u8]) {
        let mut parts = message.splitn(4, |byte| *byte == b' ');
        let mut part = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
        let (Some(node), Some(lane), Some(ticket)) = (part(), part(), part()) else {
            return;
        };
        let own = self.link.as_ref().map(|link| &*link.incarnation);
        if own == Some(node) {
            return;
        }
        let asker = Asker(format!("{node} {lane} {ticket}").into());
        let question = parts.next().unwrap_or_default().to_vec();
        // Any shard will do.
        self.tell_shard(0, PeerEvent::Asked(asker, question));
    }

    /// An answer of some node to a question of this one.
    pub(crate) fn hear_answer(&mut self, message: &[u8]) {
        let mut parts = message.splitn(3, |byte| *byte == b' ');
        let mut part = || std::str::from_utf8(parts.next()?).ok()?.parse::<u32>().ok();
        let (Some(lane), Some(ticket)) = (part(), part()) else {
            return;
        };
        let lane = lane as u8;
        if let Some(question) = self.questions.get_mut(&(lane, ticket)) {
            question
                .answers
                .push(parts.next().unwrap_or_default().to_vec());
            self.check_answers(lane, ticket);
        }
    }

    fn check_answers(&mut self, lane: u8, ticket: u32) {
        let question = self.questions.get(&(lane, ticket));
        let is_complete = question.is_some_and(|it| {
            it.expected
                .is_some_and(|expected| it.answers.len() >= expected)
        });
        if is_complete && let Some(question) = self.questions.remove(&(lane, ticket)) {
            self.tell_answers(lane, ticket, Some(question.answers));
        }
    }

    /// Gives up questions whose time has come; all of them without a connection.
    pub(crate) fn give_up_questions(&mut self) {
        let (now_ms, is_up) = (self.now_ms, self.link.is_some());
        let over = |question: &Question| !is_up || question.until_ms <= now_ms;
        let over: Vec<(u8, u32)> = { self.questions.iter() }
            .filter(|(_, question)| over(question))
            .map(|(key, _)| *key)
            .collect();
        for (lane, ticket) in over {
            self.questions.remove(&(lane, ticket));
            self.tell_answers(lane, ticket, None);
        }
    }

    fn tell_answers(&mut self, lane: u8, ticket: u32, answers: Option<Vec<Vec<u8>>>) {
        self.tell_shard(lane, PeerEvent::Answered(ticket, answers));
    }

    fn tell_shard(&mut self, lane: u8, event: PeerEvent) {
        if let Some(to) = self.lanes.get(usize::from(lane)) {
            to.tell_shard(event);
            self.rung.insert(lane);
        }
    }
}
