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
pub mod gateways;
mod guards;
mod handle;
pub mod handover;
mod history;
mod list;
mod listeners;
mod live;
mod logins;
mod look;
mod macros;
mod notices;
mod observe;
mod options;
mod outbox;
mod own_port;
mod pages;
pub mod parts;
mod peers;
mod plan;
mod renew;
mod renewal;
mod replies;
mod rounds;
mod sessions;
mod settings;
mod shard;
mod sink;
mod slot;
mod standing;
mod start;
mod stats;
mod surveys;
mod tags;
mod tls;
mod token_keys;
mod view;
mod warned;
mod watch;

pub use assembly::{Assembly, Mailbox};
pub use broker::BrokerHost;
pub use build::{start, start_with, take_over};
pub use drain::DrainOptions;
pub use gateways::check_routes;
pub use handle::{Handle, ServeError};
pub use list::{GatewayList, Holds, Host};
pub use live::queued_bytes_max;
pub use observe::Observer;
pub use options::{AskReload, Options, ReloadRequest, StartError};
pub use own_port::OwnPort;
pub use plan::{Plan, Renewer, Sources};
pub use sessions::Sessions;
pub use settings::Blueprint;
pub use shard::{Mail, ShardApp};
pub use slot::Slot;
pub use start::Start;
pub use stats::Capacity;
pub use throng_session::Reloaded;
pub use tls::check_certificates;
pub use token_keys::fetch_keys;
pub use view::View;
