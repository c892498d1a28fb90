//! The closed list of gateways: which families of clients the server has, put together so that
//! every call is static.
//!
//! A gateway is one line in the list below. A method of [`Gateway`] is one function of [`Gateways`]
//! here, which finds its gateway by `dispatch!` or asks all of them by `each!`.
//!
//! Invariants
//! - A session belongs to the front door or to one gateway that is there.
//! - The shard's orders name a gateway's turn, and its slot has that order first.

mod appwrite;
mod appwrite_feed;
mod grip;
mod origin;
mod plan;
mod proxy;
mod pusher;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use throng_broker::{ChannelOptions, HookConnection};
use throng_gateway_appwrite::Appwrite;
use throng_gateway_centrifuge::Centrifuge;
use throng_gateway_grip::Grip;
use throng_gateway_plain::Plain;
use throng_gateway_pusher::Pusher;
use throng_hub::Format;
use throng_metrics::Gauge;
use throng_session::{
    Claim, Class, Context, Event, Flow, Gateway, Http, Incoming, Opened, Order, Patch, Reject,
    Router, Shared,
};
use throng_types::{ConnId, Load, Millis, Now, Publication, Save, Saved};

pub(crate) use grip::{deliver, metrics as pushpin_metrics};
pub use plan::check_routes;
pub(crate) use plan::{GatewaysPart, GatewaysPlan, GatewaysRenewer};
pub(crate) use pusher::{app_keys, app_prefixes};
pub(crate) use view::Host;

/// Makes the list: its struct, the enums over its gateways, and the two macros by which a call
/// finds its gateway. In both of these `G` is that gateway's type.
macro_rules! gateways {
    ($d:tt $($field:ident: $Gateway:ident),+ $(,)?) => {
        /// Gateways of one shard; `None` for those that are not configured.
        #[derive(Default)]
        pub struct Gateways { $(pub $field: Option<Slot<$Gateway>>),+ }

        /// A session of the front door or of any gateway.
        pub enum Session {
            Http(Http),
            $($Gateway(<$Gateway as Gateway>::Session)),+
        }

        pub enum GatewayMail { $($Gateway(<$Gateway as Gateway>::Mail)),+ }

        #[repr(u8)]
        enum Place { $($Gateway),+ }

        pub(crate) const PROTOCOLS: &[&str] = &[$(stringify!($field)),+];
        const FORMS: &[usize] = &[$(<$Gateway as Gateway>::FORMS.len()),+];
        const NAMESPACES: &[&[&str]] = &[$(<$Gateway as Gateway>::NAMESPACES),+];
        const CLIENT_PATHS: &[&str] = &[$(<$Gateway as Gateway>::CLIENT_PATHS),+];
        const API_PATHS: &[&[&str]] = &[$(<$Gateway as Gateway>::API_PATHS),+];

        $(impl Listed for $Gateway {
            const PLACE: u8 = Place::$Gateway as u8;

            fn slot(list: &Gateways) -> Option<&Slot<Self>> {
                list.$field.as_ref()
            }

            fn slot_mut(list: &mut Gateways) -> Option<&mut Slot<Self>> {
                list.$field.as_mut()
            }

            fn wrap_session(session: Self::Session) -> Session {
                Session::$Gateway(session)
            }

            fn session(session: &mut Session) -> Option<&mut Self::Session> {
                match session {
                    Session::$Gateway(session) => Some(session),
                    _ => None,
                }
            }

            fn wrap_mail(mail: Self::Mail) -> GatewayMail {
                GatewayMail::$Gateway(mail)
            }
        })+

        /// Matches a value of one of the enums above: runs `$run` for its gateway, with what the
        /// variant holds; `$other` are further arms.
        macro_rules! dispatch {
            ($d value:expr, $d Enum:ident($d it:pat) => $d run:expr $d (, $d ($d other:tt)+)?) => {
                match $d value {
                    $($d Enum::$Gateway($d it) => {
                        type G = $Gateway;
                        $d run
                    })+
                    $d ($d ($d other)+)?
                }
            };
        }

        /// Runs a statement for each gateway, in the order of the list.
        macro_rules! each {
            ($d run:stmt) => {
                $({
                    type G = $Gateway;
                    $d run
                })+
            };
        }
    };
}

