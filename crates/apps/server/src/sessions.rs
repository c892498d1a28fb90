//! Events on their way to sessions, the front door's or a gateway's; what becomes of sessions; and
//! the gauges under which they are counted: one of their transport, one of their gateway, and one
//! of those that are no client's. Webhooks hear here of clients that come and go.

use std::collections::VecDeque;

use throng_broker::{HookConnection, HookEvent};
use throng_engine::Effects;
use throng_metrics::Gauge;
use throng_session::{Context, Event, Flow, Http, Order, Shared, Transport};
use throng_types::ConnId;

use crate::follow;
use crate::gateways::{Gateways, PROTOCOLS, Session};
use crate::peers::NO_CLIENT;

/// Parts of the shard that events of sessions need.
pub struct Sessions<'a> {
    pub gateways: &'a mut Gateways,
    pub shared: &'a Shared,
    pub orders: &'a mut Vec<Order>,
}

impl Sessions<'_> {
    /// Counts a new session, once and before its first event.
    pub fn count(&self, session: &Session) {
        standing(session, NO_CLIENT).count(self.shared);
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
        let before = standing(session, effects.tag);
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
        let after = standing(session, effects.tag);
        recount(self.shared, (before, after), id, || {
            self.gateways.client(id, session, self.shared)
        });
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

/// Gauges under which a session is counted, and the client that webhooks hear of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    transport: Transport,
    /// Set for connections that call the server and are no clients: a backend's, or a dashboard's.
    calls: bool,
    own: Option<Gauge>,
    /// Place of the gateway that has let its client in.
    client: Option<u8>,
}

#[inline]
pub(crate) fn standing(session: &Session, tag: u32) -> Standing {
    let class = session.class();
    let is_connected = class.is_client && class.is_connected && tag != NO_CLIENT;
    Standing {
        transport: class.transport,
        calls: !class.is_client && class.transport == Transport::Http,
        own: session.gauge(),
        client: session.place().filter(|_| is_connected),
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

    /// Tells webhooks and followers that its client has come, or has gone and why, if it was let
    /// in.
    pub(crate) fn tell(
        self,
        shared: &Shared,
        (conn, is_gone): (ConnId, bool),
        name: impl FnOnce() -> HookConnection,
    ) {
        let is_followed = shared.follow.is_on();
        // Whoever followed when it was noted may have gone.
        let was_noted = !shared.ends.borrow().is_empty();
        if shared.hooks.is_none() && !is_followed && !was_noted {
            return;
        }
        let end = || shared.ends.borrow_mut().remove(&conn.index());
        let end = is_gone.then(|| end().unwrap_or_default());
        let Some(client) = self.named(name) else {
            return;
        };
        if is_followed {
            follow::connected(shared, conn, &client, end.as_ref());
        }
        if let Some(hooks) = &shared.hooks {
            hooks.tell(HookEvent::Connection(Box::new(HookConnection {
                end,
                ..client
            })));
        }
    }

    /// Event of its client for webhooks, if it has one that was let in.
    pub(crate) fn event(
        self,
        name: impl FnOnce() -> HookConnection,
        end: Option<(u16, Box<str>)>,
    ) -> Option<HookEvent> {
        let client = HookConnection {
            end,
            ..self.named(name)?
        };
        Some(HookEvent::Connection(Box::new(client)))
    }

    /// Its client, if it has one that was let in.
    fn named(self, name: impl FnOnce() -> HookConnection) -> Option<HookConnection> {
        let protocol = PROTOCOLS[usize::from(self.client?)];
        Some(HookConnection {
            protocol: protocol.into(),
            transport: self.transport.as_str().into(),
            ..name()
        })
    }
}

/// Counts a session elsewhere if it became something else, and tells webhooks if its client has
/// come or gone; `name` names that.
#[inline]
pub(crate) fn recount(
    shared: &Shared,
    (before, after): (Standing, Standing),
    conn: ConnId,
    name: impl FnOnce() -> HookConnection,
) {
    if before != after {
        before.uncount(shared);
        after.count(shared);
        match (before.client, after.client) {
            (None, Some(_)) => after.tell(shared, (conn, false), name),
            (Some(_), None) => before.tell(shared, (conn, true), name),
            _ => {}
        }
    }
}
