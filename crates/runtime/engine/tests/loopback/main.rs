//! Shards on threads, clients on loopback: the engine as a peer sees it.
//!
//! Nothing here sleeps or measures: each wait is for a condition, and only failing tests
//! reach its end.

mod life;
mod mail;
mod outgoing;
mod secure;
mod slow;
mod still;
mod support;
mod traffic;
