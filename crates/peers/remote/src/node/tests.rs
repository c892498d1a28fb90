//! Nodes on a broker that is played: it takes what is sent when the test says so, and its answers
//! and deliveries come late, or in another order, or not at all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use throng_broker::{
    ChannelMember, ChannelOptions, Draft, Moving, NamespaceOptions, Outcome, Recovery, Refusal,
    Reply, Request, Retention, Ticket,
};
use throng_dialogue::{AssertingStage, number, play_asserting};
use throng_peer::task::{Link, Net};
use throng_types::{ChannelName, Epoch, Position, Publication, Rng};

use crate::agent::tests::publication;
use crate::agent::{AUDIT_MS, HistoryMatch, Looked, Mode};
use crate::channels::NodeChannels as _;
use crate::core::{Core, LEASE_MS};
use crate::io::NodeIo;
use crate::io::RemoteOptions;
use crate::node::Node as _;
use crate::queues::{ForShard, NodeEvent, RequestId, ShardQueues, ToNodes};
use crate::verbs::{BrokerFault, Connector, Messages};
use crate::verbs::{PendingSubscribe, Purpose, Query, Verbs};

/// Connects by one question, whose answer is one byte.
pub(crate) struct PlayedConnector;

impl Connector for PlayedConnector {
    type Handshake = ();
    type Messages = PlayedMessages;

    async fn connect(&mut self, net: &Net) -> Result<((), Link, PlayedMessages), String> {
        let way = throng_peer::Dial {
            host: "h".to_owned(),
            port: 1,
            tls: None,
            timeout_ms: 1000,
        };
        let mut link = net.dial(way).await.map_err(|why| why.to_string())?;
        link.write(b"hello".to_vec());
        let input = link.read().await.map_err(|why| why.to_string())?;
        Ok(((), link, PlayedMessages(input[1..].to_vec().into())))
    }

    async fn watch(&mut self, net: &Net) -> String {
        net.sleep(10_000).await;
        "it is elsewhere".to_owned()
    }
}

/// Each byte is a word, but for `!`.
pub(crate) struct PlayedMessages(VecDeque<u8>);

impl Messages for PlayedMessages {
    type Message = u8;

    fn feed(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    fn next(&mut self) -> Result<Option<u8>, String> {
        match self.0.pop_front() {
            Some(b'!') => Err("no word".to_owned()),
            word => Ok(word),
        }
    }
}

/// On its way to the broker.
enum Sent {
    Subscribe,
    Unsubscribe,
    Look(Purpose, Query),
    Settle(PendingSubscribe),
}

/// On its way back.
enum Back {
    Looked(Purpose, Looked),
    Settled(PendingSubscribe),
    Delivery(Arc<Publication>),
}

/// A broker with one channel. What it has published is all there.
pub(crate) struct Played<const ONE_ROAD: bool> {
    core: Core,
    pub(crate) shards: Vec<Arc<ShardQueues>>,
    /// Messages that came by its connection.
    pub(crate) words: String,
    stands: Position,
    hears: bool,
    sent: VecDeque<Sent>,
    answers: VecDeque<Back>,
    /// Unused on one road.
    deliveries: VecDeque<Back>,
    told: Vec<String>,
    flights: usize,
    pub(crate) oldest_ms: Option<u64>,
    pub(crate) proves: bool,
    come: Vec<&'static str>,
    asked: usize,
    /// When it renewed its lease, and when it looked for dead nodes.
    renewed_ms: Vec<u64>,
    looked_ms: Vec<u64>,
}

pub(crate) fn channel() -> ChannelName {
    ChannelName::new("a").unwrap()
}

const fn at(epoch: u64, offset: u64) -> Position {
    let epoch = Epoch(epoch);
    Position { epoch, offset }
}

impl<const ONE_ROAD: bool> Played<ONE_ROAD> {
    /// A node of two shards without a connection, in whose channels history is kept, or is not.
    pub(crate) fn new(keeps: bool) -> Self {
        let plain = ChannelOptions {
            retention: Retention {
                publications_max: if keeps { 100 } else { 0 },
                ttl_ms: 1000,
            },
            recovery: true,
            ..ChannelOptions::default()
        };
        let options = RemoteOptions {
            namespaces: Arc::new(NamespaceOptions::new(plain, Vec::new())),
            ..RemoteOptions::for_tests()
        };
        let shards = [(); 2]
            .map(|()| Arc::new(ShardQueues::new(Arc::new(|| {}))))
            .to_vec();
        Self {
            core: Core::new(NodeIo::new(options, shards.clone(), Arc::default())),
            shards,
            words: String::new(),
            stands: at(1, 0),
            hears: false,
            sent: VecDeque::new(),
            answers: VecDeque::new(),
            deliveries: VecDeque::new(),
            told: Vec::new(),
            flights: 0,
            oldest_ms: None,
            proves: true,
            come: Vec::new(),
            asked: 0,
            renewed_ms: Vec::new(),
            looked_ms: Vec::new(),
        }
    }

