//! Webhooks of three nodes, while nodes hand over, and they and the receiver are killed, at moments
//! that a seed draws. `THRONG_HOOKS_SEED` is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter;

use serde_json::{Value, json};
use tempfile::TempDir;
use throng_testkit::{Sdk, Server, Setup, Signal, free_port, script, until};

use crate::nodes::{Broker, has_its_broker};

const APP: [&str; 3] = ["app", "app-key", "a-secret-of-the-app"];
const STANDARD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Users of the clients; one has two.
const USERS: [&str; 4] = ["ann", "bob", "eve", "ann"];
const CHANNELS: [&str; 4] = ["presence-a", "presence-b", "private-a", "private-b"];
/// Steps of each part of a story.
const STEPS: usize = 24;

/// Numbers of one seed.
struct Lot(u64);

impl Lot {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("a small number")
    }
}

struct Node {
    setup: Setup,
    /// History, with the journal of webhooks.
    folder: TempDir,
    server: Option<Server>,
}

impl Node {
    fn server(&self) -> &Server {
        self.server.as_ref().expect("a node that lives")
    }

    /// Whether its journal has this.
    fn has(&self, text: &str) -> bool {
        let journal = fs::read(self.folder.path().join("webhooks")).unwrap_or_default();
        journal
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }
}

/// Somebody with a page that is loaded again, by another node, when its own has died.
struct Client {
    sdk: Sdk,
    user: &'static str,
    node: Option<usize>,
    /// Number of its pages so far.
    page: usize,
    channels: BTreeSet<&'static str>,
}

/// Event that a client has sent to others.
struct Sent {
    name: String,
    node: usize,
    /// Client, and which page of its own.
    from: (usize, usize),
    /// A journal was seen to have it.
    is_kept: bool,
    /// Its node was killed, and no journal had it.
    is_lost: bool,
}

/// Receiver that is killed and begins again where it was.
struct Receiver {
    port: u16,
    program: Option<Sdk>,
    /// Events of those before, each once for each request that had it.
    told: Vec<Value>,
    marks: BTreeSet<String>,
}

impl Receiver {
    #[track_caller]
    fn begin(&mut self) {
        eprintln!("receiver begins");
        let mut program = script("pusher.mjs", &APP);
        let order = json!({ "standard": STANDARD, "port": self.port });
        program.order("receive", &order);
        program.event("listening", &json!({}));
        self.program = Some(program);
    }

    fn kill(&mut self) {
        if let Some(program) = self.program.take() {
            program.signal(Signal::KILL);
            program.rests();
            self.told = self.with(&program);
            let marks = self.told.iter().filter_map(|it| it["mark"].as_str());
            self.marks = marks.map(str::to_owned).collect();
        }
    }

    fn with(&self, program: &Sdk) -> Vec<Value> {
        let is_new = |event: &Value| !self.marks.contains(event["mark"].as_str().unwrap_or(""));
        let new = program.told("told").into_iter().filter(is_new);
        self.told.iter().cloned().chain(new).collect()
    }

    /// All events so far. A request that came again as it was counts once.
    fn all(&self) -> Vec<Value> {
        let program = self.program.as_ref();
        program.map_or_else(|| self.told.clone(), |program| self.with(program))
    }
}

/// Channel, and a user for a membership.
type Subject = (String, Option<String>);

/// State that an event tells; none if it tells an event of a client.
fn state(event: &Value) -> Option<(Subject, bool)> {
    let is_on = match event["name"].as_str()? {
        "channel_occupied" | "member_added" => true,
        "channel_vacated" | "member_removed" => false,
        _ => return None,
    };
    let text = |field: &str| event[field].as_str().map(str::to_owned);
    Some(((text("channel")?, text("user_id")), is_on))
}

struct World {
    lot: Lot,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    receiver: Receiver,
    sent: Vec<Sent>,
}