gateways! {$
    plain: Plain,
    centrifuge: Centrifuge,
    appwrite: Appwrite,
    grip: Grip,
    pusher: Pusher,
}

// Behind the macros, which it uses.
mod view;

#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPort {
    pub(crate) gateway: u8,
    pub(crate) port: u8,
    pub(crate) address: SocketAddr,
    pub(crate) option: &'static str,
}

/// Sources from which gateways hear events of other servers, in a process that hands over.
pub(crate) trait Sources: Send + Sync {
    /// Called before the new process begins, which hears events, too.
    fn share(&self);

    /// Called once the new process gets everything: takes what came before, and nothing more until
    /// [`Sources::go_on`]. Error: a sentence, if that takes too long.
    fn stand_still(&self) -> Result<(), String>;

    /// The hand-over is over; the new process `has_taken_over`, or it failed.
    fn go_on(&self, has_taken_over: bool);
}

/// Number of wire forms of the gateways before a place in the list.
const fn forms_before(place: usize) -> u8 {
    let (mut sum, mut at) = (0, 0);
    while at < place {
        sum += FORMS[at];
        at += 1;
    }
    sum as u8
}

const _: () = assert!(
    forms_before(FORMS.len()) <= Format::COUNT,
    "too many wire forms"
);

pub trait Listed: Gateway {
    const PLACE: u8;
    const FORMS_FROM: u8 = forms_before(Self::PLACE as usize);

    fn slot(list: &Gateways) -> Option<&Slot<Self>>;
    fn slot_mut(list: &mut Gateways) -> Option<&mut Slot<Self>>;
    fn wrap_session(session: Self::Session) -> Session;
    fn session(session: &mut Session) -> Option<&mut Self::Session>;
    fn wrap_mail(mail: Self::Mail) -> GatewayMail;

    /// Number within the gateway of a wire form, if it is one of its own.
    fn form(format: Format) -> Option<u8> {
        let form = format.number().checked_sub(Self::FORMS_FROM)?;
        (usize::from(form) < Self::FORMS.len()).then_some(form)
    }
}

/// A gateway, the state that its sessions share, and its orders.
pub struct Slot<G: Gateway> {
    gateway: G,
    shared: Rc<G::Shared>,
    /// Orders that wait for their turn: an [`Order::Gateway`] of the shard's orders for each.
    /// Bound: the shard's orders.
    orders: VecDeque<G::Order>,
}

impl<G: Listed> Slot<G> {
    pub fn new(gateway: G) -> Self {
        Self {
            shared: gateway.shared(),
            gateway,
            orders: VecDeque::new(),
        }
    }

    pub fn next_order(&mut self) -> Option<G::Order> {
        self.orders.pop_front()
    }

    #[inline]
    fn context<'a>(&'a mut self, cx: &'a mut Context<'_>) -> Context<'a, G::Shared, G::Order> {
        Context {
            id: cx.id,
            now: cx.now,
            shared: cx.shared,
            own: &*self.shared,
            out: cx.out,
            actions: cx.actions,
            orders: cx.orders,
            own_orders: &mut self.orders,
            place: G::PLACE,
            forms_from: G::FORMS_FROM,
        }
    }
}

impl Router for Gateways {
    type Session = Session;

    fn claim(&self, incoming: &Incoming<'_, '_>, shared: &Shared) -> Option<(u8, Claim)> {
        let mut best: Option<(u8, Claim)> = None;
        each! {
            if let Some(slot) = G::slot(self)
                && let Some(claim) = G::claim(&slot.shared, incoming, shared)
                && best.as_ref().is_none_or(|(_, best)| best.rank < claim.rank)
            {
                best = Some((G::PLACE, claim));
            }
        }
        best
    }

