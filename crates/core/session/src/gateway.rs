//! The protocol seam: the interface between a family of clients and the rest of the server.
//!
//! A gateway owns its sessions, the requests that it claims, its orders, its state on a shard and
//! its part of the server API. Gateways know the front door, the hub's commands and the wire
//! formats, and never each other. The server puts them together in one closed list (in
//! `apps/server`), so every call below is static.
//!
//! Invariants
//! - An event appends bytes and orders and performs nothing; orders are carried out after it.
//! - Fan-out looks at a form's kind, never at a gateway's name.

use std::fmt;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use throng_broker::{ChannelOptions, Draft, HookConnection, Published, Refusal};
use throng_hub::{Answer, Hub, Patch};
use throng_metrics::Gauge;
use throng_types::{
    ChannelName, ConnId, Frame, Load, Millis, Now, Publication, Save, Saved, ShardId, Unsubscribe,
};

use crate::close::Port;
use crate::http::{Incoming, Later, Reject};
use crate::route::Claim;
use crate::{
    Allowance, CloseReason, Context, ControlCommand, Form, Identity, Reloaded, Shared, Survey,
    SurveyReply, Transport,
};

/// Input to a session: bytes, a deadline, or a reply from another part of the server.
pub enum Event<'a> {
    /// Bytes arrived; all of them are the session's to take.
    Bytes(&'a mut [u8]),
    /// The deadline has passed; it is unset.
    Timeout,
    /// The hub answers; `token` is the one that the command carried.
    Answer { token: u32, answer: Answer },
    /// A backend or another node requests a change of the connection.
    Control(&'a ControlCommand),
    /// Every shard has answered a [`crate::Survey`].
    Surveyed(Vec<SurveyReply>),
    /// The configuration was read again, as [`crate::Order::Reload`] asked, or could not be.
    Reloaded(&'a Reloaded),
    /// A publication that the session has to look at itself, because its form is
    /// [`crate::FormKind::Shown`], or [`crate::FormKind::Noted`] without shared bytes.
    Publication(&'a Arc<Publication>),
    /// The queue was full and is empty again; deliveries were dropped in between. The session goes
    /// on, and tells its client of the gap if the protocol has words for it.
    Drained {
        /// Deliveries that this connection will never get.
        dropped: u32,
    },
    /// The server ended one of its subscriptions.
    Unsubscribed {
        channel: &'a ChannelName,
        why: Unsubscribe,
    },
    /// The server ends the connection: write the protocol's own farewell.
    Close(&'a CloseReason),
}

/// Result of opening a claimed request.
pub enum Opened<C> {
    /// The request was answered; the connection may serve another one if `keep_alive`.
    Answered { keep_alive: bool },
    /// The request was carried out, and its answer comes later; the connection goes on taking
    /// requests.
    Later(Later),
    /// The connection is the gateway's from now on.
    Session(C),
}

impl<C> Opened<C> {
    pub fn map<D>(self, make: impl FnOnce(C) -> D) -> Opened<D> {
        match self {
            Self::Answered { keep_alive } => Opened::Answered { keep_alive },
            Self::Later(later) => Opened::Later(later),
            Self::Session(session) => Opened::Session(make(session)),
        }
    }
}

/// Facts about a session that the server needs for gauges and lists.
#[derive(Clone, Copy, Debug)]
pub struct Class<'a> {
    pub transport: Transport,
    /// Whether it belongs to a client, rather than to a publisher or an API call.
    pub is_client: bool,
    /// Whether that client has been let in, and is not being closed.
    pub is_connected: bool,
    pub identity: Option<&'a Identity>,
}

/// Where mail comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// This gateway on another shard.
    Shard(ShardId),
    Driver,
}

/// State of a connection after an event.
#[must_use]
pub enum Flow {
    /// The session continues as it is.
    Stay,
    /// Its exchange is over: the connection takes HTTP requests again.
    Http(Resume),
}

/// A connection that takes HTTP requests again, and the bytes that it has already.
pub struct Resume {
    pub(crate) port: Port,
    pub(crate) peer: IpAddr,
    pub(crate) allowance: Option<Allowance>,
    /// To be fed to the connection at once.
    pub raw: Vec<u8>,
}

/// A family of clients. One value per shard, owned by the shard's thread.
#[expect(
    unused_variables,
    reason = "most of what is not overridden uses nothing"
)]
pub trait Gateway: Sized + 'static {
    /// State kept for one connection. Every idle connection pays its size; box rare parts. A
    /// process that takes over loads what was saved of it: a change of these bytes needs a new
    /// version of the format, which is the server's.
    type Session: Save + Load;
    /// State that the sessions share on a shard.
    type Shared;
    type Order: fmt::Debug;
    /// Mail from this gateway on other shards, and from its drivers.
    type Mail: Send + 'static;

    const FORMS: &'static [Form];
    /// The gauge of its connections, beside that of their transport.
    const CONNECTIONS: Option<Gauge> = None;
    /// Namespaces in which clients have no business: only the gateway subscribes there.
    const NAMESPACES: &'static [&'static str] = &[];
    /// Its lines of the page at `/` of the client port.
    const CLIENT_PATHS: &'static str = "";
    /// Its paths on the API port, for the hint at a path where nothing is.
    const API_PATHS: &'static [&'static str] = &[];

    /// Options of the channels in one of [`Gateway::NAMESPACES`].
    fn channel_options(namespace: &str) -> ChannelOptions {
        ChannelOptions::default()
    }

    /// Returns the state that its sessions share; the same value each time.
    fn shared(&self) -> Rc<Self::Shared>;

    /// Whether a request is its own, and on which terms.
    fn claim(own: &Self::Shared, request: &Incoming<'_, '_>, shared: &Shared) -> Option<Claim>;

    /// Returns the text for a path of this gateway while it is not configured.
    fn off(port: Port, path: &str) -> Option<&'static str> {
        None
    }

    /// Opens a request that it claimed. A body that [`Claim::streams_body`] may still be coming.
    fn open(
        claim: &Claim,
        request: &Incoming<'_, '_>,
        cx: &mut Context<'_, Self::Shared, Self::Order>,
    ) -> Result<Opened<Self::Session>, Reject>;

    /// A connection to a port of its own; `None` if the port speaks HTTP.
    fn accept(own: &Self::Shared, port: u8, peer: IpAddr) -> Option<Self::Session> {
        None
    }

    /// Something happens to a session.
    fn event(
        session: &mut Self::Session,
        event: Event<'_>,
        cx: &mut Context<'_, Self::Shared, Self::Order>,
    ) -> Flow;

    fn class(session: &Self::Session) -> Class<'_>;

    /// Returns the user of a client, empty if it has none.
    fn user(session: &Self::Session) -> &str {
        Self::class(session).identity.map_or("", |it| &it.user)
    }

    /// Names a client for webhooks. Its protocol and transport are the server's to fill in.
    fn client(
        own: &Self::Shared,
        session: &Self::Session,
        conn: ConnId,
        shared: &Shared,
    ) -> HookConnection {
        shared.client(conn, Self::user(session))
    }

    /// Appends a publication in a shared wire form, by the form's number; for forms of the kind
    /// [`crate::FormKind::Delta`] as the patch, if there is one. Appends nothing for publications
    /// that sessions of a [`crate::FormKind::Noted`] form must look at.
    fn encode(
        own: &Self::Shared,
        form: u8,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
    }

    /// Appends a publication in a session's personal form; nothing while it must wait.
    fn encode_personal(
        session: &mut Self::Session,
        publication: &Arc<Publication>,
        out: &mut Vec<u8>,
    ) {
    }

    /// Shared bytes of a [`crate::FormKind::Noted`] form went out to a session, or a publication
    /// that it was shown made it write. `is_taken` is false if the queue did not take all of them.
    fn delivered(
        own: &Self::Shared,
        session: &Self::Session,
        publications: &[Arc<Publication>],
        is_taken: bool,
        now: Now,
        shared: &Shared,
    ) {
    }

    /// All subscribers on this shard have got a publication with tags.
    fn carried(own: &Self::Shared, publication: &Publication) -> Option<Self::Order> {
        None
    }

    /// Whether a session may be saved for a process that takes over. One that may not stays with
    /// its connection, and is drained.
    fn moves(session: &Self::Session) -> bool {
        false
    }

    // ---- what the gateway keeps itself, for a process that takes over ----

    /// Appends the gateway's state of a connection beside its session. False if that cannot move;
    /// the bytes are then not to be used.
    fn save_kept(&self, conn: ConnId, session: &Self::Session, out: &mut Vec<u8>) -> bool {
        true
    }

    /// Reads it back, before anything happens to the session. No bytes may do harm.
    fn load_kept(
        &mut self,
        conn: ConnId,
        session: &mut Self::Session,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        Some(())
    }

    /// Forgets a saved connection that is taken out, without any notice to others.
    fn give_up(&mut self, conn: ConnId, session: Self::Session) {}

    /// Appends the gateway's state that belongs to no one connection, for the new process alone.
    fn save_rest(&self, out: &mut Vec<u8>) {}

    /// Reads it back in the new process, behind all connections. Must tolerate arbitrary input.
    fn load_rest(&mut self, from: &mut Saved<'_>) -> Option<()> {
        Some(())
    }

    // ---- on the shard, beyond one connection ----

    fn order(&mut self, order: Self::Order, shard: &mut impl ShardCalls<Self>) {}

    /// The bytes that mail keeps beside itself, as far as strangers choose them. Mail that waits
    /// for another shard is bounded by them.
    fn mail_bytes(mail: &Self::Mail) -> usize {
        0
    }

    fn mail(&mut self, from: Sender, mail: Self::Mail, shard: &mut impl ShardCalls<Self>) {}

    /// Every shard has answered a [`ShardCalls::survey`].
    fn surveyed(&mut self, replies: Vec<SurveyReply>, shard: &mut impl ShardCalls<Self>) {}

    /// A node has told all nodes something, this one included; on the first shard. The word may be
    /// another gateway's, or of another version.
    fn heard(&mut self, word: &[u8], shard: &mut impl ShardCalls<Self>) {}

    /// A session's queue is empty again.
    fn drained(&mut self, conn: ConnId) {}

    /// Handles the end of a connection of this gateway, with its session.
    fn closed(&mut self, conn: ConnId, session: Self::Session, shard: &mut impl ShardCalls<Self>) {}

    /// Once a turn, with the number of frames that may be made; true if more waits.
    fn turn(&mut self, frames_max: usize, shard: &mut impl ShardCalls<Self>) -> bool {
        false
    }

    /// Runs once a second, for work that depends on time.
    fn tick(&mut self, shard: &mut impl ShardCalls<Self>) {}

    /// When [`Gateway::turn`] must run even if nothing happens.
    fn deadline(&self) -> Option<Millis> {
        None
    }
}

