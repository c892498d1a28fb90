//! Several nodes that share a broker: the real server, host, peer and node state machine of each,
//! over the played kernel; a played Redis with the real scripts, or a played NATS with JetStream;
//! readers and members that move between nodes; and guests (`guests.rs`).
//!
//! The witness (`witness.rs`) knows what each reader must have seen. Faults: connections cut at any
//! byte, a broker that pauses, stops, starts with all, older or no data or as another line of
//! replication, that refuses writes, loses and repeats deliveries and says what nobody asked for;
//! data that another program deletes; clocks that leap; nodes that sleep, do not reach the broker,
//! are killed, or hand over (`handover.rs`). Without a fault no node may give up a connection, and
//! in a run without any every reader has everything as soon as all rest.

mod appwrite;
mod around;
pub(crate) mod broker;
mod episodes;
mod guests;
mod handover;
mod listener;
mod member;
pub(crate) mod nats;
mod publisher;
mod reader;
pub(crate) mod redis;
mod visits;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_config::Config;
use throng_server::Start;

use self::around::Around;
use self::broker::{Alone, Kept};
use self::guests::Guests;
use self::member::Member;
use self::nats::Nats;
use self::publisher::Publisher;
use self::reader::Reader;
use self::redis::Redis;
use self::witness::{CHANNELS, TTL_MS, Witness};
use crate::backend::Requests;
use crate::net::Net;
use crate::node::{LIMITS, MadeOf, Node};
use crate::setup::{self, PORT_API};

pub(crate) use broker::{Broker, BrokerKind};

struct Play {
    net: Net,
    nodes: Vec<Node>,
    /// A process that is to take over from one of them.
    successor: Option<Node>,
    /// Processes that have handed over, until they end.
    retired: Vec<Node>,
    kind: BrokerKind,
    broker: Box<dyn Broker>,
    is_paused: bool,
    is_down: bool,
    /// Connections of nodes, and when they were accepted.
    links: BTreeMap<usize, u64>,
    readers: Vec<Reader>,
    members: Vec<Member>,
    publishers: Vec<Publisher>,
    guests: Option<Guests>,
    witness: Witness,
    kernel_bytes: usize,
    /// Faults in a hundred steps of the broker. If zero, nothing fails in this run, but nodes sleep
    /// and hand over.
    trouble: usize,
    /// The broker has refused something.
    was_ill: bool,
    is_calm: bool,
}

/// The played broker of a kind.
pub(crate) fn played(kind: BrokerKind, is_troubled: bool, net: &Net) -> Box<dyn Broker> {
    match kind {
        BrokerKind::Redis => Box::new(Redis::new(is_troubled, net)),
        BrokerKind::Nats => Box::new(Nats::new(is_troubled, net)),
        BrokerKind::Memory => Box::new(Alone),
    }
}

/// Lends everything but readers and publishers.
macro_rules! around {
    ($play:expr) => {
        Around {
            net: &$play.net,
            nodes: &$play.nodes,
            witness: &mut $play.witness,
            kernel_bytes: $play.kernel_bytes,
        }
    };
}

