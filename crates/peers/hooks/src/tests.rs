//! The client before played receivers, without sockets: `tests.txt` tells what it sends and when;
//! and random runs, in which receivers fail and the process is killed.

mod cluster;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use throng_backend::{Address, ClientPeer};
use throng_broker::{HookConnection, HookEvent, HookJournal};
use throng_dialogue::{Outcome, Stage, Variables, play, same, word};
use throng_metrics::{Counter, Counters};
use throng_peer::{Ended, LinkEvent, LinkId, Peer as _, Want};
use throng_play::Play;
use throng_pusher::AppKeys;
use throng_types::{ChannelName, Millis, Now, Rng, SpanContext};

use crate::{
    HookCall, HookFilter, HookIntake, HookNode, HookScope, HooksClient, StandardKey, Webhook,
    backend_limits,
};

const START_UNIX_MS: u64 = 1_614_265_330_000;
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a name")
}

#[expect(clippy::disallowed_types, reason = "a journal outlives its client")]
type Bytes = Arc<std::sync::Mutex<Vec<u8>>>;

#[expect(
    clippy::disallowed_types,
    reason = "a client is made to be sent to its thread"
)]
type Said = Arc<std::sync::Mutex<Vec<Vec<u8>>>>;

/// Journal that outlives its client.
#[derive(Clone, Default)]
struct Disk(Bytes);

impl HookJournal for Disk {
    fn append(&mut self, records: &[u8]) {
        self.0.lock().unwrap().extend_from_slice(records);
    }

    fn replace(&mut self, records: &[u8]) {
        *self.0.lock().unwrap() = records.to_vec();
    }

    fn bytes(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
}

/// Webhook of the app 1 at `http://r:1/`.
fn of_app() -> Webhook {
    Webhook {
        name: "r".into(),
        address: Address::from_url("http://r:1/hooks", 1_000).expect("a URL"),
        filter: HookFilter {
            scope: HookScope::App(["pusher:1:".into(), "pusher-cache:1:".into()].into()),
            prefixes: Arc::new([]),
            kinds: HookEvent::USUAL,
        },
        app: Some(AppKeys::new("key", ["secret"])),
        standard: None,
        settle_ms: 3_000,
        timeout_ms: 5_000,
    }
}

struct World {
    hooks: Vec<Webhook>,
    /// This node among others, and what it has said to all.
    node: Option<HookNode>,
    said: Said,
    play: Play<ClientPeer<HooksClient>>,
    /// Time at which the process began, from which its clock counts.
    zero: u64,
    disk: Disk,
    counters: Arc<Counters>,
    intake: Arc<HookIntake>,
    wakes_at: Option<Millis>,
    /// Requests without an answer: head and body.
    under_way: VecDeque<(LinkId, String, String)>,
    /// Trace of the clients of all events from here on; 0 for none.
    trace_id: u128,
    variables: Variables,
}

impl World {
    fn new(hooks: Vec<Webhook>, node: Option<HookNode>) -> Self {
        let (disk, counters) = (Disk::default(), Arc::default());
        let (play, intake) = started(&hooks, node, &disk, &counters, START_UNIX_MS);
        let mut world = Self {
            node,
            said: Said::default(),
            play,
            zero: 0,
            intake,
            hooks,
            disk,
            counters,
            wakes_at: None,
            under_way: VecDeque::new(),
            trace_id: 0,
            variables: Variables::default(),
        };
        world.set_time(0);
        world.begin(Vec::new());
        world
    }

    fn begin(&mut self, records: Vec<u8>) {
        let said = self.said.clone();
        let voice = Box::new(move |message| said.lock().unwrap().push(message));
        self.call(HookCall::Voice(voice));
        self.call(HookCall::Load(records));
    }

    fn set_time(&mut self, ms: u64) {
        self.zero = self.zero.min(ms);
        self.play.now = Now {
            mono: Millis(ms - self.zero),
            unix_ms: START_UNIX_MS + ms,
        };
    }

