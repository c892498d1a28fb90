//! Questions to the other nodes, and their answers, by way of Redis.
//!
//! A question for all goes to everybody by one message; Redis says how many hear it, so it is known
//! how many answers there will be. One for a single node goes where that node alone listens. A name
//! may be made up: Redis is asked first whether anybody listens there, and nothing is sent
//! otherwise. Each answer goes to the node that asked.

use redis::Value;
use throng_remote::Node as _;

use crate::answer;
use crate::flight::Flight;
use crate::node::{KNOWN_MAX, Redis};

impl Redis {
    /// Asks whether there is a node of this name.
    pub(crate) fn find(&mut self, (lane, ticket): (u8, u32), node: Box<str>, message: Vec<u8>) {
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
            Some(0) => self.asked_of(who, 0),
            Some(_) => {
                if !self.known.contains(&node) {
                    self.known.truncate(KNOWN_MAX - 1);
                    self.known.push_front(node.clone());
                }
                self.ask_known(who, node, message);
            }
        }
        true
    }

    pub(crate) fn ask_known(&mut self, (lane, ticket): (u8, u32), node: Box<str>, message: &[u8]) {
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
        self.asked_of(who, receivers.min(1) as usize);
        true
    }

    /// Redis has said how many nodes got a question, this one among them.
    pub(crate) fn asked(&mut self, who: (u8, u32), value: &Value) -> bool {
        let Some(receivers) = answer::number(value) else {
            return false;
        };
        self.asked_of(who, (receivers as usize).saturating_sub(1));
        true
    }
}
