//! Orders from sessions to the event hub, and its way to the connections.

use throng_appwrite::{Change, ConnectionPhase, IdentityChange, QueryFilter, RealtimeError};
use throng_types::{ConnId, Frame, Position};

#[derive(Debug)]
pub enum Order {
    Enter {
        conn: ConnId,
        project: Box<str>,
        roles: Vec<String>,
        /// Its first subscriptions, if its URL named any.
        subscriptions: Vec<SubscriptionOrder>,
        positions: bool,
    },
    /// Make or change subscriptions. The event hub writes the response.
    Subscribe {
        conn: ConnId,
        items: Vec<SubscriptionOrder>,
    },
    /// End subscriptions. The event hub writes the response.
    Unsubscribe { conn: ConnId, ids: Vec<String> },
    /// Sets the connection's user and roles. Held-back events may go.
    SetRoles {
        conn: ConnId,
        roles: Vec<String>,
        /// The user until now, empty for a guest.
        from: Box<str>,
        to: Box<str>,
    },
    /// Sets a part of the user; the roles follow from it. Held-back events may go.
    Change {
        conn: ConnId,
        /// Part of the user's identity that is known now.
        change: IdentityChange,
    },
    /// Send the current position, and missed events.
    Recover {
        conn: ConnId,
        /// Since when, if the client knows.
        since: Option<Position>,
    },
}

#[derive(Debug)]
pub struct SubscriptionOrder {
    pub id: String,
    /// Its channels, under the connection's identity.
    pub channels: Vec<String>,
    pub filter: QueryFilter,
}

/// The connections as an event hub sees them.
pub trait Connections {
    fn id(&self, index: u32) -> Option<ConnId>;
    fn say(&mut self, conn: ConnId, bytes: &[u8]);
    /// Sends a frame in two pieces, of which the second is shared.
    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame);
    /// Passes a change of its user to the session. Where the change does not name the new roles,
    /// [`Order::SetRoles`] or [`Order::Change`] follows, or the connection's end.
    fn changed(&mut self, conn: ConnId, what: &Change);
    /// Lets the session look up its roles. True if it has a user; then [`Order::SetRoles`],
    /// [`Order::Change`] or the connection's end follows.
    fn recheck(&mut self, conn: ConnId) -> bool;
    fn refuse(&mut self, conn: ConnId, fault: &RealtimeError, phase: ConnectionPhase);
    fn matched(&mut self, receivers: usize);
    fn recovered(&mut self, all: bool);
}

#[derive(Clone, Copy, Debug)]
pub struct EventHubOptions {
    /// Seeds the index, because clients choose the names it hashes.
    pub seed: u64,
    /// Milliseconds that events are kept for clients that reconnect; zero keeps none.
    pub history_ms: u64,
    pub history_bytes_max: usize,
}
