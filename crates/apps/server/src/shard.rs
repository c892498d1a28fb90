//! One shard's app: sessions on one side, the hub on the other.
//!
//! Owns the hub and the gateways. Orders that sessions write down during a turn are carried out at
//! its end, in the order in which they were written, and only then is there fan-out; so what a
//! connection asked for stands before it hears of it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use throng_engine::{Conns, Kernel, MailboxSender};
use throng_hub::{Command, Hub};
use throng_metrics::{Counters, Gauge};
use throng_session::{
    Admission, Census as _, Counted, Event, Http, Order, Port, Reloaded, Shared, Work,
};
use throng_types::{ConnId, Millis, Now, ShardId, Slots};

use crate::drain::{Drain, DrainOptions, Ends};
use crate::follow;
use crate::gateways::{GatewayMail, Gateways, Host, Session};
use crate::handover::HandOver;
use crate::hooks::Webhooks;
use crate::live::{Live, Renewed};
use crate::options::AskReload;
use crate::outbox::{Note, Outboxes};
use crate::peers::{PAYER, Peers, UNCOUNTED, tag_payer};
use crate::sessions::Sessions;
use crate::sink::HubSink;
use crate::stats::{Observatory, Ticker};
use crate::traces::Traces;
use crate::waiting::{FeedBatches, FeedRound, Surveys};

/// Members visited in one turn: few enough that what is published meanwhile joins the fan-out
/// at the next turn, and that a crowd does not keep others waiting.
pub(crate) const VISITS_PER_TURN: usize = 256;
/// Streams whose history is looked at in one turn.
const EXPIRIES_PER_TURN: usize = 256;

/// Between two tries to reach a shard whose mailbox is full, and how many there are.
const TRY_EVERY: Duration = Duration::from_millis(10);
const TRIES: usize = 1000;

/// Mail between shards, and orders from the handle and from drivers.
pub struct ShardMail(pub(crate) Message);

pub(crate) enum Message {
    Hub(throng_hub::BrokerMail),
    Note(Note),
    Driver(GatewayMail),
    Feed(Box<FeedRound>),
    /// Other options hold from now on.
    Renew(Box<Renewed>),
    /// Outcome of a reload that a connection of this shard has asked for.
    Reloaded(ConnId, Reloaded),
    Drain(DrainOptions),
    HandOver(Box<HandOver>),
    Stop,
}

impl ShardMail {
    pub(crate) const fn to_gateway(mail: GatewayMail) -> Self {
        Self(Message::Driver(mail))
    }

    /// Sends it to a shard whose mailbox may be full for some seconds; false if it has no room all
    /// the time, as one that has ended.
    pub(crate) fn send_patiently(mut self, mailbox: &MailboxSender<Self>) -> bool {
        for _ in 0..TRIES {
            match mailbox.send(self) {
                Ok(()) => return true,
                Err(back) => self = back,
            }
            std::thread::sleep(TRY_EVERY);
        }
        false
    }

    /// Takes a driver's mail back that found no room.
    pub(crate) fn into_gateway(self) -> Option<GatewayMail> {
        match self.0 {
            Message::Driver(mail) => Some(mail),
            _ => None,
        }
    }
}

/// Purpose of a listener, and the way in which connections begin there.
#[derive(Clone, Copy)]
pub(crate) struct ListenerKind {
    pub(crate) port: Port,
    pub(crate) is_proxied: bool,
    pub(crate) is_tls: bool,
}

pub(crate) struct ShardParts {
    pub(crate) shard: ShardId,
    pub(crate) shards: u8,
    pub(crate) hub: Hub,
    pub(crate) webhooks: Option<Arc<Webhooks>>,
    pub(crate) traces: Option<Arc<Traces>>,
    pub(crate) nodes: Option<throng_remote::Nodes>,
    /// Whether what the hub's broker keeps is written down.
    pub(crate) is_stored: bool,
    pub(crate) shared: Shared,
    pub(crate) peers: Arc<Peers>,
    pub(crate) connections_max: usize,
    pub(crate) ask_reload: Option<AskReload>,
    pub(crate) listeners: Arc<[ListenerKind]>,
    pub(crate) ticker: Ticker,
    pub(crate) observatory: Arc<Observatory>,
    /// Seed for the choices of a drain; any number.
    pub(crate) seed: u64,
}

impl ShardParts {
    /// Has the shard tell webhooks, if there are any.
    pub(crate) fn tell(&mut self, webhooks: Option<Arc<Webhooks>>) {
        if let Some(webhooks) = &webhooks {
            self.shared.hooks = Some(webhooks.sender());
            self.hub.tell_webhooks(webhooks.sender());
            if let Some(nodes) = self.nodes.as_ref().filter(|_| self.shard.0 == 0) {
                webhooks.join(nodes.clone());
            }
        }
        self.webhooks = webhooks;
    }

