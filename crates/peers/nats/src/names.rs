//! The names of everything in NATS: subjects, streams, sequences of letters that it allows.
//!
//! Each subject begins with the configured prefix, so that applications that share a NATS do not
//! mix. Characters that a name may not have are written as `=` and two digits.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA256, digest};
use throng_broker::NamespaceOptions;
use throng_remote::RemoteOptions;
use throng_types::ChannelName;

/// A longer name is written as its hash: a line of NATS has at most 4,096 bytes.
const TOKEN_MAX: usize = 700;

pub(crate) fn token(name: &str) -> String {
    let mut token = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            token.push(char::from(byte));
        } else {
            let _ = write!(token, "={byte:02x}");
        }
    }
    if token.is_empty() {
        token.push('=');
    } else if token.len() > TOKEN_MAX {
        token = "==".to_owned();
        for byte in digest(&SHA256, name.as_bytes()).as_ref() {
            let _ = write!(token, "{byte:02x}");
        }
    }
    token
}

pub(crate) struct Names {
    prefix: String,
}

impl Names {
    pub(crate) fn new(prefix: &str) -> Self {
        Self {
            prefix: token(prefix),
        }
    }

    /// The group of a channel, which is a stream: one for each namespace that keeps history, and
    /// one for all others.
    fn group(channel: &ChannelName, keeps: bool) -> String {
        match channel.namespace() {
            _ if !keeps => "once".to_owned(),
            None => "kept".to_owned(),
            Some(namespace) => format!("kept_{}", token(namespace)),
        }
    }

    /// The groups of all channels that keep history, with the most publications of a channel and
    /// how long they are kept, in milliseconds.
    pub(crate) fn groups(namespaces: &NamespaceOptions) -> Vec<(String, u32, u64)> {
        let kept = namespaces.iter().filter(|(_, of)| of.retention.keeps());
        let group = kept.map(|(name, of)| {
            let retention = of.retention;
            let group =
                name.map_or_else(|| "kept".to_owned(), |name| format!("kept_{}", token(name)));
            (group, retention.publications_max, retention.ttl_ms)
        });
        group.collect()
    }

    /// Time for which positions are kept, in milliseconds: at least twice as long as any history.
    pub(crate) fn keep_ms(groups: &[(String, u32, u64)], options: &RemoteOptions) -> u64 {
        let longest = groups.iter().map(|(_, _, ttl_ms)| *ttl_ms).max();
        options.position_ttl_ms.max(longest.unwrap_or(0) * 2)
    }

    pub(crate) fn stream(&self, group: &str) -> String {
        format!("{}_{group}", self.prefix)
    }

    pub(crate) fn stream_of(&self, channel: &ChannelName, keeps: bool) -> String {
        self.stream(&Self::group(channel, keeps))
    }

    /// All that a group's stream stores, and where it is sent then.
    pub(crate) fn group_subjects(&self, group: &str) -> (String, String) {
        let prefix = &self.prefix;
        (
            format!("{prefix}.in.{group}.>"),
            format!("{prefix}.out.{group}.>"),
        )
    }

    /// Subject under which a channel's messages are stored.
    pub(crate) fn store(&self, channel: &ChannelName, keeps: bool) -> String {
        let group = Self::group(channel, keeps);
        format!("{}.in.{group}.{}", self.prefix, token(channel.as_str()))
    }

    /// Subject of the seeds of a stream of channels: no [`token`] is `=s`.
    pub(crate) fn seeds(&self, stream: &str) -> String {
        let group = stream.strip_prefix(&*self.prefix).unwrap_or(stream);
        let group = group.strip_prefix('_').unwrap_or(group);
        format!("{}.in.{group}.=s", self.prefix)
    }

    /// Subject of the row of a key that was used in a channel, by the key's own [`token`].
    pub(crate) fn key(&self, channel: &ChannelName, key: &str) -> String {
        format!("{}.key.{}.{key}", self.prefix, token(channel.as_str()))
    }

