//! What was published: immutable, shared by every shard that has a subscriber.

use std::sync::Arc;

use crate::{ChannelName, Position};

/// How a payload's bytes may be embedded in a text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// One valid JSON value: embedded as it stands.
    Json,
    /// UTF-8 text that is not JSON: embedded as a JSON string.
    Text,
    /// Bytes that are not UTF-8: embedded as base64 text, sent as a binary frame.
    Binary,
}

/// The data of a publication. Whoever makes one has checked that `bytes` are of `kind`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// The data, untouched; shared by all publications of one request.
    pub bytes: Arc<[u8]>,
    /// What `bytes` were found to be.
    pub kind: PayloadKind,
}

/// Who is behind a connection: with a publication that it made, or in a channel where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Publisher {
    /// The connection's public id.
    pub client: Box<str>,
    /// The user, empty for an anonymous one.
    pub user: Box<str>,
    /// JSON from the connection token's `info` claim.
    pub conn_info: Option<Box<str>>,
    /// JSON about this connection in this channel, from the subscription token's `info` claim.
    pub chan_info: Option<Box<str>>,
}

impl Publisher {
    /// What it costs to keep, in bytes.
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

/// What a publication tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Told {
    /// Somebody published it.
    #[default]
    Data,
    /// The connection in [`Publication::publisher`] has come to the channel.
    Joined,
    /// That connection has left it.
    Left,
}

/// One message of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The channel that it belongs to.
    pub channel: ChannelName,
    /// What it tells. Comings and goings have no data and no position, and are not kept.
    pub told: Told,
    /// Its place in the stream; none in channels that keep no history.
    pub position: Option<Position>,
    /// The data.
    pub payload: Payload,
    /// Who published it, if a connection did.
    pub publisher: Option<Box<Publisher>>,
    /// A JSON object of texts that travels with the data, as the server API was given it.
    pub tags: Option<Box<str>>,
    /// When the home accepted it, in Unix milliseconds.
    pub time_unix_ms: u64,
}

impl Publication {
    /// The form in which a publication travels between shards and stays in history.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }

    /// What it costs to keep: the data and its fixed parts, in bytes.
    #[must_use]
    pub fn cost_bytes(&self) -> usize {
        let publisher = { self.publisher.as_ref() }.map_or(0, |publisher| publisher.cost_bytes());
        size_of::<Self>()
            + self.payload.bytes.len()
            + publisher
            + self.tags.as_ref().map_or(0, |tags| tags.len())
    }
}
