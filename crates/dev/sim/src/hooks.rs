//! Webhooks under the simulated kernel: the real shards, the real peer in its real host, Pusher's
//! clients that come, go and reload, and one played receiver (`receiver.rs`).
//!
//! The process is killed now and then, and another begins with what the journal has; the receiver
//! refuses, is late, cuts, and is killed. The witness is behind the receiver: what it has accepted
//! last of each state is true in the end, states alternate, the events of a connection come once
//! and in order, and one that was in the journal, or whose connection and process have lived, is
//! not lost. Those are connected in the end whose last word says so, of nodes that live.
//!
//! Or three nodes do so before a played broker, and are cut off from it, too. They may tell
//! anything twice; what the receiver has accepted last of each state is true in the end. Without
//! journals this holds while one node at a time is in trouble.

mod client;
mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_server::Start;

use self::client::Client;
use self::receiver::{Receiver, Told};
use crate::backend::Requests;
use crate::cluster::{self, Broker, BrokerKind};
use crate::disk::Disk;
use crate::net::Net;
use crate::node::{LIMITS, MadeOf, Node};
use crate::setup::load;

/// Seconds that pass in the end: the longest pause after a failure, and all that settles.
const QUIET_S: usize = 100;
/// Time for which a node without a journal must not be in trouble behind another, in microseconds.
const CALM_US: u64 = 60_000_000;

struct Play {
    net: Net,
    nodes: Vec<Node>,
    /// Journals of the nodes, in their order.
    disks: Vec<Disk>,
    /// Whether each of them tells by now.
    have_begun: Vec<bool>,
    broker: Box<dyn Broker>,
    /// Whether journals outlive their processes.
    keeps: bool,
    /// Time from which on all nodes know of each other.
    calm_from_us: u64,
    clients: Vec<Client>,
    receiver: Receiver,
    /// Data of clients' events of this process whose connections live.
    sent: BTreeSet<String>,
    /// Data of events that must come.
    owed: BTreeSet<String>,
    /// Times in a hundred that a step which may be a fault is one.
    trouble: usize,
}

impl Play {
    fn new(net: Net, seed: u64, kind: BrokerKind) -> Self {
        let is_alone = kind == BrokerKind::Memory;
        let keeps = is_alone || net.percent(50);
        let broker = cluster::played(kind, keeps, &net);
        let text = format!(
            "{}[broker]\n{}",
            include_str!("hooks.toml"),
            broker.config()
        );
        let config = Arc::new(load(text));
        let count = if is_alone { 1 } else { 3 };
        let shards = net.between(1, 3);
        let disks: Vec<Disk> = (0..count).map(|_| Disk::default()).collect();
        let node = |(number, disk): (u64, &Disk)| {
            let start = Start {
                unix_ms: 0,
                seed: seed ^ number << 40,
                secret: [seed as u8 ^ number as u8; 32],
            };
            let made_of = MadeOf {
                shards,
                start,
                limits: LIMITS,
                config: config.clone(),
                requests: Requests::default(),
                journal: Some(disk.clone()),
            };
            Node::new(made_of, false, &net)
        };
        let nodes = (0..).zip(&disks).map(node).collect();
        net.draw_faults(&[3, 20, 4096]);
        net.accepts_all();
        let clients = (0..net.between(2, 6)).map(Client::new).collect();
        Self {
            nodes,
            have_begun: vec![false; disks.len()],
            disks,
            broker,
            keeps,
            calm_from_us: 0,
            clients,
            receiver: Receiver::new(!is_alone, &net),
            sent: BTreeSet::new(),
            owed: BTreeSet::new(),
            trouble: net.pick(&[0, 20, 60, 100]),
            net,
        }
    }

    fn is_alone(&self) -> bool {
        self.nodes.len() == 1
    }