    fn off(&self, incoming: &Incoming<'_, '_>) -> Option<&'static str> {
        each! {
            if let Some(hint) = G::off(incoming.port, incoming.request.path()) {
                return Some(hint);
            }
        }
        None
    }

    fn client_paths(&self) -> String {
        CLIENT_PATHS.concat()
    }

    fn api_paths(&self) -> Vec<&'static str> {
        API_PATHS.concat()
    }

    #[inline]
    fn open(
        &mut self,
        (place, claim): (u8, &Claim),
        incoming: &Incoming<'_, '_>,
        cx: &mut Context<'_>,
    ) -> Result<Opened<Session>, Reject> {
        each! {
            if place == G::PLACE
                && let Some(slot) = G::slot_mut(self)
            {
                let opened = G::open(claim, incoming, &mut slot.context(cx))?;
                return Ok(opened.map(G::wrap_session));
            }
        }
        Err(Reject::new(404, "this path is no longer served"))
    }
}

impl Gateways {
    /// Namespaces in which clients have no business.
    pub(crate) fn namespaces() -> Arc<[&'static str]> {
        NAMESPACES.concat().into()
    }

    /// Options of the channels in a gateway's namespace.
    pub(crate) fn channel_options(namespace: &str) -> ChannelOptions {
        each! {
            if G::NAMESPACES.contains(&namespace) {
                return G::channel_options(namespace);
            }
        }
        ChannelOptions::default()
    }

    /// Takes what sessions share anew: options of gateways have changed.
    pub(crate) fn renew(&mut self) {
        each! {
            if let Some(slot) = G::slot_mut(self) {
                slot.shared = slot.gateway.shared();
            }
        }
    }

    /// Makes the session of a connection to a gateway's own port; `None` if the port speaks HTTP.
    pub fn accept(&self, place: u8, port: u8, peer: IpAddr) -> Option<Session> {
        each! {
            if place == G::PLACE {
                return G::accept(&G::slot(self)?.shared, port, peer).map(G::wrap_session);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn event(
        &mut self,
        session: &mut Session,
        event: Event<'_>,
        cx: &mut Context<'_>,
    ) -> Flow {
        dispatch!(session, Session(it) => match G::slot_mut(self) {
            Some(slot) => G::event(it, event, &mut slot.context(cx)),
            None => Flow::Stay,
        }, Session::Http(_) => Flow::Stay)
    }

    /// Names the client of a session for webhooks; one of the front door by its connection alone.
    pub(crate) fn client(
        &self,
        conn: ConnId,
        session: &Session,
        shared: &Shared,
    ) -> HookConnection {
        let known = dispatch!(session, Session(it) => {
            G::slot(self).map(|slot| G::client(&slot.shared, it, conn, shared))
        }, Session::Http(_) => None);
        known.unwrap_or_else(|| shared.client(conn, ""))
    }

    /// Appends a session for a process that takes over, with what its gateway keeps of it; false if
    /// it cannot move.
    pub(crate) fn save(&self, conn: ConnId, session: &Session, out: &mut Vec<u8>) -> bool {
        dispatch!(session, Session(it) => {
            out.push(1 + G::PLACE);
            let slot = G::slot(self).filter(|_| G::moves(it));
            slot.is_some_and(|slot| {
                it.save(out);
                slot.gateway.save_kept(conn, it, out)
            })
        }, Session::Http(http) => {
            out.push(0);
            http.save(out);
            http.moves()
        })
    }

    /// Reads a session back that another process has saved; `None` also if its gateway is not here.
    pub(crate) fn load(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<Session> {
        let number = u8::load(from)?;
        each! {
            if number == 1 + G::PLACE {
                let slot = G::slot_mut(self)?;
                let mut session = Load::load(from)?;
                slot.gateway.load_kept(conn, &mut session, from)?;
                return Some(G::wrap_session(session));
            }
        }
        { number == 0 }.then_some(())?;
        Http::load(from).map(Session::Http)
    }

    /// Takes a connection out that was saved.
    pub(crate) fn give_up(&mut self, conn: ConnId, session: Session) {
        dispatch!(session, Session(it) => if let Some(slot) = G::slot_mut(self) {
            slot.gateway.give_up(conn, it);
        }, Session::Http(_) => {});
    }

    /// Appends what gateways keep of no one connection.
    pub(crate) fn save_rest(&self, out: &mut Vec<u8>) {
        each! {{
            let mut own = Vec::new();
            if let Some(slot) = G::slot(self) {
                slot.gateway.save_rest(&mut own);
            }
            own.save(out);
        }}
    }

    /// Reads back what [`Self::save_rest`] appended. A gateway that is not here any more needs
    /// nothing.
    pub(crate) fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
        each! {{
            let mut own = Saved::new(from.bytes()?);
            if let Some(slot) = G::slot_mut(self)
                && !own.is_empty()
            {
                slot.gateway.load_rest(&mut own)?;
                own.is_empty().then_some(())?;
            }
        }}
        Some(())
    }

    /// Appends a publication in a shared wire form; see [`Gateway::encode`].
    #[expect(
        clippy::needless_return,
        reason = "the last gateway alone does not need it"
    )]
    pub(crate) fn encode(
        &self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        each! {
            if let (Some(form), Some(slot)) = (G::form(format), G::slot(self)) {
                return G::encode(&slot.shared, form, publication, patch, out);
            }
        }
    }

    pub(crate) fn delivered(
        &self,
        session: &Session,
        publications: &[Arc<Publication>],
        is_taken: bool,
        now: Now,
        shared: &Shared,
    ) {
        dispatch!(session, Session(it) => if let Some(slot) = G::slot(self) {
            G::delivered(&slot.shared, it, publications, is_taken, now, shared);
        }, Session::Http(_) => {});
    }

    /// Notes a publication that all subscribers have got; see [`Gateway::carried`].
    pub(crate) fn carried(&mut self, publication: &Publication, orders: &mut Vec<Order>) {
        each! {
            if let Some(slot) = G::slot_mut(self)
                && let Some(order) = G::carried(&slot.shared, publication)
            {
                slot.orders.push_back(order);
                orders.push(Order::Gateway(G::PLACE));
            }
        }
    }

    pub(crate) fn drained(&mut self, session: &Session, conn: ConnId) {
        dispatch!(session, Session(_) => if let Some(slot) = G::slot_mut(self) {
            slot.gateway.drained(conn);
        }, Session::Http(_) => {});
    }

    /// When [`Self::turn`] must run even if nothing happens.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let mut first = None;
        each! {
            if let Some(at) = G::slot(self).and_then(|slot| slot.gateway.deadline()) {
                first = Some(first.map_or(at, |first: Millis| first.min(at)));
            }
        }
        first
    }
}

