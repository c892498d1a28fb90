//! A shard as its gateways see it: the piece between [`ShardCalls`] and the engine, the hub and the
//! queues to other shards.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;

use throng_broker::{Draft, Published, Refusal};
use throng_engine::{Conns, Delivery, Kernel, Pieces};
use throng_hub::Hub;
use throng_metrics::Counter;
use throng_remote::Nodes;
use throng_session::{
    Context, Flow, Gateway, Http, Order, Own, Resume, Sender, ShardCalls, Shared, Survey,
    SurveyReply,
};
use throng_types::{Actions, ConnId, Frame, Now, Overflow, ShardId, Slots};

use super::{
    Appwrite, Centrifuge, GatewayMail, Gateways, Grip, Listed, Plain, Pusher, Session, Slot,
};
use crate::follow;
use crate::outbox::Outboxes;
use crate::peers::payer;
use crate::sessions::{recount, standing};

/// The shard's parts, for the length of one call to a gateway.
pub(crate) struct Host<'a, K: Kernel> {
    pub(crate) shard: ShardId,
    pub(crate) now: Now,
    pub(crate) conns: &'a mut Conns<Session, K>,
    pub(crate) hub: &'a mut Hub,
    pub(crate) shared: &'a Shared,
    /// Addresses of connections, by their tags.
    pub(crate) addresses: &'a Slots<IpAddr>,
    pub(crate) orders: &'a mut Vec<Order>,
    pub(crate) outboxes: &'a mut Outboxes,
    pub(crate) nodes: Option<&'a Nodes>,
    /// Connections that take requests again, and bytes that they have already.
    pub(crate) resumed: &'a mut Vec<(ConnId, Vec<u8>)>,
}

/// One gateway's view of its shard.
pub(crate) struct View<'v, 'h, K: Kernel, G: Listed> {
    host: &'v mut Host<'h, K>,
    own: Rc<G::Shared>,
    /// Bound: the shard's orders.
    own_orders: &'v mut VecDeque<G::Order>,
    /// Lengths of the shard's orders and of the gateway's when the call began.
    before: (usize, usize),
}

impl<'v, 'h, K: Kernel, G: Listed> View<'v, 'h, K, G> {
    fn new(
        host: &'v mut Host<'h, K>,
        own: &Rc<G::Shared>,
        own_orders: &'v mut VecDeque<G::Order>,
    ) -> Self {
        Self {
            before: (host.orders.len(), own_orders.len()),
            host,
            own: own.clone(),
            own_orders,
        }
    }
}

impl<K: Kernel, G: Listed> ShardCalls<G> for View<'_, '_, K, G> {
    fn this(&self) -> ShardId {
        self.host.shard
    }

    fn shards(&self) -> u8 {
        self.host.outboxes.shards()
    }

    fn now(&self) -> Now {
        self.host.now
    }

    fn shared(&self) -> &Shared {
        self.host.shared
    }

    fn hub(&self) -> &Hub {
        self.host.hub
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        if self.host.shared.follow.has_channels() {
            follow::published(self.host.shared, None, None, &draft);
        }
        self.host.hub.publish_here(draft, self.host.now)
    }

    fn survey(&mut self, survey: Survey) {
        let place = G::PLACE;
        self.host
            .orders
            .push(Order::GatewaySurvey { place, survey });
    }

