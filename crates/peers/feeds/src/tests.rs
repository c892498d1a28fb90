//! The feeds of a server, with a played source and played shards.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use throng_broker::{Acknowledge, Draft, Refusal, home_of};
use throng_metrics::{Counter, Counters, Gauge};
use throng_peer::{Peer as _, Want};
use throng_play::Play;
use throng_types::Millis;

use crate::event::Event;
use crate::feed::{Feed, FeedOptions, FeedStatus, SourceOptions};
use crate::inlet::{Call, FeedOrder, PublishResults, Reply, Round};
use crate::peer::FeedsPeer;
use crate::source::{Fault, LOOK_MS, Setup, Source};

const SHARDS: u8 = 2;

#[derive(Debug, Default)]
struct World {
    waiting: VecDeque<Event>,
    /// Every question fails with it while it is there.
    fault: Option<String>,
    /// Calls of the source, with their times.
    log: Vec<(u64, String)>,
}

/// A source that tests play.
#[derive(Clone, Debug, Default)]
pub struct Script(Rc<RefCell<World>>);

impl Script {
    fn failed(&self) -> Result<(), Fault> {
        let fault = self.0.borrow().fault.clone();
        fault.map_or(Ok(()), |why| Err(Fault(why)))
    }

    pub(crate) async fn connect(&self, setup: Setup) -> Result<Played, Fault> {
        setup.net.sleep(1).await;
        let played = Played {
            script: self.clone(),
            setup,
            batch: Vec::new(),
        };
        played.note("connect");
        self.failed()?;
        Ok(played)
    }
}

pub(crate) struct Played {
    script: Script,
    setup: Setup,
    batch: Vec<Event>,
}

impl Played {
    fn note(&self, what: &str) {
        let now = self.setup.net.now().mono.0;
        self.script.0.borrow_mut().log.push((now, what.to_owned()));
    }
}

impl Source for Played {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        if self.script.0.borrow().waiting.is_empty() {
            self.setup.net.sleep(LOOK_MS).await;
        }
        self.script.failed()?;
        let waiting = &mut self.script.0.borrow_mut().waiting;
        let count = waiting.len().min(self.setup.batch_max);
        self.batch = waiting.drain(..count).collect();
        Ok(self.batch.clone())
    }

    async fn done(&mut self) -> Result<(), Fault> {
        self.note("done");
        self.batch.clear();
        self.script.failed()
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        self.note("back");
        let waiting = &mut self.script.0.borrow_mut().waiting;
        while let Some(event) = self.batch.pop() {
            waiting.push_front(event);
        }
        Ok(())
    }

    async fn keep(&mut self) {
        self.note("keep");
    }

    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        Ok(Some(self.script.0.borrow().waiting.len() as u64))
    }

    async fn leave(self) {
        self.note("leave");
    }
}

/// The rest of the server.
struct Server {
    play: Play<FeedsPeer>,
    script: Script,
    status: Arc<FeedStatus>,
    counters: Arc<Counters>,
    wake_at: Option<Millis>,
    /// Publications that are refused yet.
    refusals_left: u32,
    /// Rounds are kept, not answered.
    is_silent: bool,
    rounds: Vec<Round>,
    offered_at: Vec<u64>,
    taken: Vec<String>,
    synced: Vec<String>,
}

impl Server {
    fn start(is_on_disk: bool) -> Self {
        let script = Script::default();
        let feed = Feed::new(FeedOptions {
            name: "x".to_owned(),
            source: SourceOptions::Played(script.clone()),
            channel: None,
            data_bytes_max: 100,
            batch_max: 6,
            is_on_disk,
            is_traced: false,
        });
        let (status, counters) = (feed.status.clone(), feed.counters.clone());
        let peer = FeedsPeer::new(vec![feed], SHARDS, 1, |_| Err("no file".to_owned()));
        Self {
            play: Play::new(peer),
            script,
            status,
            counters,
            wake_at: None,
            refusals_left: 0,
            is_silent: false,
            rounds: Vec::new(),
            offered_at: Vec::new(),
            taken: Vec::new(),
            synced: Vec::new(),
        }
    }

    /// Lets so many events wait, each `channel key`.
    fn fill(&self, events: &[&str]) {
        for event in events {
            let (channel, place) = event.split_once(' ').expect("two words");
            self.script.0.borrow_mut().waiting.push_back(Event {
                place: place.to_owned(),
                channel: Some(channel.to_owned()),
                data: Some(b"1".to_vec()),
                ..Event::default()
            });
        }
    }

    fn fault(&self, fault: Option<&str>) {
        self.script.0.borrow_mut().fault = fault.map(str::to_owned);
    }

    /// Calls of the source since the last look.
    fn log(&self) -> Vec<(u64, String)> {
        std::mem::take(&mut self.script.0.borrow_mut().log)
    }

