//! An API that answers when the test lets it, and a Redis that sends what the test asks for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use throng_appwrite::{Credential, Lookup, LookupPart, LookupPriority, QueueFull};
use throng_backend::Address;
use throng_metrics::Gauge;
use throng_peer::{Ended, Want};
use throng_play::Play;
use throng_types::{ConnId, Millis, ShardId};

use super::*;
use crate::directory::DirectoryOptions;

/// Appwrite's answer to an invalid credential.
const NOBODY: &str = r#"{"message":"no","code":401,"type":"general_unauthorized_scope"}"#;
const ANN: &str = r#"{"$id":"ann"}"#;
const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$8\r\nrealtime\r\n:1\r\n";
const REDIS_PORT: u16 = 6379;
const BYTES_MAX: usize = 1024;

fn event(user: &str, number: usize) -> String {
    let changed = !user.is_empty();
    format!(
        "{{\"project\":\"p\",\"roles\":[\"user:{user}\"],\"permissionsChanged\":{changed},\
         \"userId\":\"{user}\",\"data\":{{\"events\":[\"e\"],\"channels\":[\"c\"],\
         \"payload\":{{\"n\":{number}}}}}}}"
    )
}

struct Fixture {
    play: Play<AppwritePeer>,
    counters: Arc<Counters>,
    offers: Offers,
    /// Links whose requests for an account wait for an answer. Nobody is in a team.
    asked: VecDeque<LinkId>,
    /// Commands to Redis by link, of those that are open.
    redis: BTreeMap<LinkId, String>,
    wake: Option<Millis>,
    stood: Arc<AtomicU32>,
}

impl Fixture {
    /// One shard, whose news the test takes.
    fn new() -> Self {
        let counters = Arc::new(Counters::new());
        let offers = Offers::default();
        let address = Address::from_url("http://a:80/v1", 60_000).unwrap();
        let source = RedisSource::new(&format!("redis://r:{REDIS_PORT}/0")).unwrap();
        let peer = AppwritePeer::new(AppwriteOptions {
            shards: 1,
            epoch: 1,
            redis: Some((source, BYTES_MAX)),
            api: Some(ApiOptions {
                address,
                timeout_ms: 60_000,
                directory: DirectoryOptions::default(),
            }),
            offers: offers.clone(),
            counters: counters.clone(),
        });
        let mut fixture = Self {
            play: Play::new(peer),
            counters,
            offers,
            asked: VecDeque::new(),
            redis: BTreeMap::new(),
            wake: None,
            stood: Arc::default(),
        };
        fixture.call(Call::Begin);
        assert_eq!(fixture.news(), ["began 1"]);
        fixture
    }

    /// A fixture that Redis lets listen on this link.
    fn listening() -> (Self, LinkId) {
        let mut fixture = Self::new();
        let link = fixture.subscribe();
        assert_eq!(fixture.news(), ["began 2"], "a client may have come before");
        (fixture, link)
    }