    pub(crate) fn keys(&self) -> String {
        format!("{}.key.>", self.prefix)
    }

    /// Subject on which a channel's messages are heard.
    pub(crate) fn channel(&self, channel: &ChannelName, keeps: bool) -> String {
        let group = Self::group(channel, keeps);
        format!("{}.out.{group}.{}", self.prefix, token(channel.as_str()))
    }

    /// Subject of messages that a node and others send to it.
    pub(crate) fn node(&self, incarnation: &str) -> String {
        format!("{}.node.{incarnation}", self.prefix)
    }

    /// Questions of others to the node of this name.
    pub(crate) fn named(&self, node: &str) -> String {
        format!("{}.named.{}", self.prefix, token(node))
    }

    pub(crate) fn everybody(&self) -> String {
        format!("{}.nodes", self.prefix)
    }

    /// The lease of a node, or of each with `*`.
    pub(crate) fn lease(&self, incarnation: &str) -> String {
        format!("{}.lease.{incarnation}", self.prefix)
    }

    /// Subject of a node that may have members; of each with `*`.
    pub(crate) fn roster(&self, incarnation: &str) -> String {
        format!("{}.roster.{incarnation}", self.prefix)
    }

    /// Subject of a member of a channel. Each of them may be `*`; the last may be `>` for all that
    /// follows.
    pub(crate) fn member(&self, channel: &str, incarnation: &str, who: &str) -> String {
        format!("{}.member.{channel}.{incarnation}.{who}", self.prefix)
    }

    /// The channel, incarnation, user and client in the name of a member.
    pub(crate) fn member_of<'a>(&self, subject: &'a str) -> Option<[&'a str; 4]> {
        let rest = subject
            .strip_prefix(&*self.prefix)?
            .strip_prefix(".member.")?;
        let mut parts = rest.split('.');
        let of = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        parts.next().is_none().then_some(of)
    }

    /// The part behind the prefix and a word.
    pub(crate) fn last<'a>(&self, word: &str, subject: &'a str) -> Option<&'a str> {
        let rest = subject.strip_prefix(&*self.prefix)?.strip_prefix('.')?;
        rest.strip_prefix(word)?.strip_prefix('.')
    }

    /// Begins the subjects of answers to this connection's requests.
    pub(crate) fn inbox(&self, incarnation: &str) -> String {
        format!("_INBOX.{}.{incarnation}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tokens_that_differ() {
        for (name, expected) in [
            ("chat", "chat"),
            ("a.b>*", "a=2eb=3e=2a"),
            ("a=2eb", "a=3d2eb"),
            ("", "="),
            ("ü", "=c3=bc"),
        ] {
            assert_eq!(token(name), expected);
        }
        assert_eq!(token(&"x".repeat(700)).len(), 700);
        // SHA-256 of a thousand times `x`.
        let hash = "44f8354494a5ba03ba1792a8d3e9c534c47a9181980fde7a3f44b06ef2ae7c7f";
        assert_eq!(token(&"x".repeat(1000)), format!("=={hash}"));
        // The length is that in the subject: 234 bytes become 702.
        let hash = "7a85746fc74426dcfccbdf060170574b6bf660226fe8d395f825f0241897b78f";
        assert_eq!(token(&"ü".repeat(117)), format!("=={hash}"));
        assert_eq!(token(&"ü".repeat(116)), "=c3=bc".repeat(116));
    }

    #[test]
    fn a_member_is_found_in_its_name() {
        let names = Names::new("a.b");
        let subject = names.member("c", "i", "u.v");
        assert_eq!(names.member_of(&subject), Some(["c", "i", "u", "v"]));
        assert_eq!(names.member_of("x.member.a.b.c.d"), None);
        assert_eq!(names.last("lease", &names.lease("i")), Some("i"));
    }
}
