//! Pusher's clients at `/app/KEY`, and the signed calls of their back ends below `/apps/ID`.
//!
//! A [`PusherConnection`] serves one client: it checks signatures, subscribes, and passes client
//! events on. A call of a back end is checked and carried out as it arrives, on the API port and on
//! the client port: it is signed, so that neither needs a key of the server API.
//!
//! A channel NAME of the app ID is the hub's `pusher:ID:NAME`, or `pusher-cache:ID:NAME` if new
//! subscribers get its newest event. Clients of other gateways have no business there.
//!
//! A publication is the event as JSON without its channel, so that its frame is the same bytes for
//! all subscribers. One that leaves a connection out names it as its publisher; its subscribers
//! look at it one by one.
//!
//! A client in a presence channel is a member of it in the hub, which tells of its user; see
//! `presence.rs`.
//!
//! Never: keeps a member list, or remembers an app's channels; the hub does.

mod api;
mod apps;
mod call;
mod channels;
mod connection;
mod forms;
mod gateway;
mod membership;
mod presence;
mod quota;
mod refusal;
mod socket_id;
#[cfg(test)]
mod tests;

pub use apps::{PusherApp, PusherShared};
pub use call::WaitingCall;
pub use connection::PusherConnection;
pub use forms::{CACHE_NAMESPACE, NAMESPACE};
pub use gateway::{Pusher, PusherSession};
pub use quota::{AppLimits, AppUse};

/// Context of an event for a session of this gateway.
type Cx<'a> = throng_session::Context<'a, PusherShared>;
