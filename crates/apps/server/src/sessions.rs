//! Events on their way to sessions, the front door's or a gateway's; what becomes of sessions; and
//! the gauges under which they are counted: one of their transport, one of their gateway, and one
//! of those that are no client's.

use std::collections::VecDeque;

use throng_engine::Effects;
use throng_metrics::Gauge;
use throng_session::{Context, Event, Flow, Http, Order, Shared, Transport};
use throng_types::ConnId;

use crate::gateways::{Gateways, Session};

/// Parts of the shard that events of sessions need.
pub struct Sessions<'a> {
    pub gateways: &'a mut Gateways,
    pub shared: &'a Shared,
    pub orders: &'a mut Vec<Order>,
}

impl Sessions<'_> {
    /// Counts a new session, once and before its first event.
    pub fn count(&self, session: &Session) {
        standing(session).count(self.shared);
    }

    /// Lets something happen to a session, which may become something else; counts it as what it
    /// is afterwards.
    #[inline]
    pub fn event(
        &mut self,
        id: ConnId,
        session: &mut Session,
        event: Event<'_>,
        effects: &mut Effects<'_>,
    ) {
        let before = standing(session);
        self.shared.notices.begin(id, effects.now);
        self.shared.is_tls.set(effects.is_tls);
        self.shared.http2.set(effects.http2);
        let mut cx = Context {
            id,
            now: effects.now,
            shared: self.shared,
            own: &(),
            out: effects.out,
            actions: &mut effects.actions,
            orders: self.orders,
            // The front door has no orders of its own.
            own_orders: &mut VecDeque::new(),
            place: 0,
            forms_from: 0,
        };
        dispatch(self.gateways, session, event, &mut cx);
        recount(self.shared, before, standing(session));
    }
}

fn dispatch(
    gateways: &mut Gateways,
    session: &mut Session,
    event: Event<'_>,
    cx: &mut Context<'_>,
) {
    let mut rest = if let Session::Http(http) = session {
        let Some((next, rest)) = http.event(event, gateways, cx) else {
            return;
        };
        *session = next;
        rest
    } else {
        match gateways.event(session, event, cx) {
            Flow::Stay => return,
            Flow::Http(resume) => {
                *session = Session::Http(Http::again(&resume));
                resume.raw
            }
        }
    };
    // Bytes that arrived before the session was opened.
    if !rest.is_empty() && !cx.has_ended() {
        dispatch(gateways, session, Event::Bytes(&mut rest), cx);
    }
}

/// Gauges under which a session is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    transport: Transport,
    /// Set for connections that call the server and are no clients: a backend's, or a dashboard's.
    calls: bool,
    own: Option<Gauge>,
}

#[inline]
pub(crate) fn standing(session: &Session) -> Standing {
    let class = session.class();
    Standing {
        transport: class.transport,
        calls: !class.is_client && class.transport == Transport::Http,
        own: session.gauge(),
    }
}

impl Standing {
    fn gauges(self) -> impl Iterator<Item = Gauge> {
        let transport = match self.transport {
            Transport::Http => Gauge::ConnectionsHttp,
            Transport::WebSocket => Gauge::ConnectionsWebsocket,
            Transport::Sse => Gauge::ConnectionsSse,
            Transport::Stream => Gauge::ConnectionsStream,
        };
        let calls = self.calls.then_some(Gauge::CallingConnections);
        [Some(transport), calls, self.own].into_iter().flatten()
    }

    pub(crate) fn count(self, shared: &Shared) {
        self.gauges()
            .for_each(|gauge| shared.counters.rise(gauge, 1));
    }

    pub(crate) fn uncount(self, shared: &Shared) {
        self.gauges()
            .for_each(|gauge| shared.counters.fall(gauge, 1));
    }
}

/// Counts a session elsewhere if it became something else.
#[inline]
pub(crate) fn recount(shared: &Shared, before: Standing, after: Standing) {
    if before != after {
        before.uncount(shared);
        after.count(shared);
    }
}
