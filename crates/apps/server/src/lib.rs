//! The server: shards, gateways and hubs put together, and the handle that starts,
//! observes and ends them.
//!
//! Calls between the parts: the engine calls the shard's app, which hands events to
//! sessions, carries their orders to its hub and gateways, and the hub's deliveries back to the
//! engine. Shards meet only through mailboxes. Nothing here parses a byte.
//!
//! A family of clients is one line in [`gateways`](mod@gateways).

mod app;
mod assembly;
mod broker;
mod build;
mod drain;
mod draining;
mod feeds;
mod files;
mod follow;
pub mod gateways;
mod handle;
pub mod handover;
mod history;
mod hooks;
mod listeners;
mod live;
mod logins;
mod notices;
mod oidc;
mod options;
mod outbox;
mod pages;
mod peers;
mod renewal;
mod replies;
mod sessions;
mod settings;
mod shard;
mod sink;
mod stats;
mod tls;
mod token_keys;
mod traces;
mod waiting;
mod watch;

pub use assembly::{Assembly, Mailbox};
pub use broker::BrokerHost;
pub use build::{start, take_over};
pub use drain::DrainOptions;
pub use gateways::check_routes;
pub use handle::{Handle, ServeError};
pub use live::queued_bytes_max;
pub use options::{AskReload, Options, ReloadRequest, Start, StartError};
pub use sessions::Sessions;
pub use shard::{ShardApp, ShardMail};
pub use stats::Capacity;
pub use throng_session::Reloaded;
pub use tls::check_certificates;
pub use token_keys::fetch_keys;