    fn trace(&self) -> Option<Box<SpanContext>> {
        let trace = SpanContext {
            trace_id: self.trace_id,
            span_id: 1,
        };
        (self.trace_id != 0).then(|| Box::new(trace))
    }

    /// Time of the next deadline.
    fn wakes(&self) -> Option<u64> {
        self.wakes_at.map(|at| self.zero + at.0)
    }

    /// Lets time pass, with all deadlines on the way.
    fn pass_until(&mut self, ms: u64) {
        while let Some(at) = self.wakes().filter(|at| *at <= ms) {
            self.set_time(at.max(self.zero + self.play.now.mono.0));
            self.wakes_at = None;
            let wants = self.play.act(|peer, cx| peer.woken(cx)).1;
            self.serve(wants);
        }
        self.set_time(ms);
    }

    /// The process is killed, and another begins with what is on the disk: as another node.
    fn restart(&mut self) {
        let start = self.play.now.unix_ms;
        self.node = self.node.map(|(_, number)| (start, number));
        self.take_over();
    }

    fn take_over(&mut self) {
        let Now { mono, unix_ms } = self.play.now;
        let records = self.disk.0.lock().unwrap().clone();
        (self.play, self.intake) =
            started(&self.hooks, self.node, &self.disk, &self.counters, unix_ms);
        self.zero += mono.0;
        self.set_time(self.zero);
        self.wakes_at = None;
        self.under_way.clear();
        self.begin(records);
    }

    fn call(&mut self, call: HookCall) {
        let wants = self.play.act(|peer, cx| peer.call(call, cx)).1;
        self.serve(wants);
    }

    fn tell(&mut self, event: HookEvent) {
        assert!(self.intake.admits(&event));
        self.call(HookCall::Event(event));
    }

    fn event(&mut self, link: LinkId, event: LinkEvent<'_>) {
        let wants = self.play.event(link, event).1;
        self.serve(wants);
    }

    fn serve(&mut self, wants: Vec<Want>) {
        for want in wants {
            match want {
                Want::Dial(link, _) => self.event(link, LinkEvent::Connected),
                Want::Write(link, bytes) => {
                    let text = String::from_utf8(bytes).expect("text");
                    let (head, body) = text.split_once("\r\n\r\n").expect("a whole request");
                    let request = (link, head.to_owned(), body.to_owned());
                    self.under_way.push_back(request);
                    self.event(link, LinkEvent::Written);
                }
                Want::Wake(at) => self.wakes_at = at,
                Want::End(link) | Want::Finish(link) => {
                    self.under_way.retain(|(of, ..)| *of != link);
                }
                Want::Deadline(..) | Want::Resume(_) | Want::Secure(..) => {}
            }
        }
    }

