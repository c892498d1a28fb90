//! Up to three nodes, as the suite drives them.
//!
//! Owns: each shard's part of its node's driver, and the replies received. Waits for a reply up to
//! three minutes, which only a broken driver reaches.
//!
//! A node of several servers has a peer for each, and an answer of one proves nothing about the
//! others. So a request that shows that a node has received everything is sent once to each server,
//! by a channel that this server has.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Duration;

use throng_broker::{
    BrokerStats, HistoryQuery, Outcome, Refusal, Remote as _, Reply, Request, Ticket,
};
use throng_broker_suite::{Cluster, HubMessage, Setup, TestHub};
use throng_remote::{
    BrokerPeer, Node, NodeIo, RemoteBroker, RemoteOptions, WakePeer, WakeShard, server_of, start,
};
use throng_types::{ChannelName, Now, Rng, ShardId};

/// Far beyond what an answer takes.
const DEADLINE: Duration = Duration::from_mins(3);
/// Tickets from here on are the test's own.
const OWN: u32 = 1 << 31;

static CLUSTERS: AtomicU64 = AtomicU64::new(1);
/// Logs of peers, shown when a test fails.
static LOG: Once = Once::new();

/// Rung whenever a peer has left something.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    news: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.news.notify_all();
    }

    fn wait(&self) {
        let rung = self.rung.lock().unwrap();
        let waited = { &self.news }.wait_timeout_while(rung, DEADLINE, |rung| !*rung);
        let (mut rung, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "nothing comes");
        *rung = false;
    }
}

/// Servers on which a peer keeps its channels.
#[derive(Clone, Copy, Debug)]
pub struct On {
    /// Servers that share the channels; each node has a peer for each of them.
    pub servers: usize,
    /// Whether publications without positions have one order too; see [`Cluster::orders_all`].
    pub orders_all: bool,
}

impl On {
    /// A channel that begins so and that this server has.
    fn channel(&self, begin: &str, server: usize) -> ChannelName {
        let names = (0..).map(|n| format!("{begin}of the test itself {n}"));
        let mut names = names.map(|name| ChannelName::new(&name).unwrap());
        let has = |name: &ChannelName| server_of(name, self.servers) == server;
        names.find(has).unwrap()
    }
}

struct Nodes {
    on: On,
    parts: Vec<RemoteBroker>,
    /// By shard, until a step takes it.
    inboxes: Vec<TestHub>,
    /// By shard, until the suite takes it. Bound: what one property asks.
    arrived: Vec<VecDeque<HubMessage>>,
    bell: Arc<Bell>,
    clock_ms: Arc<AtomicU64>,
    nodes: usize,
    unanswered: usize,
    /// Something was requested since all nodes were known to have received everything.
    is_dirty: bool,
    syncs: u32,
    has_room: bool,
}

/// Serves a node on a thread of its own.
fn host(node: impl Node) -> io::Result<WakePeer> {
    let deliver = Box::new(|reply| match reply {});
    let host = throng_outward::start("broker", move || BrokerPeer::new(node), deliver)?;
    Ok(Arc::new(move || {
        host.calls().send(());
    }))
}

/// Starts nodes, one for each shard and three at most, and waits until each is connected to all
/// servers. Shard *n* is on the node *n* modulo their number.
///
/// `servers` is called once for each node, and gives options and maker of its peer for each server.
/// Names in the broker are those of this call alone, so that tests share servers.
///
/// # Panics
/// If a server does not answer, here or in a later step.
pub fn nodes<N: Node, F: FnOnce(NodeIo) -> N>(
    setup: &Setup,
    on: On,
    mut servers: impl FnMut(RemoteOptions) -> Vec<(RemoteOptions, F)>,
) -> Box<dyn Cluster> {
    LOG.call_once(|| {
        let log = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG);
        log.with_test_writer().init();
    });
    let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let bell = Arc::new(Bell::default());
    let clock_ms = Arc::new(AtomicU64::new(0));
    let shards = usize::from(setup.shards);
    let nodes = shards.min(3);
    let mut by_node: Vec<VecDeque<RemoteBroker>> = Vec::new();
    for node in 0..nodes {
        let options = RemoteOptions {
            prefix: format!("test{number}"),
            namespaces: setup.namespaces.clone(),
            reply: setup.reply,
            timeout_ms: 20_000,
            seed: number << 8 | node as u64,
            clock_ms: clock_ms.clone(),
            ..RemoteOptions::for_tests()
        };
        let rings = (node..shards).step_by(nodes).map(|_| {
            let bell = bell.clone();
            Box::new(move || bell.ring()) as WakeShard
        });
        let started = start(servers(options), rings.collect(), host);
        by_node.push(started.expect("a thread").0.into());
    }
    let parts = (0..shards).map(|shard| by_node[shard % nodes].pop_front().unwrap());
    let cluster = Nodes {
        on,
        parts: parts.collect(),
        inboxes: (0..shards).map(|_| TestHub::default()).collect(),
        arrived: (0..shards).map(|_| VecDeque::new()).collect(),
        bell,
        clock_ms,
        nodes,
        unanswered: 0,
        is_dirty: false,
        syncs: 0,
        has_room: true,
    };
    Box::new(cluster.connected())
}