    fn tell_nodes(&mut self, words: impl FnOnce(&str) -> Vec<Vec<u8>>) {
        if let Some(nodes) = self.host.nodes {
            let own = self.shared().node.name();
            words(&own)
                .iter()
                .for_each(|word| nodes.tell_everybody(word));
        }
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.host.conns.session(conn).is_some()
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        self.host.conns.id(index)
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.host.conns.sessions().map(|(conn, _)| conn).collect()
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.host.conns.queued_bytes(conn)
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>) -> Flow,
    ) -> bool {
        let (shared, own, orders) = (self.host.shared, &*self.own, &mut *self.host.orders);
        let (own_orders, addresses) = (&mut *self.own_orders, self.host.addresses);
        let mut is_own = false;
        let mut resume: Option<Resume> = None;
        shared.notices.begin(conn, self.host.now);
        self.host.conns.with(conn, |session, effects| {
            let before = standing(session, effects.tag);
            let Some(inner) = G::session(session) else {
                return;
            };
            is_own = true;
            // What it leads to is this client's work, whoever was served before.
            let payer = payer(conn, effects.tag, addresses, shared);
            shared.meter.pays(payer);
            let mut cx = Context {
                id: conn,
                now: effects.now,
                shared,
                own,
                out: effects.out,
                actions: &mut effects.actions,
                orders,
                own_orders,
                place: G::PLACE,
                forms_from: G::FORMS_FROM,
            };
            if let Flow::Http(again) = act(inner, &mut cx) {
                *session = Session::Http(Http::again(&again));
                resume = Some(again);
            }
            let after = standing(session, effects.tag);
            recount(shared, (before, after), conn, || {
                match G::session(session) {
                    Some(inner) => G::client(own, inner, conn, shared),
                    None => shared.client(conn, ""),
                }
            });
        });
        if let Some(resume) = resume.filter(|resume| !resume.raw.is_empty()) {
            self.host.resumed.push((conn, resume.raw));
        }
        is_own
    }

    fn with_gone(
        &mut self,
        conn: ConnId,
        session: &mut G::Session,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>),
    ) {
        let mut orders = Vec::new();
        let mut cx = Context {
            id: conn,
            now: self.host.now,
            shared: self.host.shared,
            own: &*self.own,
            out: &mut Vec::new(),
            actions: &mut Actions::default(),
            orders: &mut orders,
            own_orders: self.own_orders,
            place: G::PLACE,
            forms_from: G::FORMS_FROM,
        };
        act(session, &mut cx);
        // Another connection may have the place in the hub that it had.
        orders.retain(|order| matches!(order, Order::Gateway(_)));
        self.host.orders.append(&mut orders);
    }

    fn take_orders(&mut self) -> Vec<G::Order> {
        let (from, own_from) = self.before;
        let is_own =
            |order: &mut Order| matches!(order, Order::Gateway(place) if *place == G::PLACE);
        self.host.orders.extract_if(from.., is_own).for_each(drop);
        self.own_orders.split_off(own_from).into()
    }

    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame) {
        let counters = &self.host.shared.counters;
        counters.count(Counter::Deliveries);
        counters.add(Counter::DeliveryBytes, (head.len() + tail.len()) as u64);
        let frames = [Frame::new(head), tail.clone()];
        let delivery = Delivery {
            frames: Pieces::Parts(&frames),
            // Never looked at: the parts are gathered.
            joined: tail,
            key: 0,
            overflow: Overflow::Close,
            gather: true,
        };
        self.host.conns.deliver(conn.index(), &delivery);
        if self.host.shared.follow.has_users() {
            let (shared, session) = (self.host.shared, self.host.conns.session(conn));
            follow::got_apart(shared, conn, session, head.len() + tail.len());
        }
    }

    fn has_room(&self, to: ShardId) -> bool {
        self.host.outboxes.has_room(to)
    }

    fn mail(&mut self, to: ShardId, mail: G::Mail) {
        let bytes = G::mail_bytes(&mail);
        self.host
            .outboxes
            .push_gateway(to, bytes, G::wrap_mail(mail));
    }
}

impl<G: Listed> Slot<G> {
    /// Runs a method of the gateway on its shard.
    #[inline]
    fn on_shard<K: Kernel, R>(
        &mut self,
        host: &mut Host<'_, K>,
        run: impl FnOnce(&mut G, &mut View<'_, '_, K, G>) -> R,
    ) -> R {
        let mut view = View::new(host, &self.shared, &mut self.orders);
        run(&mut self.gateway, &mut view)
    }
}

impl Gateways {
    pub(crate) fn order<K: Kernel>(&mut self, place: u8, host: &mut Host<'_, K>) {
        each! {
            if place == G::PLACE
                && let Some(slot) = G::slot_mut(self)
                && let Some(order) = slot.next_order()
            {
                slot.on_shard(host, |gateway, shard| gateway.order(order, shard));
            }
        }
    }

    #[expect(
        clippy::needless_return,
        reason = "the last gateway alone does not need it"
    )]
    pub(crate) fn surveyed<K: Kernel>(
        &mut self,
        place: u8,
        replies: Vec<SurveyReply>,
        host: &mut Host<'_, K>,
    ) {
        each! {
            if place == G::PLACE
                && let Some(slot) = G::slot_mut(self)
            {
                return slot.on_shard(host, |gateway, shard| gateway.surveyed(replies, shard));
            }
        }
    }

    pub(crate) fn heard<K: Kernel>(&mut self, word: &[u8], host: &mut Host<'_, K>) {
        each! {
            if let Some(slot) = G::slot_mut(self) {
                slot.on_shard(host, |gateway, shard| gateway.heard(word, shard));
            }
        }
    }

    pub(crate) fn mail<K: Kernel>(
        &mut self,
        from: Sender,
        mail: GatewayMail,
        host: &mut Host<'_, K>,
    ) {
        dispatch!(mail, GatewayMail(mail) => if let Some(slot) = G::slot_mut(self) {
            slot.on_shard(host, |gateway, shard| gateway.mail(from, mail, shard));
        });
    }

    pub(crate) fn closed<K: Kernel>(
        &mut self,
        conn: ConnId,
        session: Session,
        host: &mut Host<'_, K>,
    ) {
        dispatch!(session, Session(it) => if let Some(slot) = G::slot_mut(self) {
            slot.on_shard(host, |gateway, shard| gateway.closed(conn, it, shard));
        }, Session::Http(_) => {});
    }

    /// Runs once a turn, with the number of frames that may be made; true if more waits.
    pub(crate) fn turn<K: Kernel>(&mut self, frames_max: usize, host: &mut Host<'_, K>) -> bool {
        let mut more = false;
        each! {
            if let Some(slot) = G::slot_mut(self) {
                more |= slot.on_shard(host, |gateway, shard| gateway.turn(frames_max, shard));
            }
        }
        more
    }

    pub(crate) fn tick<K: Kernel>(&mut self, host: &mut Host<'_, K>) {
        each! {
            if let Some(slot) = G::slot_mut(self) {
                slot.on_shard(host, |gateway, shard| gateway.tick(shard));
            }
        }
    }
}
