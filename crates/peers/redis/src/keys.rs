//! The names of everything in Redis.
//!
//! Each begins with the configured prefix, so that applications that share a Redis do not mix. A
//! channel's names have the channel in braces. In a cluster the prefix has braces of its own before
//! these, which keep all names of one part of the channels together.

use throng_types::ChannelName;

pub(crate) struct Keys {
    prefix: Box<str>,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: prefix.into(),
        }
    }

    fn of(&self, channel: &ChannelName, what: &str) -> String {
        format!("{}:{{{channel}}}{what}", self.prefix)
    }

    /// Name by which a channel's publications and its news are sent.
    pub(crate) fn channel(&self, channel: &ChannelName) -> String {
        self.of(channel, "")
    }

    pub(crate) fn channel_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        let rest = name.strip_prefix(&*self.prefix)?;
        rest.strip_prefix(":{")?.strip_suffix('}')
    }

    /// Epoch, newest offset, newest version.
    pub(crate) fn meta(&self, channel: &ChannelName) -> String {
        self.of(channel, ":meta")
    }

    pub(crate) fn stream(&self, channel: &ChannelName) -> String {
        self.of(channel, ":stream")
    }

    /// Key of the answer to an idempotency key.
    pub(crate) fn result(&self, channel: &ChannelName, key: &str) -> String {
        self.of(channel, &format!(":once:{key}"))
    }

    /// Key of the members, by client.
    pub(crate) fn members(&self, channel: &ChannelName) -> String {
        self.of(channel, ":members")
    }

    /// Key of the number of members that each user has.
    pub(crate) fn users(&self, channel: &ChannelName) -> String {
        self.of(channel, ":users")
    }

    /// Key of the users whose coming was told.
    pub(crate) fn told(&self, channel: &ChannelName) -> String {
        self.of(channel, ":told")
    }

    /// Channel on which a node sends to itself, to prove that it receives.
    pub(crate) fn probe(&self, incarnation: &str) -> String {
        format!("{}:node:{incarnation}", self.prefix)
    }

    /// Questions of others to the node of this name.
    pub(crate) fn named(&self, node: &str) -> String {
        format!("{}:named:{node}", self.prefix)
    }

    pub(crate) fn everybody(&self) -> String {
        format!("{}:nodes:all", self.prefix)
    }

    /// Channel on which the trace of a publication comes, right before that comes on its own
    /// channel. Nodes that know nothing of traces do not subscribe to it.
    pub(crate) fn traces(&self) -> String {
        format!("{}:traces", self.prefix)
    }

    /// Begins the names of leases; an incarnation follows.
    pub(crate) fn leases(&self) -> String {
        format!("{}:lease:", self.prefix)
    }

    /// All incarnations that may have members.
    pub(crate) fn nodes(&self) -> String {
        format!("{}:nodes", self.prefix)
    }

    /// The channels in which an incarnation has members.
    pub(crate) fn places(&self, incarnation: &str) -> String {
        format!("{}:places:{incarnation}", self.prefix)
    }

    /// Key of the node that sweeps after an incarnation.
    pub(crate) fn sweeper(&self, incarnation: &str) -> String {
        format!("{}:sweep:{incarnation}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_found_by_its_name_in_redis() {
        let keys = Keys::new("a:b");
        for name in ["c", "chat:42", "}", "{x}"] {
            let channel = ChannelName::new(name).expect("a name");
            let there = keys.channel(&channel);
            assert_eq!(keys.channel_of(&there), Some(name), "{there}");
            assert_eq!(keys.channel_of(&keys.meta(&channel)), None);
        }
        assert_eq!(Keys::new("x").channel_of("a:b:{c}"), None);
    }
}
