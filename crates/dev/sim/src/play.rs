//! The server as it is, its clients, publishers and backends, one random step after the other.

#[macro_use]
mod around;
mod end;
mod grip;
mod handover;

use std::sync::Arc;

use throng_appwrite_api::AppwritePeer;
use throng_engine::ConnLimits;
use throng_outward::Outward;
use throng_server::{Assembly, Options, ShardApp, Start};

use crate::backend::Requests;
use crate::client::{Around, Client};
use crate::net::{Net, Odds};
use crate::publisher::Publisher;
use crate::setup::Setup;
use crate::stage::Stage;
use crate::visitor::Visitor;
use crate::witness::Witness;
use crate::zmq::{Speaks, ZmqPublisher};

struct Play {
    net: Net,
    setup: Setup,
    witness: Witness,
    assembly: Assembly,
    stage: Stage<ShardApp>,
    appwrite: AppwriteStage,
    requests: Requests,
    clients: Vec<Client>,
    publishers: Vec<Publisher>,
    visitors: Vec<Visitor>,
    zmq: Vec<ZmqPublisher>,
    draining: bool,
    made_of: MadeOf,
    /// Processes that have handed over, with what has stayed.
    retired: Vec<Process>,
}

/// A process: what its shards share, the shards, and the host of Appwrite's peer.
type Process = (Assembly, Stage<ShardApp>, AppwriteStage);
type AppwriteStage = Stage<Outward<AppwritePeer>>;

/// Parts from which every process of a run is built.
struct MadeOf {
    options: Options,
    start: Start,
    requests: Requests,
}

impl MadeOf {
    fn process(&self, net: &Net, setup: &Setup) -> Process {
        let assembly = Assembly::new(&self.options, setup.shards, self.start);
        let assembly = assembly.expect("a good configuration");
        let limits = ConnLimits {
            queue_bytes_max: setup.queue_bytes_max,
            queued_bytes_max: setup.queued_bytes_max,
            unread_above_bytes: setup.unread_above_bytes,
            spare_descriptors: 2,
            handshake_timeout_ms: 10_000,
        };
        let listeners = assembly.listeners();
        let mut appwrite = None;
        let stage = Stage::new(net, setup.shards, listeners, limits, |shard, mailboxes| {
            if appwrite.is_none() {
                let started = assembly.start_appwrite(mailboxes, |peer, deliver| {
                    let (stage, calls) = Stage::serve(net, peer, deliver);
                    appwrite = Some(stage);
                    calls.into()
                });
                started.expect("a peer without addresses");
            }
            assembly.app(shard, mailboxes, Box::new(self.requests.clone()), None)
        });
        (assembly, stage, appwrite.expect("it is configured"))
    }
}

impl Play {
    fn new(net: Net, seed: u64, setup: Setup) -> Self {
        let options = Options {
            config: Arc::new(setup.config(&net)),
            version: "sim",
            capacity: None,
            memory_bytes: None,
            ask_reload: None,
        };
        let start = Start {
            unix_ms: 0,
            seed,
            secret: [seed as u8; 32],
        };
        let made_of = MadeOf {
            options,
            start,
            requests: Requests::default(),
        };
        let requests = made_of.requests.clone();
        let (assembly, stage, appwrite) = made_of.process(&net, &setup);
        {
            let world = &mut *net.0.borrow_mut();
            world.mailbox_slots = [1, 3, 20, 4096][world.rng.below(4) as usize];
            world.odds = Odds::draw(&mut world.rng);
        }
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
            made_of,
            retired: Vec::new(),
            assembly,
            stage,
            appwrite,
            requests,
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
            for mailbox in &self.stage.mailboxes {
                assert!(self.assembly.drain(mailbox), "room for one word");
            }
        }
        self.net.pass_us(self.net.between(0, 8000) as u64);
        match self.net.below(100) {
            0..40 => {
                let shard = self.net.below(self.stage.len());
                if self.net.percent(3) {
                    self.net.count("a turn begins late");
                    self.net.pass_us(50_000);
                }
                if self.stage.is_awake(shard) {
                    self.stage.turn(shard);
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
                self.requests.act(8, &self.stage.mailboxes, &self.net);
            }
            93..96 => drop(self.appwrite.turn_all()),
            96..98 => {
                let shard = self.net.below(self.stage.len());
                let stray = self.net.below(12) as u32;
                self.net.count("readiness is reported for nothing");
                let kernel = self.stage.kernel(shard);
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
    let mut play = Play::new(net, seed, setup);
    for step in 0..steps {
        play.step(step);
    }
    play.settle();
    play.end();
}
