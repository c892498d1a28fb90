//! Plays the dialogues in `tests.txt`, with an API that answers when a story lets it, and a Redis
//! that sends what the story asks for. One shard takes the news.
//!
//! Look-ups: `with PLACES` bounds how many are asked at the same time, and lets two wait; `ask
//! TOKEN SESSION PRIORITY` is one of an account and its teams, followed by `account` or
//! `membership` if it is of that alone. `asks SESSION ..` are the requests without an answer, the
//! oldest first, and `path BEGINNING` is that of the oldest. `answer USER`, `answer nobody`,
//! `answer gone` of a team, `answer STATUS` or `answer late` is for the oldest; nobody is in a
//! team.
//!
//! News: `hears LINE | ..` since the last time, which are `began EPOCH`, `OFFSET PAYLOAD` of an
//! event, and `TOKEN is USER` or another answer. `offer USER NUMBER [PROJECT]` is an event of the
//! server API by which a user changes, or nobody, `-`; `offer begins` on a shard before it
//! `arrives` here. `offers are refused`.
//!
//! Redis: `redis listens` lets the newest link listen; `redis refuses` it; `redis publishes USER
//! NUMBER`; `redis answers` a question, `to NUMBER` whether that is all; `redis breaks`. It `is
//! there`, or `is gone`; it `was asked`, or `was not`, whether it still is.
//!
//! `passes MS`; `counted SERIES [LABEL] COUNT`; `feed up` or `down`; `share`, `stand still`, `go
//! on` or `go on taken over`, and `stood COUNT` times so far.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use throng_appwrite::{Credential, Lookup, LookupPart, LookupPriority, QueueFull};
use throng_backend::Address;
use throng_dialogue::{AssertingStage, check_list, number, play_asserting};
use throng_metrics::Gauge;
use throng_peer::{Ended, Want};
use throng_play::Play;
use throng_solo::counter;
use throng_types::{ConnId, Millis, ShardId};

use super::*;
use crate::directory::DirectoryOptions;

/// Appwrite's answer to an invalid credential.
const NOBODY: &str = r#"{"message":"no","code":401,"type":"general_unauthorized_scope"}"#;
const GONE: &str = r#"{"message":"no","code":404,"type":"team_not_found"}"#;
const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$8\r\nrealtime\r\n:1\r\n";
const REDIS_PORT: u16 = 6379;
const BYTES_MAX: usize = 1024;

fn event(user: &str, number: usize, project: &str) -> String {
    let changed = user != "-";
    format!(
        "{{\"project\":\"{project}\",\"roles\":[\"user:{user}\"],\"permissionsChanged\":{changed},\
         \"userId\":\"{user}\",\"data\":{{\"events\":[\"e\"],\"channels\":[\"c\"],\
         \"payload\":{{\"n\":{number}}}}}}}"
    )
}

#[test]
fn appwrite_has_its_dialogues() {
    play_asserting("tests.txt", include_str!("tests.txt"), || {
        Fixture::with(DirectoryOptions::default())
    });
}

/// A request that waits for its answer.
struct Asked {
    link: LinkId,
    path: String,
    session: String,
}

struct Fixture {
    play: Play<AppwritePeer>,
    counters: Arc<Counters>,
    offers: Offers,
    /// Requests for an account or a membership, the oldest first. Nobody is in a team.
    asked: VecDeque<Asked>,
    /// Commands to Redis by link, of those that are open.
    redis: BTreeMap<LinkId, String>,
    wake: Option<Millis>,
    stood: Arc<AtomicU32>,
    news: Vec<String>,
}

