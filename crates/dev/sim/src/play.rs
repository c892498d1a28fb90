//! The server as it is, its clients, publishers and backends, one random step after the other.

/// Lends the parts that clients need.
macro_rules! around {
    ($play:ident) => {
        Around {
            net: &$play.net,
            setup: &$play.setup,
            witness: &mut $play.witness,
            backend: &$play.node.requests,
        }
    };
}

mod end;
mod handover;

use std::sync::Arc;

use throng_engine::ConnLimits;
use throng_server::Start;

use crate::backend::Requests;
use crate::client::{Around, Client};
use crate::net::Net;
use crate::node::{LIMITS, MadeOf, Node, turn_hosts};
use crate::publisher::Publisher;
use crate::setup::Setup;
use crate::visitor::Visitor;
use crate::witness::Witness;
use crate::zmq::{Speaks, ZmqPublisher};

struct Play {
    net: Net,
    setup: Setup,
    witness: Witness,
    /// The process in charge.
    node: Node,
    clients: Vec<Client>,
    publishers: Vec<Publisher>,
    visitors: Vec<Visitor>,
    zmq: Vec<ZmqPublisher>,
    draining: bool,
    /// Processes that have handed over, with what has stayed.
    retired: Vec<Node>,
}

impl Play {
    fn new(net: Net, seed: u64, setup: Setup) -> Self {
        let start = Start {
            unix_ms: 0,
            seed,
            secret: [seed as u8; 32],
        };
        let limits = ConnLimits {
            queue_bytes_max: setup.queue_bytes_max,
            queued_bytes_max: setup.queued_bytes_max,
            unread_above_bytes: setup.unread_above_bytes,
            ..LIMITS
        };
        let made_of = MadeOf {
            shards: setup.shards,
            start,
            limits,
            config: Arc::new(setup.config(&net)),
            requests: Requests::default(),
            journal: None,
        };
        let node = Node::new(made_of, false, &net);
        net.draw_faults(&[1, 3, 20, 4096]);
        let mut play = Self {
            witness: Witness::new(&net, setup.tight, setup.shards == 1),
            clients: Vec::new(),
            publishers: Vec::new(),
            visitors: Vec::new(),
            zmq: vec![
                ZmqPublisher::new(Speaks::Push),
                ZmqPublisher::new(Speaks::Xpub),
            ],
            draining: false,
            retired: Vec::new(),
            node,
            setup,
            net,
        };
        for number in 0..play.setup.clients {
            let client = Client::new(number, &around!(play));
            play.clients.push(client);
        }
        for _ in 0..play.setup.publishers {
            play.publishers.push(Publisher::new(false));
        }
        if !play.setup.hands_over {
            play.publishers.push(Publisher::new(true));
        }
        for number in 0..play.setup.visitors {
            let visitor = Visitor::new(number, &around!(play));
            play.visitors.push(visitor);
        }
        play
    }

    // ---- steps ----

    fn step(&mut self, step: usize) {
        if self.setup.drain_at == Some(step) {
            self.draining = true;
            self.net.count("the server drains");
            note!(self.net, "the drain begins");
            for mailbox in &self.node.stage.mailboxes {
                assert!(self.node.assembly.drain(mailbox), "room for one word");
            }
        }
        self.net.pass_us(self.net.between(0, 8000) as u64);
        match self.net.below(100) {
            0..40 => {
                let stage = &mut self.node.stage;
                let shard = self.net.below(stage.len());
                if self.net.percent(3) {
                    self.net.count("a turn begins late");
                    self.net.pass_us(50_000);
                }
                if stage.is_awake(shard) {
                    stage.turn(shard);
                }
                self.retired_turn();
            }
            40..58 => {
                let at = self.net.below(self.clients.len());
                self.clients[at].read(&mut around!(self));
            }
            58..74 => self.client_acts(),
            74..99 if self.setup.hands_over => self.hand_over_or_publish(),
            74..82 => self.visitor_acts(),
            82..90 => self.publisher_acts(),
            90..93 => {
                let mailboxes = &self.node.stage.mailboxes;
                self.node.requests.act(8, mailboxes, &self.net);
            }
            93..96 => drop(turn_hosts(&mut self.node.hosts)),
            96..98 => {
                let shard = self.net.below(self.node.stage.len());
                let stray = self.net.below(12) as u32;
                self.net.count("readiness is reported for nothing");
                let kernel = self.node.stage.kernel(shard);
                self.net.0.borrow_mut().shards[kernel].strays.push(stray);
            }
            _ => {
                if self.net.percent(self.setup.leap_percent * 3) {
                    let leaps = [2_000, 9_000, 30_000, 70_000, 700_000, 8_000_000];
                    let ms = self.net.pick(&leaps);
                    self.net.leap_ms(ms);
                }
            }
        }
    }

    fn client_acts(&mut self) {
        let at = self.net.below(self.clients.len());
        let Some(conn) = self.clients[at].conn() else {
            return self.clients[at].connect(&mut around!(self));
        };
        if self.net.percent(40) {
            self.net.arrive(conn, self.net.pick(&[1, 20, 100_000]));
        } else if self.net.percent(self.setup.cut_percent) {
            self.clients[at].cut(&mut around!(self));
        } else {
            self.clients[at].act(&mut around!(self));
        }
    }

    fn visitor_acts(&mut self) {
        if self.visitors.is_empty() {
            return;
        }
        let at = self.net.below(self.visitors.len());
        let Some(conn) = self.visitors[at].conn() else {
            return self.visitors[at].connect(&mut around!(self));
        };
        let visitor = &mut self.visitors[at];
        match self.net.below(100) {
            0..30 => self.net.arrive(conn, self.net.pick(&[1, 20, 100_000])),
            30..70 => {
                visitor.read(&mut around!(self));
            }
            _ if self.net.percent(self.setup.cut_percent) => visitor.leave(&around!(self)),
            _ => visitor.act(&around!(self)),
        }
    }

    fn publisher_acts(&mut self) {
        if !self.setup.hands_over && self.net.percent(20) {
            let publisher = &mut self.zmq[self.net.below(2)];
            return publisher.act(&mut around!(self));
        }
        let at = self.net.below(self.publishers.len());
        let publisher = &mut self.publishers[at];
        let mut around = around!(self);
        if let Some(conn) = publisher.conn() {
            self.net.arrive(conn, self.net.pick(&[1, 100, 100_000]));
        } else {
            publisher.connect(&mut around);
        }
        if self.net.percent(self.setup.cut_percent) {
            return publisher.leave(&mut around);
        }
        if self.net.percent(60) {
            publisher.read(&mut around);
        }
        publisher.act(&mut around);
    }
}

/// Plays one seed of the server.
pub(crate) fn run_server(net: Net, seed: u64, steps: usize) {
    let mut setup = Setup::draw(&net, steps);
    // By the seed alone, so that no other run is another one by it.
    match seed % 8 {
        7 => setup.stingy = true,
        // Answers of the API find room.
        5 => setup.queued_bytes_max = (2 * setup.queue_bytes_max).max(20_000),
        _ => {}
    }
    run(net, seed, steps, setup);
}

/// Plays one seed of a server that hands over to another process now and then, or tries to.
pub(crate) fn run_hand_overs(net: Net, seed: u64, steps: usize) {
    let setup = Setup::draw_handing_over(&net, steps);
    run(net, seed, steps, setup);
}

fn run(net: Net, seed: u64, steps: usize, setup: Setup) {
    net.may_draw_lanes(seed, 2);
    let mut play = Play::new(net, seed, setup);
    for step in 0..steps {
        play.step(step);
    }
    play.settle();
    play.end();
}
