//! What every broker on the other side of a network needs: the way between shards and a driver on
//! a thread of its own, and what such a driver does whatever it speaks to.
//!
//! A driver is a [`Machine`]: it takes requests of shards and words of its connection, and leaves
//! replies in [`Desk`]'s lanes and bytes in its output. [`start`] gives it a thread, clocks, and
//! connections that are made again when they break. [`agent`] holds the rules about one channel on
//! one node, [`blob`] the form of a publication between nodes.
//!
//! Never: a protocol of a broker, what a broker keeps.

pub mod agent;
mod arrival;
pub mod blob;
mod desk;
mod doubt;
mod driver;
mod inbox;
mod lane;
mod options;
mod part;
mod peer;
mod questions;
mod shares;
mod status;
mod stream;

pub use arrival::Arrival;
pub use desk::{Desk, NOBODY};
pub use driver::{Dial, DialInbox, Fault, Machine, Ring, start};
pub use inbox::{Event, Inbox};
pub use lane::{REPLIES_MAX, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, REQUESTS_MAX};
pub use options::RemoteOptions;
pub use part::{Peers, RemoteBroker, server_of};
pub use peer::{Asker, CLIENTS_QUESTIONS_MAX, PeerEvent, QUESTIONS_MAX, ToPeers};
pub use questions::{For, Questions};
pub use shares::Shares;
pub use status::{Health, Status};
pub use stream::{Reader, Stream, Wire, trust};