impl Fixture {
    fn with(directory: DirectoryOptions) -> Self {
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
                directory,
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
            news: Vec::new(),
        };
        fixture.call(Call::Begin);
        fixture.step("hears began 1");
        fixture
    }

    /// A fixture that Redis lets listen on this link.
    fn listening() -> (Self, LinkId) {
        let mut fixture = Self::with(DirectoryOptions::default());
        fixture.step("redis listens");
        fixture.step("hears began 2");
        let link = fixture.link();
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
                        None => self.asked(link, &text),
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

    fn asked(&mut self, link: LinkId, request: &str) {
        let path = request.split(' ').nth(1).expect("a path").to_owned();
        if path.starts_with("/v1/teams?") {
            return self.answer(link, 200, r#"{"total":0,"teams":[]}"#);
        }
        let cookie = request.split_once("a_session_p=").expect("a session").1;
        let session = cookie.lines().next().unwrap_or_default().to_owned();
        let asked = Asked {
            link,
            path,
            session,
        };
        self.asked.push_back(asked);
    }

    fn ask(&mut self, token: &str, session: &str, priority: &str, part: &[&str]) {
        let token = number(token);
        self.call(Call::LookUp(Lookup {
            conn: ConnId::new(ShardId(0), token, 1),
            token,
            project: "p".into(),
            credential: Credential::Session(session.into()),
            part: match part {
                ["account"] => LookupPart::Account,
                ["membership"] => LookupPart::Membership {
                    user_id: "ann".into(),
                    team: "t".into(),
                    id: "m".into(),
                },
                _ => LookupPart::Everything,
            },
            haste: match priority {
                "Change" => LookupPriority::Change,
                "Recheck" => LookupPriority::Recheck,
                _ => LookupPriority::Open,
            },
        }));
    }

    /// Answers the request on a link.
    fn answer(&mut self, link: LinkId, status: u16, body: &str) {
        let length = body.len();
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
        let (_, wants) = self.play.event(link, LinkEvent::Bytes(answer.as_bytes()));
        self.carry_out(wants);
    }

    fn offer(&mut self, event: &str) -> Result<(), QueueFull> {
        self.offers.add()?;
        self.arrives(event);
        Ok(())
    }

    fn arrives(&mut self, event: &str) {
        let event = FeedMessage::parse(event.as_bytes(), 1 << 20).unwrap();
        self.call(Call::Offer(event));
    }

    /// Takes the news of the shard, which has room for them.
    fn news(&mut self) -> Vec<String> {
        for reply in self.play.replies() {
            let line = match reply {
                Reply::News(0, News::Began(position)) => format!("began {}", position.epoch.0),
                Reply::News(0, News::Event { event, position }) => {
                    format!("{} {}", position.offset, event.payload())
                }
                Reply::News(0, News::Found { token, found, .. }) => match found {
                    LookupReply::User(user) => format!("{token} is {}", user.user_id),
                    LookupReply::Changed(change) => format!("{token} is {:?}", change.what),
                    found => format!("{token} is {found:?}"),
                },
                Reply::News(shard, news) => panic!("{shard}: {news:?}"),
                Reply::Stands(stood) => {
                    stood();
                    continue;
                }
            };
            self.news.push(line);
        }
        self.act(AppwritePeer::go_on);
        std::mem::take(&mut self.news)
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

    fn count(&self, counter: Counter) -> u64 {
        self.counters.counter(counter)
    }

    fn redis(&mut self, step: &str) {
        if matches!(step, "is there" | "is gone") {
            return assert_eq!(self.redis.is_empty(), step == "is gone");
        }
        let link = self.link();
        match *step.split(' ').collect::<Vec<_>>() {
            ["listens"] => {
                self.event(link, LinkEvent::Connected);
                assert!(self.redis[&link].contains("SUBSCRIBE"));
                self.says(link, SUBSCRIBED);
            }
            ["refuses"] => {
                self.event(link, LinkEvent::Connected);
                self.says(link, "-NOPERM no\r\n");
            }
            ["publishes", user, which] => {
                self.publishes(link, &event(user, number(which), "p"));
            }
            ["answers", ref which @ ..] => {
                let which = which.last().copied().unwrap_or_default();
                let bytes = which.len();
                self.says(
                    link,
                    &format!("*2\r\n$4\r\npong\r\n${bytes}\r\n{which}\r\n"),
                );
            }
            ["breaks"] => {
                self.redis.remove(&link);
                self.event(link, LinkEvent::Ended(Ended::ByPeer));
            }
            ["was", asked] => {
                assert_eq!(self.redis[&link].contains("PING"), asked == "asked");
            }
            _ => panic!("no step of Redis"),
        }
    }
}

impl AssertingStage for Fixture {
    fn step(&mut self, step: &str) {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let words: Vec<&str> = rest.split(' ').collect();
        match (verb, &*words) {
            ("with", [places]) => {
                *self = Self::with(DirectoryOptions {
                    asked_max: number(places),
                    waiting_max: 2,
                    answers_max: 10,
                    grace_ms: 120_000,
                });
            }
            ("ask", [token, session, priority, part @ ..]) => {
                self.ask(token, session, priority, part);
            }
            ("asks", _) => {
                let sessions: Vec<&String> = self.asked.iter().map(|it| &it.session).collect();
                check_list(&sessions, rest, " ");
            }
            ("path", _) => assert!(
                self.asked[0].path.starts_with(rest),
                "{}",
                self.asked[0].path
            ),
            ("answer", [who]) => {
                let link = self.asked.pop_front().expect("a question").link;
                match (*who, who.parse()) {
                    ("late", _) => {
                        self.pass(60_000);
                        self.event(link, LinkEvent::Timeout(None));
                    }
                    ("nobody", _) => self.answer(link, 401, NOBODY),
                    ("gone", _) => self.answer(link, 404, GONE),
                    (_, Ok(status)) => self.answer(link, status, "{}"),
                    (user, _) => self.answer(link, 200, &format!(r#"{{"$id":"{user}"}}"#)),
                }
            }
            ("hears", _) => check_list(&self.news(), rest, " | "),
            ("offer", [user, which, project @ ..]) => {
                let project = project.first().copied().unwrap_or("p");
                assert_eq!(self.offer(&event(user, number(which), project)), Ok(()));
            }
            ("offers", ["are", "refused"]) => assert_eq!(self.offers.add(), Err(QueueFull)),
            ("offer", ["begins"]) => assert_eq!(self.offers.add(), Ok(())),
            ("offer", ["arrives"]) => self.arrives(&event("-", 1, "p")),

            ("redis", _) => self.redis(rest),
            ("passes", [ms]) => self.pass(number(ms)),
            ("counted", [series, label @ .., count]) => {
                check_list(&[self.count(counter(series, label))], count, "");
            }
            ("feed", [state]) => {
                let is_up = self.counters.gauge(Gauge::AppwriteFeedUp) == 1;
                assert_eq!(is_up, *state == "up");
            }
            ("stand", _) => {
                let stood = self.stood.clone();
                self.call(Call::StandStill(Box::new(move || {
                    stood.fetch_add(1, Ordering::Relaxed);
                })));
            }
            ("share", _) => self.call(Call::Share),
            ("go", ["on", over @ ..]) => {
                let has_taken_over = !over.is_empty();
                self.call(Call::GoOn { has_taken_over });
            }
            ("stood", _) => {
                self.news = self.news();
                check_list(&[self.stood.load(Ordering::Relaxed)], rest, " ");
            }
            _ => panic!("no step"),
        }
    }

    fn end(&mut self) {
        self.step("hears nothing");
        self.step("asks nothing");
    }
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
fn without_room_nothing_is_taken_and_offers_are_refused() {
    let (mut fixture, link) = Fixture::listening();
    let mut published = 0;
    // Until what is read of Redis is full too.
    while fixture.publishes(link, &event("-", published, "p")) == ReadFlow::More {
        published += 1;
        assert!(published < 1 << 20);
    }
    fixture.pass(10);
    assert_eq!(fixture.count(Counter::AppwriteFeedWaits), 1);
    let mut offered = 0;
    while fixture
        .offer(&event("-", published + 1 + offered, "p"))
        .is_ok()
    {
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
    assert_eq!(
        fixture.offer(&event("-", 0, "p")),
        Ok(()),
        "there is room again"
    );
    assert_eq!(fixture.count(Counter::AppwriteFeedWaits), 1);
}
