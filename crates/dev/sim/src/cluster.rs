//! Several nodes that share a broker: the real server, host, peer and node state machine of each,
//! over the played kernel; a played Redis with the real scripts, or a played NATS with JetStream;
//! readers and members that move between nodes.
//!
//! The witness (`witness.rs`) knows what each reader must have seen. Faults: connections cut at any
//! byte, a broker that pauses, stops, starts with all, older or no data or as another line of
//! replication, that refuses writes; clocks that leap. Nodes are not killed.

mod around;
pub(crate) mod broker;
mod http;
mod member;
pub(crate) mod nats;
mod node;
mod publisher;
mod reader;
pub(crate) mod redis;
mod witness;

use std::collections::BTreeSet;

use self::around::Around;
use self::broker::{Broker, Kept};
use self::http::Progress;
use self::member::Member;
use self::nats::Nats;
use self::node::Node;
use self::publisher::Publisher;
use self::reader::Reader;
use self::redis::Redis;
use self::witness::Witness;
use crate::fault::Fault;
use crate::net::{Net, Odds};
use crate::trace::Detail;
use crate::{Failure, attempt};

pub use broker::BrokerKind;
pub use witness::Summary as ClusterSummary;

struct Play {
    net: Net,
    nodes: Vec<Node>,
    broker: Box<dyn Broker>,
    readers: Vec<Reader>,
    members: Vec<Member>,
    publishers: Vec<Publisher>,
    witness: Witness,
    kernel_bytes: usize,
    /// Faults in a hundred steps of the broker.
    trouble: usize,
    is_calm: bool,
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
        let broker: Box<dyn Broker> = match kind {
            BrokerKind::Redis => Box::new(Redis::new(&net)),
            BrokerKind::Nats => Box::new(Nats::new(&net)),
        };
        let config = broker.config();
        let nodes = net.between(2, 3);
        let shards = net.between(1, 2);
        let nodes = (0..nodes).map(|number| Node::new(number, shards, seed, &config, &net));
        let nodes = nodes.collect();
        let mut play = Self {
            broker,
            nodes,
            readers: Vec::new(),
            members: Vec::new(),
            publishers: Vec::new(),
            witness: Witness::default(),
            kernel_bytes: net.pick(&[300, 2000, 30_000]),
            trouble: net.pick(&[0, 1, 3]),
            is_calm: false,
            net,
        };
        {
            let world = &mut *play.net.0.borrow_mut();
            world.mailbox_slots = [3, 20, 4096][world.rng.below(3) as usize];
            world.odds = Odds::draw(&mut world.rng);
            world.odds.accept = 0;
        }
        for number in 0..play.net.between(4, 10) {
            let reader = Reader::new(number, &around!(play));
            play.readers.push(reader);
        }
        play.members
            .resize_with(play.net.between(0, 4), Member::default);
        play.publishers
            .resize_with(play.net.between(1, 4), Publisher::default);
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
        match self.net.below(100) {
            0..45 => {
                for _ in 0..self.net.between(1, 5) {
                    let node = self.net.below(self.nodes.len());
                    self.nodes[node].turn(&self.net);
                }
            }
            45..60 => drop(self.broker_acts(self.net.pick(&[1, 100, 1 << 20]))),
            60..63 if !self.members.is_empty() => {
                let at = self.net.below(self.members.len());
                self.member_acts(at);
            }
            60..71 => {
                let at = self.net.below(self.readers.len());
                self.reader_acts(at);
            }
            71..80 => {
                let at = self.net.below(self.publishers.len());
                let mut around = around!(self);
                let publisher = &mut self.publishers[at];
                publisher.read(&mut around);
                match self.net.percent(3) {
                    true => publisher.leave(&around),
                    false => publisher.act(true, &mut around),
                }
            }
            80..93 => self.bytes_arrive(),
            93..98 if self.net.percent(self.trouble * 5) => self.broker_trouble(),
            98.. if self.net.percent(self.trouble) => {
                self.net.hit(Fault::ClockLeap);
                let ms = self.net.pick(&[200, 700, 3_000, 12_000]);
                self.net.note(format_args!("the clock leaps by {ms} ms"));
                self.net.pass_us(ms * 1000);
            }
            _ => {}
        }
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
        let live = self.net.0.borrow().live.clone();
        if !live.is_empty() {
            let conn = self.net.pick(&live);
            for conn in [conn, self.net.pick(&live)] {
                self.net.arrive(conn, self.net.pick(&[1, 200, 100_000]));
            }
        }
    }

    fn broker_acts(&mut self, bytes_max: usize) -> bool {
        let mut busy = false;
        while let Some((conn, _)) = self.net.take_dialled() {
            busy = true;
            let is_refused = self.broker.is_down() || !self.is_calm && self.net.percent(3);
            self.net.answer_dial(conn, is_refused);
            if !is_refused {
                self.broker.accept(conn);
            }
        }
        if !self.is_calm && self.net.percent(10) {
            self.broker.copy();
        }
        self.broker.act(bytes_max) | busy
    }

    fn broker_trouble(&mut self) {
        match self.net.below(10) {
            _ if self.broker.is_down() && self.net.percent(70) => self.broker_starts(),
            0..4 if self.broker.clients() > 0 => {
                let at = self.net.below(self.broker.clients());
                self.broker
                    .cut(at, self.net.pick(&[0, 1, 30, 200, 1 << 20]));
            }
            _ if self.broker.is_paused() => self.broker.pause(false),
            4 => self.broker.pause(true),
            5 | 6 => self.broker.trouble(),
            7.. if !self.broker.is_down() => {
                self.net.note("the broker stops");
                self.broker.stop();
            }
            _ => {}
        }
    }

    fn broker_starts(&mut self) {
        let kept = self
            .net
            .pick(&[Kept::All, Kept::All, Kept::Older, Kept::Nothing]);
        self.net
            .note(format_args!("the broker starts with {kept:?}"));
        let is_less = self.broker.start(kept);
        self.witness.broker_started(is_less, &self.net);
    }

    /// Lets everybody act until nothing is left to do.
    fn rest(&mut self) {
        for _ in 0..100_000 {
            let mut busy = self.broker_acts(1 << 20);
            let live = self.net.0.borrow().live.clone();
            live.iter()
                .for_each(|&conn| self.net.arrive(conn, usize::MAX));
            for node in &mut self.nodes {
                busy |= node.turn_all();
            }
            let mut around = around!(self);
            for reader in &mut self.readers {
                busy |= reader.read(usize::MAX, &mut around);
            }
            for publisher in &mut self.publishers {
                busy |= publisher.read(&mut around);
            }
            for member in &mut self.members {
                busy |= member.read(&self.net);
            }
            if !busy {
                return;
            }
            self.net.pass_us(10);
        }
        panic!("the nodes never come to rest");
    }

    /// The faults are over: everything that is owed comes.
    fn settle(&mut self) {
        self.is_calm = true;
        self.broker.calm();
        if self.broker.is_down() {
            self.broker_starts();
        }
        // Some stay away.
        let is_away = |_: &Member| self.net.percent(40);
        let away: Vec<bool> = self.members.iter().map(is_away).collect();
        // Connections are made anew, channels are compared with their streams, leases renewed.
        for _ in 0..60 {
            self.witness.step += 1;
            self.rest();
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
        let waiting = self.publishers.iter().filter_map(Publisher::pending);
        for n in waiting {
            let beside = self.broker.keeps_beside();
            let may_wait = beside.is_some_and(|beside| self.witness.is_covered(n, beside));
            assert!(may_wait, "publication {n} is not acknowledged");
        }
        self.members_agree(&away);
        let unsettled = self.readers.iter().find(|reader| !reader.is_settled());
        let name = unsettled.map(|reader| &reader.track.name);
        assert_eq!(name, None, "a reader is not let in");
        self.witness
            .settle(self.readers.iter().map(|reader| &reader.track));
    }
}

