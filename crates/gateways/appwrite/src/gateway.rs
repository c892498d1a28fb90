//! Appwrite's clients as a gateway.
//!
//! For a process that takes over, a session is saved with the requests of its client; its project,
//! roles and subscriptions come out of the event hub, behind it. A connection stays while its user
//! is being looked up, or while events or messages wait for the answer.
//!
//! The new process has a feed of its own. It leaves out the events that the old one has taken (see
//! `overlap`), and looks every signed-in connection up again, as after a loss of Redis: its feed
//! begins with [`News::Began`](crate::News::Began), which the shard takes when all connections are
//! there. So rights that were revoked in the meantime are found, whatever the feeds carried.

use std::convert::Infallible;
use std::rc::Rc;

use throng_metrics::Gauge;
use throng_session::{
    Claim, Class, Event, Flow, Form, Gateway, Incoming, Opened, Port, Reject, ShardCalls, Shared,
    Transport,
};
use throng_types::{ConnId, Saved};

use crate::Cx;
use crate::connection::Connection;
use crate::open;
use crate::order::Order;
use crate::projects::NONE;
use crate::shard::Appwrite;
use crate::shared::AppwriteShared;

impl Gateway for Appwrite {
    type Session = Connection;
    type Shared = AppwriteShared;
    type Order = Order;
    type Mail = Infallible;

    const FORMS: &'static [Form] = &[];
    const CLIENT_PATHS: &'static str =
        "  GET  /v1/realtime                    Appwrite SDKs, if [appwrite] is configured\n";
    const API_PATHS: &'static [&'static str] = &["/v1/realtime/events"];

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
            open::EVENTS => open::publish(incoming, cx),
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
            | Event::Control(_)
            | Event::Publication(_)
            | Event::Drained { .. }
            | Event::Unsubscribed { .. } => {}
        }
        Flow::Stay
    }

    /// Without the identity: Appwrite's users are not users of tokens, and their names are their
    /// project's alone.
    fn class(session: &Connection) -> Class<'_> {
        Class {
            transport: Transport::WebSocket,
            is_client: true,
            is_connected: session.is_connected(),
            identity: None,
        }
    }

    fn user(session: &Connection) -> &str {
        session.user_id()
    }

    fn moves(session: &Connection) -> bool {
        session.moves()
    }

    fn save_kept(&self, conn: ConnId, _: &Connection, out: &mut Vec<u8>) -> bool {
        self.hub.save_conn(conn.index(), out)
    }

    fn load_kept(
        &mut self,
        conn: ConnId,
        session: &mut Connection,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        let project = self.hub.load_conn(conn.index(), from)?;
        let served = self.shared.projects.take(&project);
        if served.is_none() {
            // It is closed with a word about that.
            self.unserved.push(conn);
        }
        session.ws.state.project = served.unwrap_or(NONE);
        Some(())
    }

    fn give_up(&mut self, conn: ConnId, session: Connection) {
        session.let_go(&self.shared);
        self.hub.leave(conn.index());
    }

    fn save_rest(&self, out: &mut Vec<u8>) {
        self.hub.overlap.save(out);
    }

    fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
        self.hub.overlap.load(from)
    }

    fn order(&mut self, order: Order, shard: &mut impl ShardCalls<Self>) {
        self.carry_out(order, shard);
    }

    fn closed(&mut self, conn: ConnId, session: Connection, _: &mut impl ShardCalls<Self>) {
        session.let_go(&self.shared);
        self.hub.leave(conn.index());
        session.delete_presence(conn, &self.shared);
    }

    fn turn(&mut self, frames_max: usize, shard: &mut impl ShardCalls<Self>) -> bool {
        self.take_news(frames_max, shard)
    }

    fn tick(&mut self, shard: &mut impl ShardCalls<Self>) {
        self.tick_hub(shard);
        let connections = self.hub.connections() as u64;
        let counters = &shard.shared().counters;
        counters.set(Gauge::AppwriteConnections, connections);
    }
}
