//! A gateway's place in the list: the gateway, what its sessions share, and its orders while it
//! runs.

use std::rc::Rc;

use throng_engine::Kernel;
use throng_session::{Context, Gateway, Order};
use throng_types::{ConnId, Save, Saved};

use crate::list::{Holds, Host};
use crate::view::View;

/// A gateway in the list.
pub struct Slot<G: Gateway> {
    gateway: G,
    shared: Rc<G::Shared>,
    orders: Vec<Order<G::Order>>,
}

impl<G: Gateway> Slot<G> {
    /// A place for a gateway.
    #[must_use]
    pub fn new(gateway: G) -> Self {
        Self {
            shared: gateway.shared(),
            gateway,
            orders: Vec::new(),
        }
    }

    /// The gateway's options have changed: what its sessions share is taken anew.
    pub fn renew(&mut self) {
        self.shared = self.gateway.shared();
    }

    /// Returns the state that the gateway's sessions share.
    #[must_use]
    pub fn shared(&self) -> &G::Shared {
        &self.shared
    }

    /// The gateway, for what concerns no session.
    pub const fn gateway(&mut self) -> &mut G {
        &mut self.gateway
    }

    /// Returns the gateway, read only.
    #[must_use]
    pub const fn look(&self) -> &G {
        &self.gateway
    }

    /// Runs something of the gateway's for one connection.
    pub fn with_context<L: Holds<G>, R>(
        &mut self,
        cx: &mut Context<'_>,
        orders: &mut Vec<Order<L::Order>>,
        run: impl FnOnce(&mut Context<'_, G::Shared, G::Order>) -> R,
    ) -> R {
        let mut own = Context {
            id: cx.id,
            now: cx.now,
            shared: cx.shared,
            own: &*self.shared,
            out: cx.out,
            actions: cx.actions,
            orders: &mut self.orders,
            forms_from: L::FORMS_FROM,
        };
        let result = run(&mut own);
        self.pass_on::<L>(orders);
        result
    }

    /// Runs the gateway on its shard.
    pub fn on_shard<L: Holds<G>, K: Kernel, R>(
        &mut self,
        host: &mut Host<'_, L, K>,
        run: impl FnOnce(&mut G, &mut View<'_, '_, L, K, G>) -> R,
    ) -> R {
        let mut view = View::new(host, &self.shared, &mut self.orders);
        let result = run(&mut self.gateway, &mut view);
        self.pass_on::<L>(host.orders);
        result
    }

    /// Appends a session for a process that takes over, with what the gateway keeps of it; false if
    /// it cannot move.
    pub fn save(
        slot: &Option<Self>,
        conn: ConnId,
        session: &G::Session,
        out: &mut Vec<u8>,
    ) -> bool {
        slot.as_ref()
            .is_some_and(|slot| G::save(session, out) && slot.gateway.save_kept(conn, session, out))
    }

    /// Reads back a session that [`Slot::save`] appended.
    pub fn load(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<G::Session> {
        let mut session = G::load(from)?;
        self.gateway.load_kept(conn, &mut session, from)?;
        Some(session)
    }

    /// A connection that was saved is taken out.
    pub fn give_up(slot: &mut Option<Self>, conn: ConnId, session: G::Session) {
        if let Some(slot) = slot {
            slot.gateway.give_up(conn, session);
        }
    }

    /// A connection's queue is empty again.
    pub fn drained(slot: &mut Option<Self>, conn: ConnId) {
        if let Some(slot) = slot {
            slot.gateway.drained(conn);
        }
    }

    /// Appends what the gateway keeps of no one connection; nothing if it is not here.
    pub fn save_rest(slot: &Option<Self>, out: &mut Vec<u8>) {
        let mut own = Vec::new();
        if let Some(slot) = slot {
            slot.gateway.save_rest(&mut own);
        }
        own.save(out);
    }

    /// Reads it back. A gateway that is not here any more needs nothing.
    pub fn load_rest(slot: &mut Option<Self>, from: &mut Saved<'_>) -> Option<()> {
        let mut own = Saved::new(from.bytes()?);
        match slot {
            Some(slot) if !own.is_empty() => {
                slot.gateway.load_rest(&mut own)?;
                own.is_empty().then_some(())
            }
            _ => Some(()),
        }
    }

    #[inline]
    fn pass_on<L: Holds<G>>(&mut self, orders: &mut Vec<Order<L::Order>>) {
        if !self.orders.is_empty() {
            self.pass_each_on::<L>(orders);
        }
    }

    fn pass_each_on<L: Holds<G>>(&mut self, orders: &mut Vec<Order<L::Order>>) {
        orders.extend(self.orders.drain(..).map(|order| match order {
            Order::Hub(command) => Order::Hub(command),
            Order::Survey { reply_to, survey } => Order::Survey { reply_to, survey },
            Order::Reload(conn) => Order::Reload(conn),
            Order::Gateway(order) => Order::Gateway(L::wrap_order(order)),
        }));
    }
}
