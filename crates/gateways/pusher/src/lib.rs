//! Pusher's clients at `/app/KEY`, and the signed calls of their back ends below `/apps/ID`.
//!
//! A [`PusherConnection`] serves one client: it checks signatures, subscribes, and passes client
//! events on. A call of a back end is checked and carried out as it arrives, on the client port and
//! on the API port: it is signed, and needs no key of the server API.
//!
//! A channel NAME of the app ID is the hub's `pusher:ID:NAME`, or `pusher-cache:ID:NAME` if new
//! subscribers get its newest event. Clients of other gateways cannot reach these names.
//!
//! A publication in the hub is the event as JSON without its channel. Its frame is the same bytes
//! for all subscribers, unless it leaves a connection out: then it names that one as its publisher,
//! and each subscriber compares.
//!
//! The other channels of an app that has `subscription_count` tell how many subscribers they have;
//! see `counts.rs`.
//!
//! A client in a presence channel is a member of it in the hub, which tells the others of its user;
//! see `presence.rs`.
//!
//! Connections and rates of an app are limited on all nodes together; see
//! [`throng_session::Elsewhere`].
//!
//! Never: keeps a list of members or of an app's channels; the hub does.

mod api;
mod apps;
mod call;
mod channels;
mod connection;
mod counts;
mod forms;
mod gateway;
mod held;
mod membership;
mod names;
mod presence;
mod quota;
mod refusal;
mod socket_id;
#[cfg(test)]
mod tests;

pub use apps::{PusherApp, PusherShared};
pub use call::WaitingCall;
pub use connection::PusherConnection;
pub use gateway::{Pusher, PusherMail, PusherSession};
pub use names::{CACHE_NAMESPACE, NAMESPACE};
pub use quota::{AppLimits, AppUse};

/// Context of a session's event, with the apps as the gateway's own state.
type Cx<'a> = throng_session::Context<'a, PusherShared, throng_types::ChannelName>;