    fn comes_back(&mut self, back: Back) {
        match back {
            Back::Delivery(_) if !ONE_ROAD => self.deliveries.push_back(back),
            back => self.answers.push_back(back),
        }
    }

    /// Another node publishes; the delivery may be lost.
    fn publishes(&mut self, is_lost: bool) {
        self.stands.offset += 1;
        if self.hears && !is_lost {
            let publication = publication(Some(self.stands));
            self.comes_back(Back::Delivery(publication.shared()));
        }
    }

    /// The broker takes the next of what was sent.
    fn takes(&mut self) -> bool {
        match self.sent.pop_front() {
            None => return false,
            Some(Sent::Subscribe) => self.hears = true,
            Some(Sent::Unsubscribe) => self.hears = false,
            Some(Sent::Settle(subscribe)) => self.comes_back(Back::Settled(subscribe)),
            Some(Sent::Look(purpose, query)) => {
                let looked = self.looked(query);
                self.comes_back(Back::Looked(purpose, looked));
            }
        }
        true
    }

    fn looked(&self, query: Query) -> Looked {
        let position = self.stands;
        let after = match (query.mode, query.since) {
            (Mode::Since, None) => Some(0),
            (Mode::Since, Some(since)) => (since.epoch == position.epoch).then_some(since.offset),
            _ => Some(position.offset),
        };
        let fits = after.filter(|it| {
            let missed = position.offset.checked_sub(*it);
            missed.is_some_and(|missed| missed as usize <= query.limit)
        });
        let found = fits.map_or(0..0, |after| after + 1..position.offset + 1);
        let found = found.map(|offset| publication(Some(Position { offset, ..position })).shared());
        Looked {
            position,
            status: fits.map_or(HistoryMatch::Lost, |_| HistoryMatch::Fits),
            publications: found.collect(),
        }
    }

    /// One thing arrives at the node, from either road.
    fn arrives(&mut self, from_deliveries: bool) -> bool {
        let first = match from_deliveries {
            true => self.deliveries.pop_front(),
            false => self.answers.pop_front(),
        };
        match first {
            None => return false,
            Some(Back::Looked(purpose, looked)) => self.tell_looked(&channel(), purpose, looked),
            Some(Back::Settled(subscribe)) => self.settled(subscribe),
            Some(Back::Delivery(publication)) => self.delivered(publication),
        }
        true
    }

    /// Everything that is under way arrives.
    fn settles(&mut self) {
        for _ in 0..1000 {
            if !(self.takes() || self.arrives(true) || self.arrives(false)) {
                return;
            }
        }
        panic!("it looks without end");
    }

    fn subscribes(&mut self, number: u8, ticket: u32, since: Option<Position>) {
        let request = Request::Subscribe {
            ticket: Ticket(ticket),
            channel: channel(),
            since,
            presence: None,
        };
        self.request(number, request);
    }

    /// Takes what is left for a shard, but for cuts.
    pub(crate) fn left(&self, number: u8) -> Vec<ForShard> {
        let mut left = VecDeque::new();
        self.shards[usize::from(number)].take(&mut left);
        left.retain(|item| !matches!(item, ForShard::Cut(_)));
        left.into()
    }

