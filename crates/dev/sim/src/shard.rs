//! One shard: sessions on one side, the hub on the other, joined as the server joins them.
//!
//! Follows the server's app and the engine's turn in their order: input, mail, deadlines,
//! new connections, the sessions' orders, fan-out, output, burials, post.

mod outlet;
mod tell;
mod watch;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};

use throng_broker::home_of;
use throng_hub::{Asker, Hub};
use throng_session::{Admission, Desk, Farewell, Order, Question, Session, Told};
use throng_types::{ChannelName, ConnId, Disconnect, Millis, ShardId, Slots};

use crate::conns::{Closed, Conns};
use crate::net::{Net, Port};
use crate::rng::Rng;
use crate::setup::Setup;
use crate::witness::Witness;
use outlet::Outlet;

/// Between two looks at history.
const HOUSEKEEPING_MS: u64 = 1000;
/// A request's head must be whole by then.
const HEAD_TIMEOUT_MS: u64 = 10_000;

/// Where all clients come from.
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A question on its way to another shard, or an answer on its way back.
pub(crate) enum Note {
    Ask { ticket: u32, question: Question },
    Told { ticket: u32, told: Told },
}

/// What shards send each other.
pub(crate) enum Mail {
    Hub(throng_hub::Mail),
    Note(Note),
}

struct Gather {
    asker: Asker,
    told: Vec<Told>,
}

/// How much a shard does in one turn.
pub(crate) struct Pace {
    pub(crate) deliveries: usize,
    /// Most bytes of one read.
    pub(crate) read_bytes: usize,
    /// Most mail from each shard.
    pub(crate) mail: usize,
}

/// See the module's head.
pub(crate) struct Shard {
    id: ShardId,
    pub(crate) hub: Hub,
    desk: Desk,
    pub(crate) conns: Conns,
    orders: Vec<Order>,
    gathers: Slots<Gather>,
    notes: Vec<VecDeque<Note>>,
    /// What the hub has for other shards, looked at by the witness already.
    staged: Vec<VecDeque<throng_hub::Mail>>,
    draining: Option<Vec<ConnId>>,
    housekeeping_at: Millis,
    /// Pipes that wait to be accepted.
    pub(crate) backlog: VecDeque<usize>,
    /// The connections of pipes, for the clients' questions to the witness.
    pub(crate) accepted: Vec<(usize, ConnId)>,
}

impl Shard {
    pub(crate) fn new(number: u8, setup: &Setup) -> Self {
        let id = ShardId(number);
        let per_shard = || 0..setup.shards;
        Self {
            id,
            hub: setup.hub(number),
            desk: setup.desk(),
            conns: Conns::new(id, setup.queue_bytes_max),
            orders: Vec::new(),
            gathers: Slots::default(),
            notes: per_shard().map(|_| VecDeque::new()).collect(),
            staged: per_shard().map(|_| VecDeque::new()).collect(),
            draining: None,
            housekeeping_at: Millis::default(),
            backlog: VecDeque::new(),
            accepted: Vec::new(),
        }
    }

    /// Whether it waits for nothing but its clients, the clock and mail.
    pub(crate) fn quiet(&self) -> bool {
        self.orders.is_empty()
            && self.backlog.is_empty()
            && self.gathers.is_empty()
            && self.notes.iter().all(VecDeque::is_empty)
            && self.staged.iter().all(VecDeque::is_empty)
    }

    fn home_of(&self, channel: &ChannelName) -> ShardId {
        home_of(channel, self.staged.len() as u8)
    }

    // ---- the turn ----