impl Session {
    #[inline]
    pub fn class(&self) -> Class<'_> {
        dispatch!(self, Self(it) => G::class(it), Self::Http(http) => http.class())
    }

    /// User of its client, empty if it has none.
    pub(crate) fn user(&self) -> &str {
        dispatch!(self, Self(it) => G::user(it), Self::Http(_) => "")
    }

    /// Place of its gateway in the list; `None` at the front door.
    #[inline]
    pub(crate) fn place(&self) -> Option<u8> {
        dispatch!(self, Self(_) => Some(G::PLACE), Self::Http(_) => None)
    }

    #[inline]
    pub(crate) fn gauge(&self) -> Option<Gauge> {
        dispatch!(self, Self(_) => G::CONNECTIONS, Self::Http(_) => None)
    }

    pub(crate) fn encode_personal(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        dispatch!(
            self,
            Self(it) => G::encode_personal(it, publication, out),
            Self::Http(_) => {}
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configured namespace of that name would be shut without a word.
    #[test]
    fn nobody_configures_a_namespace_of_a_gateway() {
        for name in &*Gateways::namespaces() {
            let text = format!("[[namespace]]\nname = \"{name}\"\n");
            let file = Some(throng_config::ConfigFile {
                name: "throng.toml".to_owned(),
                text,
            });
            let sources = throng_config::Sources {
                file,
                ..throng_config::Sources::default()
            };
            assert!(throng_config::Config::load(&sources).is_err(), "{name}");
        }
    }

    #[test]
    fn a_session_stays_small() {
        // Every idle connection pays this.
        assert!(size_of::<Session>() <= 64, "{}", size_of::<Session>());
    }
}
