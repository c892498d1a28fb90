//! Message of a publisher's WebSocket: a line with the channel, and behind it the data.
//!
//! ```text
//! CHANNEL [TAB IDEMPOTENCY-KEY] LF DATA
//! ```
//!
//! Neither a channel nor a key has control characters, so the line has one reading.

use throng_types::{ChannelError, ChannelName};

/// The longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Publication as a publisher's message requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The channel that is published to.
    pub channel: ChannelName,
    /// Key of the publication: a second one with the same key is answered like the first and not
    /// delivered.
    pub idempotency_key: Option<&'a str>,
    /// Payload of the publication, unchanged.
    pub data: &'a [u8],
}

/// Why a message is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPublication {
    /// The message has no line with its channel.
    NoLine,
    /// The line is not UTF-8.
    NotUtf8,
    /// The channel's name is no name.
    Channel(ChannelError),
    /// The idempotency key is empty, too long, or has control characters.
    Key,
}

impl BadPublication {
    /// A sentence for the publisher.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoLine => "the message has no line with its channel",
            Self::NotUtf8 => "the line with the channel is not UTF-8",
            Self::Channel(ChannelError::Empty) => "the channel name is empty",
            Self::Channel(ChannelError::TooLong) => "the channel name is too long",
            Self::Channel(ChannelError::ControlCharacter) => {
                "the channel name has a control character"
            }
            Self::Key => "the idempotency key is empty, too long, or has a control character",
        }
    }
}

impl<'a> Wanted<'a> {
    /// Parses a message: its line, and the data behind it.
    ///
    /// # Errors
    /// What is wrong with its line.
    pub fn parse(message: &'a [u8]) -> Result<Self, BadPublication> {
        let end = message.iter().position(|&byte| byte == b'\n');
        let (line, data) = message.split_at(end.ok_or(BadPublication::NoLine)?);
        let line = str::from_utf8(line).map_err(|_| BadPublication::NotUtf8)?;
        let (channel, key) = match line.split_once('\t') {
            Some((channel, key)) => (channel, Some(key)),
            None => (line, None),
        };
        let is_key = |key: &str| {
            (1..=KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control)
        };
        if key.is_some_and(|key| !is_key(key)) {
            return Err(BadPublication::Key);
        }
        Ok(Self {
            channel: ChannelName::new(channel).map_err(BadPublication::Channel)?,
            idempotency_key: key,
            data: &data[1..],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_line_and_the_data() {
        for (message, channel, key, data) in [
            ("a\nb", "a", None, "b"),
            ("a\n", "a", None, ""),
            ("a b:c\tk 1\n\n\t\n", "a b:c", Some("k 1"), "\n\t\n"),
        ] {
            let wanted = Wanted::parse(message.as_bytes()).unwrap();
            assert_eq!(wanted.channel.as_str(), channel, "{message:?}");
            assert_eq!(wanted.idempotency_key, key, "{message:?}");
            assert_eq!(wanted.data, data.as_bytes(), "{message:?}");
        }
        let (longest, long) = ("x".repeat(255), "x".repeat(256));
        let message = format!("{longest}\t{longest}\n");
        let wanted = Wanted::parse(message.as_bytes()).unwrap();
        assert_eq!(wanted.idempotency_key, Some(&*longest));
        let key = "the idempotency key is empty, too long, or has a control character";
        for (message, fault, sentence) in [
            (
                String::new(),
                BadPublication::NoLine,
                "the message has no line with its channel",
            ),
            (
                "a".into(),
                BadPublication::NoLine,
                "the message has no line with its channel",
            ),
            (
                "\nb".into(),
                BadPublication::Channel(ChannelError::Empty),
                "the channel name is empty",
            ),
            (
                "a\r\nb".into(),
                BadPublication::Channel(ChannelError::ControlCharacter),
                "the channel name has a control character",
            ),
            (
                format!("{long}\nb"),
                BadPublication::Channel(ChannelError::TooLong),
                "the channel name is too long",
            ),
            ("a\t\nb".into(), BadPublication::Key, key),
            ("a\tk\tl\nb".into(), BadPublication::Key, key),
            (format!("a\t{long}\nb"), BadPublication::Key, key),
        ] {
            let parsed = Wanted::parse(message.as_bytes());
            assert_eq!(parsed, Err(fault), "{message:?}");
            // It stands in JSON as it is.
            assert_eq!(fault.sentence(), sentence);
        }
        let fault = BadPublication::NotUtf8;
        assert_eq!(Wanted::parse(b"\xff\nb"), Err(fault));
        assert_eq!(fault.sentence(), "the line with the channel is not UTF-8");
    }
}
