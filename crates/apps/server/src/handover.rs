//! A running server hands over to its successor, a new process of a new binary.
//!
//! The old process starts the new one with one end of a Unix socket as its standard input and says
//! on it what there is: the format's version, what was drawn at its start, its listeners. The new
//! one loads its configuration, makes its shards and says that it is ready, or why not. Only then
//! do the old shards stop reading; each sends what it holds to the new shard of its number, and
//! the new process says that it has everything. With that word all of it is the new one's.
//!
//! Owns the order of these steps and the format's version. Never: what a room's state looks like
//! as bytes; the rooms save and load their own.
//!
//! Invariants
//! - Exactly one of the two processes reads, writes and accepts. The new one begins after it has
//!   said that it has everything; the old one goes on if that word does not come, after it has
//!   ended the new process for certain.
//! - Until that word the old process has lost nothing: whatever fails, it goes on. What it has
//!   sent it keeps as compressed bytes alone, and with its sockets; it goes on from these, by the
//!   same code as the new process would have.

mod giving;
mod hello;
mod link;
mod meeting;
mod order;
mod parcel;
mod predecessor;
mod state;
pub mod steps;
mod successor;
mod taking;

pub(crate) use giving::give;
pub use hello::VERSION;
pub(crate) use hello::{Group, Hello};
pub(crate) use meeting::Meeting;
pub(crate) use order::{Given, HandOver, Moved};
pub use parcel::Parcel;
pub use predecessor::Predecessor;
pub(crate) use successor::Successor;
pub use successor::{HandOverError, Program};
pub use taking::Unpacking;
pub(crate) use taking::{Taken, Taking};
