//! Statistics as Pushpin publishes them, for readers by ZeroMQ.
//!
//! Each shard keeps a [`Book`] of its clients and sends its news to the first shard, whose
//! [`Collector`] adds them up and makes packets. The packets go to every shard with readers.
//! Without the socket nothing of this is there.

mod book;
mod collector;
mod lap;
mod part;
mod reader;

use std::net::IpAddr;
use std::sync::Arc;

use throng_grip::stats::{StatsFormat, SubscriptionMode};
use throng_session::ClientId;
use throng_types::{ChannelName, Save};

pub(crate) use book::Book;
pub(crate) use part::{Statistics, published};
pub(crate) use reader::StatsReader;

/// Options of statistics, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct StatsOptions {
    pub format: StatsFormat,
    /// Between two reports, in milliseconds; 0 for none.
    pub report_interval_ms: u64,
    pub sends_connections: bool,
    /// Milliseconds that readers remember a connection.
    pub connection_ttl_ms: u64,
    /// Milliseconds that readers remember a channel's subscribers.
    pub subscription_ttl_ms: u64,
    /// Milliseconds that a channel of long polls is reported with subscribers after the last one
    /// was answered: mostly the client asks again.
    pub linger_ms: u64,
}

/// Mail about statistics, between shards.
#[derive(Debug)]
pub enum StatsMail {
    /// News from a shard, for the collector.
    News(Vec<StatsEvent>),
    /// Whether the sending shard has readers.
    Reads(bool),
    /// Packets for the readers of the receiving shard.
    Packets(Arc<Vec<Vec<u8>>>),
}

/// A route's id; empty for all routes that have none.
type RouteId = Arc<str>;

/// Forms of an item, as bits by [`SubscriptionMode`].
type Transports = u8;

/// Report of a shard to the collector.
#[derive(Clone, Debug)]
pub enum StatsEvent {
    Connected(Box<ConnectionReport>),
    /// A connection has closed.
    Gone {
        id: Box<ClientId>,
        route: RouteId,
        /// Minutes of it that began since the last report.
        minutes: u64,
    },
    /// A sign of life on a route.
    Active {
        route: RouteId,
    },
    /// A connection has subscribed to a channel.
    Subscribed(Subscriber),
    /// A connection has left a channel.
    Left(Subscriber),
    Published {
        channel: ChannelName,
        id: Option<Box<str>>,
        transports: Transports,
    },
}

/// Client's request, as statistics see it.
#[derive(Clone, Debug, Save)]
pub(crate) struct ClientInfo {
    pub(crate) id: ClientId,
    pub(crate) route: RouteId,
    pub(crate) peer: IpAddr,
    pub(crate) is_websocket: bool,
    pub(crate) is_tls: bool,
}

/// Connection as reported to the collector.
#[derive(Clone, Debug)]
pub struct ConnectionReport {
    client: ClientInfo,
    /// Whether this is its first report.
    is_new: bool,
    /// Minutes of it that began since the last report.
    minutes: u64,
}

/// A connection's interest in a channel.
#[derive(Clone, Debug)]
pub struct Subscriber {
    channel: ChannelName,
    mode: SubscriptionMode,
    route: RouteId,
}

const fn bit(mode: SubscriptionMode) -> Transports {
    1 << mode as u8
}
