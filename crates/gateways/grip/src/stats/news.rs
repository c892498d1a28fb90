//! News from a shard to the collector.

use std::net::IpAddr;
use std::sync::Arc;

use throng_grip::item::Item;
use throng_grip::stats::SubscriptionMode;
use throng_session::ClientId;
use throng_types::ChannelName;

/// A route's id; empty for all routes that have none.
pub(crate) type RouteId = Arc<str>;

/// Which forms an item has, as bits by [`SubscriptionMode`].
pub(crate) type Transports = u8;

/// One thing that happened on a shard.
#[derive(Clone, Debug)]
pub enum News {
    /// A connection is there.
    Connected(Box<Connected>),
    /// A connection has closed.
    Gone {
        id: Box<ClientId>,
        route: RouteId,
        /// Minutes of it that began since the last report.
        minutes: u64,
    },
    /// A sign of life on a route.
    Active {
        /// The route it was on.
        route: RouteId,
    },
    /// A connection has subscribed to a channel.
    Subscribed(Subscriber),
    /// A connection has left a channel.
    Left(Subscriber),
    /// An item was published.
    Published {
        channel: ChannelName,
        id: Option<Box<str>>,
        transports: Transports,
    },
}

/// Connection as reported to the collector.
#[derive(Clone, Debug)]
pub struct Connected {
    pub(crate) id: ClientId,
    pub(crate) route: RouteId,
    pub(crate) peer: IpAddr,
    pub(crate) is_websocket: bool,
    pub(crate) is_tls: bool,
    /// Whether this is its first report.
    pub(crate) is_new: bool,
    /// Minutes of it that began since the last report.
    pub(crate) minutes: u64,
}

/// A connection's interest in a channel.
#[derive(Clone, Debug)]
pub struct Subscriber {
    pub(crate) channel: ChannelName,
    pub(crate) mode: SubscriptionMode,
    pub(crate) route: RouteId,
}

/// The bit of one form.
pub(crate) const fn bit(mode: SubscriptionMode) -> Transports {
    1 << mode as u8
}

/// The forms that an item has.
pub(crate) const fn transports(item: &Item) -> Transports {
    let mut out = 0;
    if item.http_response.is_some() {
        out |= bit(SubscriptionMode::Response);
    }
    if item.http_stream.is_some() {
        out |= bit(SubscriptionMode::Stream);
    }
    if item.ws_message.is_some() {
        out |= bit(SubscriptionMode::WebSocket);
    }
    out
}