    fn act<R>(
        &mut self,
        act: impl FnOnce(&mut AppwritePeer, &mut PeerContext<'_, Reply>) -> R,
    ) -> R {
        let (result, wants) = self.play.act(act);
        self.carry_out(wants);
        result
    }

    fn carry_out(&mut self, wants: Vec<Want>) {
        for want in wants {
            match want {
                Want::Dial(link, dial) if dial.port == REDIS_PORT => {
                    self.redis.insert(link, String::new());
                }
                Want::Dial(link, _) => {
                    let (_, wants) = self.play.event(link, LinkEvent::Connected);
                    self.carry_out(wants);
                }
                Want::Write(link, bytes) => {
                    let text = String::from_utf8(bytes).unwrap();
                    match self.redis.get_mut(&link) {
                        Some(told) => told.push_str(&text),
                        None if text.starts_with("GET /v1/account ") => self.asked.push_back(link),
                        None => self.answer(link, 200, r#"{"total":0,"teams":[]}"#),
                    }
                }
                Want::End(link) => drop(self.redis.remove(&link)),
                Want::Wake(at) => self.wake = at,
                _ => {}
            }
        }
    }

    fn event(&mut self, link: LinkId, event: LinkEvent<'_>) -> ReadFlow {
        self.act(|peer, cx| peer.event(link, event, cx))
    }

    fn call(&mut self, call: Call) {
        self.act(|peer, cx| peer.call(call, cx));
    }

    fn ask(&mut self, token: u32, session: &str) {
        self.call(Call::LookUp(Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            part: LookupPart::Everything,
            haste: LookupPriority::Open,
        }));
    }

    /// Answers the request for an account on a link.
    fn answer(&mut self, link: LinkId, status: u16, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        let (_, wants) = self.play.event(link, LinkEvent::Bytes(answer.as_bytes()));
        self.carry_out(wants);
    }

    #[track_caller]
    fn answer_asked(&mut self, status: u16, body: &str) {
        let link = self.asked.pop_front().expect("a question");
        self.answer(link, status, body);
    }

    fn offer(&mut self, event: &str) -> Result<(), QueueFull> {
        self.offers.add()?;
        let event = FeedMessage::parse(event.as_bytes(), 1 << 20).unwrap();
        self.call(Call::Offer(event));
        Ok(())
    }

    /// The news of the shard, which has room for them: events by offset, the users of answers.
    fn news(&mut self) -> Vec<String> {
        let replies = self.play.replies();
        let said = replies.into_iter().filter_map(|reply| match reply {
            Reply::News(0, News::Began(position)) => Some(format!("began {}", position.epoch.0)),
            Reply::News(0, News::Event { event, position }) => {
                Some(format!("{} {}", position.offset, event.payload()))
            }
            Reply::News(0, News::Found { token, found, .. }) => Some(match found {
                LookupReply::User(user) => format!("{token} is {}", user.user_id),
                found => format!("{token} is {found:?}"),
            }),
            Reply::News(shard, news) => panic!("{shard}: {news:?}"),
            Reply::Stands(stood) => {
                stood();
                None
            }
        });
        let said = said.collect();
        self.act(AppwritePeer::go_on);
        said
    }

    fn pass(&mut self, ms: u64) {
        let until = self.play.now.mono + ms;
        while let Some(at) = self.wake.take_if(|at| *at <= until) {
            self.play.now.mono = at;
            self.act(AppwritePeer::woken);
        }
        self.play.now.mono = until;
    }

    /// The newest link to Redis.
    #[track_caller]
    fn link(&self) -> LinkId {
        *self.redis.last_key_value().expect("a link to Redis").0
    }

    fn says(&mut self, link: LinkId, text: &str) -> ReadFlow {
        self.event(link, LinkEvent::Bytes(text.as_bytes()))
    }

    fn publishes(&mut self, link: LinkId, event: &str) -> ReadFlow {
        let bytes = event.len();
        let text = format!("*3\r\n$7\r\nmessage\r\n$8\r\nrealtime\r\n${bytes}\r\n{event}\r\n");
        self.says(link, &text)
    }

    /// Redis lets the newest link listen.
    #[track_caller]
    fn subscribe(&mut self) -> LinkId {
        let link = self.link();
        self.event(link, LinkEvent::Connected);
        assert!(self.redis[&link].contains("SUBSCRIBE"));
        self.says(link, SUBSCRIBED);
        link
    }

    fn breaks(&mut self, link: LinkId) {
        self.redis.remove(&link);
        self.event(link, LinkEvent::Ended(Ended::ByPeer));
    }

    fn stand_still(&mut self) {
        let stood = self.stood.clone();
        self.call(Call::StandStill(Box::new(move || {
            stood.fetch_add(1, Ordering::Relaxed);
        })));
    }

    fn times_stood(&mut self) -> u32 {
        assert_eq!(self.news(), [""; 0]);
        self.stood.load(Ordering::Relaxed)
    }

    fn count(&self, counter: Counter) -> u64 {
        self.counters.counter(counter)
    }
}

#[test]
fn an_answer_from_before_a_change_is_asked_for_again() {
    let mut fixture = Fixture::new();
    fixture.ask(1, "a");
    // The feed tells of the change while the answer is on its way.
    fixture.offer(&event("ann", 1)).unwrap();
    assert_eq!(fixture.news(), [r#"1 {"n":1}"#]);
    fixture.answer_asked(200, ANN);
    fixture.answer_asked(401, NOBODY);
    assert_eq!(fixture.news(), ["1 is Nobody"]);
    assert_eq!(fixture.count(Counter::AppwriteLookupsUser), 1);
    assert_eq!(fixture.count(Counter::AppwriteLookupsNobody), 1);
}

#[test]
fn an_answer_from_before_a_gap_is_asked_for_again() {
    let (mut fixture, mut link) = Fixture::listening();
    let mut gap = |fixture: &mut Fixture, began: &str| {
        fixture.breaks(link);
        assert_eq!(fixture.counters.gauge(Gauge::AppwriteFeedUp), 0);
        fixture.pass(PAUSE_MS);
        link = fixture.subscribe();
        assert_eq!(fixture.counters.gauge(Gauge::AppwriteFeedUp), 1);
        assert_eq!(fixture.news(), [began]);
    };
    fixture.ask(1, "a");
    gap(&mut fixture, "began 3");
    fixture.answer_asked(200, ANN);
    fixture.answer_asked(401, NOBODY);
    assert_eq!(fixture.news(), ["1 is Nobody"]);
    // And so is one that was remembered.
    fixture.ask(2, "b");
    fixture.answer_asked(200, ANN);
    assert_eq!(fixture.news(), ["2 is ann"]);
    gap(&mut fixture, "began 4");
    fixture.ask(3, "b");
    fixture.answer_asked(401, NOBODY);
    assert_eq!(fixture.news(), ["3 is Nobody"]);
    assert_eq!(fixture.count(Counter::AppwriteFeedReconnects), 2);
}

/// The first pause before Redis is connected to again.
const PAUSE_MS: u64 = 250;

#[test]
fn answers_come_fresh_or_known() {
    let mut fixture = Fixture::new();
    for (token, is_known) in [(1, false), (2, true)] {
        fixture.ask(token, "a");
        if !is_known {
            fixture.answer_asked(200, ANN);
        }
        assert_eq!(fixture.news(), [format!("{token} is ann")]);
    }
    assert!(fixture.asked.is_empty());
    assert_eq!(fixture.count(Counter::AppwriteLookupsCached), 1);
}

#[test]
fn a_server_that_says_too_much_is_left() {
    for (first, again) in [
        ("$2147483648\r\n", "\0"),
        ("*99999999999\r\n", ":1\r\n"),
        ("+", "+"),
    ] {
        let (mut fixture, link) = Fixture::listening();
        fixture.says(link, first);
        let more = again.repeat(1 << 16);
        let mut bytes = 0;
        while fixture.redis.contains_key(&link) {
            fixture.says(link, &more);
            bytes += more.len();
            assert!(bytes < 64 << 20, "{first:?}");
        }
        assert_eq!(fixture.counters.gauge(Gauge::AppwriteFeedUp), 0);
    }
}

#[test]
fn a_server_that_vanished_is_found_by_asking() {
    let (mut fixture, link) = Fixture::listening();
    fixture.pass(9_999);
    assert!(!fixture.redis[&link].contains("PING"));
    fixture.pass(1);
    assert!(fixture.redis[&link].contains("PING"));
    fixture.says(link, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    fixture.pass(10_000);
    fixture.pass(4_999);
    assert!(fixture.redis.contains_key(&link));
    fixture.pass(1);
    assert!(!fixture.redis.contains_key(&link));
}

#[test]
fn a_redis_that_does_not_let_us_listen_is_counted() {
    let mut fixture = Fixture::new();
    let link = fixture.link();
    fixture.event(link, LinkEvent::Connected);
    fixture.says(link, "-NOPERM no\r\n");
    assert_eq!(fixture.count(Counter::AppwriteFeedRefused), 1);
    assert_eq!(fixture.counters.gauge(Gauge::AppwriteFeedUp), 0);
    fixture.pass(4 * PAUSE_MS);
    assert_ne!(fixture.link(), link, "it is tried again");
    assert_eq!(fixture.count(Counter::AppwriteFeedDownSeconds), 0);
}

#[test]
fn without_room_nothing_is_taken_and_offers_are_refused() {
    let (mut fixture, link) = Fixture::listening();
    let mut published = 0;
    // Until what is read of Redis is full too.
    while fixture.publishes(link, &event("", published)) == ReadFlow::More {
        published += 1;
        assert!(published < 1 << 20);
    }
    fixture.pass(10);
    assert_eq!(fixture.count(Counter::AppwriteFeedWaits), 1);
    let mut offered = 0;
    while fixture.offer(&event("", published + 1 + offered)).is_ok() {
        offered += 1;
        assert!(offered < 1 << 20);
    }
    assert_eq!(offered, crate::feed::OFFERS_MAX);
    let mut all = Vec::new();
    loop {
        let news = fixture.news();
        if news.is_empty() {
            break;
        }
        assert!(news.len() <= WAITING_MAX + 1, "{}", news.len());
        all.extend(news);
    }
    assert_eq!(all.len(), published + 1 + offered, "each of them came");
    for (at, news) in all.iter().enumerate() {
        let (offset, _) = news.split_once(' ').unwrap();
        assert_eq!(offset, (at + 1).to_string());
    }
    let numbers = all.iter().map(|news| {
        let number = news.rsplit(':').next().unwrap().trim_end_matches('}');
        number.parse::<usize>().unwrap()
    });
    let (redis, api): (Vec<_>, Vec<_>) = numbers.partition(|number| *number <= published);
    assert!(redis.is_sorted() && api.is_sorted());
    assert_eq!(fixture.offer(&event("", 0)), Ok(()), "there is room again");
    assert_eq!(fixture.count(Counter::AppwriteFeedWaits), 1);
}

#[test]
fn whoever_hears_nothing_is_not_waited_for() {
    let mut fixture = Fixture::new();
    fixture.stand_still();
    assert_eq!(fixture.times_stood(), 1);
    fixture.call(Call::GoOn);
    let link = fixture.subscribe();
    assert_eq!(fixture.news(), ["began 2"]);
    fixture.stand_still();
    assert_eq!(fixture.times_stood(), 1, "it may have more to take");
    fixture.breaks(link);
    assert_eq!(fixture.times_stood(), 2);
}

#[test]
fn it_stands_until_it_is_told_to_go_on() {
    let (mut fixture, link) = Fixture::listening();
    // Is it still there? The answer comes late.
    fixture.pass(10_000);
    fixture.stand_still();
    fixture.publishes(link, &event("", 1));
    fixture.says(link, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_eq!(fixture.news(), [r#"1 {"n":1}"#]);
    assert_eq!(fixture.times_stood(), 0);
    fixture.publishes(link, &event("", 2));
    fixture.says(link, CAUGHT_UP);
    fixture.publishes(link, &event("", 3));
    assert_eq!(fixture.news(), [r#"2 {"n":2}"#]);
    assert_eq!(fixture.times_stood(), 1);
    fixture.call(Call::GoOn);
    assert_eq!(fixture.news(), [r#"3 {"n":3}"#]);
}

/// Redis's answer to the first question whether that is all.
const CAUGHT_UP: &str = "*2\r\n$4\r\npong\r\n$1\r\n1\r\n";

#[test]
fn it_stands_when_the_shards_have_everything() {
    let (mut fixture, link) = Fixture::listening();
    fixture.publishes(link, &event("", 1));
    fixture.stand_still();
    fixture.says(link, CAUGHT_UP);
    fixture.pass(10);
    assert_eq!(fixture.news(), [r#"1 {"n":1}"#], "which it had not");
    assert_eq!(fixture.times_stood(), 1);
}