impl Play {
    fn new(net: Net, seed: u64, kind: BrokerKind) -> Self {
        let trouble = net.pick(&[0, 1, 2]);
        let broker = played(kind, trouble > 0, &net);
        let is_alone = kind == BrokerKind::Memory;
        let has_guests = is_alone || seed % 4 == 3;
        let appwrite = if has_guests { appwrite::CONFIG } else { "" };
        let config = Arc::new(config(&broker.config(), appwrite));
        let requests = Requests::default();
        let shards = net.between(1, 2);
        let node = |number: u64| {
            let start = Start {
                unix_ms: 0,
                seed: seed ^ (number + 1) << 40,
                secret: [number as u8 ^ seed as u8; 32],
            };
            let config = config.clone();
            let made_of = MadeOf {
                shards,
                start,
                limits: LIMITS,
                config,
                requests: requests.clone(),
                journal: None,
            };
            Node::new(made_of, false, &net)
        };
        let count = if is_alone {
            1
        } else {
            net.between(2, 3) as u64
        };
        let nodes: Vec<Node> = (0..count).map(node).collect();
        let kernel_bytes = net.pick(&[300, 2000, 30_000]);
        let mut play = Self {
            guests: has_guests.then(|| Guests::new(trouble == 0, kernel_bytes, requests, &net)),
            kind,
            broker,
            nodes,
            successor: None,
            retired: Vec::new(),
            is_paused: false,
            is_down: false,
            links: BTreeMap::new(),
            readers: Vec::new(),
            members: Vec::new(),
            publishers: Vec::new(),
            witness: Witness::new(&net, kind == BrokerKind::Nats),
            kernel_bytes,
            trouble,
            was_ill: false,
            is_calm: false,
            net,
        };
        play.net.draw_faults(&[3, 20, 4096]);
        play.net.accepts_all();
        if let Some(guests) = &mut play.guests {
            guests.processes = play.nodes.len();
        }
        if !is_alone {
            for number in 0..play.net.between(4, 10) {
                let reader = Reader::new(number, &around!(play));
                play.readers.push(reader);
            }
            play.members
                .resize_with(play.net.between(0, 4), Member::default);
            play.publishers
                .resize_with(play.net.between(1, 4), Publisher::default);
        }
        // All nodes find the broker.
        for _ in 0..3 {
            play.rest();
            play.net.pass_us(1_000_000);
        }
        play
    }

    fn step(&mut self) {
        self.witness.step += 1;
        self.net.pass_us(self.net.between(0, 1500) as u64);
        let guests = if self.kind == BrokerKind::Memory {
            60
        } else {
            30
        };
        if self.guests.is_some() && self.net.percent(guests) {
            return self.guests_act();
        }
        match self.net.below(1000) {
            0..450 => {
                for _ in 0..self.net.between(1, 5) {
                    self.turn();
                }
            }
            450..590 => drop(self.broker_acts(self.net.pick(&[1, 100, 1 << 20]))),
            590..600 => drop(self.backends_act()),
            600..630 if !self.members.is_empty() => {
                let at = self.net.below(self.members.len());
                self.member_acts(at);
            }
            600..710 if !self.readers.is_empty() => {
                let at = self.net.below(self.readers.len());
                self.reader_acts(at);
            }
            710..800 => self.publisher_acts(),
            800..925 => self.bytes_arrive(),
            925..930 => self.node_trouble(),
            930..980 if self.net.percent(self.trouble * 3) => self.broker_trouble(),
            980..990 => self.heals(),
            990.. if self.net.percent(self.trouble * 2) => {
                self.net.fault();
                self.net.leap_ms(self.net.pick(&[200, 700, 3_000, 12_000]));
            }
            _ => {}
        }
    }

    /// A turn of something of some process.
    fn turn(&mut self) {
        let all = self.nodes.iter_mut().chain(&mut self.successor);
        let mut all: Vec<&mut Node> = all.chain(&mut self.retired).collect();
        let at = self.net.below(all.len());
        if all[at].sleeps_until <= self.witness.step {
            all[at].turn(&self.net);
        }
    }

    fn node_trouble(&mut self) {
        let at = self.net.below(self.nodes.len());
        let node = &mut self.nodes[at];
        match self.net.below(5) {
            0 => node.sleeps_until = self.witness.step + self.net.between(20, 400) as u64,
            1 if self.successor.is_none() => self.hand_over(at),
            2 if self.trouble > 0 => {
                node.is_cut_off = !node.is_cut_off;
                let (does, net) = (!node.is_cut_off, self.net.clone());
                note!(net, "node {at} reaches the broker: {does}");
                net.fault();
                let links = self.links.keys().copied();
                let links = links.filter(|conn| !does && node.has(*conn, &net));
                for conn in links.collect::<Vec<_>>() {
                    self.cut(conn);
                }
            }
            3 if self.trouble > 0 && self.successor.is_none() && self.net.percent(40) => {
                note!(self.net, "node {at} is killed");
                if let Some(guests) = &mut self.guests {
                    guests.processes += 1;
                }
                let new = node.anew(&self.net);
                let old = std::mem::replace(node, new);
                self.ends(&old);
                self.net.kill(old.kernels());
                self.guests_lose();
            }
            _ if self.trouble == 0 && self.successor.is_none() => self.all_is_prompt(),
            _ => {}
        }
    }