/// The gateway's context for one of its sessions.
pub type Own<'a, G> = Context<'a, <G as Gateway>::Shared, <G as Gateway>::Order>;

/// Calls that a gateway may make beyond one connection. They act at once; orders of sessions are
/// carried out after the gateway has returned, unless it takes its own orders before.
pub trait ShardCalls<G: Gateway> {
    fn this(&self) -> ShardId;
    fn shards(&self) -> u8;
    /// The clocks, as read at the start of the turn.
    fn now(&self) -> Now;
    fn shared(&self) -> &Shared;
    /// The shard's hub, for questions.
    fn hub(&self) -> &Hub;

    /// Publishes in a channel that is at home here. Error: why not, and the draft: after
    /// [`Refusal::Busy`] it may be offered again.
    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)>;

    /// Asks every shard and node, once the gateway has returned; the replies come to
    /// [`Gateway::surveyed`]. For surveys that change nothing.
    fn survey(&mut self, survey: Survey);

    /// Tells all nodes the words that are made of this one's name, if there are several nodes; they
    /// come to [`Gateway::heard`], or are lost. For few words, and short ones.
    fn tell_nodes(&mut self, _words: impl FnOnce(&str) -> Vec<Vec<u8>>) {}

    /// Whether a connection is open, of any gateway.
    fn is_connected(&self, conn: ConnId) -> bool;
    fn conn(&self, index: u32) -> Option<ConnId>;
    /// All connections, of any gateway.
    fn sessions(&self) -> Vec<ConnId>;
    fn queued_bytes(&self, conn: ConnId) -> usize;

    /// Runs `act` on a session of this gateway; false if it is closed or of another gateway.
    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>) -> Flow,
    ) -> bool;

    /// Runs `act` on a session whose connection has closed. Its output is dropped, and its orders
    /// for the hub are not carried out.
    fn with_gone(
        &mut self,
        conn: ConnId,
        session: &mut G::Session,
        act: impl FnOnce(&mut G::Session, &mut Own<'_, G>),
    );

    /// Takes the orders of this gateway's sessions since the current call began, in order.
    fn take_orders(&mut self) -> Vec<G::Order>;

    /// Queues a frame in two pieces for a connection, of which the second is shared, and counts
    /// it. A connection whose queue is full ends.
    fn deliver(&mut self, conn: ConnId, head: &[u8], tail: &Frame);

    /// Whether the queue to another shard has room for a question. Answers need not ask: there are
    /// never more of them than questions.
    fn has_room(&self, to: ShardId) -> bool;
    /// Sends mail to this gateway on another shard.
    fn mail(&mut self, to: ShardId, mail: G::Mail);
    fn mail_all(&mut self, mail: impl Fn() -> G::Mail) {
        let this = self.this();
        for shard in (0..self.shards()).map(ShardId) {
            if shard != this {
                self.mail(shard, mail());
            }
        }
    }
}
