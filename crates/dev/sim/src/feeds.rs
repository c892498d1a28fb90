//! Feeds under the simulated kernel: the real peer in its real host, on one node or several, and a
//! played source that they share: Redis, PostgreSQL, Kafka, NATS.
//!
//! Where the feed publishes there are played shards with the real way to and from them; the witness
//! (`witness.rs`) is behind them and in the source. Faults: connections that are cut at any byte,
//! refused or never answered again; answers that come late; a source that pauses, stops, starts
//! with all, older or no data, or refuses; shards that are slow, full, or refuse; clocks that leap;
//! nodes that sleep, are killed, or give the source back and go on.

mod kafka;
mod nats;
mod node;
mod postgres;
mod redis;
mod server;
mod witness;

use throng_feeds::FeedOrder;

use self::node::Node;
use self::server::Server;
use self::witness::{Kind, Witness};
use crate::net::Net;

pub(crate) use self::kafka::Kafka;
pub(crate) use self::nats::Nats;
pub(crate) use self::postgres::Postgres;
pub(crate) use self::redis::Redis;
pub(crate) use self::server::Source;

/// Counted for each of a node's own troubles.
const MOVES: &str = "a node sleeps, is killed, or gives its source back";
/// Events of a run before the faults end, at most.
const EVENTS_MAX: usize = 300;
/// Rounds, half a second each, within which all is published once the faults are over: longer than
/// a session of Kafka and its rebalance, and the longest pause after a failure.
const ROUNDS_MAX: usize = 240;

struct Play {
    net: Net,
    server: Server,
    nodes: Vec<Node>,
    witness: Witness,
    batch_max: usize,
    channels: usize,
    /// Faults in a hundred of the steps that may have one.
    trouble: usize,
}

impl Play {
    fn new(net: Net, source: fn(&Net) -> Box<dyn Source>) -> Self {
        net.draw_odds();
        net.accepts_all();
        let mut play = Self {
            server: Server::new(&net, source(&net)),
            nodes: Vec::new(),
            witness: Witness::new(&net, net.percent(30)),
            batch_max: net.pick(&[1, 3, 10, 100]),
            channels: net.between(1, 5),
            trouble: net.pick(&[0, 10, 30, 60]),
            net,
        };
        for _ in 0..play.net.between(1, 3) {
            let node = play.node();
            play.nodes.push(node);
        }
        play
    }

    fn node(&self) -> Node {
        let options = self.server.source.options();
        Node::new(&self.net, options, self.batch_max, self.witness.is_on_disk)
    }

    fn step(&mut self) {
        let us = self.net.pick(&[0, 100, 1_000, 5_000, 40_000]);
        self.net.pass_us(us);
        match self.net.below(100) {
            0..40 => {
                let at = self.net.below(self.nodes.len());
                self.nodes[at].turn(&self.net);
            }
            40..60 => {
                let bytes_max = self.net.pick(&[1, 100, 1 << 20]);
                self.server.act(bytes_max, &mut self.witness);
            }
            60..66 if self.witness.len() < EVENTS_MAX && self.server.is_up() => self.add(),
            66..80 => {
                let at = self.net.below(self.nodes.len());
                let node = &mut self.nodes[at];
                node.answer(&self.net, &mut self.witness);
                if node.is_paused() && self.net.percent(10) {
                    note!(self.net, "node {at} goes on");
                    node.go();
                }
            }
            80..93 => self.net.arrive_some(&[1, 200, 100_000]),
            93 if self.net.percent(20) => self.server.copy(),
            94..97 if self.net.percent(self.trouble) => self.server.trouble(&mut self.witness),
            97 if self.net.percent(self.trouble) => {
                self.net.leap_ms(self.net.pick(&[200, 700, 3_000, 12_000]));
            }
            98.. if self.net.percent(self.trouble) => self.node_trouble(),
            _ => {}
        }
    }