    /// A process ends without a reason that the broker has heard of.
    fn ends(&mut self, node: &Node) {
        self.links.retain(|conn, _| !node.has(*conn, &self.net));
    }

    /// In a run without faults nothing has to wait for a look at the streams.
    fn all_is_prompt(&mut self) {
        self.rest();
        self.have_all([false, true].map(|keeps| self.broker.is_prompt(keeps)));
        self.guests_have_all();
    }

    /// Checks that readers have everything, those of channels without history or with one.
    fn have_all(&self, which: [bool; 2]) {
        for reader in &self.readers {
            if which[usize::from(reader.track.keeps())] && reader.is_settled() {
                self.witness.has_all(&reader.track);
            }
        }
    }

    fn readers_leave(&mut self) {
        let around = around!(self);
        self.readers.iter_mut().for_each(|it| it.leave(&around));
    }

    fn reader_acts(&mut self, at: usize) {
        let mut around = around!(self);
        let reader = &mut self.readers[at];
        if !reader.is_connected() {
            return reader.connect(&mut around);
        }
        reader.read(self.net.pick(&[7, 1 << 20]), &mut around);
        if self.net.percent(3) {
            reader.leave(&around);
        }
    }

    fn publisher_acts(&mut self) {
        if self.publishers.is_empty() {
            return;
        }
        let at = self.net.below(self.publishers.len());
        let mut around = around!(self);
        let publisher = &mut self.publishers[at];
        publisher.read(&mut around);
        match self.net.percent(3) {
            true => publisher.leave(&around),
            false => publisher.act(true, &mut around),
        }
    }

    fn member_acts(&mut self, at: usize) {
        let around = around!(self);
        let member = &mut self.members[at];
        if !member.is_connected() {
            return member.connect(&around);
        }
        member.read(&self.net);
        if self.net.percent(10) {
            member.leave(&self.net);
        }
    }

    fn bytes_arrive(&self) {
        let live = self.net.live();
        if !live.is_empty() {
            let conn = self.net.pick(&live);
            for conn in [conn, self.net.pick(&live)] {
                self.net.arrive(conn, self.net.pick(&[1, 7, 200, 100_000]));
            }
        }
    }

    fn broker_acts(&mut self, bytes_max: usize) -> bool {
        let mut busy = false;
        while let Some((conn, to)) = self.net.take_dialled() {
            busy = true;
            if self.accepts_guest(conn, to) {
                continue;
            }
            let mut all = self
                .nodes
                .iter()
                .chain(&self.successor)
                .chain(&self.retired);
            let of = all.find(|node| node.has(conn, &self.net));
            let is_cut_off = of.is_some_and(|node| node.is_cut_off);
            let is_refused = self.is_down || is_cut_off || !self.is_calm && self.net.percent(3);
            self.net.answer_dial(conn, is_refused);
            if !is_refused {
                let world = self.net.0.borrow();
                if of.is_some() && conn >= world.faulted_conns {
                    self.links.insert(conn, world.mono_us);
                }
                drop(world);
                self.broker.accept(conn);
            }
        }
        if !self.is_calm && self.net.percent(2) {
            self.broker.copy();
        }
        if self.is_paused || self.is_down {
            return busy;
        }
        let mut left = Vec::new();
        busy |= self.broker.act(bytes_max, &mut left);
        let faulted_at_us = self.net.0.borrow().faulted_at_us;
        for conn in left {
            let since_us = self.links.remove(&conn);
            let is_good = since_us.is_some_and(|since_us| since_us > faulted_at_us);
            assert!(!is_good, "a node gives up connection {conn}, which is good");
        }
        busy
    }

