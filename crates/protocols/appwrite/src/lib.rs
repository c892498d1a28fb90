//! Appwrite Realtime: the messages of its SDKs and servers, and the receivers of its events.
//!
//! Owns: connection URLs, messages in both directions, channels, roles, queries, origins, the feed
//! from Appwrite's Redis, and the index that finds an event's receivers. Never: sockets, clocks,
//! randomness or Appwrite's HTTP API; what those bring comes in as arguments.
//!
//! A connection goes like this: [`ConnectRequest::parse`], [`Platforms::check`], an
//! [`AppwriteIdentity`] asked from Appwrite, [`ConnectRequest::subscriptions`], [`Index::insert`]
//! and [`Index::subscribe`], a [`Connected`] frame; then a [`ClientMessage`] now and then. An event
//! goes [`FeedMessage::parse`], [`Index::matches`], [`FeedMessage::encode_tail`] once, and a frame
//! of each receiver's ids and that tail. What goes wrong is a [`RealtimeError`], which knows the
//! frame and the close.
//!
//! ```
//! use throng_appwrite::*;
//!
//! let limits = MessageLimits::default();
//! let request = ConnectRequest::parse("project=console&channels[]=files", &limits)?;
//! let guest = AppwriteIdentity::guest();
//! let mut index = Index::new(0x5eed);
//! index.insert(7, &request.project, &guest.roles)?;
//! for slot in request.subscriptions(&guest.user_id, &limits)? {
//!     let id = subscription_id(1_700_000_000_000_000, 42);
//!     let (channels, filter) = (&slot.channels, &slot.filter);
//!     index.subscribe(7, &[IndexedSubscription { id: &id, channels, filter }])?;
//! }
//!
//! let message = br#"{"project":"console","roles":["any"],
//!     "data":{"events":["e"],"channels":["files"],"payload":{}}}"#;
//! let event = FeedMessage::parse(message, 1 << 20).expect("a message of the feed");
//! let tail = event.encode_tail();
//! let (mut matches, mut ids) = (Matches::default(), Vec::new());
//! index.matches(&event, &mut matches);
//! index.write_ids(&matches, &matches.receivers[0], &mut ids);
//! let expected = concat!(
//!     r#"{"type":"event","data":{"subscriptions":["6553f10000000000002a"],"#,
//!     r#""events":["e"],"channels":["files"],"payload":{}}}"#,
//! );
//! assert_eq!([EVENT_HEAD, &ids, &tail].concat(), expected.as_bytes());
//! # Ok::<(), RealtimeError>(())
//! ```

mod change;
pub mod channel;
mod client;
mod connect;
mod fault;
mod feed;
mod filter;
mod identity;
mod index;
mod limits;
mod lookup;
mod origin;
mod server;
mod url;

pub use change::{Change, IdentityChange, RoleChange};
pub use client::{ClientMessage, Presence, SubscribeItem};
pub use connect::{CONSOLE, ConnectRequest, Slot, SlotSubscription, write_slot_ids};
pub use fault::{ConnectionPhase, ErrorAction, RealtimeError, RefusalStyle};
pub use feed::{
    EVENT_HEAD, FeedError, FeedMessage, MessageSource, NewEvent, REDIS_CHANNEL, glimpse,
};
pub use filter::QueryFilter;
pub use identity::{
    ANY, AccountError, AppwriteIdentity, GUESTS, MembershipList, SessionHeaders, TokenClaims, USERS,
};
pub use index::{Index, IndexError, IndexedSubscription, Match, Matches, Rebind};
pub use limits::{MessageLimits, Rates};
pub use lookup::{
    Credential, Lookup, LookupPart, LookupPriority, LookupReply, News, PresenceCall, PresenceReply,
    QueueFull,
};
pub use origin::Platforms;
pub use server::{Connected, PONG, Response, SubscriptionEntry, subscription_id};
