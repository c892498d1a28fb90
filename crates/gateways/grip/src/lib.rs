//! GRIP: requests that a backend answers, and clients that are held for it.
//!
//! A request on a path with a route becomes an [`OriginRequest`], which the shard hands to
//! [`OriginClient`]; events of the backend come back as [`Mail`]. Until its answer is known the
//! session is a `Proxied`. An answer that holds the client makes it a `Held`: a member of its
//! channels like any other subscriber, which is the whole cost of a held stream without filters and
//! links.
//!
//! GRIP's channels live in a namespace of their own, [`NAMESPACE`]: only backends decide on their
//! subscribers.
//!
//! [`OriginRequest`]: throng_http1::origin::OriginRequest

use throng_session::ShardCalls;

mod client_side;
mod event;
mod exchanges;
mod following;
mod forms;
mod gateway;
mod held;
mod link;
mod look;
mod open;
mod order;
mod over_http;
mod proxied;
mod publish;
mod publishing;
mod request;
mod response_head;
mod sequencer;
mod shard;
mod shared;
mod stats;
#[cfg(test)]
mod tests;
mod topics;
mod tunnel;
mod upload;
mod zmtp;

pub use event::Session;
pub use exchanges::{OriginClient, OriginExchange};
pub use forms::NAMESPACE;
pub use open::PUSHPIN_METRICS;
pub use order::{ConnCommand, Mail, Order};
pub use shard::Grip;
pub use shared::{GripOptions, GripShared, PortKind, RouteBook, ZmqSocket};
pub use stats::StatsOptions;

/// Context of an event for a session of this gateway.
type Cx<'a> = throng_session::Context<'a, GripShared, Order>;

/// The shard that the gateway is on.
trait GripShard: ShardCalls<Grip> {}

impl<T: ShardCalls<Grip>> GripShard for T {}