    /// Names of those calls alone.
    fn steps(&self) -> Vec<String> {
        self.log().into_iter().map(|(_, what)| what).collect()
    }

    fn call(&mut self, call: Call) {
        let (_, wants) = self.play.act(|peer, cx| peer.call(call, cx));
        self.serve(wants);
    }

    /// Waits until all feeds are idle; see [`is_idle`].
    fn when_idle(&mut self) -> Receiver<()> {
        let (who, idle) = channel();
        self.call(Call::WhenIdle(who));
        idle
    }

    /// Lets time pass, and wakes the peer when it asked for it.
    fn pass(&mut self, ms: u64) {
        let until = self.play.now.mono + ms;
        while let Some(at) = self.wake_at.filter(|at| *at <= until) {
            self.play.now.mono = at.max(self.play.now.mono);
            self.wake_at = None;
            let (_, wants) = self.play.act(|peer, cx| peer.woken(cx));
            self.serve(wants);
        }
        self.play.now.mono = until;
    }

    /// Carries wishes out, and answers rounds.
    fn serve(&mut self, wants: Vec<Want>) {
        for want in wants {
            match want {
                Want::Wake(at) => self.wake_at = at,
                other => panic!("{other:?}"),
            }
        }
        for reply in self.play.replies() {
            match reply {
                Reply::Idle(who) => drop(who),
                Reply::Round(round) if self.is_silent => self.rounds.push(round),
                Reply::Round(round) => {
                    self.offered_at.push(self.play.now.mono.0);
                    let results = self.take(&round);
                    self.call(Call::Answer(round.id, results));
                }
            }
        }
    }

    /// Answers a round as a shard would.
    fn take(&mut self, round: &Round) -> PublishResults {
        let mut names = HashSet::new();
        let take = |draft: &Draft| {
            assert_eq!(home_of(&draft.channel, SHARDS).0, round.id.shard);
            assert!(names.insert(draft.channel.clone()), "one of each channel");
            if self.refusals_left > 0 {
                self.refusals_left -= 1;
                return Err(Refusal::Busy);
            }
            if draft.channel.as_str() == "none:x" {
                return Err(Refusal::UnknownChannel);
            }
            let key = draft.idempotency_key.as_deref().expect("a key").to_owned();
            if draft.acknowledge == Acknowledge::Synced {
                assert!(self.taken.contains(&key), "a repeat");
                self.synced.push(key);
            } else {
                self.taken.push(key);
            }
            Ok(())
        };
        round.drafts.iter().map(take).collect()
    }

    fn taken_of(&self, name: &str) -> Vec<&str> {
        let keys = self.taken.iter().map(String::as_str);
        keys.filter(|key| key.starts_with(name)).collect()
    }
}

fn is_idle(idle: &Receiver<()>) -> bool {
    idle.try_recv() == Err(TryRecvError::Disconnected)
}

#[test]
fn order_holds_in_each_channel_while_some_is_refused() {
    for refusals in 0..6 {
        let is_on_disk = refusals % 2 == 1;
        let mut server = Server::start(is_on_disk);
        server.refusals_left = refusals;
        server.fill(&["a a1", "b b1", "a a2", "none:x n", "a a3", "b b2"]);
        server.call(Call::Order(FeedOrder::Go));
        server.pass(1_000);
        assert_eq!(server.taken_of("a"), ["a1", "a2", "a3"]);
        assert_eq!(server.taken_of("b"), ["b1", "b2"]);
        let count = |counter| server.counters.counter(counter);
        assert_eq!(count(Counter::PublicationsFeed), 5);
        assert_eq!(count(Counter::FeedRefused), 1, "the unknown channel");
        server.synced.sort();
        let newest: &[&str] = if is_on_disk { &["a3", "b2"] } else { &[] };
        assert_eq!(
            server.synced, newest,
            "the newest of each channel, behind all"
        );
        let steps = server.steps();
        let done = steps.iter().filter(|step| *step == "done").count();
        assert_eq!(done, 1, "{steps:?}");
        assert_eq!(steps.first().map(String::as_str), Some("connect"));
    }
}

