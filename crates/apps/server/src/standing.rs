//! What sessions are counted as: a gauge of their transport, and one of their gateway.

use throng_metrics::Gauge;
use throng_session::{Shared, Transport};

use crate::list::GatewayList;

/// What a session is counted as.
pub(crate) type Standing = (Transport, Option<Gauge>);

/// What a session is counted as now.
pub(crate) fn standing<L: GatewayList>(session: &L::Session) -> Standing {
    (L::class(session).transport, L::gauge(session))
}

/// Where connections of a kind are counted.
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
    shared.counters.rise(gauge(first.0), 1);
    if let Some(own) = first.1 {
        shared.counters.rise(own, 1);
    }
}

/// Counts a session no longer.
pub(crate) fn uncount(shared: &Shared, last: Standing) {
    shared.counters.fall(gauge(last.0), 1);
    if let Some(own) = last.1 {
        shared.counters.fall(own, 1);
    }
}
