//! Dialogues with a played Kafka of two brokers, each of which leads one partition of a topic.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use throng_kafka_protocol::{Api, ErrorCode, Header, Record, TopicPartition};
use throng_peer::task::Net;
use throng_peer::{Ended, LinkEvent, LinkId, Want};
use throng_play::Talk;
use throng_types::{Rng, SpanContext};

use super::{KafkaFeedOptions, KafkaTopics, connect, event};
use crate::event::Event;
use crate::source::{Setup, Source as _};

/// Records 5, 6 and 8 in a batch that goes up to 9: some were removed.
pub(super) const BATCH: &[u8] = b"\
    \x00\x00\x00\x00\x00\x00\x00\x05\x00\x00\x00\x49\x00\x00\x00\x00\x02\x8b\xef\x19\x4b\
    \x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\
    \x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x03\x0e\x00\
    \x00\x00\x01\x02\x35\x00\x0e\x00\x00\x02\x01\x02\x36\x00\x0e\x00\x00\x06\x01\x02\x38\
    \x00";
/// Offsets of [`BATCH`], which may begin with any: its first eight bytes.
const LENGTH: i64 = 5;
/// A broker waits so long for records.
const LONG_MS: u64 = 250;

fn options(url: &str) -> KafkaFeedOptions {
    let reads = KafkaTopics {
        feed: "f".to_owned(),
        topics: vec!["t".to_owned()],
        group: "g".to_owned(),
        channel_header: "to".to_owned(),
        begins_with_newest: false,
        data_bytes_max: 1000,
    };
    KafkaFeedOptions::new(url, reads).expect("a URL")
}

fn setup(net: Net) -> Setup {
    Setup {
        net,
        rng: Rng::new(1),
        batch_max: 2,
        read_file: |_| Err("no file".to_owned()),
        member: Rc::default(),
        progress: Rc::default(),
    }
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [&(items.len() as u32).to_be_bytes()[..], &items.concat()].concat()
}

