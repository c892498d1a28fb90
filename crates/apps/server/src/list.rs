//! The closed list of gateways: which families of clients a server has, put together so that every
//! call is static.
//!
//! [`gateways!`](crate::gateways!) makes the list from one line a gateway. What holds for each of
//! them is written once, in [`Slot`](crate::Slot); the macro only says which slot.
//!
//! Invariants
//! - A session belongs to the front door or to one gateway that is there.
//! - A gateway's orders are in its slot only while it runs; then they join the shard's, in order.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use throng_engine::{Conns, Kernel};
use throng_hub::Hub;
use throng_metrics::Gauge;
use throng_session::{
    Claim, Class, Context, Event, Flow, Gateway, Http, Incoming, Opened, Order, Patch, Reject,
    Sender, Shared,
};
use throng_types::{ConnId, Millis, Now, Publication, Saved, ShardId, Slots};

use crate::outbox::Outboxes;

/// A list of gateways. Implemented by [`gateways!`](crate::gateways!) alone.
pub trait GatewayList: Sized + 'static {
    /// A session of the front door or of any gateway.
    type Session;
    /// An order of any gateway.
    type Order: fmt::Debug;
    /// Mail of any gateway.
    type Mail: Send + 'static;

    /// Namespaces in which clients have no business.
    const NAMESPACES: &'static [&'static [&'static str]];

    /// A session of the front door.
    fn http(http: Http) -> Self::Session;
    /// The front door's part of a session, if it is one.
    fn as_http(session: &mut Self::Session) -> Option<&mut Http>;
    /// Returns the kind of a session.
    fn class(session: &Self::Session) -> Class<'_>;
    /// The gauge of its gateway's connections.
    fn gauge(session: &Self::Session) -> Option<Gauge>;

    /// Options of gateways have changed.
    fn renew(&mut self);

    /// A connection to a gateway's own port; `None` if the port speaks HTTP.
    fn accept(&self, gateway: u8, port: u8, peer: IpAddr) -> Option<Self::Session>;
    /// The highest claim to a request.
    fn claim(&self, incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<(u8, Claim)>;
    /// Returns the hint for a path that belongs to a gateway that is not configured.
    fn off(&self, incoming: &Incoming<'_, '_>) -> Option<&'static str>;
    /// Opens a request at the gateway that claimed it.
    ///
    /// # Errors
    /// A status and a sentence for the client.
    fn open(
        &mut self,
        claim: (u8, &Claim),
        incoming: &Incoming<'_, '_>,
        cx: &mut Context<'_>,
        orders: &mut Vec<Order<Self::Order>>,
    ) -> Result<Opened<Self::Session>, Reject>;
    /// Something happens to a session of a gateway.
    fn event(
        &mut self,
        session: &mut Self::Session,
        event: Event<'_>,
        cx: &mut Context<'_>,
        orders: &mut Vec<Order<Self::Order>>,
    ) -> Flow;

    /// Appends a session for a process that takes over, with what its gateway keeps of it; false if
    /// it cannot move.
    fn save(&self, conn: ConnId, session: &Self::Session, out: &mut Vec<u8>) -> bool;
    /// Reads a session back that another process has saved; `None` also if its gateway is not here.
    fn load(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<Self::Session>;
    /// A connection that was saved is taken out.
    fn give_up(&mut self, conn: ConnId, session: Self::Session);
    /// Appends what gateways keep of no one connection.
    fn save_rest(&self, out: &mut Vec<u8>);
    /// Reads back what `save_rest` appended.
    fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()>;

    /// Appends a publication in the shared wire form with this number.
    fn encode(&self, number: u8, publication: &Publication, out: &mut Vec<u8>);
    /// Appends a publication in a shared wire form that carries differences.
    fn encode_delta(
        &self,
        number: u8,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    );
    /// Appends a publication in a session's personal form.
    fn encode_personal(
        session: &mut Self::Session,
        publication: &Arc<Publication>,
        out: &mut Vec<u8>,
    );
    /// Notes a delivery; see [`Gateway::delivered`].
    fn delivered(
        &self,
        session: &Self::Session,
        publications: &[Arc<Publication>],
        is_taken: bool,
        now: Now,
        shared: &Shared,
    );
    /// Notes a publication; see [`Gateway::carried`].
    fn carried(&self, publication: &Publication, orders: &mut Vec<Order<Self::Order>>);

    /// Carries out a gateway's order.
    fn order<K: Kernel>(&mut self, order: Self::Order, host: &mut Host<'_, Self, K>);
    /// Hands mail to its gateway.
    fn mail<K: Kernel>(&mut self, from: Sender, mail: Self::Mail, host: &mut Host<'_, Self, K>);
    /// A session's queue is empty again.
    fn drained(&mut self, session: &Self::Session, conn: ConnId);
    /// A connection has gone.
    fn closed<K: Kernel>(
        &mut self,
        conn: ConnId,
        session: Self::Session,
        host: &mut Host<'_, Self, K>,
    );
    /// Once a turn, with the frames that may be made; true if more waits.
    fn turn<K: Kernel>(&mut self, frames_max: usize, host: &mut Host<'_, Self, K>) -> bool;
    /// Runs once a second.
    fn tick<K: Kernel>(&mut self, host: &mut Host<'_, Self, K>);
    /// When [`GatewayList::turn`] must run even if nothing happens.
    fn deadline(&self) -> Option<Millis>;
}

/// List that has this gateway.
pub trait Holds<G: Gateway>: GatewayList {
    /// The gateway's place in the list.
    const NUMBER: u8;
    /// The number of its first wire form.
    const FORMS_FROM: u8;
    /// The session as one of the gateway's, if it is one.
    fn session(session: &mut Self::Session) -> Option<&mut G::Session>;
    /// A gateway's order as one of the list's.
    fn wrap_order(order: G::Order) -> Self::Order;
    /// A gateway's mail as the list's.
    fn wrap_mail(mail: G::Mail) -> Self::Mail;
    /// The list's mail as the gateway's, if it is; else it is given back.
    ///
    /// # Errors
    /// The mail of another gateway.
    fn unwrap_mail(mail: Self::Mail) -> Result<G::Mail, Self::Mail>;
}

/// The shard's parts, for the length of one call to a gateway.
pub struct Host<'a, L: GatewayList, K: Kernel> {
    pub(crate) shard: ShardId,
    pub(crate) now: Now,
    pub(crate) conns: &'a mut Conns<L::Session, K>,
    pub(crate) hub: &'a mut Hub,
    pub(crate) shared: &'a Shared,
    /// Addresses of connections, by their tags.
    pub(crate) addresses: &'a Slots<IpAddr>,
    pub(crate) orders: &'a mut Vec<Order<L::Order>>,
    pub(crate) outboxes: &'a mut Outboxes<L::Mail>,
    /// Connections that take requests again, and bytes that they have already.
    pub(crate) resumed: &'a mut Vec<(ConnId, Vec<u8>)>,
}