    /// Answers the oldest request; none breaks its link.
    fn answer(&mut self, status: Option<u16>) {
        let (link, ..) = self.under_way.pop_front().expect("a request");
        match status {
            Some(status) => {
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                self.event(link, LinkEvent::Bytes(answer.as_bytes()));
            }
            None => self.event(link, LinkEvent::Ended(Ended::Broken("cut".to_owned()))),
        }
    }
}

fn started(
    hooks: &[Webhook],
    node: Option<HookNode>,
    disk: &Disk,
    counters: &Arc<Counters>,
    unix_ms: u64,
) -> (Play<ClientPeer<HooksClient>>, Arc<HookIntake>) {
    let journal: Box<dyn HookJournal> = Box::new(disk.clone());
    let (hooks, counters) = (hooks.to_vec(), counters.clone());
    let client = HooksClient::new(hooks, Some(journal), counters, unix_ms, node);
    let intake = client.intake();
    (Play::new(ClientPeer::new(client, backend_limits())), intake)
}

/// An event of a body in one word: `vacated:C`, `added:C:USER`, `client:C:EVENT:DATA`.
fn short(event: &Value) -> String {
    let name = event["name"].as_str().expect("a name");
    let parts = [
        "channel",
        "connection_id",
        "user_id",
        "event",
        "data",
        "socket_id",
        "node",
        "reason",
    ];
    let parts = parts.iter().filter_map(|part| event[part].as_str());
    let all: Vec<&str> = std::iter::once(name).chain(parts).collect();
    all.join(":")
}

fn events_of(body: &str) -> Vec<String> {
    let body: Value = serde_json::from_str(body).expect("JSON");
    let events = body["events"].as_array().expect("events");
    events.iter().map(short).collect()
}

/// Webhook of the app 1 with other options: `KEY=VALUE` for each.
fn hook_of(options: &str) -> Webhook {
    let mut hook = of_app();
    for option in options.split(' ') {
        let (key, value) = option.split_once('=').expect("KEY=VALUE");
        match key {
            "events" => {
                let names = HookEvent::NAMES;
                let asked = value
                    .split(',')
                    .map(|name| names.iter().position(|known| *known == name).expect(name));
                hook.filter.kinds = asked.fold(0, |kinds, kind| kinds | 1 << kind);
            }
            "prefixes" => {
                hook.filter.prefixes = value.split(',').map(Into::into).collect();
            }
            "namespaces" => {
                let names = value.split(',').filter(|name| !name.is_empty());
                hook.app = None;
                hook.standard = StandardKey::parse(SECRET);
                hook.filter.scope = HookScope::Namespaces {
                    names: names.map(Into::into).collect(),
                    closed: Arc::new(["pusher", "throng"]),
                };
            }
            "name" => hook.name = value.into(),
            "secret" => hook.app = Some(AppKeys::new("key", [value])),
            other => panic!("no option: {other}"),
        }
    }
    hook
}

impl Stage for World {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, step: &str, _: &str) -> Outcome {
        let (verb, rest) = word(step);
        let (name, more) = word(rest);
        let state = |is_on| HookEvent::Occupied {
            channel: channel(name),
            is_on,
        };
        let member = |is_on| HookEvent::Member {
            channel: channel(name),
            user: more.into(),
            is_on,
        };
        match verb {
            "webhook" => *self = Self::new(vec![hook_of(rest)], None),
            "renews" => {
                let hooks = rest.split(" | ").filter(|text| !text.is_empty());
                self.hooks = hooks.map(hook_of).collect();
                self.call(HookCall::Renew(self.hooks.clone()));
            }
            "at" => self.pass_until(rest.parse().expect("milliseconds")),
            "comes" => self.tell(state(true)),
            "leaves" => self.tell(state(false)),
            "joins" => self.tell(member(true)),
            "quits" => self.tell(member(false)),
            "counts" => self.tell(HookEvent::Count {
                channel: channel(name),
                subscribers: more.parse().expect("a number"),
            }),
            // Of the app 1, or of none: `1.1 ann`, `- 1.1 ann 3001 shutdown`.
            "connects" | "disconnects" => {
                let (is_apps, (id, rest)) = match name {
                    "-" => (false, word(more)),
                    _ => (true, (name, more)),
                };
                let (user, rest) = word(rest);
                let (code, reason) = word(rest);
                let code = code.parse().unwrap_or_default();
                self.tell(HookEvent::Connection(Box::new(HookConnection {
                    scope: if is_apps { "pusher:1:" } else { "" }.into(),
                    id: id.into(),
                    user: user.into(),
                    node: "n".into(),
                    protocol: "pusher".into(),
                    transport: "websocket".into(),
                    end: (verb == "disconnects").then(|| (code, reason.into())),
                    trace: self.trace(),
                })));
            }
            "lives" | "dies" => {
                self.tell(HookEvent::node(name, verb == "lives").expect("a name"));
            }
            "misses" => self.tell(HookEvent::CacheMiss {
                channel: channel(name),
                trace: self.trace(),
            }),
            "traced" => self.trace_id = rest.parse().expect("an id"),
            "sends" => {
                let (event, data) = word(more);
                self.tell(HookEvent::Client {
                    channel: channel(name),
                    event: event.into(),
                    data: data.into(),
                    socket_id: "1.2".into(),
                    user: None,
                    trace: self.trace(),
                });
            }
            "floods" => {
                let (count, bytes) = word(more);
                for _ in 0..count.parse().expect("a number") {
                    self.tell(HookEvent::Client {
                        channel: channel(name),
                        event: "e".into(),
                        data: "x".repeat(bytes.parse().expect("a number")).into(),
                        socket_id: "1.2".into(),
                        user: None,
                        trace: None,
                    });
                }
            }
            "drains" => {
                let mut last = None;
                while let Some(at) = self.wakes().filter(|_| self.under_way.is_empty()) {
                    self.pass_until(at);
                    while let Some((_, _, body)) = self.under_way.front() {
                        last = events_of(body).pop();
                        self.answer(Some(200));
                    }
                }
                return same(&last.unwrap_or_default().as_str(), &rest);
            }
            "told" => {
                let found = self.under_way.iter().map(|(_, _, body)| events_of(body));
                let found: Vec<Vec<String>> = found.collect();
                let wanted = rest.split(" | ").filter(|text| !text.is_empty());
                let wanted = wanted.map(|text| text.split(' ').map(str::to_owned).collect());
                return same(&found, &wanted.collect());
            }
            "head" => {
                let (_, head, _) = self.under_way.front().ok_or("nothing is under way")?;
                let field = head.lines().find(|line| line.starts_with(name));
                return same(&field.unwrap_or_default(), &rest);
            }
            "no-head" => {
                let (_, head, _) = self.under_way.front().ok_or("nothing is under way")?;
                return same(&head.lines().any(|line| line.starts_with(rest)), &false);
            }
            "id" => {
                let (_, head, _) = self.under_way.front().ok_or("nothing is under way")?;
                let mut ids = head
                    .lines()
                    .filter_map(|line| line.strip_prefix("webhook-id: "));
                let id = ids.next().ok_or("no id")?.to_owned();
                match name {
                    "same" => return same(&id, &self.variables.filled("<ID>")),
                    "other" if id == self.variables.filled("<ID>") => return Err(id),
                    _ => self.variables.set("ID", id),
                }
            }
            "body" => {
                let (_, _, body) = self.under_way.front().ok_or("nothing is under way")?;
                return same(&body.as_str(), &rest);
            }
            "answers" => self.answer(Some(rest.parse().expect("a status"))),
            "cuts" => self.answer(None),
            "is-killed" => self.restart(),
            // The next process has another wall clock, and nothing of this one.
            "forgets" => {
                self.disk.0.lock().unwrap().clear();
                self.restart();
            }
            "takes-over" => self.take_over(),
            "counted" => {
                let count = |counter| self.counters.counter(counter).to_string();
                let counts = [
                    Counter::HookEventsSent,
                    Counter::HookEventsFull,
                    Counter::HookEventsOld,
                    Counter::HookRequestsFailed,
                ];
                return same(&counts.map(count).join(" ").as_str(), &rest);
            }
            "gives-up" => {
                let disk = self.disk.clone();
                // The next process writes the file only when it begins.
                self.call(HookCall::GiveUp(Box::new(move |records| {
                    *disk.0.lock().unwrap() = records;
                })));
            }
            "goes-on" => self.call(HookCall::GoOn),
            "finishes" => self.call(HookCall::Finish(Box::new(|| {}))),
            other => panic!("no step: {other}"),
        }
        Ok(())
    }
}