impl World {
    fn new(broker: &Broker, seed: u64) -> Self {
        let mut receiver = Receiver {
            port: free_port(),
            program: None,
            told: Vec::new(),
            marks: BTreeSet::new(),
        };
        receiver.begin();
        let node = || {
            let folder = tempfile::tempdir().expect("a folder");
            let config = format!(
                r#"
[broker]
{}
[history]
path = "{}"
[[app]]
id = "{}"
key = "{}"
secret = "{}"
client_events = true
[[webhook]]
url = "http://127.0.0.1:{}/hooks"
app = "app"
secret = "{STANDARD}"
settle = "200ms"
events = ["channel_occupied", "channel_vacated", "member_added", "member_removed", "client_event"]
"#,
                broker.lines(broker.address()),
                folder.path().display(),
                APP[0],
                APP[1],
                APP[2],
                receiver.port
            );
            Node {
                setup: Setup::new(&config).shards(2),
                folder,
                server: None,
            }
        };
        let client = |user| Client {
            sdk: script("pusher.mjs", &APP),
            user,
            node: None,
            page: 0,
            channels: BTreeSet::new(),
        };
        let mut world = Self {
            lot: Lot(seed),
            nodes: iter::repeat_with(node).take(3).collect(),
            clients: USERS.into_iter().map(client).collect(),
            receiver,
            sent: Vec::new(),
        };
        (0..3).for_each(|at| world.start(at));
        world
    }

    fn start(&mut self, at: usize) {
        eprintln!("node {at} starts");
        let server = self.nodes[at].setup.start();
        has_its_broker(&server);
        self.nodes[at].server = Some(server);
    }

    /// Opens a client's page, if it has none, on any node that lives.
    fn open(&mut self, at: usize) {
        if self.clients[at].node.is_some() {
            return;
        }
        let live = (0..3).filter(|at| self.nodes[*at].server.is_some());
        let live: Vec<usize> = live.collect();
        let node = live[self.lot.below(live.len())];
        let address = self.nodes[node].server().clients();
        let client = &mut self.clients[at];
        (client.node, client.page) = (Some(node), client.page + 1);
        let page = json!({ "url": format!("ws://{address}"), "user": client.user });
        client.sdk.connect(&page);
        for channel in &client.channels {
            client.sdk.subscribe(channel);
        }
    }

    fn close(&mut self, at: usize) {
        eprintln!("client {at} closes");
        self.clients[at].sdk.order("leave", &json!({}));
        self.clients[at].node = None;
    }

    /// A client joins a channel or leaves it, loads its page again, or sends an event, whose
    /// consequence is waited for now and then.
    fn step(&mut self) {
        let at = self.lot.below(self.clients.len());
        let channel = CHANNELS[self.lot.below(CHANNELS.len())];
        let what = self.lot.below(16);
        if what == 0 && self.clients[at].node.is_some() {
            self.flush(at);
            self.close(at);
        }
        self.open(at);
        let client = &mut self.clients[at];
        let is_in = client.channels.contains(channel);
        match what {
            1..6 if is_in => {
                client.channels.remove(channel);
                eprintln!("client {at} leaves {channel}");
                let order = json!({ "channel": channel });
                client.sdk.order("unsubscribe", &order);
            }
            1..12 if !is_in => {
                client.channels.insert(channel);
                eprintln!("client {at} joins {channel}");
                client.sdk.subscribe(channel);
            }
            6.. if is_in => {
                let sent = self.send(at, channel);
                if what > 13 {
                    self.wait_for(sent);
                }
            }
            _ => {}
        }
    }

    /// Waits for the last event of a page, which the package would drop at its end.
    fn flush(&self, at: usize) {
        let page = (at, self.clients[at].page);
        if let Some(sent) = self.sent.iter().rfind(|sent| sent.from == page) {
            let node = &self.nodes[sent.node];
            until("an event that arrives", || {
                node.has(&sent.name) || self.is_told(sent)
            });
        }
    }

    fn is_told(&self, sent: &Sent) -> bool {
        let told = self.receiver.all();
        told.iter().any(|it| it["sent"] == *sent.name)
    }

