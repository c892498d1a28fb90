//! What a gateway is made of, for those who need no more of it.

use std::fmt;

/// The types of a family of clients.
pub trait Family: 'static {
    /// What is kept for a connection. Every idle connection pays its size; box what is rare.
    type Session;
    /// What its sessions share on a shard.
    type Shared;
    /// What its sessions ask of it.
    type Order: fmt::Debug;
    /// What it tells itself on other shards, and what its drivers tell it.
    type Mail: Send + 'static;
}
