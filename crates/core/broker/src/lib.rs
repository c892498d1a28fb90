//! A channel's home: who holds its stream, and how shards speak with it.
//!
//! Every channel has one home, the shard that its name hashes to. A publication
//! from anywhere goes to the home, gets its position there and goes out to each
//! shard that has a subscriber. This crate holds the contract ([`Request`],
//! [`Reply`]) and the broker that needs nothing installed: [`Home`], in memory.
//!
//! Never: subscribers (they are the hub's), wire formats, mailboxes.

mod channel_map;
mod contract;
mod home;
mod options;
mod stream;

pub use channel_map::ChannelMap;
pub use contract::{
    Draft, HistoryPage, HistoryQuery, Recovery, Refusal, Reply, Request, Subscribed, Ticket,
};
pub use home::{Home, HomeOptions, HomeStats, Published, home_of};
pub use options::{ChannelOptions, Namespaces, Retention};
pub use throng_types::Overflow;
