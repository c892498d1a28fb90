//! Channel names: checked once at the border, shared everywhere after.

use std::borrow::Borrow;
use std::fmt;

use smol_str::SmolStr;

use crate::rng::fnv1a;
use crate::{Load, Save, Saved};

/// The longest channel name, in bytes of UTF-8. Centrifugo's default limit is the same.
pub const CHANNEL_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// Names have at least one byte.
    #[error("channel name is empty")]
    Empty,
    /// Longer than [`CHANNEL_BYTES_MAX`], or than another bound that it had to keep.
    #[error("channel name is longer than {CHANNEL_BYTES_MAX} bytes")]
    TooLong,
    /// Control characters would break line-based formats and logs.
    #[error("channel name has a control character")]
    ControlCharacter,
}

/// The name of a channel: 1 to [`CHANNEL_BYTES_MAX`] bytes of UTF-8 without control characters, or
/// more where [`ChannelName::with_bound`] made it.
///
/// A name of up to 23 bytes is in the value itself; of a longer one, cloning counts a reference.
/// What stands before the first `:` is the namespace
/// (`chat` in `chat:42`), which selects the channel's options. A leading `$`, which marks a channel
/// that needs a token of its own, is no part of it (`chat` in `$chat:42`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelName(SmolStr);

impl ChannelName {
    pub fn new(name: &str) -> Result<Self, ChannelError> {
        Self::with_bound(name, CHANNEL_BYTES_MAX)
    }

    /// Checks against another bound, for names that no client chooses: those of a protocol that has
    /// longer ones.
    pub fn with_bound(name: &str, bytes_max: usize) -> Result<Self, ChannelError> {
        if name.is_empty() {
            return Err(ChannelError::Empty);
        }
        if name.len() > bytes_max {
            return Err(ChannelError::TooLong);
        }
        if has_control(name) {
            return Err(ChannelError::ControlCharacter);
        }
        Ok(Self(SmolStr::new(name)))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Namespace: the text before the first `:` and after a leading `$`, or nothing.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        let name = self.0.strip_prefix('$').unwrap_or(&self.0);
        let end = name.bytes().position(|byte| byte == b':')?;
        Some(&name[..end])
    }

    /// A hash of the name that is the same in every shard and every run (FNV-1a, 64 bits):
    /// it decides the channel's home.
    #[must_use]
    pub fn stable_hash(&self) -> u64 {
        // The final mix spreads short names over the high bits too.
        let hash = fnv1a(&self.0);
        (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// Tells whether a text has control characters (Unicode's category Cc).
fn has_control(text: &str) -> bool {
    if !text.is_ascii() {
        return text.chars().any(char::is_control);
    }
    // Without a branch for each byte.
    let count = |count: usize, byte: &u8| count + usize::from(byte.is_ascii_control());
    text.as_bytes().iter().fold(0, count) > 0
}

impl Save for ChannelName {
    fn save(&self, out: &mut Vec<u8>) {
        self.as_str().save(out);
    }
}

impl Load for ChannelName {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        // GRIP's names may be longer than others; the code that made it has checked its bound.
        Self::with_bound(from.text()?, usize::MAX).ok()
    }
}

impl Borrow<str> for ChannelName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert_eq!(ChannelName::new(""), Err(ChannelError::Empty));
        assert_eq!(
            ChannelName::new(&"x".repeat(256)),
            Err(ChannelError::TooLong)
        );
        assert_eq!(
            ChannelName::new("a\nb"),
            Err(ChannelError::ControlCharacter)
        );
        assert!(ChannelName::new(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn namespace_is_what_stands_before_the_first_colon() {
        let namespace = |name| {
            ChannelName::new(name)
                .unwrap()
                .namespace()
                .map(str::to_owned)
        };
        assert_eq!(namespace("news"), None);
        assert_eq!(namespace("chat:1:2").as_deref(), Some("chat"));
        assert_eq!(namespace("$chat:1").as_deref(), Some("chat"));
        assert_eq!(namespace("$news"), None);
        assert_eq!(namespace(":x").as_deref(), Some(""));
    }

    #[test]
    fn the_hash_spreads_similar_names_over_shards() {
        let mut per_shard = [0_u32; 4];
        for n in 0..4000 {
            let name = ChannelName::new(&format!("group-{n}")).unwrap();
            per_shard[(name.stable_hash() >> 32) as usize % 4] += 1;
        }
        assert!(
            per_shard.iter().all(|&count| (800..1200).contains(&count)),
            "{per_shard:?}"
        );
    }
}
