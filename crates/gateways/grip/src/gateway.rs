//! GRIP's clients and publishers as a gateway.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use throng_metrics::{Counter, Gauge};
use throng_session::{
    Claim, Class, Event, Flow, Form, Gateway, Incoming, Opened, Patch, Port, Reject, Sender,
    ShardCalls, Shared, Transport,
};
use throng_types::{ConnId, Load, Millis, Now, Publication, Save, Saved};

use crate::event::Session;
use crate::forms::NAMESPACE;
use crate::order::{Mail, Order};
use crate::shard::Grip;
use crate::shared::{GripShared, PortKind};
use crate::zmtp::Zmtp;
use crate::{Cx, forms, open};

impl Gateway for Grip {
    type Session = Session;
    type Shared = GripShared;
    type Order = Order;
    type Mail = Mail;

    const FORMS: &'static [Form] = forms::ALL;
    const CONNECTIONS: Option<Gauge> = Some(Gauge::GripConnections);
    const NAMESPACES: &'static [&'static str] = &[NAMESPACE];

    fn shared(&self) -> Rc<GripShared> {
        self.shared.clone()
    }

    fn claim(own: &GripShared, incoming: &Incoming<'_, '_>, _: &Shared) -> Option<Claim> {
        open::claim(incoming, own)
    }

    fn off(port: Port, path: &str) -> Option<&'static str> {
        (port == Port::Api && open::is_publish_path(path))
            .then_some("GRIP is off: configure [grip]")
    }

    fn open(
        claim: &Claim,
        incoming: &Incoming<'_, '_>,
        cx: &mut Cx<'_>,
    ) -> Result<Opened<Session>, Reject> {
        open::open(claim, incoming, cx)
    }

    fn accept(own: &GripShared, port: u8, _: IpAddr) -> Option<Session> {
        match own.options.ports.get(usize::from(port))? {
            PortKind::Zmq(socket) => Some(Session::Zmtp(Zmtp::new(*socket))),
            PortKind::Stats => Some(Session::Stats(Box::default())),
            PortKind::Http | PortKind::Metrics => None,
        }
    }

    fn event(session: &mut Session, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        session.event(event, cx)
    }

    fn class(session: &Session) -> Class<'_> {
        let transport = match session {
            Session::Held(_) => Transport::Stream,
            _ if session.is_websocket() => Transport::WebSocket,
            _ => Transport::Http,
        };
        Class {
            transport,
            is_client: session.is_client(),
            // A response that is held is a request of a client, and no connection.
            is_connected: transport != Transport::Http,
            identity: None,
        }
    }

    fn encode(
        _: &GripShared,
        form: u8,
        publication: &Publication,
        _: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        forms::encode(form, publication, out);
    }

    fn delivered(
        own: &GripShared,
        session: &Session,
        publications: &[Arc<Publication>],
        is_taken: bool,
        now: Now,
        shared: &Shared,
    ) {
        if let Session::Held(held) = session {
            held.touch(now);
        }
        if let Session::Proxied(_) | Session::Leaving(_) = session {
            // A held response has counted itself, and what comes after a stream is lost.
            return;
        }
        let counters = &shared.counters;
        counters.add(Counter::GripDeliveries, publications.len() as u64);
        if is_taken {
            for publication in publications {
                own.took(publication);
            }
        }
    }

    fn carried(own: &GripShared, publication: &Publication) -> Option<Order> {
        let (receipt, count) = own.carried(publication)?;
        Some(Order::Carried { receipt, count })
    }

    fn moves(session: &Session) -> bool {
        session.moves()
    }

    fn save_kept(&self, conn: ConnId, _: &Session, out: &mut Vec<u8>) -> bool {
        self.shared.peer(conn).save(out);
        self.shared.save_known(conn, out);
        true
    }

    fn load_kept(
        &mut self,
        conn: ConnId,
        session: &mut Session,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        if let Some(IpAddr::V6(peer)) = Load::load(from)? {
            self.shared.keep_peer(conn, peer);
        }
        self.shared.load_known(conn, from)?;
        session.settle(&self.shared);
        Some(())
    }

    fn give_up(&mut self, conn: ConnId, _: Session) {
        self.shared.take_peer(conn);
        self.shared.stats(|book| book.forget(conn));
    }

    fn save_rest(&self, out: &mut Vec<u8>) {
        let counted = (self.connected_ms, self.counted_at);
        (&self.topics, self.shared.topics_told.get(), counted).save(out);
        self.items.sequencer.save(out);
    }

    fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
        let topics_told;
        (
            self.topics,
            topics_told,
            (self.connected_ms, self.counted_at),
        ) = Load::load(from)?;
        self.shared.topics_told.set(topics_told);
        self.items.sequencer.load(from)?;
        // The collector of the new process has yet to get the clients that are here.
        self.shared.stats(|book| book.tell_all());
        Some(())
    }

    fn order(&mut self, order: Order, shard: &mut impl ShardCalls<Self>) {
        self.carry_out(order, shard);
    }

    fn mail(&mut self, from: Sender, mail: Mail, shard: &mut impl ShardCalls<Self>) {
        self.take_mail(from, mail, shard);
    }

    fn drained(&mut self, conn: ConnId) {
        self.exchanges.drained(conn);
    }

    fn closed(&mut self, conn: ConnId, session: Session, shard: &mut impl ShardCalls<Self>) {
        self.connection_closed(conn, session, shard);
    }

    fn turn(&mut self, _: usize, shard: &mut impl ShardCalls<Self>) -> bool {
        self.run_turn(shard)
    }

    fn tick(&mut self, shard: &mut impl ShardCalls<Self>) {
        self.count_minutes(shard);
        self.end_stuck(shard);
    }

    fn deadline(&self) -> Option<Millis> {
        let deadlines = [
            self.items.deadline(),
            self.shared.stats_deadline(),
            self.statistics.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }
}
