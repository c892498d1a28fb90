//! The server as it is, its clients, publishers and backends, one random step after the other.

#[macro_use]
mod around;
mod appwrite;
mod grip;

use std::sync::Arc;

use throng_engine::ConnLimits;
use throng_server::gateways::Gateways;
use throng_server::{Assembly, Options, ShardApp, Start};
use throng_sys::random;

use crate::Failure;
use crate::attempt;
use crate::backend::Requests;
use crate::client::{Around, Client};
use crate::directory::Directory;
use crate::fault::{Fault, Hits};
use crate::net::{Net, Odds};
use crate::publisher::Publisher;
use crate::setup::{CHANNELS, Setup};
use crate::stage::Stage;
use crate::trace::Detail;
use crate::visitor::Visitor;
use crate::witness::{Summary, Witness};
use crate::zmq::{Speaks, ZmqPublisher};

struct Play {
    net: Net,
    setup: Setup,
    witness: Witness,
    assembly: Assembly,
    stage: Stage<ShardApp<Gateways>>,
    requests: Requests,
    directory: Directory,
    clients: Vec<Client>,
    publishers: Vec<Publisher>,
    visitors: Vec<Visitor>,
    zmq: Vec<ZmqPublisher>,
    draining: bool,
}

impl Play {
    fn new(net: Net, seed: u64, steps: usize) -> Self {
        random::repeat(Some(seed));
        let setup = Setup::draw(&net, steps);
        let options = Options {
            config: Arc::new(setup.config(&net)),
            version: "sim",
            capacity: None,
            ask_reload: None,
        };
        let requests = Requests::default();
        let start = Start {
            unix_ms: 0,
            seed,
            secret: [seed as u8; 32],
        };
        let assembly = Assembly::new(&options, setup.shards, start).expect("a good configuration");
        let directory = Directory::default();
        assembly.look_up_with(Arc::new(directory.clone()));
        let limits = ConnLimits {
            queue_bytes_max: setup.queue_bytes_max,
            unread_above_bytes: setup.unread_above_bytes,
            spare_descriptors: 2,
            handshake_timeout_ms: 10_000,
        };
        let listeners = assembly.listeners();
        let stage = Stage::new(&net, setup.shards, listeners, limits, |shard, mailboxes| {
            assembly.app(shard, mailboxes, Box::new(requests.clone()))
        });
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
            assembly,
            stage,
            requests,
            directory,
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
        play.publishers.push(Publisher::new(true));
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
            self.net.hit(Fault::Drain);
            self.net.note("the drain begins");
            for mailbox in &self.stage.mailboxes {
                assert!(self.assembly.drain(mailbox), "room for one word");
            }
        }
        self.net.pass_us(self.net.between(0, 8000) as u64);
        match self.net.below(100) {
            0..40 => {
                let shard = self.net.below(self.stage.len());
                if self.net.percent(3) {
                    self.net.hit(Fault::LateTurn);
                    self.net.pass_us(50_000);
                }
                if self.stage.is_awake(shard) {
                    self.stage.turn(shard);
                }
            }
            40..58 => {
                let at = self.net.below(self.clients.len());
                self.clients[at].read(&mut around!(self));
            }
            58..74 => self.client_acts(),
            74..82 => self.visitor_acts(),
            82..90 => self.publisher_acts(),
            90..93 => {
                self.backend_acts();
            }
            93..96 if self.net.percent(50) => self.look_up(),
            93..96 => self.appwrite_acts(),
            96..98 => {
                let shard = self.net.below(self.stage.len());
                let stray = self.net.below(12) as u32;
                self.net.hit(Fault::SpuriousEvent);
                self.net.0.borrow_mut().shards[shard].strays.push(stray);
            }
            _ => {
                if self.net.percent(self.setup.leap_percent * 3) {
                    let leaps = [2_000, 9_000, 30_000, 70_000, 700_000, 8_000_000];
                    let ms = self.net.pick(&leaps);
                    self.net.hit(Fault::ClockLeap);
                    self.net.note(format_args!("the clock leaps by {ms} ms"));
                    self.net.pass_us(ms * 1000);
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
        if self.net.percent(20) {
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

    // ---- the end of a run ----

    /// Lets everything come to rest. What only delays goes on: it must not delay for ever.
    fn rest(&mut self) {
        self.net.0.borrow_mut().odds.accept = 0;
        for _ in 0..3 {
            let Self {
                net,
                setup,
                witness,
                stage,
                requests,
                directory,
                assembly,
                clients,
                publishers,
                visitors,
                zmq,
                ..
            } = self;
            let feed = assembly.feed();
            let mailboxes = stage.mailboxes.clone();
            stage.rest(|| {
                let mut around = Around {
                    net,
                    setup,
                    witness,
                    directory,
                    backend: requests,
                };
                let mut busy = false;
                while let (Some(feed), Some(answer)) = (&feed, directory.answer(0, false)) {
                    busy = true;
                    feed.answer(answer.conn, answer.token, answer.found);
                }
                for client in &mut *clients {
                    if let Some(conn) = client.conn() {
                        net.arrive(conn, usize::MAX);
                    }
                    busy |= client.read(&mut around);
                }
                for publisher in &mut *publishers {
                    if let Some(conn) = publisher.conn() {
                        net.arrive(conn, usize::MAX);
                    }
                    busy |= publisher.read(&mut around);
                }
                for visitor in &mut *visitors {
                    if let Some(conn) = visitor.conn() {
                        net.arrive(conn, usize::MAX);
                    }
                    busy |= visitor.read(&mut around);
                }
                for publisher in &mut *zmq {
                    busy |= publisher.read(&around);
                }
                while let Some((conn, token, event)) = requests.next(0, None) {
                    busy = true;
                    if Assembly::answer(&mailboxes, conn, token, event).is_err() {
                        break;
                    }
                    requests.done(conn, token);
                }
                busy
            });
            let is_gathering = { self.stage.running() }.any(|one| one.app().is_gathering());
            if !self.net.has_backlog() && !is_gathering {
                return;
            }
            // Accepting had paused, or publications wait for others.
            self.net.pass_us(600_000);
        }
    }

    /// Nothing may be owed.
    fn settle(&mut self) {
        self.clients.iter_mut().for_each(Client::calm_down);
        self.visitors.iter_mut().for_each(Visitor::calm_down);
        self.rest();
        if self.draining {
            self.net.pass_us(60_000_000);
            self.rest();
            let left: usize = self.stage.running().map(|one| one.conns().len()).sum();
            assert_eq!(left, 0, "everybody has gone after a drain");
            return;
        }
        self.end_logs();
        let secret = self.settle_team();
        // Whoever waits for the next line has it before a poll's time is up: what comes too early
        // waits for five seconds, and a link may have to be fetched.
        self.end_logs();
        self.net.pass_us(11_000_000);
        self.rest();
        for visitor in &self.visitors {
            visitor.settle(&around!(self));
        }
        for client in &self.clients {
            client.settle(&around!(self));
            client.settle_secret(secret, &around!(self));
        }
        let waiting = self.publishers.iter().any(Publisher::is_waiting);
        assert!(!waiting, "every request was answered");
        assert!(self.requests.is_empty(), "a backend's answer was not taken");
        self.witness.settle();
        for running in self.stage.running() {
            for (id, _) in running.conns().sessions() {
                let queued = running.conns().queued_bytes(id);
                assert_eq!(queued, 0, "{id:?}: what could leave has left");
            }
        }
        self.survey();
    }

    /// Asks the servers what they count, and counts.
    fn survey(&mut self) {
        let mut around = around!(self);
        let publisher = &mut self.publishers[0];
        if !publisher.is_connected() {
            publisher.connect(&mut around);
        }
        publisher.survey(&mut around);
        publisher.count_present(&mut around);
        self.rest();
        let told = self.publishers[0].counts.as_ref();
        assert!(told.is_some(), "the survey was answered");
        assert!(self.publishers[0].clients.is_some());
        let mut present = vec![0; CHANNELS.len()];
        for client in &self.clients {
            for channel in client.listed_in(&around!(self)) {
                present[channel] += 1;
            }
        }
        for (&channel, &count) in &self.publishers[0].present {
            let name = CHANNELS[channel].name;
            assert_eq!(count, present[channel], "who is in {name}");
        }
    }

    /// Everybody leaves; nothing of anybody may stay.
    fn end(&mut self) {
        let mut around = around!(self);
        for client in &mut self.clients {
            client.leave(&mut around);
        }
        for publisher in &mut self.publishers {
            publisher.leave(&mut around);
        }
        for publisher in &mut self.zmq {
            publisher.leave(&around);
        }
        for visitor in &mut self.visitors {
            visitor.leave(&around);
        }
        self.rest();
        // Whoever was on its way out is given the time that it may take.
        self.net.pass_us(6_000_000);
        self.rest();
        for running in self.stage.running() {
            let left: Vec<_> = running.conns().sessions().map(|(id, _)| id).collect();
            let of = |index: u32| self.net.watched_as(index);
            let left: Vec<_> = left.iter().map(|id| (id, of(id.index()))).collect();
            assert!(left.is_empty(), "connections stayed: {left:?}");
        }
        if !self.draining {
            self.requests.with_site(|site| {
                let left = site.sockets.left();
                assert_eq!(left, None, "the backend hears of each end");
            });
        }
    }
}

/// What a run of the server did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The hash of its trace: the same seed gives the same.
    pub hash: u64,
    /// The faults that it met.
    pub hits: Hits,
    /// What came of it.
    pub sum: Summary,
}

/// Runs one seed of the server for so many steps; `print` shows each event as it happens.
///
/// # Errors
/// If anything did not hold; also where the server panicked.
pub fn run_server(seed: u64, steps: usize, print: bool) -> Result<Outcome, Failure> {
    let net = Net::new(seed, if print { Detail::Print } else { Detail::Last });
    let result = attempt(seed, &net.clone(), || {
        let mut play = Play::new(net, seed, steps);
        for step in 0..steps {
            play.step(step);
        }
        play.settle();
        play.end();
        let world = play.net.0.borrow();
        Outcome {
            hash: world.trace.hash(),
            hits: world.hits,
            sum: play.witness.sum,
        }
    });
    random::repeat(None);
    result
}
