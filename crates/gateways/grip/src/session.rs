//! Session of a connection of GRIP.

use throng_session::Exchange;

use crate::held::Held;
use crate::over_http::OverHttp;
use crate::proxied::Proxied;
use crate::publish::Publishing;
use crate::stats::StatsReader;
use crate::tunnel::Tunnel;
use crate::zmtp::Zmtp;

/// One of GRIP's connections.
pub enum Session {
    /// A request whose backend is being asked.
    Proxied(Box<Proxied>),
    /// A backend holds it.
    Held(Held),
    /// Its stream has ended; it takes the next request when it has left its channels.
    Leaving(Box<Exchange>),
    /// A WebSocket whose backend speaks HTTP.
    OverHttp(Box<OverHttp>),
    /// A WebSocket whose backend speaks WebSocket.
    Tunnel(Box<Tunnel>),
    /// A publisher by HTTP whose items are on their way.
    Publishing(Box<Publishing>),
    /// A publisher by ZeroMQ.
    Zmtp(Zmtp),
    /// Reader of statistics by ZeroMQ.
    Stats(Box<StatsReader>),
}