    fn step(&mut self) {
        self.net.pass_us(self.net.between(0, 4000) as u64);
        let at = self.net.below(self.nodes.len());
        match self.net.below(1000) {
            0..500 => {
                // More nodes have more to do.
                for node in &mut self.nodes {
                    node.turn(&self.net);
                }
                self.broker_acts(1 << 20);
            }
            500..620 => drop(self.receiver_acts()),
            620..800 => {
                let kernels = self.nodes[at].kernels();
                let at = self.net.below(self.clients.len());
                let client = &mut self.clients[at];
                if self.net.percent(60) {
                    client.read(&self.net, self.net.pick(&[1, 100, 1 << 20]));
                }
                self.sent.extend(client.act(kernels, &self.net));
                if self.net.percent(4) {
                    client.leave(&self.net);
                }
                self.forgive();
            }
            800..960 => self.net.arrive_some(&[1, 100, 100_000]),
            960..975 => self.begin(at),
            975..985 => self.net.pass_us(self.net.pick(&[100_000, 400_000])),
            985..990 if self.net.percent(self.trouble) => {
                let leaps_ms: &[u64] = match self.is_alone() {
                    true => &[1_000, 3_500, 8_000, 40_000],
                    // Nodes would not hear each other meanwhile.
                    false => &[1_000, 3_500],
                };
                self.net.leap_ms(self.net.pick(leaps_ms));
                self.rest();
            }
            990..995 if self.net.percent(self.trouble) => self.node_trouble(at),
            995.. if self.net.percent(self.trouble) => self.receiver.trouble(&self.net),
            _ => {}
        }
    }

    /// Accepts what nodes have dialled: connections to the broker and to the receiver.
    fn dials(&mut self) -> bool {
        let mut busy = false;
        while let Some((conn, to)) = self.net.take_dialled() {
            busy = true;
            if to.port() == 80 {
                self.receiver.dialled(conn, &self.net);
                continue;
            }
            let mut nodes = self.nodes.iter();
            let of = nodes.find(|node| node.has(conn, &self.net));
            let is_refused = of.is_none_or(|node| node.is_cut_off);
            self.net.answer_dial(conn, is_refused);
            if !is_refused {
                self.broker.accept(conn);
            }
        }
        busy
    }

    fn receiver_acts(&mut self) -> bool {
        self.dials() | self.receiver.act(&self.net)
    }

    fn broker_acts(&mut self, bytes_max: usize) -> bool {
        self.dials() | self.broker.act(bytes_max, &mut Vec::new())
    }

    fn begin(&mut self, at: usize) {
        if !std::mem::replace(&mut self.have_begun[at], true) {
            self.nodes[at].assembly.begin_webhooks();
        }
    }

    /// Whether a journal has had an event, and outlives its process.
    fn is_kept(&self, data: &str) -> bool {
        self.keeps && self.disks.iter().any(|disk| disk.has_had(data))
    }

    /// Keeps of the events of connections that are gone those that are owed all the same.
    fn forgive(&mut self) {
        let is_gone = |data: &String| !self.clients.iter().any(|client| client.has_sent(data));
        let gone: Vec<_> = self.sent.extract_if(.., |data| is_gone(data)).collect();
        let kept = gone.into_iter().filter(|data| self.is_kept(data));
        self.owed.extend(kept.collect::<Vec<_>>());
    }

    /// Kills a process, or cuts it off from the broker, or ends that.
    fn node_trouble(&mut self, at: usize) {
        let cut_off = self.nodes.iter().position(|node| node.is_cut_off);
        if let Some(cut_off) = cut_off.filter(|_| self.net.percent(50)) {
            self.nodes[cut_off].is_cut_off = false;
            self.wait_for_calm();
            return;
        }
        let is_calm = cut_off.is_none() && self.net.now_us() >= self.calm_from_us;
        if !self.keeps && !is_calm {
            return;
        }
        match self.is_alone() || self.net.percent(50) {
            true => self.kill(at),
            false => {
                self.net.count("a node with webhooks is cut off");
                note!(self.net, "node {at} is cut off");
                self.nodes[at].is_cut_off = true;
                for conn in self.broker.clients() {
                    if self.nodes[at].has(conn, &self.net) {
                        self.broker.cut(conn, 0);
                    }
                }
            }
        }
    }