impl Play {
    /// Every node lists those who are there, and nobody else.
    fn members_agree(&mut self, away: &[bool]) {
        let there = self.members.iter().zip(away);
        let there = there.filter(|(_, is_away)| !**is_away);
        let there = there.map(|(member, _)| member.client().expect("it is let in").to_owned());
        let there: BTreeSet<String> = there.collect();
        for node in 0..self.nodes.len() {
            let mut answer = member::ask(node, &around!(self));
            while answer.read(&self.net, usize::MAX) == Progress::Open {
                self.rest();
                self.net.pass_us(100_000);
            }
            assert_eq!(member::listed(&answer), there, "members, says node {node}");
        }
        self.witness.sum.members += there.len() as u64;
    }
}

/// Runs one seed of a cluster for so many steps; gives the hash of its trace.
///
/// # Errors
/// If anything did not hold; also where a node panicked.
pub fn run_cluster(
    seed: u64,
    steps: usize,
    kind: BrokerKind,
    print: bool,
) -> Result<(u64, ClusterSummary), Failure> {
    let net = Net::new(seed, if print { Detail::Print } else { Detail::Last });
    let result = attempt(seed, &net.clone(), || {
        throng_sys::random::repeat(Some(seed));
        let mut play = Play::new(net, seed, kind);
        for _ in 0..steps {
            play.step();
        }
        play.settle();
        let hash = play.net.0.borrow().trace.hash();
        (hash, play.witness.sum)
    });
    throng_sys::random::repeat(None);
    result
}