fn bytes(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// An answer about partitions of the topic.
fn of_topic(partitions: &[Vec<u8>]) -> Vec<u8> {
    list(&[[text("t"), list(partitions)].concat()])
}

/// A fetch that waits for records.
struct Held {
    link: u64,
    number: [u8; 4],
    offset: i64,
    until: u64,
}

struct Kafka {
    talk: Talk,
    now: u64,
    /// Places that the feed has read.
    seen: Rc<RefCell<Vec<String>>>,
    is_over: Rc<Cell<bool>>,
    is_up: [bool; 2],
    /// A broker that is away is named all the same.
    names_all: bool,
    /// The offset after the last record of each partition.
    ends: [i64; 2],
    /// The broker of each link.
    links: BTreeMap<u64, usize>,
    held: Vec<Held>,
    /// Kinds of requests, and how many came.
    asked: BTreeMap<i16, usize>,
    /// The next heartbeat is answered with it.
    beat: ErrorCode,
}

impl Kafka {
    fn start() -> Self {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let is_over = Rc::new(Cell::new(false));
        let (sees, stops) = (seen.clone(), is_over.clone());
        let (talk, wants) = Talk::start(|net| async move {
            let mut topics = match connect(&options("kafka://b0,b1"), setup(net)).await {
                Ok(topics) => topics,
                Err(fault) => return fault.0,
            };
            let fault = loop {
                let events = match topics.take().await {
                    Ok(events) => events,
                    Err(fault) => break fault.0,
                };
                sees.borrow_mut()
                    .extend(events.into_iter().map(|event| event.place));
                if let Err(fault) = topics.done().await {
                    break fault.0;
                }
                if stops.get() {
                    break "over".to_owned();
                }
            };
            topics.leave().await;
            fault
        });
        let mut kafka = Self {
            talk,
            now: 0,
            seen,
            is_over,
            is_up: [true; 2],
            names_all: false,
            ends: [0; 2],
            links: BTreeMap::new(),
            held: Vec::new(),
            asked: BTreeMap::new(),
            beat: ErrorCode::NONE,
        };
        kafka.serve(wants);
        kafka
    }

    fn serve(&mut self, wants: Vec<Want>) {
        let mut wants = VecDeque::from(wants);
        while let Some(want) = wants.pop_front() {
            match want {
                Want::Dial(LinkId(link), dial) => {
                    let broker = usize::from(dial.host == "b1");
                    if self.is_up[broker] {
                        self.links.insert(link, broker);
                        wants.extend(self.talk.connected(link));
                    } else {
                        let refused = Ended::Unreachable("refused".to_owned());
                        wants.extend(self.talk.event(link, LinkEvent::Ended(refused)));
                    }
                }
                Want::Write(LinkId(link), request) => {
                    if let Some(answer) = self.answer(link, &request) {
                        let number = request[8..12].try_into().expect("a number");
                        wants.extend(self.say(link, number, &answer));
                    }
                }
                Want::End(LinkId(link)) => drop(self.links.remove(&link)),
                Want::Resume(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    fn say(&mut self, link: u64, number: [u8; 4], body: &[u8]) -> Vec<Want> {
        self.talk.says(link, &bytes(&[&number[..], body].concat()))
    }

    fn answer(&mut self, link: u64, request: &[u8]) -> Option<Vec<u8>> {
        let broker = *self.links.get(&link)?;
        let key = i16::from_be_bytes([request[4], request[5]]);
        *self.asked.entry(key).or_default() += 1;
        let api = Api::ALL.into_iter().find(|api| api.key == key)?;
        let partition = (broker as u32).to_be_bytes().to_vec();
        let zeros = |count: usize| vec![0; count];
        Some(match api {
            Api::API_VERSIONS => {
                let range = |api: &Api| {
                    let numbers = [api.key, 0, api.version].map(i16::to_be_bytes);
                    numbers.concat()
                };
                [zeros(2), list(&Api::ALL.each_ref().map(range))].concat()
            }
            Api::FIND_COORDINATOR => [zeros(6), text(""), named(0)].concat(),
            Api::METADATA => {
                let lives = |n: &usize| self.names_all || self.is_up[*n];
                let brokers = (0..2).filter(lives).map(|n| [named(n), text("")].concat());
                let brokers: Vec<Vec<u8>> = brokers.collect();
                let led = |n: usize| {
                    let leader = if lives(&n) { n as i32 } else { -1 };
                    let numbers = [n as i32, leader, 0, 0].map(i32::to_be_bytes);
                    [&[0; 2][..], &numbers.concat()].concat()
                };
                let topic = [zeros(2), text("t"), zeros(1), list(&[led(0), led(1)])].concat();
                [zeros(4), list(&brokers), text(""), zeros(4), list(&[topic])].concat()
            }
            // Who has no id gets one, and asks again.
            Api::JOIN_GROUP if self.asked[&key] == 1 => {
                let error = ErrorCode::MEMBER_ID_REQUIRED.0.to_be_bytes().to_vec();
                let nobody = [text(""), text(""), text("m"), list(&[])].concat();
                [zeros(4), error, zeros(4), nobody].concat()
            }
            Api::JOIN_GROUP => {
                let subscription = throng_kafka_protocol::subscription(&["t"]);
                let member = [text("m"), text(""), bytes(&subscription)].concat();
                let all = [text(""), text("m"), text("m"), list(&[member])].concat();
                [zeros(6), 1_u32.to_be_bytes().to_vec(), all].concat()
            }
            Api::SYNC_GROUP => {
                let dealt = [zeros(4), 1_u32.to_be_bytes().to_vec()];
                let dealt = [zeros(2), of_topic(&dealt), zeros(4)].concat();
                assert!(
                    request.windows(dealt.len()).any(|part| part == dealt),
                    "all is ours"
                );
                [zeros(6), bytes(&dealt)].concat()
            }
            Api::OFFSET_FETCH => {
                let none = |n: u32| [&n.to_be_bytes()[..], &[0xff; 14], &[0; 2]].concat();
                [zeros(4), of_topic(&[none(0), none(1)]), zeros(2)].concat()
            }
            Api::LIST_OFFSETS => {
                let begins = of_topic(&[[partition, zeros(18)].concat()]);
                [zeros(4), begins].concat()
            }
            Api::FETCH => {
                let offset = request[request.len() - 24..]
                    .first_chunk()
                    .expect("an offset");
                let offset = i64::from_be_bytes(*offset);
                if offset == self.ends[broker] {
                    let number = request[8..12].try_into().expect("a number");
                    let until = self.now + LONG_MS;
                    self.held.push(Held {
                        link,
                        number,
                        offset,
                        until,
                    });
                    return None;
                }
                self.records(broker, offset)
            }
            Api::HEARTBEAT => {
                let error = std::mem::replace(&mut self.beat, ErrorCode::NONE);
                [zeros(4), error.0.to_be_bytes().to_vec()].concat()
            }
            Api::OFFSET_COMMIT => [zeros(4), list(&[])].concat(),
            Api::LEAVE_GROUP => zeros(6),
            other => panic!("{other:?}"),
        })
    }

    /// The batch with an offset, or none.
    fn records(&self, broker: usize, offset: i64) -> Vec<u8> {
        let end = self.ends[broker];
        let first = offset / LENGTH * LENGTH;
        let records = match offset < end {
            true => [&first.to_be_bytes(), &BATCH[8..]].concat(),
            false => Vec::new(),
        };
        let numbers = [end, end, 0].map(i64::to_be_bytes).concat();
        let head = [&(broker as u32).to_be_bytes()[..], &[0; 2], &numbers].concat();
        let fetched = [head, list(&[]), bytes(&records)].concat();
        [&[0; 10][..], &of_topic(&[fetched])].concat()
    }

    /// Lets time pass; fetches that wait are answered when there are records, or it is time.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            self.now += 50;
            let wants = self.talk.pass(50);
            self.serve(wants);
            for held in std::mem::take(&mut self.held) {
                let Some(&broker) = self.links.get(&held.link) else {
                    continue;
                };
                if held.offset < self.ends[broker] || held.until <= self.now {
                    let answer = self.records(broker, held.offset);
                    let wants = self.say(held.link, held.number, &answer);
                    self.serve(wants);
                } else {
                    self.held.push(held);
                }
            }
        }
    }

    /// Both partitions have one batch more.
    fn add(&mut self) {
        self.ends = self.ends.map(|end| end + LENGTH);
    }

    fn kill(&mut self, broker: usize) {
        self.is_up[broker] = false;
        let links = self.links.iter().filter(|(_, of)| **of == broker);
        for link in links.map(|(link, _)| *link).collect::<Vec<_>>() {
            self.links.remove(&link);
            let broken = Ended::Broken("broken".to_owned());
            let wants = self.talk.event(link, LinkEvent::Ended(broken));
            self.serve(wants);
        }
    }

    /// Offsets that were read of a partition.
    fn seen_of(&self, partition: usize) -> Vec<i64> {
        let start = format!("kafka f t-{partition} ");
        let seen = self.seen.borrow();
        let offsets = seen.iter().filter_map(|place| place.strip_prefix(&start));
        offsets
            .map(|offset| offset.parse().expect("a number"))
            .collect()
    }

    fn asked(&self, api: Api) -> usize {
        self.asked.get(&api.key).copied().unwrap_or_default()
    }
}

/// A broker, as others name it.
fn named(broker: usize) -> Vec<u8> {
    let id = (broker as u32).to_be_bytes().to_vec();
    [
        id,
        text(&format!("b{broker}")),
        9092_u32.to_be_bytes().to_vec(),
    ]
    .concat()
}

#[test]
fn a_broker_goes_away_and_the_other_is_read_on() {
    let mut kafka = Kafka::start();
    kafka.add();
    kafka.pass(1_000);
    assert_eq!([0, 1].map(|n| kafka.seen_of(n)), [[0, 1, 3], [0, 1, 3]]);
    kafka.kill(1);
    kafka.add();
    kafka.pass(3_000);
    assert_eq!(kafka.seen_of(0), [0, 1, 3, 5, 6, 8]);
    assert_eq!(kafka.seen_of(1), [0, 1, 3]);
    kafka.is_up[1] = true;
    kafka.pass(1_000);
    assert_eq!(kafka.seen_of(1), [0, 1, 3, 5, 6, 8]);
    assert_eq!(kafka.asked(Api::LIST_OFFSETS), 2, "it goes on where it was");
    kafka.is_over.set(true);
    kafka.pass(500);
    assert_eq!(kafka.talk.outcome(), "over");
    assert_eq!(kafka.asked(Api::LEAVE_GROUP), 1);
    assert!(kafka.links.is_empty(), "{:?}", kafka.links);
}

#[test]
fn a_broker_that_is_named_and_never_answers_is_a_fault() {
    let mut kafka = Kafka::start();
    kafka.pass(500);
    kafka.names_all = true;
    kafka.kill(1);
    kafka.pass(20_000);
    assert_eq!(kafka.talk.outcome(), "b1:9092: refused");
    assert_eq!(kafka.asked(Api::LEAVE_GROUP), 1);
}

#[test]
fn a_member_says_that_it_lives_and_joins_again() {
    let mut kafka = Kafka::start();
    kafka.add();
    kafka.pass(10_000);
    assert_eq!(kafka.asked(Api::HEARTBEAT), 3);
    assert_eq!(kafka.asked(Api::JOIN_GROUP), 2, "for an id, and with it");
    kafka.beat = ErrorCode::REBALANCE_IN_PROGRESS;
    kafka.add();
    kafka.pass(5_000);
    assert_eq!(kafka.asked(Api::JOIN_GROUP), 3);
    assert_eq!(kafka.asked(Api::OFFSET_FETCH), 2);
}

#[test]
fn an_answer_to_another_question_is_a_fault() {
    let (mut talk, _) = Talk::start(|net| async move {
        connect(&options("kafka://b0"), setup(net))
            .await
            .err()
            .expect("a fault")
            .0
    });
    talk.connected(1);
    talk.says(1, &bytes(&[0, 0, 0, 9, 0, 0, 0, 0, 0, 0]));
    assert_eq!(talk.outcome(), "b0:9092: it does not speak like Kafka");
}

#[test]
fn a_record_is_an_event() {
    let header = |name: &str, value: &[u8]| Header {
        name: name.to_owned(),
        value: Some(value.to_vec()),
    };
    let options = options("kafka://a");
    let place = TopicPartition {
        topic: "t".into(),
        partition: 3,
    };
    let record = Record {
        offset: 7,
        key: Some(b"k".to_vec()),
        value: Some(b"1".to_vec()),
        headers: vec![
            header("to", b"a"),
            header("to", b"b"),
            header("tags", b"{}"),
            header(
                "traceparent",
                b"00-0000000000000000000000000000000a-000000000000000b-01",
            ),
        ],
        is_too_long: false,
    };
    let whole = Event {
        place: "kafka f t-3 7".to_owned(),
        channel: Some("b".to_owned()),
        key: Some("k".to_owned()),
        data: Some(b"1".to_vec()),
        tags: Some("{}".to_owned()),
        trace: Some(SpanContext {
            trace_id: 10,
            span_id: 11,
        }),
        is_too_long: false,
    };
    assert_eq!(event(&options.reads, &place, record), whole);
    let strange = Record {
        key: Some(b"\xff".to_vec()),
        headers: vec![header("to", b"\xff")],
        ..Record::default()
    };
    let empty = Event {
        place: "kafka f t-3 0".to_owned(),
        ..Event::default()
    };
    assert_eq!(event(&options.reads, &place, strange), empty);
}
