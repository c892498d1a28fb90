//! Questions to the other nodes, and their answers, by way of Redis.
//!
//! A question goes to everybody by one message; Redis says how many got it, so it is known how many
//! answers there will be. Each goes to the node that asked.

use redis::Value;
use throng_remote::{PeerEvent, Questions, ToPeers};

use crate::answer;
use crate::flight::Flight;
use crate::node::Node;

impl Node {
    /// Takes what shards want of other nodes.
    pub(crate) fn take_peers(&mut self) {
        let publish = self.target.verbs().publish.as_bytes();
        while let Some((lane, wanted)) = self.desk.next_to_peers() {
            match (wanted, &self.link) {
                (ToPeers::Ask(ticket, _), None) => {
                    self.desk
                        .tell_shard(lane, PeerEvent::Answered(ticket, None));
                }
                (ToPeers::Ask(ticket, question), Some(link)) => {
                    let (who, own) = ((lane, ticket), &*link.incarnation);
                    let message = self.questions.ask(who, own, &question, &mut self.desk);
                    if let Some(message) = message {
                        let everybody = self.keys.everybody();
                        let flight = Flight::Asked(lane, ticket);
                        self.send(flight, &[publish, everybody.as_bytes(), &message]);
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

    /// Redis has said how many nodes got a question, this one among them.
    pub(crate) fn asked(&mut self, lane: u8, ticket: u32, value: &Value) -> bool {
        let Some(receivers) = answer::number(value) else {
            return false;
        };
        let others = (receivers as usize).saturating_sub(1);
        { &mut self.questions }.expect((lane, ticket), others, &mut self.desk);
        true
    }
}