    fn add(&mut self) {
        let kind = match self.net.below(20) {
            0 => Kind::Empty,
            1 => Kind::TooLong,
            2 => Kind::Nowhere,
            _ => Kind::Good,
        };
        let channel = self.net.below(self.channels);
        let event = self.witness.make(channel, kind);
        note!(self.net, "event {event} of {channel}: {kind:?}");
        self.server.add(event, &mut self.witness);
    }

    fn node_trouble(&mut self) {
        let at = self.net.below(self.nodes.len());
        let net = self.net.clone();
        let node = &mut self.nodes[at];
        match net.below(8) {
            0 | 1 => {
                net.count(MOVES);
                let ms = net.pick(&[300, 5_000, 30_000]);
                note!(net, "node {at} sleeps for {ms} ms");
                node.asleep_until_us = net.now_us() + ms * 1000;
            }
            2 => {
                net.count(MOVES);
                note!(net, "node {at} is killed");
                self.nodes[at] = self.node();
            }
            3 if !node.is_paused() => {
                net.count(MOVES);
                note!(net, "node {at} gives the source back");
                node.give_back(FeedOrder::Pause);
                // What it had offered may be answered once it has gone on.
                node.set_room(net.pick(&[0, 0, usize::MAX]));
            }
            4 | 5 => node.set_room(net.pick(&[0, 1, 5, usize::MAX])),
            _ => node.refuses = net.pick(&[0, 10, 60, 100]),
        }
    }

    /// Lets everybody act until nothing is left to do.
    fn rest(&mut self) {
        for _ in 0..100_000 {
            let mut busy = self.server.act(1 << 20, &mut self.witness);
            self.net.arrive_all();
            for node in &mut self.nodes {
                busy |= node.turn(&self.net);
                while node.answer(&self.net, &mut self.witness) {
                    busy = true;
                }
            }
            if !busy {
                return;
            }
            self.net.pass_us(10);
        }
        panic!("the feeds never come to rest");
    }

    /// Lets so many half seconds pass.
    fn pass(&mut self, times: usize) {
        for _ in 0..times {
            self.rest();
            self.net.pass_us(500_000);
        }
        self.rest();
    }

    /// Lets time pass until all is acknowledged, and checks that it is.
    fn finish(&mut self, what: &str) {
        for _ in 0..ROUNDS_MAX {
            self.rest();
            if self.server.source.owes().is_none() {
                self.witness.settle();
                return;
            }
            self.net.pass_us(500_000);
        }
        let owes = self.server.source.owes();
        panic!("{what} is not acknowledged: {owes:?}");
    }

    /// The faults are over: everything that is owed comes.
    fn settle(&mut self) {
        self.server.calm(&mut self.witness);
        for node in &mut self.nodes {
            (node.asleep_until_us, node.refuses, node.haste) = (0, 0, 100);
            node.set_room(usize::MAX);
            if node.is_paused() {
                node.go();
            }
        }
        self.finish("what was there when the faults ended");
        for _ in 0..3 {
            // All nodes have slept for longer than a lease, a session or a wait holds.
            self.net.pass_us(self.net.pick(&[12_000_000, 45_000_000]));
            self.rest();
            for _ in 0..5 {
                self.add();
                self.net.pass_us(self.net.pick(&[100, 100_000]));
            }
            self.finish("what came after the faults");
        }
        // Each has a connection to every server, and one to a coordinator.
        let most = self.nodes.len() * (self.server.source.hosts() + 1);
        self.pass(60);
        let clients = self.server.clients();
        assert!(clients <= most, "{clients} connections of {most} are open");
        for node in &mut self.nodes {
            node.give_back(FeedOrder::End);
        }
        self.pass(3);
        for node in &self.nodes {
            assert!(!node.is_giving_back(), "a feed has not ended");
        }
        self.pass(1);
        assert!(self.nodes.iter().all(Node::is_over), "something is left");
    }
}

/// Plays one seed of feeds from such a source.
pub(crate) fn run(net: Net, steps: usize, source: fn(&Net) -> Box<dyn Source>) {
    let mut play = Play::new(net, source);
    for _ in 0..steps {
        play.step();
    }
    play.settle();
}
