//! A shard as its gateways see it: the piece between [`Shard`] and the engine, the hub and the
//! queues to other shards.

use std::rc::Rc;

use throng_broker::{Draft, Published, Refusal};
use throng_engine::{Delivery, Kernel, Pieces};
use throng_hub::Hub;
use throng_metrics::Counter;
use throng_session::{Context, Flow, Gateway, Http, Order, Own, Resume, Shard, Shared};
use throng_types::{Actions, ConnId, Frame, Now, Overflow, ShardId};

use crate::list::{GatewayList, Holds, Host};
use crate::standing::{recount, standing};
use crate::tags::payer;

/// One gateway's view of its shard.
pub struct View<'v, 'h, L: GatewayList, K: Kernel, G: Gateway> {
    host: &'v mut Host<'h, L, K>,
    own: Rc<G::Shared>,
    orders: &'v mut Vec<Order<G::Order>>,
}

impl<'v, 'h, L: GatewayList, K: Kernel, G: Gateway> View<'v, 'h, L, K, G> {
    pub(crate) fn new(
        host: &'v mut Host<'h, L, K>,
        own: &Rc<G::Shared>,
        orders: &'v mut Vec<Order<G::Order>>,
    ) -> Self {
        Self {
            host,
            own: own.clone(),
            orders,
        }
    }
}

impl<L: Holds<G>, K: Kernel, G: Gateway> Shard<G> for View<'_, '_, L, K, G> {
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
        self.host.hub.publish_here(draft, self.host.now)
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
        let (shared, own, orders) = (self.host.shared, &*self.own, &mut *self.orders);
        let addresses = self.host.addresses;
        let mut is_own = false;
        let mut resume: Option<Resume> = None;
        shared.notices.begin(conn, self.host.now);
        self.host.conns.with(conn, |session, effects| {
            let before = standing::<L>(session);
            let Some(inner) = L::session(session) else {
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
                forms_from: L::FORMS_FROM,
            };
            if let Flow::Http(again) = act(inner, &mut cx) {
                *session = L::http(Http::again(&again));
                resume = Some(again);
            }
            recount(shared, before, standing::<L>(session));
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
            forms_from: L::FORMS_FROM,
        };
        act(session, &mut cx);
        // Another connection may have the place in the hub that it had.
        orders.retain(|order| matches!(order, Order::Gateway(_)));
        self.orders.append(&mut orders);
    }

    fn take_orders(&mut self) -> Vec<G::Order> {
        let own = self
            .orders
            .extract_if(.., |order| matches!(order, Order::Gateway(_)));
        own.filter_map(|order| match order {
            Order::Gateway(order) => Some(order),
            Order::Hub(_) | Order::Survey { .. } | Order::Reload(_) => None,
        })
        .collect()
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
    }

    fn has_room(&self, to: ShardId) -> bool {
        self.host.outboxes.has_room(to)
    }

    fn mail(&mut self, to: ShardId, mail: G::Mail) {
        let bytes = G::mail_bytes(&mail);
        self.host
            .outboxes
            .push_gateway(to, bytes, L::wrap_mail(mail));
    }
}
