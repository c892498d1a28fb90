//! The vocabulary that every room shares: ids, channel names, positions,
//! publications, frames and time.
//!
//! Never: I/O, clocks, randomness, serialisation. A type belongs here when two
//! crates that must not know each other have to speak about the same thing.

mod actions;
mod channel;
mod frame;
mod id;
mod overflow;
mod position;
mod publication;
mod reason;
mod rng;
mod slots;
mod time;

pub use actions::{Actions, End};
pub use channel::{CHANNEL_BYTES_MAX, ChannelError, ChannelName};
pub use frame::Frame;
pub use id::{ConnId, ShardId};
pub use overflow::Overflow;
pub use position::{Epoch, Position};
pub use publication::{Payload, PayloadKind, Publication, Publisher};
pub use reason::{Disconnect, Unsubscribe};
pub use rng::Rng;
pub use slots::Slots;
pub use time::{Millis, Now};