    fn wait_for_calm(&mut self) {
        self.calm_from_us = self.net.now_us() + CALM_US;
    }

    /// Kills a process; another begins at once, and tells a while later.
    fn kill(&mut self, at: usize) {
        self.net.count("a process with webhooks is killed");
        note!(self.net, "process {at} is killed");
        let node = &mut self.nodes[at];
        let is_its = |data: &String| {
            let clients = self.clients.iter();
            let mut senders = clients.filter(|client| client.has_sent(data));
            senders.any(|client| client.is_of(node.kernels(), &self.net))
        };
        let sent: Vec<String> = self.sent.extract_if(.., |data| is_its(data)).collect();
        let disk = &self.disks[at];
        self.owed
            .extend({ sent.into_iter() }.filter(|data| self.keeps && disk.has_had(data)));
        match self.keeps {
            true if self.net.percent(30) => disk.tear(&self.net),
            true => {}
            false => disk.wipe(),
        }
        self.net.pass_us(2_000);
        let new = node.anew(&self.net);
        let old = std::mem::replace(node, new);
        self.net.kill(old.kernels());
        drop(old);
        self.have_begun[at] = false;
        self.wait_for_calm();
    }

    fn rest(&mut self) {
        for _ in 0..100_000 {
            self.net.arrive_all();
            let mut busy = self.broker_acts(1 << 20) | self.receiver_acts();
            for node in &mut self.nodes {
                busy |= node.turn_all();
            }
            for client in &mut self.clients {
                busy |= client.read(&self.net, 1 << 20);
            }
            if !busy {
                return self.forgive();
            }
            self.net.pass_us(10);
        }
        panic!("the nodes never rest");
    }

    /// The faults are over: everything is told, and what was told last is true.
    fn settle(&mut self) {
        self.receiver.calm_down();
        self.broker.calm();
        for at in 0..self.nodes.len() {
            self.begin(at);
            self.nodes[at].is_cut_off = false;
        }
        for _ in 0..QUIET_S {
            for client in &mut self.clients {
                let at = self.net.below(self.nodes.len());
                client.comes(self.nodes[at].kernels(), &self.net);
            }
            self.rest();
            self.net.pass_us(1_000_000);
        }
        self.rest();
        // All connections live, so all that was sent on them has come.
        let mut heard = Told::default();
        heard.may_repeat = !self.is_alone();
        for event in &self.receiver.accepted {
            heard.take(event, &self.net);
        }
        let mut truth: BTreeMap<String, bool> = BTreeMap::new();
        for state in self.clients.iter().flat_map(Client::states) {
            truth.insert(state, true);
        }
        let there: BTreeSet<&str> = self.clients.iter().map(Client::socket_id).collect();
        assert_eq!(heard.connected(), there, "connections of nodes that live");
        for node in &self.nodes {
            truth.insert(node.name(), true);
        }
        heard.states.retain(|_, is_on| *is_on);
        assert_eq!(heard.states, truth, "what was told last");
        let sent = std::mem::take(&mut self.sent);
        // Without the broker an event is refused.
        let is_owed = |data: &String| self.is_alone() || self.is_kept(data);
        let sent: Vec<_> = sent.into_iter().filter(is_owed).collect();
        self.owed.extend(sent);
        let lost: Vec<_> = self.owed.difference(&heard.data).collect();
        assert!(lost.is_empty(), "events are lost: {lost:?}");
        if self.is_alone() {
            self.receiver.is_at_rest();
        }
    }
}

/// Plays one seed of webhooks.
pub(crate) fn run(net: Net, seed: u64, steps: usize, kind: BrokerKind) {
    let mut play = Play::new(net, seed, kind);
    for _ in 0..steps {
        play.step();
    }
    play.settle();
}
