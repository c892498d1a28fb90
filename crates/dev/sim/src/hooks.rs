//! Webhooks under the simulated kernel: the real shards, the real peer in its real host, Pusher's
//! clients that come, go and reload, and one played receiver (`receiver.rs`).
//!
//! The process is killed now and then, and another begins with what the journal has; the receiver
//! refuses, is late, cuts, and is killed. The witness is behind the receiver: what it has accepted
//! last of each state is true in the end, states alternate, the events of a connection come once
//! and in order, and one that was in the journal, or whose connection and process have lived, is
//! not lost.

mod client;
mod receiver;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_server::Start;

use self::client::Client;
use self::receiver::{Receiver, Told};
use crate::backend::Requests;
use crate::disk::Disk;
use crate::net::Net;
use crate::node::{LIMITS, MadeOf, Node, turn_hosts};
use crate::setup::load;

/// Seconds that pass in the end: the longest pause after a failure, and all that settles.
const QUIET_S: usize = 100;

struct Play {
    net: Net,
    node: Node,
    disk: Disk,
    has_begun: bool,
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
    fn new(net: Net, seed: u64) -> Self {
        let disk = Disk::default();
        let start = Start {
            unix_ms: 0,
            seed,
            secret: [seed as u8; 32],
        };
        let made_of = MadeOf {
            shards: net.between(1, 3),
            start,
            limits: LIMITS,
            config: Arc::new(load(include_str!("hooks.toml").to_owned())),
            requests: Requests::default(),
            journal: Some(disk.clone()),
        };
        let node = Node::new(made_of, false, &net);
        net.draw_faults(&[3, 20, 4096]);
        net.accepts_all();
        let clients = (0..net.between(2, 6)).map(Client::new).collect();
        Self {
            node,
            disk,
            has_begun: false,
            clients,
            receiver: Receiver::new(&net),
            sent: BTreeSet::new(),
            owed: BTreeSet::new(),
            trouble: net.pick(&[0, 20, 60, 100]),
            net,
        }
    }

    fn step(&mut self) {
        self.net.pass_us(self.net.between(0, 4000) as u64);
        match self.net.below(1000) {
            0..500 => self.node.turn(&self.net),
            500..620 => drop(self.receiver.act(&self.net)),
            620..800 => {
                let at = self.net.below(self.clients.len());
                let client = &mut self.clients[at];
                if self.net.percent(60) {
                    client.read(&self.net, self.net.pick(&[1, 100, 1 << 20]));
                }
                self.sent.extend(client.act(&self.net));
                if self.net.percent(4) {
                    client.leave(&self.net);
                }
                self.forgive();
            }
            800..960 => self.net.arrive_some(&[1, 100, 100_000]),
            960..975 => self.begin(),
            975..985 => self.net.pass_us(self.net.pick(&[100_000, 400_000])),
            985..990 if self.net.percent(self.trouble) => {
                self.net
                    .leap_ms(self.net.pick(&[1_000, 3_500, 8_000, 40_000]));
            }
            990..995 if self.net.percent(self.trouble) => self.kill(),
            995.. if self.net.percent(self.trouble) => self.receiver.trouble(&self.net),
            _ => {}
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.has_begun, true) {
            self.node.assembly.begin_webhooks();
        }
    }

    /// Keeps of the events of connections that are gone those that are owed all the same.
    fn forgive(&mut self) {
        let is_gone = |data: &String| !self.clients.iter().any(|client| client.has_sent(data));
        let gone = self.sent.extract_if(.., |data| is_gone(data));
        self.owed
            .extend(gone.filter(|data| self.disk.has_had(data)));
    }

    /// Kills the process; another begins at once, and tells a while later.
    fn kill(&mut self) {
        self.net.count("a process with webhooks is killed");
        note!(self.net, "the process is killed");
        let sent = std::mem::take(&mut self.sent).into_iter();
        self.owed
            .extend(sent.filter(|data| self.disk.has_had(data)));
        if self.net.percent(30) {
            self.disk.tear(&self.net);
        }
        self.net.pass_us(2_000);
        let new = self.node.anew(&self.net);
        let old = std::mem::replace(&mut self.node, new);
        self.net.kill(old.kernels());
        drop(old);
        self.has_begun = false;
    }

    fn rest(&mut self) {
        let Self {
            net,
            node,
            clients,
            receiver,
            ..
        } = self;
        let hosts = &mut node.hosts;
        node.stage.rest(|| {
            net.arrive_all();
            let mut busy = turn_hosts(hosts) | receiver.act(net);
            for client in &mut *clients {
                client.comes(net);
                busy |= client.read(net, 1 << 20);
            }
            busy
        });
        self.forgive();
    }

    /// The faults are over: everything is told, and what was told last is true.
    fn settle(&mut self) {
        self.receiver.calm_down();
        self.begin();
        for _ in 0..QUIET_S {
            self.rest();
            self.net.pass_us(1_000_000);
        }
        self.rest();
        // All connections live, so all that was sent on them has come.
        let mut heard = Told::default();
        for event in &self.receiver.accepted {
            heard.take(event, &self.net);
        }
        let mut truth: BTreeMap<String, bool> = BTreeMap::new();
        for state in self.clients.iter().flat_map(Client::states) {
            truth.insert(state, true);
        }
        heard.states.retain(|_, is_on| *is_on);
        assert_eq!(heard.states, truth, "what was told last");
        self.owed.append(&mut self.sent);
        let lost: Vec<_> = self.owed.difference(&heard.data).collect();
        assert!(lost.is_empty(), "events are lost: {lost:?}");
        self.receiver.is_at_rest();
    }
}

/// Plays one seed of webhooks.
pub(crate) fn run(net: Net, seed: u64, steps: usize) {
    let mut play = Play::new(net, seed);
    for _ in 0..steps {
        play.step();
    }
    play.settle();
}
