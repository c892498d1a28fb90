//! Types that make up a gateway, for code that needs no more of it.

use std::fmt;

/// The types of a family of clients.
pub trait Family: 'static {
    /// State kept for one connection. Every idle connection pays its size; box rare parts.
    type Session;
    /// State that the sessions share on a shard.
    type Shared;
    /// Orders from sessions to the gateway.
    type Order: fmt::Debug;
    /// Mail from this gateway on other shards, and from its drivers.
    type Mail: Send + 'static;
}
