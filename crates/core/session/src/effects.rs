//! What a session says: bytes, a deadline, an end, and orders to the hub.

use throng_hub::{Asker, Command};
pub use throng_types::End;
use throng_types::{ChannelName, Millis, Now};

/// A wish that goes beyond the connection.
#[derive(Debug)]
pub enum Order {
    /// For the hub.
    Hub(Command),
    /// For backends and publishers of GRIP.
    Grip(crate::GripOrder),
    /// For the shard's room of Appwrite connections.
    Appwrite(crate::AppwriteOrder),
    /// For every shard; each answers with a [`Told`].
    Ask {
        /// Whom to tell.
        asker: Asker,
        /// What to ask.
        question: Question,
    },
}

/// What the server API asks of all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Channels with subscribers, and how many.
    Channels {
        /// A glob over names; empty for all.
        pattern: Box<str>,
    },
    /// How many connections, users, channels and subscriptions.
    Count,
    /// End a user's connections.
    Disconnect {
        /// The user.
        user: Box<str>,
        /// Only this one, by its public id, if not empty.
        client: Box<str>,
        /// The code and reason to give; Centrifugo's 3503 unless the call says otherwise.
        code: u16,
        /// See `code`.
        reason: Box<str>,
        /// Connections to spare, by their public ids.
        whitelist: Vec<Box<str>>,
    },
    /// End a user's subscription.
    Unsubscribe {
        /// The user.
        user: Box<str>,
        /// Only this connection, by its public id, if not empty.
        client: Box<str>,
        /// The channel; `None` for all.
        channel: Option<ChannelName>,
    },
}

/// One shard's answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// To [`Question::Channels`].
    Channels(Vec<(ChannelName, u32)>),
    /// To [`Question::Count`].
    Count(NodeCount),
    /// To the others: how many it concerned.
    Done(u32),
}

/// Sizes of one shard, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Connections of clients (not of the server API).
    pub clients: u32,
    /// Hashes of their users' names, sorted, each once.
    pub users: Vec<u64>,
    /// Channels with subscribers.
    pub channels: Vec<u64>,
    /// Subscriptions.
    pub subscriptions: u32,
}

/// The effects of one event on a session.
pub struct Fx<'a> {
    /// Bytes for the peer: append.
    pub out: &'a mut Vec<u8>,
    /// Orders: append.
    pub orders: &'a mut Vec<Order>,
    /// The clocks.
    pub now: Now,
    /// The deadline to set (`Some(None)` clears it), if it changes.
    pub deadline: Option<Option<Millis>>,
    /// Whether and how the connection ends.
    pub end: Option<End>,
    /// `Some(true)`: from now on deliveries wait. `Some(false)`: `out` goes before what waits, and
    /// all leaves.
    pub hold: Option<bool>,
    /// `Some(true)`: nothing more is read from the peer, until `Some(false)`.
    pub pause: Option<bool>,
}

impl<'a> Fx<'a> {
    /// Effects that append to these.
    #[must_use]
    pub const fn new(out: &'a mut Vec<u8>, orders: &'a mut Vec<Order>, now: Now) -> Self {
        Self {
            out,
            orders,
            now,
            deadline: None,
            end: None,
            hold: None,
            pause: None,
        }
    }

    pub(crate) fn deadline_at(&mut self, at: Millis) {
        self.deadline = Some(Some(at));
    }

    pub(crate) fn end(&mut self, end: End) {
        self.end = Some(end);
    }

    pub(crate) fn hub(&mut self, command: Command) {
        self.orders.push(Order::Hub(command));
    }
}
