//! Publications: immutable, shared by every shard that has a subscriber; and positions in a stream.

use std::fmt;
use std::sync::Arc;

use crate::{ChannelName, Save, SpanContext};

/// Form of a payload's bytes, which decides how a text format embeds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum PayloadKind {
    /// One valid JSON value: embedded as it stands.
    Json,
    /// UTF-8 text that is not JSON: embedded as a JSON string.
    Text,
    /// Bytes that are not UTF-8: embedded as base64 text, sent as a binary frame.
    Binary,
}

/// The data of a publication. Whoever makes one has checked that `bytes` are of `kind`.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Payload {
    /// The data, untouched; shared by all publications of one request.
    pub bytes: Arc<[u8]>,
    pub kind: PayloadKind,
}

impl Payload {
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self {
            bytes: text.as_bytes().into(),
            kind: PayloadKind::Text,
        }
    }
}

/// Client behind a connection: with a publication that it made, or in a channel where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct Publisher {
    pub client: Box<str>,
    /// The user, empty for an anonymous one.
    pub user: Box<str>,
    /// JSON from the connection token's `info` claim.
    pub conn_info: Option<Box<str>>,
    /// JSON about this connection in this channel, from the subscription token's `info` claim.
    pub chan_info: Option<Box<str>>,
}

impl Publisher {
    /// Cost of keeping it, in bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let length = |info: &Option<Box<str>>| info.as_ref().map_or(0, |info| info.len());
        size_of::<Self>()
            + self.client.len()
            + self.user.len()
            + length(&self.conn_info)
            + length(&self.chan_info)
    }
}

/// Kind of a publication: data, or a client that comes or goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Save)]
pub enum PublicationKind {
    #[default]
    Data,
    /// The connection in [`Publication::publisher`] has come to the channel.
    Joined,
    /// The connection in [`Publication::publisher`] has left the channel.
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Publication {
    pub channel: ChannelName,
    /// Kind of the publication. Comings and goings have no data and no position, and are not kept.
    pub told: PublicationKind,
    /// Place in the stream; none in channels that keep no history.
    pub position: Option<Position>,
    pub payload: Payload,
    pub publisher: Option<Box<Publisher>>,
    /// A JSON object of texts that travels with the data, as the server API was given it.
    pub tags: Option<Box<str>>,
    /// When the home accepted it, in Unix milliseconds.
    pub time_unix_ms: u64,
    /// Span of what published it, if that is traced. Histories and a process that takes over do not
    /// get it.
    #[save(skip)]
    pub trace: Option<Box<SpanContext>>,
}

impl Publication {
    /// Builds one without tags whose publisher is unknown.
    #[must_use]
    pub const fn new(channel: ChannelName, position: Option<Position>, payload: Payload) -> Self {
        Self {
            channel,
            told: PublicationKind::Data,
            position,
            payload,
            publisher: None,
            tags: None,
            time_unix_ms: 0,
            trace: None,
        }
    }

    /// The form in which a publication travels between shards and stays in history.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// Cost of keeping it: the data and its fixed parts, in bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let publisher = { self.publisher.as_ref() }.map_or(0, |publisher| publisher.cost_bytes());
        size_of::<Self>()
            + self.payload.bytes.len()
            + publisher
            + self.tags.as_ref().map_or(0, |tags| tags.len())
    }
}

/// The life of a stream. Offsets of different epochs cannot be compared.
///
/// The high half names the process that made the stream, the low half counts the
/// streams that this process has forgotten, so a stream that began anew never
/// carries an epoch that a client may still hold.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Save)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Reads the text form: 1 to 16 hexadecimal digits in lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let canonical = !text.is_empty()
            && text.len() <= 16
            && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if !canonical {
            return None;
        }
        u64::from_str_radix(text, 16).ok().map(Self)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "epoch {self}")
    }
}

/// A place in a channel's stream: after the publication with this offset.
///
/// The first publication of an epoch has offset 1, so offset 0 is the place before all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
pub struct Position {
    /// The life of the stream that `offset` counts in.
    pub epoch: Epoch,
    /// Rises by one with each publication.
    pub offset: u64,
}

impl Position {
    /// The place before everything, in whatever epoch the stream has: for who was never there.
    /// No stream has this epoch.
    pub const START: Self = Self {
        epoch: Epoch(u64::MAX),
        offset: 0,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_have_one_text_form() {
        let epoch = Epoch(0xdead_beef_0000_0001);
        assert_eq!(Epoch::parse(&epoch.to_string()), Some(epoch));
        for wrong in ["", "DEAD", "+1", "1_0", "11112222333344445", "xyz"] {
            assert_eq!(Epoch::parse(wrong), None, "{wrong}");
        }
    }
}