    /// Sends an event, and returns its place.
    fn send(&mut self, at: usize, channel: &str) -> usize {
        let client = &mut self.clients[at];
        let name = format!("client-{:04}", self.sent.len());
        let order = json!({ "channel": channel, "name": name, "data": {} });
        eprintln!(
            "client {at}, page {} sends {name} in {channel} by {:?}",
            client.page, client.node
        );
        client.sdk.order("send", &order);
        self.sent.push(Sent {
            name,
            node: client.node.expect("a page"),
            from: (at, client.page),
            is_kept: false,
            is_lost: false,
        });
        self.sent.len() - 1
    }

    /// Waits until an event is told, or while the receiver is away, until it cannot be told.
    fn wait_for(&mut self, sent: usize) {
        const FAILED: &str = "throng_webhook_requests_failed_total";
        if self.receiver.program.is_some() {
            until("an event that is told", || self.is_told(&self.sent[sent]));
            return;
        }
        let Sent { name, node, .. } = &self.sent[sent];
        let node = &self.nodes[*node];
        until("an event in the journal", || node.has(name));
        let before = node.server().metric(FAILED);
        until("a request that fails", || {
            node.server().metric(FAILED) > before
        });
        self.sent[sent].is_kept = true;
    }

    fn kill(&mut self, at: usize) {
        eprintln!("node {at} is killed");
        let server = self.nodes[at].server.take().expect("a node that lives");
        server.signal(Signal::KILL);
        drop(server);
        let told = self.receiver.all();
        let is_told = |sent: &Sent| told.iter().any(|it| it["sent"] == *sent.name);
        for sent in self.sent.iter_mut().filter(|sent| sent.node == at) {
            sent.is_kept |= self.nodes[at].has(&sent.name);
            sent.is_lost |= !sent.is_kept && !is_told(sent);
        }
        for client in 0..self.clients.len() {
            if self.clients[client].node == Some(at) {
                self.close(client);
            }
        }
    }

    /// Says what is not as it must be in the end.
    fn fault(&self) -> Option<String> {
        let told = self.receiver.all();
        let on = self.clients.iter().flat_map(|client| {
            let user = |channel: &str| channel.starts_with("presence").then_some(client.user);
            let channels = client.channels.iter();
            channels.flat_map(move |channel| {
                let member = user(channel).map(|user| (channel.to_string(), Some(user.to_owned())));
                iter::once((channel.to_string(), None)).chain(member)
            })
        });
        let on: BTreeSet<Subject> = on.collect();
        let last: BTreeMap<Subject, bool> = told.iter().filter_map(state).collect();
        let last = last
            .into_iter()
            .filter_map(|(subject, is_on)| is_on.then_some(subject));
        let last: BTreeSet<Subject> = last.collect();
        if let Some(subject) = on.symmetric_difference(&last).next() {
            let is_on = on.contains(subject);
            return Some(format!(
                "the last word of {subject:?} is not that it is {is_on}"
            ));
        }
        let told: BTreeSet<&str> = told.iter().filter_map(|it| it["sent"].as_str()).collect();
        let mut missing = self
            .sent
            .iter()
            .filter(|it| !it.is_lost && !told.contains(&*it.name));
        missing.next().map(|it| format!("{} is not told", it.name))
    }

    /// Waits until all is well, and is so still when another channel has come and gone.
    #[track_caller]
    fn settle(&mut self) {
        (0..self.clients.len()).for_each(|at| self.open(at));
        let mut before = None;
        until("events that are all told, and states that are true", || {
            let fault = self.fault();
            if fault != before {
                eprintln!("{}", fault.as_deref().unwrap_or("all is well"));
            }
            before = fault;
            before.is_none()
        });
        let last = ("private-last".to_owned(), None);
        let count = |is_on| {
            let told = self.receiver.all();
            let states = told.iter().filter_map(state);
            states.filter(|it| *it == (last.clone(), is_on)).count()
        };
        let before = [count(true), count(false)];
        let sdk = &mut self.clients[0].sdk;
        sdk.subscribe(&last.0);
        until("a channel that is occupied", || count(true) > before[0]);
        sdk.order("unsubscribe", &json!({ "channel": last.0 }));
        until("a channel that is vacated", || count(false) > before[1]);
        assert_eq!(self.fault(), None);
        self.is_in_order();
    }

