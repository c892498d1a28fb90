//! Messages of channels, and of this node's own names.

use redis::Value;
use throng_remote::{Channels as _, Node as _};
use throng_types::ChannelName;

use crate::answer;
use crate::node::Redis;

impl Redis {
    /// Takes a message of any channel.
    pub(crate) fn message(&mut self, data: &[Value]) {
        let [name, body, ..] = data else { return };
        let (Some(there), Some(body)) = (answer::text(name), answer::bytes(body)) else {
            return;
        };
        let Some(name) = self.keys.channel_of(there) else {
            return self.node_message(there, body);
        };
        // A name of ours that is longer than clients' may be is a gateway's.
        let Ok(name) = ChannelName::with_bound(name, usize::MAX) else {
            return;
        };
        match answer::message(&name, body, self.core.desk.unix_ms) {
            Some(publication) => self.delivered(publication.shared()),
            None => self.gap(&name),
        }
    }

    /// Takes a message that is for this node, or for every node.
    fn node_message(&mut self, there: &str, body: &[u8]) {
        let is_own = self.keys.probe(self.incarnation()) == there;
        let name = self.core.name.as_ref();
        if is_own && body.is_empty() {
            self.core.proved();
        } else if is_own {
            self.hear_answer(body);
        } else if self.keys.everybody() == there {
            if !self.core.desk.hear_cut(body) {
                self.hear_question(body);
            }
        } else if name.is_some_and(|it| self.keys.named(it) == there) {
            self.hear_question(body);
        }
    }
}