impl Nodes {
    /// Waits until every node is connected to every server: subscribes wait for that, each for as
    /// long as the broker may take to answer. A node that does not reach it in that time connects
    /// anew, so one that was refused subscribes once more.
    fn connected(mut self) -> Self {
        for (node, server) in self.pairs() {
            let mut outcome = self.subscribed(node, server);
            if matches!(outcome, Outcome::Subscribed(Err(Refusal::Unavailable))) {
                eprintln!("node {node} did not reach server {server} in time");
                outcome = self.subscribed(node, server);
            }
            let is_subscribed = matches!(outcome, Outcome::Subscribed(Ok(_)));
            assert!(is_subscribed, "node {node}, server {server}: {outcome:?}");
        }
        self
    }

    /// Every node with every server.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let servers = 0..self.on.servers;
        let pairs = (0..self.nodes).flat_map(|node| servers.clone().map(move |it| (node, it)));
        pairs.collect()
    }

    /// Subscribes on a node to a channel of a server, and leaves again; gives the answer.
    fn subscribed(&mut self, node: usize, server: usize) -> Outcome {
        let channel = self.on.channel("plain ", server);
        let subscribe = Request::Subscribe {
            ticket: Ticket(OWN),
            channel: channel.clone(),
            since: None,
            presence: None,
        };
        assert!(self.parts[node].request(subscribe).is_none());
        let heard = loop {
            self.parts[node].poll(&mut self.inboxes[node]);
            match self.inboxes[node].heard.pop_front() {
                Some(heard) => break heard,
                None => self.bell.wait(),
            }
        };
        self.parts[node].request(Request::Leave { channel });
        match heard {
            HubMessage::Reply(reply) => reply.outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Asks every node for something of every server that is answered after all that was sent to
    /// it before by that server.
    fn sync(&mut self) {
        for (number, (node, server)) in self.pairs().into_iter().enumerate() {
            let query = HistoryQuery {
                limit: Some(0),
                since: None,
                reverse: false,
            };
            let request = Request::History {
                ticket: Ticket(OWN + number as u32),
                channel: self.on.channel("kept:", server),
                query,
            };
            if self.parts[node].request(request).is_none() {
                self.unanswered += 1;
            }
        }
        self.syncs += 1;
    }

    fn arrive(&mut self, shard: usize, heard: HubMessage) {
        if let HubMessage::Reply(Reply { ticket, .. }) = &heard {
            self.unanswered -= 1;
            if ticket.0 >= OWN {
                return;
            }
        }
        self.arrived[shard].push_back(heard);
    }
}

impl Cluster for Nodes {
    fn request(&mut self, shard: ShardId, request: Request, now: Now) {
        self.clock_ms.store(now.unix_ms, Ordering::Relaxed);
        self.is_dirty = true;
        let is_answered = !matches!(request, Request::Leave { .. } | Request::Quit { .. });
        match self.parts[shard.index()].request(request) {
            Some(refused) => self.arrived[shard.index()].push_back(HubMessage::Reply(refused)),
            None => self.unanswered += usize::from(is_answered),
        }
    }

    fn step(&mut self, _: Now, rng: &mut Rng) -> bool {
        if !self.has_room {
            return false;
        }
        loop {
            for (part, inbox) in self.parts.iter_mut().zip(&mut self.inboxes) {
                part.poll(inbox);
            }
            let inboxes = self.inboxes.iter().enumerate();
            let ready = inboxes.filter(|(_, inbox)| !inbox.heard.is_empty());
            let ready: Vec<usize> = ready.map(|(at, _)| at).collect();
            if !ready.is_empty() {
                let at = ready[rng.below(ready.len() as u64) as usize];
                let heard = self.inboxes[at].heard.pop_front().unwrap();
                self.arrive(at, heard);
                return true;
            }
            if self.unanswered > 0 {
                self.bell.wait();
            } else if self.is_dirty {
                self.is_dirty = false;
                self.syncs = 0;
                self.sync();
            } else if self.syncs == 1 {
                // What the first one flushed out of one node may be on its way to another.
                self.sync();
            } else {
                return false;
            }
        }
    }

    fn take(&mut self, shard: ShardId) -> Option<HubMessage> {
        self.arrived[shard.index()].pop_front()
    }

    fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
    }

    fn tick(&mut self, now: Now) {
        self.clock_ms.store(now.unix_ms, Ordering::Relaxed);
    }

    fn orders_all(&self) -> bool {
        self.on.orders_all
    }

    fn stats(&self) -> Option<BrokerStats> {
        None
    }
}