    /// Checks that the events of a page were told in their order, but for those that came again.
    fn is_in_order(&self) {
        let told = self.receiver.all();
        let place = |sent: &Sent| told.iter().position(|it| it["sent"] == *sent.name);
        let mut newest: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for sent in &self.sent {
            if let Some(place) = place(sent) {
                let before = newest.insert(sent.from, place);
                assert!(before < Some(place), "{} comes late", sent.name);
            }
        }
    }

    /// Checks that nothing was told twice. The first leader also ends what it has not told, since
    /// it cannot know that nobody has.
    fn is_told_once(&self) {
        let mut states: BTreeMap<Subject, bool> = BTreeMap::new();
        let mut events = BTreeSet::new();
        for event in self.receiver.all() {
            let is_new = match state(&event) {
                Some((subject, is_on)) => states.insert(subject, is_on) != Some(is_on),
                None => events.insert(event["sent"].to_string()),
            };
            let all = self.receiver.all();
            assert!(is_new, "{event} is told twice: {}", json!(all));
        }
    }

    /// Makes steps with these faults among them. A receiver or a node that is away begins again
    /// some steps later, and with the last step.
    fn play(&mut self, faults: &[Fault]) {
        let mut faults: Vec<(usize, Fault)> = { faults.iter() }
            .map(|fault| (self.lot.below(STEPS), *fault))
            .collect();
        faults.sort_by_key(|(step, _)| *step);
        for step in 0..=STEPS {
            for (_, fault) in faults.extract_if(.., |(at, _)| *at == step) {
                eprintln!("{fault:?}");
                match fault {
                    Fault::Receiver => self.receiver.kill(),
                    Fault::Upgrade(node) => self.nodes[node].server().upgrade_well(),
                    Fault::Node => {
                        let node = self.lot.below(3);
                        if self.nodes[node].server.is_some() && self.live() > 1 {
                            self.kill(node);
                        }
                    }
                }
            }
            eprintln!("{step}");
            let is_last = step == STEPS;
            for node in 0..3 {
                let begins = is_last || self.lot.below(6) == 0;
                if begins && self.nodes[node].server.is_none() {
                    self.start(node);
                }
            }
            let begins = is_last || self.lot.below(4) == 0;
            if begins && self.receiver.program.is_none() {
                self.receiver.begin();
            }
            self.step();
        }
    }

    fn live(&self) -> usize {
        self.nodes
            .iter()
            .filter(|node| node.server.is_some())
            .count()
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The receiver is killed.
    Receiver,
    /// A node hands over to another process.
    Upgrade(usize),
    /// A node is killed.
    Node,
}

/// No event is lost, what was told last is true, and as long as no node is killed nothing is told
/// twice.
pub(crate) fn webhooks_lose_nothing_and_are_true_in_the_end(broker: &Broker, seed: u64) {
    let seed = std::env::var("THRONG_HOOKS_SEED").map_or(seed, |it| it.parse().expect("a number"));
    eprintln!("seed {seed}");
    let mut world = World::new(broker, seed);
    world.play(&[Fault::Receiver]);
    // No states are told before it is sure that no other node tells them.
    until("a state that is told", || {
        world.receiver.all().iter().filter_map(state).next()
    });
    let upgrades = [0, 1, 2].map(Fault::Upgrade);
    world.play(&[&upgrades[..], &[Fault::Receiver; 2]].concat());
    world.settle();
    world.is_told_once();
    // A node has written down what it has not told when it is killed.
    world.receiver.kill();
    let channel = CHANNELS[3];
    if world.clients[0].channels.insert(channel) {
        world.clients[0].sdk.subscribe(channel);
    }
    let kept = world.send(0, channel);
    world.wait_for(kept);
    let sent = &world.sent[kept];
    assert!(!world.is_told(sent), "{}", sent.name);
    world.kill(sent.node);
    world.play(&[Fault::Node, Fault::Node, Fault::Receiver]);
    world.settle();
}
