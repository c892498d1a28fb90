//! The vocabulary that every room shares: ids, channel names, positions,
//! publications, frames and time; and what several rooms would otherwise each
//! have of their own: numbers with units, dates, strings in JSON, a seeded
//! generator of numbers, the guess what somebody meant.
//!
//! Never: I/O, clocks, randomness, serialisation. A type belongs here when two
//! crates that must not know each other have to speak about the same thing.

mod actions;
mod channel;
pub mod date;
mod frame;
mod id;
pub mod json;
mod overflow;
mod percent;
mod position;
mod publication;
mod reason;
mod rng;
mod save;
mod slots;
mod suggest;
mod time;
pub mod units;

pub use self::time::{Millis, Now};
pub use actions::{Actions, End};
pub use channel::{CHANNEL_BYTES_MAX, ChannelError, ChannelName};
pub use frame::{Frame, Frames};
pub use id::{ConnId, ShardId};
pub use overflow::Overflow;
pub use percent::percent_decoded;
pub use position::{Epoch, Position};
pub use publication::{Payload, PayloadKind, Publication, Publisher, Told};
pub use reason::{Disconnect, Unsubscribe};
pub use rng::{Rng, fnv1a, mix};
pub use save::{Parts, Save, Saved, save_bytes, save_count, save_option};
pub use slots::Slots;
pub use suggest::nearest;
