//! One shard's hub: its subscriptions, and the way of a publication to its subscribers.
//!
//! A hub takes events ([`Command`]s from sessions, replies and mail from its part of the
//! [broker](throng_broker::Broker)) and acts through a [`Sink`]. It does not know
//! where channels live: it asks the broker, and the broker answers now or later.
//!
//! # Order
//!
//! The commands of one connection for one channel are carried out and answered in the order in
//! which they came: while a subscribe waits for the broker, later ones wait behind it (the module
//! `deferred`). Between channels, and between these commands and others, there is no order.
//!
//! # Why nothing is lost or doubled
//!
//! The reply to a subscribe and the deliveries of its channel arrive in one order: a delivery that
//! arrives before the reply was published before the replied position and is not for this
//! subscriber, and one that arrives after it was published after it and is. The subscriber becomes
//! a member exactly when the reply is taken, so it gets the second kind and never the first. While
//! deliveries reach this shard, the last one says where the stream stands, and a subscriber that
//! misses nothing joins there without asking.
//!
//! Fan-out is done in slices, so a member may join while publications are still
//! on their way to older members; the module `fanout` says how each gets exactly its own.
//!
//! Never: sockets, wire formats, the clock, positions. Nothing here is locked or shared.

mod channel;
mod contract;
mod deferred;
mod deliver;
mod fanout;
mod hub;
mod load;
mod local;
mod moving;
mod subscriptions;
mod waiting;

pub use contract::{
    Answer, Batch, Command, Encoded, FormKind, Format, HubOptions, Patch, ReplyTo, Sink,
};
pub use hub::{Hub, HubStats};
pub use throng_broker::{BrokerMail, Draft};