#[test]
fn stories_of_receivers() {
    let world = || World::new(vec![of_app()], None);
    play("tests.txt", include_str!("tests.txt"), world);
}

/// State of a receiver, as its requests have told it.
#[derive(Default)]
struct Heard {
    states: BTreeMap<String, bool>,
    /// Events that are no states, in the order in which they first came.
    others: Vec<String>,
}

impl Heard {
    fn take(&mut self, body: &str) {
        for event in events_of(body) {
            let (name, rest) = event.split_once(':').expect("a channel");
            match name {
                "channel_occupied" | "member_added" => self.states.insert(rest.to_owned(), true),
                "channel_vacated" | "member_removed" => self.states.insert(rest.to_owned(), false),
                _ => {
                    if !self.others.contains(&event) {
                        self.others.push(event);
                    }
                    None
                }
            };
        }
    }
}

/// Receivers fail, cut, or take a batch without a word; the process is killed and begins anew.
/// Nothing is lost, and what a receiver heard last of every state is true.
#[test]
fn nothing_is_lost_and_what_is_told_last_is_true() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut draw = |below: u64| rng.next_u64() % below;
        let mut world = World::new(vec![of_app()], None);
        let mut truth: BTreeMap<String, bool> = BTreeMap::new();
        let (mut heard, mut sent, mut now) = (Heard::default(), Vec::new(), 0);
        for step in 0..400 {
            match draw(12) {
                0..=4 => {
                    let (name, user) = (format!("c{}", draw(4)), draw(3));
                    let is_on = draw(2) == 0;
                    let channel = channel(&format!("pusher:1:{name}"));
                    let subject = match user {
                        0 => name,
                        user => format!("{name}:{user}"),
                    };
                    if truth.insert(subject, is_on).unwrap_or_default() == is_on {
                        continue;
                    }
                    let user: Box<str> = user.to_string().into();
                    world.tell(match &*user {
                        "0" => HookEvent::Occupied { channel, is_on },
                        _ => HookEvent::Member {
                            channel,
                            user,
                            is_on,
                        },
                    });
                }
                5 => {
                    world.tell(HookEvent::Client {
                        channel: channel("pusher:1:private-c"),
                        event: "client-e".into(),
                        data: step.to_string().into(),
                        socket_id: "1.2".into(),
                        user: None,
                        trace: None,
                    });
                    sent.push(format!("client_event:private-c:client-e:{step}:1.2"));
                }
                6 | 7 => {
                    now += draw(2_000);
                    world.pass_until(now);
                }
                8..=10 if !world.under_way.is_empty() => {
                    // It has taken the batch or not, whatever it says.
                    let outcome = draw(4);
                    if outcome < 2 {
                        heard.take(&world.under_way[0].2.clone());
                    }
                    match outcome {
                        0 => world.answer(Some(200)),
                        1 | 2 => world.answer(None),
                        _ => world.answer(Some(503)),
                    }
                }
                11 if step % 40 == 0 => world.call(HookCall::Renew(vec![of_app()])),
                11 if draw(8) == 0 => {
                    world.restart();
                    // Nobody is connected to it, and some come back.
                    for (subject, is_on) in &mut truth {
                        *is_on &= draw(2) == 0;
                        let (name, user) = subject.split_once(':').unwrap_or((subject, ""));
                        let channel = channel(&format!("pusher:1:{name}"));
                        let is_on = *is_on;
                        if is_on {
                            world.tell(match user {
                                "" => HookEvent::Occupied { channel, is_on },
                                user => HookEvent::Member {
                                    channel,
                                    user: user.into(),
                                    is_on,
                                },
                            });
                        }
                    }
                }
                _ => {}
            }
        }
        // All is well from here on.
        for _ in 0..40 {
            now += 10_000;
            world.pass_until(now);
            while let Some((_, _, body)) = world.under_way.front() {
                heard.take(&body.clone());
                world.answer(Some(200));
            }
        }
        let of = |states: &BTreeMap<String, bool>| -> Vec<String> {
            let on = states.iter().filter(|(_, is_on)| **is_on);
            on.map(|(subject, _)| subject.clone()).collect()
        };
        assert_eq!(of(&heard.states), of(&truth), "seed {seed}");
        assert_eq!(heard.others, sent, "seed {seed}");
        assert_eq!(world.wakes_at, None, "seed {seed}: nothing is left to do");
    }
}