    /// Puts a version of the options into force on a shard; connections stay.
    pub(crate) fn renew<K: Kernel>(
        &mut self,
        live: &Live,
        conns: &mut Conns<Session, K>,
        now: Now,
    ) {
        self.hub.renew(live.subscriptions_max, &live.broker, now);
        self.connections_max = live.connections_max;
        conns.set_limits(live.conns);
        let shared = &mut self.shared;
        shared.limits = live.limits.clone();
        shared.namespaces = live.broker.namespaces.clone();
        shared.verifier.clone_from(&live.verifier);
        shared.anonymous = live.anonymous;
        shared.personal_channel = live.personal_channel;
        shared.api_for_clients = live.api_for_clients;
        shared.guards = live.guards.clone();
        shared.api_keys = live.api_keys.clone();
        shared.forwarded.renew(live.proxies.clone());
        shared.meter.renew(live.work);
        shared.users.renew(live.users);
        let wants_published = crate::live::wants_published();
        shared.notices.want_published(wants_published);
    }
}

/// Values that were warned of, and the times from which they may be again.
#[derive(Default)]
pub(crate) struct Warned {
    pub(crate) crowded: u64,
    pub(crate) crowded_again_at: Millis,
    pub(crate) unnamed: Option<IpAddr>,
    pub(crate) unnamed_again_at: Millis,
}

/// One shard: its hub, its gateways and what they wait for.
pub struct ShardApp {
    pub(crate) parts: ShardParts,
    pub(crate) gateways: Gateways,
    pub(crate) orders: Vec<Order>,
    /// Empty: memory for the next orders while those before them are carried out.
    pub(crate) spare_orders: Vec<Order>,
    pub(crate) outboxes: Outboxes,
    pub(crate) surveys: Surveys,
    pub(crate) rounds: FeedBatches,
    pub(crate) resumed: Vec<(ConnId, Vec<u8>)>,
    /// Connections that ended in this turn and of which gateways were not notified yet.
    pub(crate) ended: Vec<(ConnId, Session)>,
    pub(crate) addresses: Slots<IpAddr>,
    pub(crate) drain: Option<Drain>,
    /// Progress of all shards' drains.
    pub(crate) ends: Ends,
    pub(crate) stopped: bool,
    /// The loop stops for it, and goes on afterwards.
    pub(crate) hand_over: Option<Box<HandOver>>,
    /// Connections of the client port.
    pub(crate) clients: usize,
    /// As of the last turn.
    pub(crate) now: Now,
    pub(crate) housekeeping_at: Millis,
    /// More has expired than the last turn forgot.
    pub(crate) is_expiring: bool,
    /// The most connections since memory was last given back.
    pub(crate) peak: usize,
    pub(crate) warned: Warned,
}

impl ShardApp {
    pub(crate) fn new(parts: ShardParts, gateways: Gateways) -> Self {
        parts.shared.counters.set(Gauge::Shards, 1);
        Self {
            outboxes: Outboxes::new(parts.shards),
            parts,
            gateways,
            orders: Vec::new(),
            spare_orders: Vec::new(),
            surveys: Surveys::default(),
            rounds: FeedBatches::default(),
            resumed: Vec::new(),
            ended: Vec::new(),
            addresses: Slots::default(),
            drain: None,
            ends: Ends::default(),
            stopped: false,
            hand_over: None,
            clients: 0,
            now: Now::default(),
            housekeeping_at: Millis::default(),
            is_expiring: false,
            peak: 0,
            warned: Warned::default(),
        }
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.parts.shared.counters
    }

    /// Takes the order for which the loop stopped, if it is to hand over and not to end.
    pub(crate) fn take_hand_over(&mut self) -> Option<Box<HandOver>> {
        let order = self.hand_over.take()?;
        self.stopped = false;
        Some(order)
    }

