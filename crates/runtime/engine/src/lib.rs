//! The engine: shards of connections, each on its own thread, with nothing locked or shared.
//!
//! A [`Shard`] owns a [`Kernel`], listeners, a connection table ([`Conns`]), a timer
//! wheel and its ends of the mailboxes. What bytes mean is the business of an
//! [`App`]; the engine knows neither protocols nor channels. It serves the server
//! (accepted connections) and the load generator (outgoing ones) alike.
//!
//! An idle connection costs a slot and a wheel entry: no task, no buffer, no timer
//! object. Where TLS is spoken, bytes are sealed when they are written and opened when they are
//! read; an app does not notice. Every queue has a bound and a rule for "full"; see [`Overflow`]
//! and [`MailboxSender`].

mod app;
mod builder;
mod conns;
mod effects;
mod kernel;
mod mailbox;
mod outbound;
mod shard;
mod wheel;

pub use throng_types::{End, Overflow};

pub use app::App;
pub use builder::{Shard, ShardBuilder, ShardBuilders, ShardOptions, builders, builders_on};
pub use conns::{ConnLimits, ConnStats, Conns, Delivery, Pieces, SavedConn, TlsEvent, TlsNews};
pub use effects::{Accepted, Closed, Effects};
pub use kernel::{Interest, Kernel, Linux, MailReceiver, MailSender, Ready, Source, Wake};
pub use mailbox::MailboxSender;
pub use shard::{LoopStats, Running, ShardParts};
pub use throng_http2::H2Limits;
pub use wheel::{TICK_MS, Wheel};