#[test]
fn what_is_refused_is_offered_less_and_less_often_and_goes_back() {
    let mut server = Server::start(false);
    server.refusals_left = u32::MAX;
    server.fill(&["a a1"]);
    server.call(Call::Order(FeedOrder::Go));
    server.pass(6_000);
    // From the first refusal on pauses double up to a second, and last five seconds in all.
    let expected = [
        0, 5, 15, 35, 75, 155, 315, 635, 1_275, 2_275, 3_275, 4_275, 5_275,
    ];
    let (first, behind) = (server.offered_at[0], &server.offered_at[..expected.len()]);
    let offered: Vec<u64> = behind.iter().map(|at| at - first).collect();
    assert_eq!(offered, expected);
    let log = server.log();
    let times = |what: &str| -> Vec<u64> {
        let found = log.iter().filter(|(_, found)| found == what);
        found.map(|(at, _)| at - first).collect()
    };
    assert_eq!(times("back"), [5_275]);
    let kept: Vec<u64> = (1..=22).map(|n| n * LOOK_MS).collect();
    assert_eq!(times("keep")[..22], kept);
    assert!(server.status.lacks().is_some());
    assert_eq!(server.counters.gauge(Gauge::FeedsWaiting), 1);
    // 250 ms after it went back, it is taken from the source once more.
    assert_eq!(
        server.offered_at.get(expected.len()),
        Some(&(first + 5_525))
    );
    server.refusals_left = 0;
    server.pass(1_000);
    assert_eq!(server.taken, ["a1"]);
    assert_eq!(server.status.lacks(), None);
    assert_eq!(server.counters.gauge(Gauge::FeedsWaiting), 0);
    assert_eq!(server.steps().last().map(String::as_str), Some("done"));
}

#[test]
fn a_source_is_kept_while_shards_are_silent() {
    let mut server = Server::start(false);
    server.is_silent = true;
    server.fill(&["a a1"]);
    server.call(Call::Order(FeedOrder::Go));
    server.pass(1_001);
    assert_eq!(server.steps(), ["connect", "keep", "keep", "keep", "keep"]);
    let round = server.rounds.pop().expect("a round");
    server.call(Call::Answer(round.id, vec![Ok(())]));
    assert_eq!(server.steps(), ["done"]);
}

#[test]
fn a_pause_gives_the_source_back_and_old_answers_are_forgotten() {
    let mut server = Server::start(false);
    assert!(is_idle(&server.when_idle()), "it has not begun");
    server.is_silent = true;
    server.fill(&["a a1"]);
    server.call(Call::Order(FeedOrder::Go));
    let idle = server.when_idle();
    server.pass(1);
    assert_eq!(server.rounds.len(), 1);
    assert!(!is_idle(&idle));
    server.call(Call::Order(FeedOrder::Pause));
    assert_eq!(server.steps(), ["connect", "back", "leave"]);
    assert!(is_idle(&idle));
    server.pass(10_000);
    assert_eq!(server.steps(), [""; 0], "it waits");
    server.call(Call::Order(FeedOrder::Go));
    server.pass(1);
    let [first, again] = &server.rounds[..] else {
        panic!("{:?}", server.rounds);
    };
    let (first, again) = (first.id, again.id);
    server.call(Call::Answer(first, vec![Ok(())]));
    assert_eq!(server.steps(), ["connect"], "the answer to what went back");
    server.call(Call::Answer(again, vec![Ok(())]));
    assert_eq!(server.steps(), ["done"]);
    assert_eq!(server.counters.counter(Counter::PublicationsFeed), 1);
}

#[test]
fn a_source_that_fails_is_left_and_tried_again() {
    let mut server = Server::start(false);
    server.fault(Some("it burns"));
    server.call(Call::Order(FeedOrder::Go));
    assert_eq!(server.status.lacks(), None);
    server.pass(60_000);
    let log = server.log();
    let gaps: Vec<u64> = log.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let pauses = [
        251, 501, 1_001, 2_001, 4_001, 8_001, 10_001, 10_001, 10_001, 10_001,
    ];
    assert_eq!(gaps, pauses);
    assert!(log.iter().all(|(_, what)| what == "connect"));
    assert!(server.status.lacks().is_some());
    assert_eq!(server.counters.counter(Counter::FeedWaitsSource), 1);
    // Ending it while it waits takes no time.
    server.call(Call::Order(FeedOrder::Pause));
    assert!(is_idle(&server.when_idle()));
    server.fault(None);
    server.call(Call::Order(FeedOrder::Go));
    server.pass(1_000);
    assert_eq!(server.status.lacks(), None);
    assert_eq!(server.counters.gauge(Gauge::FeedsWaiting), 0);
    server.fault(Some("again"));
    server.pass(LOOK_MS);
    assert_eq!(server.steps(), ["connect", "leave"], "it was in use");
    assert!(server.status.lacks().is_some());
}

#[test]
fn there_is_no_way_back_from_the_end() {
    let mut server = Server::start(false);
    server.call(Call::Order(FeedOrder::Go));
    server.call(Call::Order(FeedOrder::End));
    assert!(is_idle(&server.when_idle()), "while it connects");
    assert_eq!(server.steps(), [""; 0]);
    server.call(Call::Order(FeedOrder::Go));
    server.pass(20_000);
    assert_eq!(server.steps(), [""; 0]);
    assert_eq!(server.wake_at, None);
}
