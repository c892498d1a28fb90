//! Shards, mailboxes, a clock and clients together, one random step after the other.

use std::collections::VecDeque;

use throng_types::{Millis, Now};

use crate::backend::Backend;
use crate::client::{Around, Client};
use crate::net::Net;
use crate::rng::Rng;
use crate::setup::{CHANNELS, Setup};
use crate::shard::{Mail, Pace, Shard};
use crate::trace::Trace;
use crate::witness::Witness;

/// Turns in which everything must have come to rest.
const SETTLE_TURNS: usize = 20_000;
/// Long enough for every stream to be forgotten: history, and then where it stood.
const OBLIVION_MS: u64 = 4_000_000;

/// See the module's head.
pub(crate) struct World {
    rng: Rng,
    setup: Setup,
    net: Net,
    pub(crate) witness: Witness,
    shards: Vec<Shard>,
    /// Mail from one shard (first index) to another (second).
    mail: Vec<Vec<VecDeque<Mail>>>,
    clients: Vec<Client>,
    backends: Vec<Backend>,
    draining: bool,
}

/// Lends the parts that clients need.
macro_rules! around {
    ($world:ident) => {
        Around {
            net: &mut $world.net,
            witness: &mut $world.witness,
            rng: &mut $world.rng,
        }
    };
}

impl World {
    pub(crate) fn new(seed: u64, steps: usize, trace: Trace) -> Self {
        let mut rng = Rng::new(seed);
        let setup = Setup::draw(seed, steps, &mut rng);
        let mut witness = Witness::new(&setup, trace);
        witness.now = Now {
            mono: Millis(1000),
            unix_ms: 1_700_000_000_000,
        };
        let shards = setup.shards;
        let mailboxes = || (0..shards).map(|_| VecDeque::new()).collect();
        let mut world = Self {
            rng,
            net: Net::default(),
            witness,
            shards: (0..shards)
                .map(|number| Shard::new(number, &setup))
                .collect(),
            mail: (0..shards).map(|_| mailboxes()).collect(),
            clients: Vec::new(),
            backends: Vec::new(),
            draining: false,
            setup,
        };
        for number in 0..world.setup.clients {
            let client = Client::new(number, &mut around!(world));
            world.clients.push(client);
        }
        world
            .backends
            .resize_with(world.setup.backends, Backend::default);
        world
    }

    // ---- steps ----

    pub(crate) fn step(&mut self, step: usize) {
        self.witness.step = step;
        self.witness.trace.at_step(step);
        if self.setup.drain_at == Some(step) {
            self.draining = true;
            self.witness.note(|| "the drain begins".to_owned());
            self.shards.iter_mut().for_each(Shard::drain);
        }
        let ms = self.rng.below(8) as u64;
        self.pass(ms);
        match self.rng.below(100) {
            0..40 => {
                let shard = self.rng.below(self.shards.len());
                let pace = Pace {
                    deliveries: self.rng.between(1, self.setup.deliveries_per_turn),
                    read_bytes: self.rng.pick(&[1, 30, 65_536, 65_536]),
                    mail: if self.rng.percent(self.setup.mail_percent) {
                        self.rng.pick(&[1, 3, 20])
                    } else {
                        0
                    },
                };
                self.turn(shard, &pace);
            }
            40..65 => {
                let at = self.rng.below(self.clients.len());
                self.clients[at].read(&mut around!(self));
            }
            65..85 => self.client_acts(),
            85..97 => self.backend_acts(),
            _ => {
                if self.rng.percent(self.setup.leap_percent * 3) {
                    let ms = self
                        .rng
                        .pick(&[2_000, 9_000, 30_000, 70_000, 700_000, 8_000_000]);
                    self.witness.note(|| format!("the clock leaps by {ms} ms"));
                    self.pass(ms);
                }
            }
        }
    }

    const fn pass(&mut self, ms: u64) {
        let now = &mut self.witness.now;
        now.mono = Millis(now.mono.0 + ms);
        now.unix_ms += ms;
    }

    fn client_acts(&mut self) {
        let at = self.rng.below(self.clients.len());
        if self.clients[at].pipe().is_none() {
            let pipe = self.clients[at].connect(self.setup.kernel_bytes, &mut around!(self));
            self.knock(pipe);
        } else if self.rng.percent(self.setup.cut_percent) {
            self.clients[at].cut(&mut around!(self));
        } else {
            self.clients[at].act(&mut around!(self));
        }
    }

    fn backend_acts(&mut self) {
        let at = self.rng.below(self.backends.len());
        if self.backends[at].pipe().is_none() {
            let pipe = self.backends[at].connect(30_000, &mut around!(self));
            self.knock(pipe);
        }
        self.backends[at].read(&mut around!(self));
        self.backends[at].act(&mut around!(self));
    }

    /// The kernel gives a new connection to one of the shards.
    fn knock(&mut self, pipe: usize) {
        let shard = self.rng.below(self.shards.len());
        self.shards[shard].backlog.push_back(pipe);
    }