    /// Ends a connection to the broker behind any byte.
    fn cut(&mut self, conn: usize) {
        let bytes = self.net.pick(&[0, 1, 30, 200, 1 << 20]);
        note!(
            self.net,
            "the broker's connection {conn} is cut behind {bytes} bytes"
        );
        self.net.fault();
        self.links.remove(&conn);
        self.broker.cut(conn, bytes);
    }

    fn broker_trouble(&mut self) {
        self.net.fault();
        let clients = self.broker.clients();
        match self.net.below(10) {
            _ if self.is_down && self.net.percent(70) => self.broker_starts(),
            0..4 if !clients.is_empty() => self.cut(self.net.pick(&clients)),
            _ if self.is_paused => self.is_paused = false,
            4 => self.is_paused = true,
            5 | 6 => self.broker_ails(),
            7 | 8 if !self.is_down => {
                note!(self.net, "the broker stops");
                self.is_down = true;
                clients.into_iter().for_each(|conn| self.cut(conn));
            }
            _ => {}
        }
    }

    fn broker_ails(&mut self) {
        if let Some(is_less) = self.broker.trouble() {
            self.witness.broker_started(is_less);
        }
        self.was_ill |= self.broker.is_ill();
    }

    /// Ends some of what ails.
    fn heals(&mut self) {
        let is_ill = self.is_down || self.is_paused || self.broker.is_ill();
        let cut_off = self.nodes.iter_mut().filter(|node| node.is_cut_off);
        let cut_off: Vec<&mut Node> = cut_off.collect();
        if !is_ill && cut_off.is_empty() || self.net.percent(50) {
            return;
        }
        note!(self.net, "something heals");
        self.net.fault();
        cut_off.into_iter().for_each(|node| node.is_cut_off = false);
        self.is_paused = false;
        self.broker.heal();
        if self.is_down {
            self.broker_starts();
        }
    }

    fn broker_starts(&mut self) {
        let kept = self
            .net
            .pick(&[Kept::All, Kept::All, Kept::Older, Kept::Nothing]);
        note!(self.net, "the broker starts with {kept:?}");
        self.is_down = false;
        let is_less = self.broker.start(kept);
        self.witness.broker_started(is_less);
    }

    /// Lets everybody act until nothing is left to do.
    fn rest(&mut self) {
        let mut those = [false; 6];
        for _ in 0..100_000 {
            those[0] = self.broker_acts(1 << 20) | self.net.pump_all();
            self.net.arrive_all();
            let all = self.nodes.iter_mut().chain(&mut self.successor);
            those[1] = all
                .chain(&mut self.retired)
                .fold(false, |busy, node| node.turn_all() | busy);
            self.retire();
            let mut around = around!(self);
            let readers = self.readers.iter_mut();
            those[2] = readers.fold(false, |busy, it| it.read(usize::MAX, &mut around) | busy);
            let publishers = self.publishers.iter_mut();
            those[3] = publishers.fold(false, |busy, it| it.read(&mut around) | busy);
            let members = self.members.iter_mut();
            those[4] = members.fold(false, |busy, it| it.read(&self.net) | busy);
            those[5] = self.guests_rest() | self.backends_act();
            if those == [false; 6] {
                return;
            }
            self.net.pass_us(10);
        }
        panic!("broker, nodes, readers, publishers, members, guests never rest: {those:?}");
    }

