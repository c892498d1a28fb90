//! Appwrite Realtime at `/v1/realtime`: the sessions of its clients, and one shard's event hub.
//!
//! A session ([`Connection`]) serves its client and writes [`Order`]s; the shard's [`EventHub`]
//! keeps the subscriptions, carries the orders out and finds the receivers of events. Calls beyond
//! the shard (lookups at Appwrite, counting openings of an address, handing an event to all shards)
//! are behind [`Outside`]. Replies from there are [`News`], in one queue, so that answers about
//! users and the events that change them keep their order.
//!
//! Beyond stock, for clients that ask for it: `?recover=` in the URL brings positions, and
//! `?recover=POSITION` the events missed since. See `history`.

mod connection;
mod event_hub;
mod gateway;
mod held;
mod history;
mod identity;
mod open;
mod order;
mod overlap;
mod pending;
mod projects;
mod recheck;
mod shard;
mod shared;
#[cfg(test)]
mod tests;

pub use connection::Connection;
pub use event_hub::EventHub;
pub use order::{Connections, EventHubOptions, Order, SubscriptionOrder};
pub use projects::AppwriteProject;
pub use shard::Appwrite;
pub use shared::{
    AppwriteShared, Credential, Inbox, Lookup, LookupPart, LookupPriority, LookupReply, News,
    Outside, PresenceCall, PresenceReply, QueueFull,
};

/// Context of an event for a session of this gateway.
type Cx<'a> = throng_session::Context<'a, AppwriteShared, Order>;
