//! Questions to the other nodes, and their answers, by way of Redis.
//!
//! A question for all goes to everybody by one message; Redis says how many hear it, so it is known
//! how many answers there will be. One for a single node goes where that node alone listens. A name
//! may be made up: Redis is asked first whether anybody listens there, and nothing is sent
//! otherwise. Each answer goes to the node that asked.

use redis::Value;
use throng_redis_link::command;
use throng_remote::{For, PeerEvent, Questions, ToPeers};

use crate::answer;
use crate::command::Script;
use crate::flight::Flight;
use crate::node::{KNOWN_MAX, Node};

impl Node {
    /// Takes what shards want of other nodes.
    pub(crate) fn take_peers(&mut self) {
        let publish = self.target.verbs().publish.as_bytes();
        while let Some((lane, wanted)) = self.desk.next_to_peers() {
            match (wanted, &self.link) {
                (ToPeers::Named(name), _) => {
                    if self.name.replace(name).is_none() {
                        self.hear_by_name();
                    }
                }
                (ToPeers::Ask(ticket, _) | ToPeers::AskOne(ticket, ..), None) => {
                    self.desk
                        .tell_shard(lane, PeerEvent::Answered(ticket, None));
                }
                (ToPeers::Ask(ticket, question), Some(link)) => {
                    let (who, own) = ((lane, ticket), &*link.incarnation);
                    let whose = For::Operator;
                    let message = self
                        .questions
                        .ask(who, whose, own, &question, &mut self.desk);
                    if let Some(message) = message {
                        let everybody = self.keys.everybody();
                        let flight = Flight::Asked(lane, ticket);
                        self.call(flight, Script::Ask, &[&everybody], &[&message]);
                    }
                }
                (ToPeers::AskOne(ticket, node, question), Some(link)) => {
                    let (who, own) = ((lane, ticket), &*link.incarnation);
                    let whose = For::Client;
                    let message = self
                        .questions
                        .ask(who, whose, own, &question, &mut self.desk);
                    match message {
                        Some(message) if self.known.contains(&node) => {
                            self.ask_one(who, node, &message);
                        }
                        Some(message) => self.find(who, node, message),
                        None => {}
                    }
                }
                (ToPeers::Answer(..), None) => {}
                (ToPeers::Answer(to, answer), Some(_)) => {
                    if let Some((node, message)) = Questions::answer(&to, &answer) {
                        let there = self.keys.probe(node);
                        self.send(Flight::Nothing, &[publish, there.as_bytes(), &message]);
                    }
                }
            }
        }
    }

    /// Listens to questions for this node alone.
    pub(crate) fn hear_by_name(&mut self) {
        if let (Some(name), Some(_)) = (&self.name, &self.link) {
            let there = self.keys.named(name);
            let subscribe = self.target.verbs().subscribe.as_bytes();
            command(&mut self.desk.out, &[subscribe, there.as_bytes()]);
        }
    }

    /// Asks whether there is a node of this name.
    fn find(&mut self, (lane, ticket): (u8, u32), node: Box<str>, message: Vec<u8>) {
        let there = self.keys.named(&node);
        let numsub = self.target.verbs().numsub.as_bytes();
        let flight = Flight::Find(lane, ticket, node, message);
        self.send(flight, &[b"PUBSUB", numsub, there.as_bytes()]);
    }

    /// Redis has said how many listen by this name.
    pub(crate) fn found(
        &mut self,
        who: (u8, u32),
        node: Box<str>,
        message: &[u8],
        value: &Value,
    ) -> bool {
        let listeners = answer::list(value).and_then(|it| answer::number(it.get(1)?));
        match listeners {
            None => return false,
            Some(0) => { &mut self.questions }.expect(who, 0, &mut self.desk),
            Some(_) => {
                if !self.known.contains(&node) {
                    self.known.truncate(KNOWN_MAX - 1);
                    self.known.push_front(node.clone());
                }
                self.ask_one(who, node, message);
            }
        }
        true
    }

    fn ask_one(&mut self, (lane, ticket): (u8, u32), node: Box<str>, message: &[u8]) {
        let there = self.keys.named(&node);
        let publish = self.target.verbs().publish.as_bytes();
        let flight = Flight::AskedOne(lane, ticket, node);
        self.send(flight, &[publish, there.as_bytes(), message]);
    }

    /// Redis has said how many got the question for a node. One answer is enough: while a node is
    /// upgraded, two processes have its name.
    pub(crate) fn asked_one(&mut self, who: (u8, u32), node: &str, value: &Value) -> bool {
        let Some(receivers) = answer::number(value) else {
            return false;
        };
        if receivers == 0 {
            self.known.retain(|known| **known != *node);
        }
        { &mut self.questions }.expect(who, receivers.min(1) as usize, &mut self.desk);
        true
    }

    /// Redis has said how many nodes got a question, this one among them.
    pub(crate) fn asked(&mut self, who: (u8, u32), value: &Value) -> bool {
        let Some(receivers) = answer::number(value) else {
            return false;
        };
        let others = (receivers as usize).saturating_sub(1);
        { &mut self.questions }.expect(who, others, &mut self.desk);
        true
    }
}