    /// Lets time pass, and does what is due.
    fn later(&mut self, ms: u64) -> Result<(), BrokerFault> {
        self.core.io.now_ms += ms;
        self.tick()
    }
}

impl<const ONE_ROAD: bool> Verbs for Played<ONE_ROAD> {
    type Connector = PlayedConnector;

    const BROKER: &'static str = "a play";
    const IS_ONE_ROAD: bool = ONE_ROAD;
    const BATCHES: usize = 1;

    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn connector(&mut self) -> PlayedConnector {
        PlayedConnector
    }

    fn begin_connection(&mut self, (): ()) {}

    fn announce(&mut self) {}

    fn end_connection(&mut self) {
        self.hears = false;
        self.deliveries.clear();
        for back in std::mem::take(&mut self.answers) {
            match back {
                Back::Looked(purpose, _) => self.lose_look(&channel(), purpose),
                Back::Settled(subscribe) => self.wait_again(subscribe),
                Back::Delivery(_) => {}
            }
        }
        for sent in std::mem::take(&mut self.sent) {
            match sent {
                Sent::Look(purpose, _) => self.lose_look(&channel(), purpose),
                Sent::Settle(subscribe) => self.wait_again(subscribe),
                Sent::Subscribe | Sent::Unsubscribe => {}
            }
        }
    }

    fn message(&mut self, word: u8) -> Result<(), BrokerFault> {
        self.words.push(char::from(word));
        match word {
            b'x' => Err(BrokerFault("that cannot be".to_owned())),
            _ => Ok(()),
        }
    }

    fn in_flight(&mut self) -> (usize, usize) {
        (self.flights, 0)
    }

    fn oldest_ms(&mut self) -> Option<u64> {
        self.oldest_ms
    }

    fn forgive(&mut self) {
        self.oldest_ms = self.oldest_ms.map(|_| self.core.io.now_ms);
    }

    fn begin_tick(&mut self) -> Result<(), BrokerFault> {
        Ok(())
    }

    fn end_tick(&mut self) {}

    fn probe(&mut self) {
        if self.proves {
            self.core.proved();
        }
    }

    fn subscribe(&mut self, channels: &[(ChannelName, u64)]) {
        assert!(!channels.is_empty());
        self.sent.push_back(Sent::Subscribe);
    }

    fn unsubscribe(&mut self, _: &ChannelName, _: u64, _: bool) {
        self.sent.push_back(Sent::Unsubscribe);
    }

    fn look(&mut self, name: &ChannelName, purpose: Purpose, query: Query) {
        assert_eq!(*name, channel());
        self.sent.push_back(Sent::Look(purpose, query));
    }

    fn settle(&mut self, subscribe: PendingSubscribe) {
        self.sent.push_back(Sent::Settle(subscribe));
    }

    fn publish(&mut self, _: RequestId, _: Draft) {}

    fn forget(&mut self, _: RequestId, _: &ChannelName) {
        self.core.io.out.push(b'F');
    }

    fn come(&mut self, subscribe: PendingSubscribe) {
        self.come.push("listed");
        self.look_for(subscribe);
    }

    fn has_come(&mut self, subscribe: &PendingSubscribe) {
        if subscribe.presence.is_some() {
            self.come.push("come");
        }
    }

    fn has_not_come(&mut self, _: &PendingSubscribe) {
        self.come.push("not come");
    }

    fn come_later(&mut self, subscribe: &PendingSubscribe) -> Option<ChannelMember> {
        subscribe.presence.clone()
    }

    fn quit(&mut self, _: &ChannelName, _: &ChannelMember) {}

    fn present(&mut self, _: RequestId, _: &ChannelName, _: bool) {}

    fn take_somebody(&mut self, _: ChannelName, _: ChannelMember) {}

    fn give_somebody(&mut self, _: ChannelName, _: &ChannelMember) {}

    fn own(&self) -> &str {
        "own"
    }

    fn renew_lease(&mut self) {
        self.renewed_ms.push(self.core.io.now_ms);
    }

    fn look_for_dead(&mut self) {
        self.looked_ms.push(self.core.io.now_ms);
    }

    fn hear_by_name(&mut self, name: &str) {
        self.told.push(format!("named {name}"));
    }

    fn ask_all(&mut self, who: (u8, u32), _: Vec<u8>) {
        self.asked += 1;
        self.asked_of(who, 1);
    }

