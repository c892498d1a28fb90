//! What sessions tell the hub, and what the hub tells them.

use std::sync::Arc;

use throng_broker::{Draft, HistoryPage, HistoryQuery, Namespaces, Overflow, Refusal, Subscribed};
use throng_types::{ChannelName, ConnId, Frame, Position, Publication};

/// What a hub is made of.
#[derive(Clone)]
pub struct HubOptions {
    /// Subscriptions that one connection may have.
    pub subscriptions_max: usize,
    /// Seeds the hash of channel names, which come from strangers.
    pub hash_seed: u64,
    /// The options of channels.
    pub namespaces: Arc<Namespaces>,
}

/// A wire form of deliveries. Connections of one form share encoded frames.
///
/// Forms 12 to 15 are personal: each connection encodes for itself, because its
/// frames differ from everybody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format(u8);

impl Format {
    const PERSONAL_FROM: u8 = 12;

    /// The form with this number; `None` from 16 on.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if number < 16 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number that it was made from.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Whether each connection encodes for itself.
    #[must_use]
    pub const fn personal(self) -> bool {
        self.0 >= Self::PERSONAL_FROM
    }
}

/// Who asked: a connection, and a number of its own choice that is given back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The connection.
    pub conn: ConnId,
    /// Echoed in the answer.
    pub token: u32,
}

/// What a connection wants of the hub.
#[derive(Debug)]
pub enum Command {
    /// Begin to receive a channel's publications. Answered.
    Subscribe {
        /// Whom to answer, and who subscribes.
        asker: Asker,
        /// The channel.
        channel: ChannelName,
        /// How deliveries to this connection look; the same for all its subscriptions.
        format: Format,
        /// Where it was, if it wants what it missed.
        since: Option<Position>,
    },
    /// Stop receiving. Not answered; what is already queued still leaves.
    Unsubscribe {
        /// Whose subscription.
        conn: ConnId,
        /// The channel.
        channel: ChannelName,
    },
    /// Publish. Answered.
    Publish {
        /// Whom to answer.
        asker: Asker,
        /// What to publish.
        draft: Draft,
    },
    /// Read a channel's past. Answered.
    History {
        /// Whom to answer.
        asker: Asker,
        /// The channel.
        channel: ChannelName,
        /// Which part.
        query: HistoryQuery,
    },
}

/// What the hub answers.
#[derive(Debug)]
pub enum Answer {
    /// To [`Command::Subscribe`]. Deliveries follow this answer and never precede it.
    Subscribed {
        /// The channel.
        channel: ChannelName,
        /// Where the subscription begins.
        result: Result<Subscribed, Refusal>,
    },
    /// To [`Command::Publish`].
    Published {
        /// The position, in channels that keep history.
        result: Result<Option<Position>, Refusal>,
    },
    /// To [`Command::History`].
    History {
        /// What was found.
        result: Result<HistoryPage, Refusal>,
    },
}

/// Publications in one wire form.
#[derive(Debug)]
pub struct Encoded {
    /// One frame for each publication.
    pub frames: Vec<Frame>,
    /// All of them, one after the other; the same frame when there is only one.
    pub joined: Frame,
}

/// What is due to one connection: publications of one channel, in order.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Names the channel while it has subscribers here; for "latest only".
    pub channel_key: u32,
    /// What to do with a delivery that finds the connection's queue full.
    pub overflow: Overflow,
    /// What was published.
    pub publications: &'a [Arc<Publication>],
    /// The same in the connection's wire form; `None` for personal forms.
    pub encoded: Option<&'a Encoded>,
    /// More may follow for this connection in this turn: queue, and write once.
    pub gather: bool,
}

/// Where answers and deliveries go: to whoever holds the connections.
pub trait Sink {
    /// Hands an answer to a connection, which may have gone.
    fn answer(&mut self, asker: Asker, answer: Answer);
    /// Appends one publication in a shared wire form.
    fn encode(&mut self, format: Format, publication: &Publication, out: &mut Vec<u8>);
    /// Hands deliveries to the connection in a slot. The connection is alive.
    fn deliver(&mut self, index: u32, batch: &Batch<'_>);
    /// Everybody on this shard who is to get a publication has got it; there may be nobody. Only
    /// those with tags are told of, each once.
    fn carried(&mut self, publication: &Publication) {
        let _ = publication;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_sixteen_numbers_and_four_are_personal() {
        for number in 0..16 {
            let format = Format::new(number).unwrap();
            assert_eq!((format.number(), format.personal()), (number, number >= 12));
        }
        assert_eq!(Format::new(16), None);
    }
}
