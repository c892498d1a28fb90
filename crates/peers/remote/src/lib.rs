//! Brokers on the other side of a network: the way between shards and a peer, and what such a peer
//! does whatever it speaks to.
//!
//! A broker brings its [`Verbs`]. With them it is a [`Node`]: it takes requests of shards and
//! words of its connection, and leaves replies in [`Desk`]'s lanes and bytes in its output.
//! [`Channels`] holds the rules about its channels. [`BrokerPeer`] gives it clocks, and
//! connections that are made again when they break; [`start`] lays the lanes. [`agent`] holds the
//! state of one channel on one node, [`blob`] the form of a publication between nodes.
//!
//! Never: a protocol of a broker, what a broker keeps, threads.

pub mod agent;
mod arrival;
pub mod blob;
mod broker;
mod channels;
mod core;
mod desk;
mod doubt;
mod lane;
mod node;
mod nodes;
mod part;
mod questions;
mod shares;
mod status;
mod verbs;

pub use broker::BrokerPeer;
pub use channels::Channels;
pub use core::{Core, FLIGHT_BYTES_MAX, FLIGHTS_MAX, LEASE_MS, RENEW_MS};
pub use desk::{Desk, NOBODY, RemoteOptions};
pub use lane::{REPLIES_MAX, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, Ring, Wake};
pub use node::Node;
pub use nodes::{Asker, CLIENTS_QUESTIONS_MAX, NodeEvent, QUESTIONS_MAX, ToNodes};
pub use part::start;
pub use part::{Nodes, RemoteBroker, server_of};
pub use questions::Questions;
pub use status::{Health, Status};
pub use verbs::{Dial, Fault, WordOf, Words};
pub use verbs::{Purpose, Query, Verbs, Wanted};
