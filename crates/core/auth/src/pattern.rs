//! The pattern by which a token names the channels that its holder may use.

use std::fmt;

use serde::{Deserialize, Deserializer};
use throng_types::Save;

/// One channel by its name, or every channel that begins in the same way.
///
/// `chat:42` is that channel, `chat:*` every channel of the namespace, `*` every channel. A `*` has
/// its meaning only at the end; elsewhere it is refused, so that a pattern which was meant to be
/// narrow is never silently something else.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum ChannelPattern {
    /// One channel with exactly this name.
    Name(Box<str>),
    /// Every channel whose name begins with this.
    Prefix(Box<str>),
}

/// Reason why a pattern is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// No channel has an empty name.
    #[error("a channel pattern must not be empty")]
    Empty,
    /// `*` stands somewhere else than at the end.
    #[error("`*` is allowed only at the end of a channel pattern")]
    StarInside,
}

impl ChannelPattern {
    /// Parses a pattern with an optional `*` at its end.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let (stem, prefix) = match pattern.strip_suffix('*') {
            Some(stem) => (stem, true),
            None if pattern.is_empty() => return Err(PatternError::Empty),
            None => (pattern, false),
        };
        if stem.contains('*') {
            return Err(PatternError::StarInside);
        }
        Ok(if prefix {
            Self::Prefix(stem.into())
        } else {
            Self::Name(stem.into())
        })
    }

    /// Whether the pattern covers this channel.
    #[must_use]
    pub fn covers(&self, channel: &str) -> bool {
        match self {
            Self::Name(name) => channel == &**name,
            Self::Prefix(prefix) => channel.starts_with(&**prefix),
        }
    }
}

impl fmt::Display for ChannelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl<'de> Deserialize<'de> for ChannelPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_names_and_prefixes() {
        for (pattern, covered, not_covered) in [
            ("chat", &["chat"][..], &["chat:1", "cha", "Chat"][..]),
            (
                "chat:*",
                &["chat:", "chat:1", "chat:1:2"],
                &["chat", "chats:1"],
            ),
            ("*", &["x", "chat:1"], &[]),
        ] {
            let compiled = ChannelPattern::new(pattern).unwrap();
            assert_eq!(compiled.to_string(), pattern);
            for channel in covered {
                assert!(compiled.covers(channel), "{pattern} should cover {channel}");
            }
            for channel in not_covered {
                assert!(
                    !compiled.covers(channel),
                    "{pattern} should not cover {channel}"
                );
            }
        }
    }

    #[test]
    fn doubtful_patterns_are_refused() {
        assert_eq!(ChannelPattern::new(""), Err(PatternError::Empty));
        for pattern in ["**", "a*b", "*:1", "*a*"] {
            assert_eq!(
                ChannelPattern::new(pattern),
                Err(PatternError::StarInside),
                "{pattern}"
            );
        }
    }
}