    fn turn(&mut self, at: usize, pace: &Pace) -> bool {
        let mut inbox: Vec<&mut VecDeque<Mail>> =
            self.mail.iter_mut().map(|to| &mut to[at]).collect();
        let shard = &mut self.shards[at];
        let more = shard.turn(
            pace,
            &mut inbox,
            &mut self.net,
            &mut self.witness,
            &mut self.rng,
        );
        for (to, mailbox) in self.mail[at].iter_mut().enumerate() {
            while let Some(mail) = shard.take_mail(to) {
                assert_ne!(to, at, "nobody writes to himself");
                mailbox.push_back(mail);
            }
        }
        for (pipe, conn) in shard.accepted.drain(..) {
            for client in &mut self.clients {
                client.accepted(pipe, conn);
            }
        }
        more
    }

    // ---- the end of a run ----

    /// Lets everything come to rest without a fault, and checks that nothing is owed.
    pub(crate) fn settle(&mut self) {
        self.clients.iter_mut().for_each(Client::calm_down);
        self.rest();
        if self.draining {
            let left = self
                .shards
                .iter()
                .filter(|shard| !shard.conns.is_empty())
                .count();
            assert_eq!(left, 0, "everybody has gone after a drain");
            return;
        }
        self.survey();
        for client in &mut self.clients {
            client.settle(&mut self.witness);
        }
        let waiting = self.backends.iter().any(Backend::is_waiting);
        assert!(!waiting, "every request was answered");
        let queued: usize = self
            .shards
            .iter()
            .map(|shard| shard.conns.queued_bytes())
            .sum();
        assert_eq!(queued, 0, "what could leave has left");
    }

    /// Asks the servers what they count, and counts.
    fn survey(&mut self) {
        for at in 0..self.backends.len() {
            if self.backends[at].pipe().is_none() {
                let pipe = self.backends[at].connect(30_000, &mut around!(self));
                self.knock(pipe);
            }
            self.backends[at].survey(&mut around!(self));
        }
        self.rest();
        let clients = self
            .clients
            .iter()
            .filter(|client| client.pipe().is_some())
            .count();
        let mut counts = std::collections::BTreeMap::new();
        for shard in &self.shards {
            for (name, count) in shard.hub.channels() {
                *counts.entry(name.to_string()).or_insert(0_u64) += u64::from(count);
            }
        }
        for backend in &self.backends {
            assert_eq!(
                backend.clients,
                Some(clients as u64),
                "info counts the clients"
            );
            let told = backend
                .counts
                .as_ref()
                .and_then(serde_json::Value::as_object);
            let told = told.into_iter().flatten();
            let told: std::collections::BTreeMap<String, u64> = told
                .map(|(name, info)| (name.clone(), info["num_clients"].as_u64().unwrap_or(0)))
                .collect();
            assert_eq!(told, counts, "channels counts the subscribers");
        }
    }

    /// Turns without faults until nothing moves.
    fn rest(&mut self) {
        let pace = Pace {
            deliveries: 1000,
            read_bytes: 65_536,
            mail: 1000,
        };
        let mut quiet_turns = 0;
        for _ in 0..SETTLE_TURNS {
            let mut busy = false;
            for shard in 0..self.shards.len() {
                busy |= self.turn(shard, &pace);
            }
            for client in &mut self.clients {
                busy |= client.read(&mut around!(self));
            }
            for backend in &mut self.backends {
                busy |= backend.read(&mut around!(self));
            }
            busy |= !self.net.quiet() || !self.shards.iter().all(Shard::quiet);
            busy |= !self.mail.iter().flatten().all(VecDeque::is_empty);
            quiet_turns = if busy { 0 } else { quiet_turns + 1 };
            // A reader may be behind a queue that has only just become short enough.
            if quiet_turns == 5 {
                return;
            }
        }
        panic!("the shards never come to rest");
    }

    /// Everybody leaves; nothing of anybody may stay.
    pub(crate) fn end(&mut self) {
        for client in &mut self.clients {
            client.leave(&mut around!(self));
        }
        for backend in &mut self.backends {
            backend.leave(&mut around!(self));
        }
        self.rest();
        // Whoever was on its way out is given the time that it may take.
        self.pass(6_000);
        self.rest();
        for shard in &self.shards {
            assert!(shard.conns.is_empty(), "a connection stayed");
            let stats = shard.hub.stats();
            assert_eq!(
                (stats.channels, stats.subscriptions),
                (0, 0),
                "a subscription stayed"
            );
            for name in CHANNELS {
                let name = throng_types::ChannelName::new(name).expect("a name");
                assert_eq!(shard.hub.interest(&name), 0, "{name}: interest stayed");
            }
        }
        for _ in 0..3 {
            self.pass(OBLIVION_MS);
            self.rest();
        }
        for shard in &self.shards {
            let home = shard.hub.stats().home;
            assert_eq!(home, throng_broker::HomeStats::default(), "a stream stayed");
        }
    }
}
