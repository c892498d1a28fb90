//! Appwrite's clients as a gateway.

use std::convert::Infallible;
use std::rc::Rc;
use throng_metrics::Gauge;
use throng_session::{
    Claim, Class, Event, Family, Flow, Form, Gateway, Incoming, Opened, Port, Reject, Shard,
    Shared, Transport,
};
use throng_types::ConnId;

use crate::appwrite::Appwrite;
use crate::connection::Connection;
use crate::context::Cx;
use crate::order::Order;
use crate::shared::AppwriteShared;
use crate::{open, publish};

impl Family for Appwrite {
    type Session = Connection;
    type Shared = AppwriteShared;
    type Order = Order;
    type Mail = Infallible;
}

impl Gateway for Appwrite {
    const FORMS: &'static [Form] = &[];

    fn shared(&self) -> Rc<AppwriteShared> {
        self.shared.clone()
    }

    fn claim(_: &AppwriteShared, incoming: &Incoming<'_, '_>, _: &Shared) -> Option<Claim> {
        open::claim(incoming.port, incoming.request.path())
    }

    fn off(port: Port, path: &str) -> Option<&'static str> {
        open::claim(port, path).map(
            |_| "Appwrite Realtime is off; a section [appwrite] in the configuration turns it on",
        )
    }

    fn open(
        claim: &Claim,
        incoming: &Incoming<'_, '_>,
        cx: &mut Cx<'_>,
    ) -> Result<Opened<Connection>, Reject> {
        match claim.endpoint {
            open::EVENTS => publish::publish(incoming, cx),
            _ => open::open(incoming, cx),
        }
    }

    fn event(session: &mut Connection, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => session.bytes(input, cx),
            Event::Timeout => session.timeout(cx),
            Event::Close(why) => session.close(why, cx),
            // It asks nothing of the hub, and a client that lags is ended and misses nothing
            // before.
            Event::Answer { .. }
            | Event::Surveyed(_)
            | Event::Reloaded(_)
            | Event::Wished(_)
            | Event::Publication(_)
            | Event::Drained { .. }
            | Event::Unsubscribed { .. } => {}
        }
        Flow::Stay
    }

    /// Without the identity: Appwrite's users are not users of tokens, and their names are their
    /// project's alone.
    fn class(_: &Connection) -> Class<'_> {
        Class {
            transport: Transport::WebSocket,
            is_client: true,
            identity: None,
        }
    }

    fn order(&mut self, order: Order, shard: &mut impl Shard<Self>) {
        self.carry_out(order, shard);
    }

    fn closed(&mut self, conn: ConnId, session: Connection, _: &mut impl Shard<Self>) {
        session.let_go(&self.shared);
        self.hub.leave(conn.index());
    }

    fn turn(&mut self, frames_max: usize, shard: &mut impl Shard<Self>) -> bool {
        self.take_news(frames_max, shard)
    }

    fn tick(&mut self, shard: &mut impl Shard<Self>) {
        self.tick_hub(shard);
        let connections = self.hub.connections() as u64;
        let counters = &shard.shared().counters;
        counters.set(Gauge::AppwriteConnections, connections);
    }
}
