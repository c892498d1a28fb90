//! Brokers on the other side of a network: the way between shards and a peer, and what such a peer
//! does whatever it speaks to.
//!
//! A broker brings its [`Verbs`]. With them it is a [`Node`]: it takes requests of shards and
//! messages of its connection, and leaves replies in the shards' queues and bytes in its output.
//! [`NodeChannels`] holds the rules about its channels. [`BrokerPeer`] gives it clocks, and
//! connections that are made again when they break; [`start`] lays the queues. [`agent`] holds the
//! state of one channel on one node, [`blob`] the form of a publication between nodes.
//!
//! Never: a protocol of a broker, what a broker keeps, threads.

pub mod agent;
mod arrival;
pub mod blob;
mod broker;
mod channels;
mod core;
mod doubt;
mod io;
mod node;
mod part;
mod questions;
mod queues;
mod shares;
mod status;
mod verbs;

pub use broker::BrokerPeer;
pub use channels::NodeChannels;
pub use core::{Core, FLIGHT_BYTES_MAX, FLIGHTS_MAX, LEASE_MS, RENEW_MS};
pub use io::{NodeIo, RemoteOptions, WORD};
pub use node::Node;
pub use part::start;
pub use part::{Nodes, RemoteBroker, server_of};
pub use questions::PendingQueries;
pub use queues::{CLIENTS_QUESTIONS_MAX, NodeCaller, NodeEvent, QUESTIONS_MAX, RequestId, ToNodes};
pub use queues::{
    REPLIES_MAX, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX, WakePeer, WakeShard,
};
pub use status::{Health, Status};
pub use verbs::{BrokerFault, Connector, MessageOf, Messages};
pub use verbs::{PendingSubscribe, Purpose, Query, Verbs};
