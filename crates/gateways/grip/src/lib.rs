//! GRIP: requests that a backend answers, and clients that are held for it.
//!
//! A request on a path with a route becomes an [`OriginRequest`], which the shard hands to
//! [`Backends`]; events of the backend come back as [`Mail`]. Until its answer is known the session
//! is a `Proxied`. An answer that holds the client makes it a `Held`: a member of its channels like
//! any other subscriber, which is the whole cost of a held stream without filters and links.
//!
//! GRIP's channels live in a namespace of their own, [`NAMESPACE`]: only backends decide on their
//! subscribers.
//!
//! [`OriginRequest`]: throng_grip::exchange::OriginRequest

mod asking;
mod backends;
mod client_side;
mod context;
mod event;
mod exchanges;
mod follow;
mod following;
mod forms;
mod frames;
mod gateway;
mod grip;
mod held;
mod held_end;
mod held_timers;
mod instructions;
mod link;
mod long_poll;
mod look;
mod looking;
mod mail;
mod next_request;
mod open;
mod order;
mod over_http;
mod ports;
mod proxied;
mod publish;
mod publishing;
mod receipt;
mod receipts;
mod request;
mod response_head;
mod sequencer;
mod session;
mod shard;
mod shared;
mod signer;
mod statistics;
mod stats;
mod streaming;
mod subscribers;
#[cfg(test)]
mod tests;
mod topics;
mod tunnel;
mod upload;
mod wait;
mod zmtp;

pub use backends::{Backends, Ticket};
pub use forms::NAMESPACE;
pub use grip::Grip;
pub use look::{Found, Wanted};
pub use mail::Mail;
pub use open::PUSHPIN_METRICS;
pub use order::Order;
pub use ports::{PortKind, Socket};
pub use session::Session;
pub use shared::{GripOptions, GripShared, RouteBook};
pub use stats::StatsOptions;
