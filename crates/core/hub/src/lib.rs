//! One shard's hub: who subscribes to what here, and how a publication reaches them.
//!
//! A hub is told what happened ([`Command`]s from sessions, [`Mail`] from other
//! shards' hubs) and says what follows through a [`Sink`]. It holds the [`throng_broker::Home`] of
//! the channels that hash to its shard.
//!
//! # Why nothing is lost or doubled
//!
//! A subscribe from another shard goes to the channel's home, which notes the
//! interest and answers with the position and, on recovery, with everything missed.
//! Mail between two shards is first in, first out. So a delivery that arrives before
//! the answer was published before the answered position and is not for this
//! subscriber, and one that arrives after the answer was published after it and is.
//! The subscriber becomes a member exactly when the answer is taken, so it gets the
//! second kind and never the first.
//!
//! Fan-out is done in slices, so a member may join while publications are still
//! on their way to older members; the module `sweep` says how each gets exactly its own.
//!
//! Never: sockets, wire formats, the clock. Nothing here is locked or shared.

mod channel;
mod contract;
mod fanout;
mod hub;
mod link;
mod members;
mod publish;
mod subscriptions;
mod sweep;

pub use contract::{Answer, Asker, Batch, Command, Encoded, Format, Mail, Sink};
pub use hub::{Hub, HubOptions, HubStats};
pub use link::{DELIVERIES_MAX, REQUESTS_MAX};
