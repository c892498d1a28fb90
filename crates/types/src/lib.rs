//! The vocabulary that every room shares: ids, channel names, positions,
//! publications, frames and time; and what several rooms would otherwise each
//! have of their own: numbers with units, dates, strings in JSON, a seeded
//! generator of numbers, the guess what somebody meant.
//!
//! Never: I/O, clocks, randomness. A type belongs here when two
//! crates that must not know each other have to speak about the same thing.

// The derive names this crate, also in here.
extern crate self as throng_types;

mod channel;
mod connection;
pub mod date;
pub mod fill;
mod frame;
pub mod json;
mod lock;
mod publication;
mod reason;
mod rng;
mod save;
mod slots;
mod text;
mod trace;
pub mod units;

pub use channel::{CHANNEL_BYTES_MAX, ChannelError, ChannelName};
pub use connection::{Actions, ConnId, End, Http2, Overflow, ShardId};
pub use date::{Millis, Now};
pub use frame::{Frame, Frames};
pub use lock::lock;
pub use publication::{
    Epoch, Payload, PayloadKind, Position, Publication, PublicationKind, Publisher,
};
pub use reason::{Disconnect, Unsubscribe};
pub use rng::{Rng, fnv1a, mix};
pub use save::{Load, Parts, Save, Saved, check_saved, save_count};
pub use slots::Slots;
pub use text::{cases, form_decoded, hex_byte, hex_value, nearest, percent_decoded};
pub use trace::SpanContext;