    /// The faults are over: everything that is owed comes.
    fn settle(&mut self) {
        if self.trouble == 0 {
            self.all_is_prompt();
            if self.kind != BrokerKind::Memory && self.broker.is_prompt(false) {
                self.nothing_was_missing();
            }
        }
        self.is_calm = true;
        self.net.calm_lanes();
        let is_prompt = self.broker.is_prompt(true);
        self.broker.calm();
        self.guests_calm();
        for _ in 0..20 {
            self.heals();
        }
        self.net.fault();
        match self.net.below(10) {
            0..3 => self.all_readers_are_away(),
            3..6 if self.trouble > 0 => self.only_the_broker_ails(),
            _ => {}
        }
        // Some stay away.
        let is_away = |_: &Member| self.net.percent(40);
        let away: Vec<bool> = self.members.iter().map(is_away).collect();
        // Connections are made anew, channels are compared with their streams, leases renewed.
        for round in 0..60 {
            self.witness.step += 1;
            self.rest();
            self.guests_come();
            if round == 20 && is_prompt && !self.was_ill {
                // What a lost connection left out is looked for behind the next one.
                self.have_all([false, true]);
            }
            let mut around = around!(self);
            for reader in &mut self.readers {
                if !reader.is_connected() {
                    reader.connect(&mut around);
                }
            }
            for (member, is_away) in self.members.iter_mut().zip(&away) {
                match *is_away {
                    true => member.leave(&self.net),
                    false if !member.is_connected() => member.connect(&around),
                    false => {}
                }
            }
            for publisher in &mut self.publishers {
                publisher.act(false, &mut around);
            }
            self.net.pass_us(1_000_000);
        }
        self.rest();
        self.guests_settle();
        let waiting = self.publishers.iter().filter_map(Publisher::pending);
        for n in waiting {
            let may_wait = self
                .witness
                .may_wait(n, |keeps| self.broker.keeps_beside(keeps));
            assert!(may_wait, "publication {n} is not acknowledged");
        }
        assert!(self.retired.is_empty(), "a process does not end");
        self.members_agree(&away);
        let unsettled = self.readers.iter().find(|reader| !reader.is_settled());
        let name = unsettled.map(|reader| &reader.track.name);
        assert_eq!(name, None, "a reader is not let in");
        self.witness
            .settle(self.readers.iter().map(|reader| &reader.track));
    }

    /// In a run without faults, by a broker that keeps an order, nothing was ever missing.
    fn nothing_was_missing(&mut self) {
        for node in 0..self.nodes.len() {
            // What a successor lacks it has to look for.
            if self.nodes[node].is_successor {
                continue;
            }
            let answer = around!(self).ask(node, PORT_API, "GET", "/metrics", None);
            let answer = self.whole(answer);
            let text = String::from_utf8_lossy(answer.body());
            let mut lines = text.lines();
            let refills = lines.find_map(|line| line.strip_prefix("throng_broker_refilled_total "));
            assert_eq!(refills, Some("0"), "gaps of node {node}");
        }
    }

    /// Every node lists and counts those who are there, and nobody else.
    fn members_agree(&mut self, away: &[bool]) {
        let there = self.members.iter().zip(away);
        let there = there.filter(|(_, is_away)| !**is_away);
        let there = there.map(|(member, _)| member.client().expect("it is let in").to_owned());
        let there: BTreeSet<String> = there.collect();
        for node in 0..self.nodes.len() {
            let answer = member::ask(node, "presence", &around!(self));
            let answer = self.whole(answer);
            assert_eq!(member::listed(&answer), there, "members, says node {node}");
            let answer = member::ask(node, "presence_stats", &around!(self));
            let counted = member::counted(&self.whole(answer));
            let count = there.len() as u64;
            assert_eq!(counted, Some(count), "their number, says node {node}");
        }
        self.net
            .add("a member is listed at the end", there.len() as u64);
    }
}

/// The configuration of every node, given the table of its broker and that of Appwrite.
fn config(broker: &str, appwrite: &str) -> Config {
    let mut text = format!(
        "{}[broker]\n{broker}{appwrite}",
        include_str!("cluster/node.toml")
    );
    let channels = CHANNELS.iter().map(|channel| {
        let history = (channel.history as u64, TTL_MS);
        (
            channel.name,
            history,
            "anonymous_subscribe = true\n".to_owned(),
        )
    });
    setup::append_namespaces(channels, &mut text);
    setup::load(text)
}

/// Plays one seed of a cluster.
pub(crate) fn run(net: Net, seed: u64, steps: usize, kind: BrokerKind) {
    // Where there are several nodes, only with guests.
    net.may_draw_lanes(seed, if kind == BrokerKind::Memory { 2 } else { 3 });
    let mut play = Play::new(net, seed, kind);
    for _ in 0..steps {
        play.step();
    }
    play.settle();
}
