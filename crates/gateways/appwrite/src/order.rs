//! What sessions order of the event hub, and how it reaches the connections.

use throng_appwrite::{Change, ConnectionPhase, IdentityChange, QueryFilter, RealtimeError};
use throng_types::{ConnId, Frame, Position};

/// Order from a session to its event hub.
#[derive(Debug)]
pub enum Order {
    /// The connection is open.
    Enter {
        conn: ConnId,
        project: Box<str>,
        roles: Vec<String>,
        /// Its first subscriptions, if its URL named any.
        subscriptions: Vec<Wanted>,
        /// Whether its events carry positions.
        positions: bool,
    },
    /// Make or change subscriptions. The event hub writes the response.
    Subscribe { conn: ConnId, items: Vec<Wanted> },
    /// End subscriptions. The event hub writes the response.
    Unsubscribe {
        conn: ConnId,
        /// Ids of the subscriptions to end.
        ids: Vec<String>,
    },
    /// The connection's user or its roles are others now. What was held back may go.
    SetRoles {
        conn: ConnId,
        roles: Vec<String>,
        /// The user until now, empty for a guest.
        from: Box<str>,
        /// The user from now on.
        to: Box<str>,
    },
    /// A part of the user is known; the roles follow from it. What was held back may go.
    Change {
        conn: ConnId,
        /// Part of the user's identity that is known now.
        change: IdentityChange,
    },
    /// Tell where things stand, and send what was missed.
    Recover {
        conn: ConnId,
        /// Since when, if the client knows.
        since: Option<Position>,
    },
}

/// A subscription that a session wants.
#[derive(Debug)]
pub struct Wanted {
    /// Its id on the connection.
    pub id: String,
    /// Its channels, under the connection's identity.
    pub channels: Vec<String>,
    /// Queries that an event has to match.
    pub filter: QueryFilter,
}

/// The connections as an event hub sees them.
pub trait Connections {
    /// The connection in a slot.
    fn id(&self, index: u32) -> Option<ConnId>;
    /// Sends a connection's own bytes.
    fn say(&mut self, conn: ConnId, bytes: &[u8]);
    /// Sends a frame in two pieces, of which the second is shared.
    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame);
    /// Tells the session of a change of its user. Where the change does not say what the roles are
    /// now, [`Order::SetRoles`] or [`Order::Change`] follows, or the connection's end.
    fn changed(&mut self, conn: ConnId, what: &Change);
    /// Lets the session ask for its roles if it has a user; then true, and the same follows.
    fn recheck(&mut self, conn: ConnId) -> bool;
    /// Lets the session refuse.
    fn refuse(&mut self, conn: ConnId, fault: &RealtimeError, phase: ConnectionPhase);
    /// So many receivers were found for an event.
    fn matched(&mut self, receivers: usize);
    /// A client asked for what it missed, and all of it is here or not.
    fn recovered(&mut self, all: bool);
}

/// Options of an event hub, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct EventHubOptions {
    /// Seeds the index, because clients choose the names it hashes.
    pub seed: u64,
    /// Milliseconds that events are kept for clients that reconnect; zero keeps none.
    pub history_ms: u64,
    /// Bytes of events that are kept.
    pub history_bytes_max: usize,
}