    /// One turn; true if more work waits. `inbox` holds the mail of each shard.
    pub(crate) fn turn(
        &mut self,
        pace: &Pace,
        inbox: &mut [&mut VecDeque<Mail>],
        net: &mut Net,
        witness: &mut Witness,
        rng: &mut Rng,
    ) -> bool {
        let now = witness.now;
        self.conns.now = now;
        let mut drained = Vec::new();
        for index in self.conns.ready(net) {
            drained.extend(self.conns.write(index, net));
            let bytes_max = rng.between(1, pace.read_bytes);
            if let Some(mut input) = self.conns.read(index, bytes_max, net) {
                let desk = &self.desk;
                self.conns.act(index, &mut self.orders, |id, session, fx| {
                    session.bytes(id, &mut input, desk, fx)
                });
            }
        }
        for (from, mailbox) in inbox.iter_mut().enumerate() {
            for _ in 0..rng.between(0, pace.mail) {
                let Some(mail) = mailbox.pop_front() else {
                    break;
                };
                self.mail(from, mail, net, witness);
            }
        }
        for index in self.conns.expired() {
            let desk = &self.desk;
            self.conns.act(index, &mut self.orders, |id, session, fx| {
                session.timeout(id, desk, fx)
            });
        }
        self.accept(net, witness);
        let more = self.app_turn(pace, net, witness);
        drained.extend(self.conns.flush(net));
        for (index, dropped) in drained {
            if !self.conns.is_leaving(index) {
                witness
                    .note(|| format!("{:?} has drained, {dropped} dropped", self.conns.id(index)));
                self.conns.act(index, &mut self.orders, |_, session, fx| {
                    session.drained(dropped as u32, fx)
                });
            }
        }
        self.bury(net, witness);
        witness.dropped += std::mem::take(&mut self.conns.dropped);
        more || !self.orders.is_empty()
    }

    fn accept(&mut self, net: &mut Net, witness: &mut Witness) {
        while let Some(pipe) = self.backlog.pop_front() {
            let port = net.pipe(pipe).port;
            if port == Port::Client && self.draining.is_some() {
                // Its listener is closed: the kernel refuses.
                net.pipe(pipe).server_gone = true;
                continue;
            }
            let session = match port {
                Port::Client => Session::client(Admission::Welcome, PEER),
                Port::Api => Session::api(),
            };
            let deadline = witness.now.mono + HEAD_TIMEOUT_MS;
            let id = self.conns.insert(pipe, session, Some(deadline));
            self.accepted.push((pipe, id));
            witness.note(|| format!("accept pipe {pipe} as {id:?}"));
        }
    }

    fn app_turn(&mut self, pace: &Pace, net: &mut Net, witness: &mut Witness) -> bool {
        let now = witness.now;
        self.step_drain();
        while !self.orders.is_empty() {
            for order in std::mem::take(&mut self.orders) {
                match order {
                    Order::Hub(command) => self.command(command, net, witness),
                    Order::Ask { asker, question } => self.ask(asker, question, witness),
                    _ => panic!("an order of a protocol that nobody speaks here"),
                }
            }
        }
        let mut more = false;
        let mut outlet = Outlet {
            conns: &mut self.conns,
            net,
            desk: &self.desk,
            orders: &mut self.orders,
            answers: Vec::new(),
        };
        if now.mono >= self.housekeeping_at {
            self.housekeeping_at = now.mono + HOUSEKEEPING_MS;
            more |= self.hub.expire(now, 256, &mut outlet);
        }
        more |= self.hub.fan_out(pace.deliveries, now, &mut outlet);
        assert!(outlet.answers.is_empty(), "fan-out answers nothing");
        self.stage(None, witness);
        more
    }

    fn bury(&mut self, net: &mut Net, witness: &mut Witness) {
        while let Some((id, _, why)) = self.conns.take_doomed(net) {
            witness.note(|| format!("{id:?} is gone: {why:?}"));
            if why == Closed::Slow {
                witness.note(|| format!("{id:?} was slow"));
            }
            self.hub.gone(id, witness.now);
            assert_eq!(
                self.hub.subscription_count(id),
                0,
                "who is gone has no subscriptions"
            );
        }
        self.stage(None, witness);
    }

    /// Mail for another shard: notes overtake the hub's.
    pub(crate) fn take_mail(&mut self, to: usize) -> Option<Mail> {
        if let Some(note) = self.notes[to].pop_front() {
            return Some(Mail::Note(note));
        }
        self.staged[to].pop_front().map(Mail::Hub)
    }

    // ---- the end ----

    pub(crate) fn drain(&mut self) {
        self.desk.draining = true;
        let clients = self
            .conns
            .sessions()
            .filter(|(_, session)| session.is_client());
        self.draining = Some(clients.map(|(id, _)| id).collect());
    }

    fn step_drain(&mut self) {
        let Some(left) = self.draining.as_mut() else {
            return;
        };
        if let Some(conn) = left.pop() {
            return self.farewell(conn, &Farewell::Drain { reconnect_ms: 100 });
        }
        let api = self
            .conns
            .sessions()
            .filter(|(_, session)| !session.is_client());
        let api: Vec<ConnId> = api.map(|(id, _)| id).collect();
        for conn in api {
            self.farewell(conn, &Farewell::Because(Disconnect::Shutdown));
        }
    }
}