    fn ask_one(&mut self, who: (u8, u32), _: &str, _: Vec<u8>) {
        self.asked_of(who, 0);
    }

    fn answer_to(&mut self, node: &str, _: Vec<u8>) {
        self.told.push(format!("answer {node}"));
    }

    fn tell_everybody(&mut self, message: &[u8]) {
        let message = String::from_utf8_lossy(message);
        self.told.push(message.into_owned());
    }
}

/// As docs/CLUSTER.md and docs/PUSHER.md say; brokers forget a lease after [`LEASE_MS`].
#[test]
fn a_dead_node_is_found_within_twenty_seconds() {
    let mut node = Played::<true>::new(false);
    node.connected(());
    for _ in 0..1_000 {
        node.later(100).expect("a connection");
    }
    let longest = |times: &[u64]| {
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().expect("several times")
    };
    assert_eq!((LEASE_MS, longest(&node.renewed_ms)), (15_000, 3_000));
    assert!(LEASE_MS + longest(&node.looked_ms) <= 20_000);
}

// ---- whatever the order ----

/// State of a shard, as its hub would know it.
#[derive(Default)]
struct Shard {
    /// Everything up to here, while a subscription stands.
    has: Option<Position>,
    /// The last position that it had, to come back from.
    had: Option<Position>,
    /// Subscribes without an answer, and where they began.
    asked: HashMap<u32, Option<Position>>,
    tickets: u32,
}

impl Shard {
    fn asks<const R: bool>(&mut self, number: u8, node: &mut Played<R>) {
        self.tickets += 1;
        self.asked.insert(self.tickets, self.had);
        node.subscribes(number, self.tickets, self.had);
    }

