//! Gauges under which sessions are counted: one of their transport, one of their gateway, and one
//! of those that are no client's.

use throng_metrics::Gauge;
use throng_session::{Shared, Transport};

use crate::list::GatewayList;

/// Gauges under which a session is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    transport: Transport,
    /// Set for connections that call the server and are no clients: a backend's, or a dashboard's.
    calls: bool,
    own: Option<Gauge>,
}

/// Returns the gauges under which a session counts now.
pub(crate) fn standing<L: GatewayList>(session: &L::Session) -> Standing {
    let class = L::class(session);
    Standing {
        transport: class.transport,
        calls: !class.is_client && class.transport == Transport::Http,
        own: L::gauge(session),
    }
}

impl Standing {
    /// Returns the gauges under which it counts.
    fn gauges(self) -> impl Iterator<Item = Gauge> {
        let calls = self.calls.then_some(Gauge::CallingConnections);
        [Some(gauge(self.transport)), calls, self.own]
            .into_iter()
            .flatten()
    }
}

/// Returns the gauge of a transport's connections.
const fn gauge(transport: Transport) -> Gauge {
    match transport {
        Transport::Http => Gauge::ConnectionsHttp,
        Transport::WebSocket => Gauge::ConnectionsWebsocket,
        Transport::Sse => Gauge::ConnectionsSse,
        Transport::Stream => Gauge::ConnectionsStream,
    }
}

/// Counts a session elsewhere if it became something else.
pub(crate) fn recount(shared: &Shared, before: Standing, after: Standing) {
    if before == after {
        return;
    }
    uncount(shared, before);
    count(shared, after);
}

/// Counts a new session.
pub(crate) fn count(shared: &Shared, first: Standing) {
    first
        .gauges()
        .for_each(|gauge| shared.counters.rise(gauge, 1));
}

/// Counts a session no longer.
pub(crate) fn uncount(shared: &Shared, last: Standing) {
    last.gauges()
        .for_each(|gauge| shared.counters.fall(gauge, 1));
}
