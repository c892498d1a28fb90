//! Where channels live: the contract between a hub and its broker, and the broker.
//!
//! A broker gives publications their positions, keeps history and carries publications to
//! every shard that has a subscriber. The head of `contract.rs` says what any broker must do,
//! and holds the rules that recovery rests on. [`Broker`] needs nothing installed: every channel
//! has a home, the shard that its name hashes to; what it keeps can be written to a [`Store`] and
//! read again. With a [`Remote`] channels live on another server, and only the server's own here.
//!
//! Never: subscribers (the hub has them), wire formats, sockets, threads, the clock.

mod channel_map;
mod contract;
mod hooks;
mod memory;
mod options;
mod remote;
mod store;

pub use channel_map::ChannelMap;
pub use contract::{
    Acknowledge, Announced, ChannelMember, Draft, HistoryPage, HistoryQuery, Outcome, Present,
    Published, Receiver, Recovery, Refusal, Reply, Request, Subscribed, Ticket, Version,
};
pub use hooks::{HookConnection, HookEvent, HookJournal, Hooks};
pub use memory::{
    Broker, BrokerMail, BrokerStats, Budget, DELIVERIES_MAX, MemoryOptions, REQUESTS_MAX, home_of,
};
pub use options::{
    BackendId, ChannelOptions, LiveOptions, NamespaceOptions, PresenceOptions, ProxySwitches,
    ReplyLimit, Retention,
};
pub use remote::{Moving, Remote};
pub use store::{
    ANCESTORS_MAX, Begins, Head, HeadFault, Lineage, LogEntry, Reached, Replay, Restored,
    SegmentRecords, Store, UsedKey, copy_is_due, write_frame,
};
pub use throng_types::Overflow;