    fn hears<const R: bool>(&mut self, number: u8, node: &mut Played<R>, story: &str) {
        for reply in node.left(number) {
            match reply {
                ForShard::Reply(Reply {
                    ticket,
                    outcome: Outcome::Subscribed(result),
                }) => {
                    let since = self.asked.remove(&ticket.0).expect("a ticket");
                    let Ok(result) = result else { continue };
                    let here = result.position.expect("a position");
                    if let Recovery::Whole(missed) = result.recovery {
                        let since = since.expect("a position to recover from");
                        let got = missed.iter().map(|it| it.position.expect("a position"));
                        let all = since.offset + 1..here.offset + 1;
                        let all = all.map(|offset| Position { offset, ..here });
                        assert!(got.eq(all), "{story}: {since:?} to {here:?}");
                    }
                    if let Some(has) = self.has {
                        assert_eq!(has, here, "{story}: the other subscribers have this");
                    }
                    (self.has, self.had) = (Some(here), Some(here));
                }
                ForShard::Delivery(publication) => {
                    let Some(has) = self.has else { continue };
                    let offset = has.offset + 1;
                    let next = Some(Position { offset, ..has });
                    assert_eq!(publication.position, next, "{story}: shard {number}");
                    (self.has, self.had) = (next, next);
                }
                ForShard::Broken(_) => {
                    self.has = None;
                    self.asks(number, node);
                }
                reply => panic!("{story}: {reply:?}"),
            }
        }
    }
}

/// Plays the story of a seed.
fn plays<const ONE_ROAD: bool>(seed: u64) {
    let story = format!("seed {seed}, one road: {ONE_ROAD}");
    let mut rng = Rng::new(seed);
    let mut node = Played::<ONE_ROAD>::new(true);
    let mut shards = [Shard::default(), Shard::default()];
    node.connected(());
    let mut to_resume = 0;
    if seed.is_multiple_of(3) {
        // Another process hands over, with what its shards have.
        node.stands.offset = 20;
        to_resume = 2;
        (0..2).for_each(|number| node.moving(number, Moving::Expect(channel())));
        (0..2).for_each(|number| node.moving(number, Moving::Cut(7)));
    }
    let mut restarts = 1;
    for _ in 0..400 {
        match rng.below(20) {
            0..5 => node.publishes(rng.below(30) == 0),
            5..9 => _ = node.takes(),
            9..15 => _ = node.arrives(rng.below(2) == 0),
            15 => node.later(rng.below(200)).expect("a connection"),
            16 if to_resume > 0 => {
                to_resume -= 1;
                let number = to_resume;
                let has = at(1, 20 - rng.below(4));
                shards[usize::from(number)].has = Some(has);
                shards[usize::from(number)].had = Some(has);
                node.moving(number, Moving::Resume(channel(), Some(has)));
                node.moving(number, Moving::Resumed);
            }
            16 | 17 if to_resume == 0 => {
                let number = rng.below(2) as u8;
                shards[usize::from(number)].asks(number, &mut node);
            }
            18 if to_resume == 0 => {
                let number = rng.below(2) as u8;
                let shard = &mut shards[usize::from(number)];
                if shard.asked.is_empty() {
                    shard.has = None;
                    node.request(number, Request::Leave { channel: channel() });
                }
            }
            19 if rng.below(6) == 0 => {
                node.disconnected();
                if rng.below(3) == 0 {
                    // It comes back with an older copy.
                    restarts += 1;
                    let lost = rng.below(node.stands.offset + 1).min(3);
                    node.stands = at(restarts, node.stands.offset - lost);
                }
                node.connected(());
            }
            _ => {}
        }
        for (number, shard) in (0..).zip(&mut shards) {
            shard.hears(number, &mut node, &story);
        }
    }
    // All that is under way comes, and audits find what was lost.
    while to_resume > 0 {
        to_resume -= 1;
        let has = Some(at(1, 20));
        let shard = &mut shards[usize::from(to_resume)];
        (shard.has, shard.had) = (has, has);
        node.moving(to_resume, Moving::Resume(channel(), has));
        node.moving(to_resume, Moving::Resumed);
    }
    for _ in 0..20 {
        for _ in 0..AUDIT_MS / 2000 {
            node.later(1000).expect("a connection");
            node.settles();
        }
        for (number, shard) in (0..).zip(&mut shards) {
            shard.hears(number, &mut node, &story);
        }
    }
    for shard in &shards {
        assert!(shard.asked.is_empty(), "{story}: no reply");
        if let Some(has) = shard.has {
            assert_eq!(has, node.stands, "{story}: all of it came");
        }
    }
}

#[test]
fn nothing_is_lost_or_doubled_whatever_comes_first() {
    for seed in 0..400 {
        plays::<true>(seed);
        plays::<false>(seed);
    }
}

// ---- one rule each ----

/// Items as a story names them.
fn listed(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    match items.is_empty() {
        true => "nothing".to_owned(),
        false => items.join(", "),
    }
}

fn named(item: ForShard) -> String {
    let shown = |position: Option<Position>| {
        let at = position.expect("a position");
        format!("{}.{}", at.epoch.0, at.offset)
    };
    match item {
        ForShard::Reply(Reply {
            outcome: Outcome::Subscribed(result),
            ..
        }) => match result {
            Ok(it) => format!("subscribed {}", shown(it.position)),
            Err(refusal) => format!("refused {refusal:?}"),
        },
        ForShard::Delivery(publication) => format!("delivery {}", shown(publication.position)),
        ForShard::Broken(_) => "broken".to_owned(),
        other => panic!("{other:?}"),
    }
}

/// Plays a step of `stories.txt`, whose head says what each means.
fn step<const R: bool>(node: &mut Played<R>, step: &str) {
    let (act, expected) = step.split_once(" = ").unwrap_or((step, ""));
    let shard = number::<u8>;
    let words: Vec<&str> = act.split(' ').collect();
    let mut found = String::new();
    match words[..] {
        ["connect"] => node.connected(()),
        ["disconnect"] => node.disconnected(),
        ["subscribe", of, ticket] => node.subscribes(shard(of), number(ticket), None),
        ["leave", of] => node.request(shard(of), Request::Leave { channel: channel() }),
        ["publish", ref lost @ ..] => node.publishes(!lost.is_empty()),
        ["take"] => assert!(node.takes()),
        ["answer"] => assert!(node.arrives(false)),
        ["delivery"] => assert!(node.arrives(true)),
        ["settle"] => node.settles(),
        ["stray", epoch, offset] => {
            let publication = publication(Some(at(number(epoch), number(offset))));
            node.deliveries
                .push_back(Back::Delivery(publication.shared()));
        }
        ["later", ms] => {
            let ended = node.later(number(ms)).err();
            found = ended.map_or_else(String::new, |fault| fault.0);
        }
        ["stalls", ms] => {
            node.core.io.now_ms += number::<u64>(ms);
            node.stalled();
        }
        ["deaf"] => node.proves = false,
        ["unanswered"] => node.oldest_ms = Some(node.core.io.now_ms),
        ["audit"] => {
            for _ in 0..AUDIT_MS / 1000 {
                assert!(node.sent.is_empty());
                node.later(1000).expect("a connection");
            }
        }
        ["stands", epoch, offset] => node.stands = at(number(epoch), number(offset)),
        ["refuse"] => {
            let Some(Sent::Look(purpose, _)) = node.sent.pop_front() else {
                panic!("no look");
            };
            node.refuse_look(&channel(), purpose, Refusal::Unavailable);
        }
        ["expect", of] => node.moving(shard(of), Moving::Expect(channel())),
        ["cut", of, cut] => {
            let cut = u64::from_str_radix(cut, 16).expect("a number");
            node.moving(shard(of), Moving::Cut(cut));
        }
        ["busy"] => node.flights = crate::core::FLIGHTS_MAX,
        ["free"] => node.flights = 0,
        ["left", of] => found = listed(node.left(shard(of)).into_iter().map(named)),
        ["sent"] => {
            let sent = node.sent.iter().map(|sent| match sent {
                Sent::Subscribe => "subscribe",
                Sent::Unsubscribe => "unsubscribe",
                Sent::Look(..) => "look",
                Sent::Settle(_) => "settle",
            });
            found = listed(sent.map(str::to_owned));
        }
        ["told"] => found = listed(node.told.clone()),
        ["come"] => found = listed(node.come.iter().map(|it| (*it).to_owned())),
        ["channels"] => found = node.core.channels.len().to_string(),
        ["doubts"] => found = node.core.io.status.is_in_doubt().to_string(),
        _ => panic!("a step that nobody knows"),
    }
    assert_eq!(found, expected);
}

/// A node by whose first step it is known how deliveries come.
enum Stage {
    Roads,
    One(Played<true>),
    Two(Played<false>),
}

impl AssertingStage for Stage {
    fn step(&mut self, text: &str) {
        match self {
            Self::One(node) => step(node, text),
            Self::Two(node) => step(node, text),
            Self::Roads => {
                *self = match text {
                    "one road" => Self::One(Played::new(true)),
                    "one road without history" => Self::One(Played::new(false)),
                    "two roads" => Self::Two(Played::new(true)),
                    other => panic!("no roads: {other}"),
                }
            }
        }
    }
}

#[test]
fn stories_hold() {
    play_asserting("stories.txt", include_str!("stories.txt"), || Stage::Roads);
}

#[test]
fn a_question_that_cannot_be_sent_has_failed_and_a_name_is_heard_on_each_connection() {
    let mut node = Played::<true>::new(true);
    let queues = node.shards[0].clone();
    queues.tell_nodes(ToNodes::Named("n".into()));
    queues.tell_nodes(ToNodes::Ask(1, b"?".to_vec()));
    node.later(1).expect("nothing to give up");
    let failed = |ticket| Some(NodeEvent::Answered(ticket, None));
    assert_eq!((queues.next_from_nodes(), node.asked), (failed(1), 0));
    node.connected(());
    assert_eq!(node.told, ["named n"]);
    queues.tell_nodes(ToNodes::Ask(2, b"?".to_vec()));
    queues.tell_nodes(ToNodes::AskOne(3, "gone".into(), b"?".to_vec()));
    node.later(1).expect("a connection");
    let none = Some(NodeEvent::Answered(3, Some(Vec::new())));
    assert_eq!((queues.next_from_nodes(), node.asked), (none, 1));
    node.hear_answer(b"0 2 !");
    let answered = Some(NodeEvent::Answered(2, Some(vec![b"!".to_vec()])));
    assert_eq!(queues.next_from_nodes(), answered);
}