    pub(crate) const fn sessions(&mut self) -> Sessions<'_> {
        Sessions {
            gateways: &mut self.gateways,
            shared: &self.parts.shared,
            orders: &mut self.orders,
        }
    }

    /// Whether publications wait for others, for their channel's `max_delay`.
    pub fn is_gathering(&self) -> bool {
        self.parts.hub.deadline().is_some()
    }

    pub(crate) fn event<K: Kernel>(
        &mut self,
        conn: ConnId,
        event: Event<'_>,
        conns: &mut Conns<Session, K>,
    ) {
        let mut sessions = self.sessions();
        conns.with(conn, |session, effects| {
            sessions.event(conn, session, event, effects);
        });
    }

    pub(crate) fn with_hub<K: Kernel, R>(
        &mut self,
        conns: &mut Conns<Session, K>,
        call: impl FnOnce(&mut Hub, &mut HubSink<'_, K>) -> R,
    ) -> R {
        let mut sink = HubSink {
            conns,
            rounds: &mut self.rounds,
            gateways: &mut self.gateways,
            shared: &self.parts.shared,
            addresses: &self.addresses,
            orders: &mut self.orders,
        };
        call(&mut self.parts.hub, &mut sink)
    }

    pub(crate) fn with_gateways<K: Kernel, R>(
        &mut self,
        conns: &mut Conns<Session, K>,
        now: Now,
        call: impl FnOnce(&mut Gateways, &mut Host<'_, K>) -> R,
    ) -> R {
        let mut host = Host {
            shard: self.parts.shard,
            now,
            conns,
            hub: &mut self.parts.hub,
            shared: &self.parts.shared,
            addresses: &self.addresses,
            orders: &mut self.orders,
            outboxes: &mut self.outboxes,
            nodes: self.parts.nodes.as_ref(),
            resumed: &mut self.resumed,
        };
        let result = call(&mut self.gateways, &mut host);
        if !self.resumed.is_empty() {
            self.resume(conns);
        }
        result
    }

    fn resume<K: Kernel>(&mut self, conns: &mut Conns<Session, K>) {
        for (conn, mut raw) in std::mem::take(&mut self.resumed) {
            self.event(conn, Event::Bytes(&mut raw), conns);
        }
    }

    pub(crate) fn command<K: Kernel>(
        &mut self,
        command: Command,
        conns: &mut Conns<Session, K>,
        now: Now,
    ) {
        // Whoever asked may have gone: what a broken connection has left is read behind a turn's
        // work, and its end is told before the next.
        if let Command::Subscribe { reply_to, .. } = &command
            && conns.session(reply_to.conn).is_none()
        {
            return;
        }
        if self.parts.shared.follow.is_on() {
            follow::ordered((&self.parts.shared, &self.parts.hub), &command, conns);
        }
        self.with_hub(conns, |hub, sink| hub.handle(command, now, sink));
    }

    pub(crate) fn tell_ended<K: Kernel>(&mut self, conns: &mut Conns<Session, K>, now: Now) {
        for (conn, session) in std::mem::take(&mut self.ended) {
            self.with_gateways(conns, now, |them, host| them.closed(conn, session, host));
        }
    }

    /// Forgets what has expired, some in each turn; true while there is more.
    pub(crate) fn expire(&mut self, now: Now) -> bool {
        self.is_expiring = self.parts.hub.broker.tick(now, EXPIRIES_PER_TURN);
        self.is_expiring
    }

    /// A session for a new client, and its tag.
    pub(crate) fn admit(&mut self, peer: IpAddr, is_tls: bool, now: Now) -> (Http, u32) {
        self.clients += 1;
        let mut admission = Admission::Welcome;
        if self.clients > self.parts.connections_max {
            admission = Admission::ServerFull;
        }
        if self.parts.shared.forwarded.trusts(peer) {
            // Counted for the client, once a proxy has named it.
            return (Http::new(Port::Client, peer, admission), UNCOUNTED);
        }
        if admission != Admission::Welcome {
            // There is no room; whose fault it is does not matter.
        } else if !is_tls && !self.parts.shared.meter.admits(peer, Work::Arrival, now) {
            // Where TLS is spoken, this was asked before: see `may_shake_hands`.
            admission = Admission::AddressBusy;
        }
        let (tag, has_room) = self.enter(peer);
        if !has_room {
            admission = Admission::AddressFull;
        }
        (Http::new(Port::Client, peer, admission), tag)
    }

    /// Counts a connection for its address; gives its tag, and whether the address may have it.
    pub(crate) fn enter(&mut self, peer: IpAddr) -> (u32, bool) {
        let (counted, has_room) = self.parts.peers.enter(peer);
        let tag = match counted {
            Counted::No => UNCOUNTED,
            Counted::Exactly => self.addresses.insert(peer),
            Counted::Roughly(payer) => payer.to_bits().map_or(UNCOUNTED, |bits| PAYER | bits),
        };
        (tag, has_room)
    }

    /// Counts the end of a connection with this tag.
    pub(crate) fn leave(&mut self, tag: u32) {
        let peers = &self.parts.peers;
        if let Some(payer) = tag_payer(tag) {
            peers.leave_places(payer);
        } else if let Some(address) = self.addresses.remove(tag) {
            peers.leave(address, Counted::Exactly);
        }
    }
}
