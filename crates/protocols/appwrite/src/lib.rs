//! Appwrite Realtime: what its SDKs and its servers say to each other, and who hears what.
//!
//! Owns: connection URLs, messages in both directions, channels, roles, queries, origins, the feed
//! from Appwrite's Redis, and the index that finds an event's receivers. Never: sockets, clocks,
//! randomness or Appwrite's HTTP API; what those bring comes in as arguments.
//!
//! A connection goes like this: [`ConnectRequest::parse`], [`Platforms::check`], an [`Identity`]
//! asked from Appwrite, [`ConnectRequest::subscriptions`], [`Index::insert`] and
//! [`Index::subscribe`], a [`Connected`] frame; then a [`ClientMessage`] now and then. An event goes
//! [`FeedMessage::parse`], [`Index::matches`], [`EncodedEvent::new`] once, and a splice for each
//! receiver. What goes wrong is a [`Fault`], which knows the frame and the close.

pub mod channel;
mod client;
mod connect;
mod fault;
mod feed;
mod filter;
mod identity;
mod index;
mod json;
mod limits;
mod origin;
mod server;
mod url;

pub use client::{ClientMessage, Presence, SubscribeItem};
pub use connect::{CONSOLE, ConnectRequest, Slot, SlotSubscription, write_slot_ids};
pub use fault::{Aftermath, Fault, Phase, RefusalStyle};
pub use feed::{
    EncodedEvent, FeedError, FeedMessage, IdentityChange, Layout, NewEvent, REDIS_CHANNEL,
    timestamp, write_ids,
};
pub use filter::Filter;
pub use identity::{ANY, AccountError, GUESTS, Identity, SessionHeaders};
pub use index::{Index, IndexError, IndexStats, Match, Matches, Rebind, Subscription};
pub use limits::{Limits, Rates};
pub use origin::Platforms;
pub use server::{Connected, PONG, Response, Subscribed, subscription_id};
