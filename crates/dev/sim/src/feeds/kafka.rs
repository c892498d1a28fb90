//! A played Kafka of three brokers with one topic: partitions and their leaders, a group with its
//! coordinator, committed offsets. What brokers know of leaders is behind at times.

mod group;
mod wire;

use std::collections::BTreeMap;

use throng_feeds::{KafkaFeedOptions, KafkaTopics, SourceOptions};

use self::group::{Group, NONE};
use self::wire::{Out, Reader, Record, Request, TOPIC, batch, framed, take_request};
use super::server::{Around, Source};
use super::witness::DATA_BYTES_MAX;
use crate::cluster::broker::Kept;
use crate::net::Net;

const HOSTS: usize = 3;

const OFFSET_OUT_OF_RANGE: i16 = 1;
const NOT_LEADER: i16 = 6;
const LOADING: i16 = 14;
const NO_COORDINATOR: i16 = 15;
const NOT_COORDINATOR: i16 = 16;

/// The kinds of requests that are answered, and the newest versions.
const APIS: [(i16, i16); 11] = [
    (1, 11),
    (2, 5),
    (3, 9),
    (8, 8),
    (9, 7),
    (10, 3),
    (11, 7),
    (12, 4),
    (13, 4),
    (14, 5),
    (18, 3),
];

/// A batch: its offsets, its time, its events with their offsets.
struct Batch {
    first: i64,
    last: i64,
    time_ms: i64,
    events: Vec<(i64, usize)>,
}

#[derive(Default)]
struct Partition {
    batches: Vec<Batch>,
    /// The oldest offset that there is, and the next one.
    start: i64,
    end: i64,
    /// Events that their producers have not sent.
    lingering: Vec<usize>,
    /// The broker that leads it, if one does.
    leader: Option<usize>,
    committed: Option<i64>,
    /// The offset up to which all is known to be acknowledged.
    acknowledged: i64,
}

/// A fetch that waits for records.
struct Parked {
    conn: usize,
    host: usize,
    request: Request,
    until_ms: u64,
}

pub(crate) struct Kafka {
    partitions: Vec<Partition>,
    /// Leaders as each broker knows them.
    views: Vec<Vec<Option<usize>>>,
    is_down: [bool; HOSTS],
    hosts: BTreeMap<usize, usize>,
    group: Group,
    coordinator: usize,
    /// The coordinator reads what it knows until then.
    loads_until_ms: u64,
    parked: Vec<Parked>,
    /// Partitions that channels are dealt to: others came later.
    dealt: usize,
}

impl Partition {
    fn new(leader: usize) -> Self {
        Self {
            leader: Some(leader),
            ..Self::default()
        }
    }

    /// Stores what producers have sent.
    fn store(&mut self, around: &Around<'_>) {
        let first = self.end;
        // Records that were taken out again leave holes.
        let hole = |percent| i64::from(around.net.percent(percent));
        let mut next = first + hole(10);
        let mut events = Vec::new();
        for event in self.lingering.drain(..) {
            events.push((next, event));
            next += 1 + hole(10);
        }
        self.end = next + hole(10);
        self.batches.push(Batch {
            first,
            last: self.end - 1,
            time_ms: around.now_ms().cast_signed(),
            events,
        });
    }

    /// The records from an offset on, or why there are none.
    fn read(&self, host: usize, offset: i64, around: &Around<'_>) -> (i16, Vec<u8>) {
        if self.leader != Some(host) {
            return (NOT_LEADER, Vec::new());
        }
        if offset < self.start || offset > self.end {
            return (OFFSET_OUT_OF_RANGE, Vec::new());
        }
        let mut found = Vec::new();
        let most = around.net.pick(&[1, 2, usize::MAX]);
        for it in { self.batches.iter() }
            .filter(|it| it.last >= offset)
            .take(most)
        {
            let records = it.events.iter().map(|(offset, event)| Record {
                offset: *offset,
                value: around.witness.data(*event),
                channel: around.witness.channel(*event),
            });
            let records: Vec<Record> = records.collect();
            let bytes = batch((it.first, it.last), it.time_ms, &records);
            if !found.is_empty() && around.net.percent(20) {
                // The answer is full, in the midst of a batch perhaps.
                let part = around.net.below(bytes.len());
                found.extend(&bytes[..part]);
                break;
            }
            found.extend(bytes);
        }
        (NONE, found)
    }
}

impl Kafka {
    pub(crate) fn new(net: &Net) -> Self {
        let partitions = net.between(1, 4);
        let mut kafka = Self {
            partitions: Vec::new(),
            views: Vec::new(),
            is_down: [false; HOSTS],
            hosts: BTreeMap::new(),
            group: Group::default(),
            coordinator: net.below(HOSTS),
            loads_until_ms: 0,
            parked: Vec::new(),
            dealt: partitions,
        };
        let leaders = (0..partitions).map(|_| Partition::new(net.below(HOSTS)));
        kafka.partitions = leaders.collect();
        kafka.views = vec![kafka.leaders(); HOSTS];
        kafka
    }

    fn leaders(&self) -> Vec<Option<usize>> {
        self.partitions.iter().map(|it| it.leader).collect()
    }

    /// Answers a request, unless it has to wait.
    fn answer(
        &mut self,
        (conn, host): (usize, usize),
        request: &Request,
        around: &mut Around<'_>,
    ) -> Option<Out> {
        let body = &mut Reader(&request.body);
        let waits = (conn, request.correlation);
        let error = match request.key {
            8 | 9 | 11..=14 if self.coordinator != host => NOT_COORDINATOR,
            8 | 9 | 11..=14 if around.now_ms() < self.loads_until_ms => LOADING,
            _ => NONE,
        };
        let mut out = Out::begun();
        match (request.key, error) {
            (1, _) => return self.fetch(host, body, false, around),
            (2, _) => self.list_offsets(host, body, &mut out),
            (3, _) => self.metadata(host, body, &mut out),
            (8, error) => self.commit(error, body, &mut out, around),
            (9, error) => self.offsets(error, body, &mut out),
            (10, _) => self.find(&mut out),
            (11, NONE) => return self.group.join(waits, body, around),
            (11, error) => {
                out.i16(error);
                out.i32(-1);
                out.text("");
                out.text("");
                out.text("");
                out.list(&[(); 0], |_, ()| {});
            }
            (12, NONE) => out.i16(self.group.beat(body, around)),
            (13, NONE) => out.i16(self.group.leave(body, around)),
            (12 | 13, error) => out.i16(error),
            (14, NONE) => return self.group.sync(waits, body, around),
            (14, error) => {
                out.i16(error);
                out.bytes(b"");
            }
            (18, _) => {
                out = Out::default();
                out.i16(NONE);
                out.list(&APIS, |out, (key, newest)| {
                    out.i16(*key);
                    out.i16(0);
                    out.i16(*newest);
                });
            }
            (key, _) => panic!("the played Kafka has no request {key}"),
        }
        Some(out)
    }

    fn fetch(
        &self,
        host: usize,
        body: &mut Reader<'_>,
        is_late: bool,
        around: &Around<'_>,
    ) -> Option<Out> {
        let (_replica, _wait_ms, _bytes_min) = (body.i32(), body.i32(), body.i32());
        let (_bytes_max, _level) = (body.i32(), body.i8());
        let (_session, _epoch) = (body.i32(), body.i32());
        let asked = body.partitions(|it| {
            let (_epoch, offset) = (it.i32(), it.i64());
            let (_start, _bytes_max) = (it.i64(), it.i32());
            offset
        });
        let found = asked.into_iter().map(|(number, offset)| {
            let partition = &self.partitions[number as usize];
            (number, (partition, partition.read(host, offset, around)))
        });
        let found: Vec<_> = found.collect();
        let is_empty = |(_, (_, (error, records))): &(i32, (_, (i16, Vec<u8>)))| {
            *error == NONE && records.is_empty()
        };
        if !is_late && found.iter().all(is_empty) {
            return None;
        }
        let mut out = Out::begun();
        out.i16(NONE);
        out.i32(0);
        out.partitions(&found, |out, (partition, (error, records))| {
            out.i16(*error);
            out.i64(partition.end);
            out.i64(partition.end);
            out.i64(partition.start);
            out.i32(-1);
            out.bytes(records);
        });
        Some(out)
    }

    fn list_offsets(&self, host: usize, body: &mut Reader<'_>, out: &mut Out) {
        let (_replica, _level) = (body.i32(), body.i8());
        let asked = body.partitions(Reader::i64);
        let found = asked.iter().map(|(number, time)| {
            let partition = &self.partitions[*number as usize];
            let offset = match time {
                -1 => partition.end,
                _ => partition.start,
            };
            let found = match partition.leader == Some(host) {
                true => (NONE, offset),
                false => (NOT_LEADER, -1),
            };
            (*number, found)
        });
        let found: Vec<(i32, (i16, i64))> = found.collect();
        out.partitions(&found, |out, (error, offset)| {
            out.i16(*error);
            out.i64(-1);
            out.i64(*offset);
        });
    }

    fn metadata(&self, host: usize, body: &mut Reader<'_>, out: &mut Out) {
        let asked = body.list(Reader::text);
        assert_eq!(asked, [TOPIC]);
        let live = (0..HOSTS).filter(|host| !self.is_down[*host]);
        out.list(&live.collect::<Vec<_>>(), |out, host| {
            broker(*host, out);
            out.no_text();
        });
        out.no_text();
        out.i32(0);
        out.list(&[()], |out, ()| {
            out.i16(NONE);
            out.text(TOPIC);
            out.i8(0);
            let leaders = self.views[host].iter().enumerate();
            out.list(&leaders.collect::<Vec<_>>(), |out, (number, leader)| {
                out.i16(if leader.is_some() { NONE } else { 5 });
                out.i32(*number as i32);
                out.i32(leader.map_or(-1, |leader| leader as i32 + 1));
                out.list(&[1, 2, 3], |out, id| out.i32(*id));
                out.list(&[1], |out, id| out.i32(*id));
            });
        });
    }

    fn find(&self, out: &mut Out) {
        let is_there = !self.is_down[self.coordinator];
        out.i16(if is_there { NONE } else { NO_COORDINATOR });
        out.no_text();
        if is_there {
            return broker(self.coordinator, out);
        }
        out.i32(-1);
        out.text("");
        out.i32(-1);
    }

    fn commit(
        &mut self,
        error: i16,
        body: &mut Reader<'_>,
        out: &mut Out,
        around: &mut Around<'_>,
    ) {
        let may = self.group.may_commit(body, around);
        let error = if error == NONE { may } else { error };
        let asked = body.partitions(|it| {
            let (offset, _epoch, _note) = (it.i64(), it.i32(), it.text());
            offset
        });
        for (number, offset) in &asked {
            note!(around.net, "commit of {number} up to {offset}: {error}");
            if error == NONE {
                self.partitions[*number as usize].commit(*offset, around);
            }
        }
        out.partitions(&asked, |out, _| out.i16(error));
    }

    fn offsets(&self, error: i16, body: &mut Reader<'_>, out: &mut Out) {
        let _group = body.text();
        let asked = body.partitions(|_| ());
        let found = asked.into_iter().map(|(number, ())| {
            let committed = self.partitions[number as usize].committed;
            (number, committed.unwrap_or(-1))
        });
        out.partitions(&found.collect::<Vec<_>>(), |out, offset| {
            out.i64(*offset);
            out.i32(-1);
            out.text("");
            out.i16(NONE);
        });
        out.i16(error);
    }

    /// Partitions without a leader get one that lives.
    fn elect(&mut self, around: &Around<'_>) -> bool {
        let live = (0..HOSTS).filter(|host| !self.is_down[*host]);
        let live: Vec<usize> = live.collect();
        let mut busy = false;
        for partition in &mut self.partitions {
            let leads = partition.leader.is_some_and(|it| !self.is_down[it]);
            if !leads && !live.is_empty() && !around.befalls(90) {
                partition.leader = Some(around.net.pick(&live));
                busy = true;
            }
        }
        if self.is_down[self.coordinator] && !live.is_empty() && !around.befalls(90) {
            self.coordinator = around.net.pick(&live);
            busy = true;
        }
        let leaders = self.leaders();
        for view in &mut self.views {
            if *view != leaders && !around.befalls(90) {
                view.clone_from(&leaders);
                busy = true;
            }
        }
        busy
    }
}

impl Partition {
    fn commit(&mut self, offset: i64, around: &mut Around<'_>) {
        assert!(
            self.committed.is_none_or(|before| before <= offset) && offset <= self.end,
            "offset {:?} is followed by {offset} of {}",
            self.committed,
            self.end
        );
        self.committed = Some(offset);
        let from = self.acknowledged;
        self.acknowledged = from.max(offset);
        for (at, event) in self.batches.iter().flat_map(|it| &it.events) {
            if (from..offset).contains(at) {
                around.witness.acknowledged(*event);
            }
        }
    }
}

fn broker(host: usize, out: &mut Out) {
    out.i32(host as i32 + 1);
    out.text(&format!("10.0.0.{}", host + 1));
    out.i32(9092);
}

impl Source for Kafka {
    fn hosts(&self) -> usize {
        HOSTS
    }

    fn options(&self) -> SourceOptions {
        let reads = KafkaTopics {
            feed: "feed".to_owned(),
            topics: vec![TOPIC.to_owned()],
            group: "g".to_owned(),
            channel_header: "channel".to_owned(),
            begins_with_newest: false,
            data_bytes_max: DATA_BYTES_MAX,
        };
        let options = KafkaFeedOptions::new("kafka://10.0.0.1,10.0.0.2,10.0.0.3", reads);
        SourceOptions::Kafka(options.expect("a good URL"))
    }

    fn came(&mut self, conn: usize, host: usize, _: &mut Around<'_>) {
        self.hosts.insert(conn, host);
    }

    fn heard(&mut self, conn: usize, input: &mut Vec<u8>, around: &mut Around<'_>) {
        let host = self.hosts[&conn];
        while let Some(request) = take_request(input) {
            match self.answer((conn, host), &request, around) {
                Some(answer) => around.owe(conn, &framed(request.correlation, &answer)),
                None if request.key == 1 => {
                    let until_ms = around.now_ms() + 250;
                    self.parked.push(Parked {
                        conn,
                        host,
                        request,
                        until_ms,
                    });
                }
                None => {}
            }
        }
    }

    fn left(&mut self, conn: usize, _: &mut Around<'_>) {
        self.hosts.remove(&conn);
        self.parked.retain(|parked| parked.conn != conn);
    }

    fn works(&mut self, around: &mut Around<'_>) -> bool {
        let mut busy = self.elect(around);
        for partition in &mut self.partitions {
            if !partition.lingering.is_empty() && !around.befalls(70) && partition.leader.is_some()
            {
                partition.store(around);
                busy = true;
            }
        }
        if around.now_ms() >= self.loads_until_ms {
            busy |= self.group.works(around);
        }
        for parked in std::mem::take(&mut self.parked) {
            let body = &mut Reader(&parked.request.body);
            let is_late = parked.until_ms <= around.now_ms();
            match self.fetch(parked.host, body, is_late, around) {
                Some(out) => {
                    busy = true;
                    around.owe(parked.conn, &framed(parked.request.correlation, &out));
                }
                None => self.parked.push(parked),
            }
        }
        busy
    }

    fn add(&mut self, event: usize, around: &mut Around<'_>) {
        let partition = around.witness.order(event) % self.dealt;
        self.partitions[partition].lingering.push(event);
    }

    fn copy(&mut self) {}

    fn stopped(&mut self, host: usize, _: &mut Around<'_>) {
        self.is_down[host] = true;
        for partition in &mut self.partitions {
            partition.leader.take_if(|leader| *leader == host);
        }
    }

    /// Starts with all data: the others have what it lacks.
    fn started(&mut self, host: usize, _: Kept, _: &mut Around<'_>) {
        self.is_down[host] = false;
    }

    fn trouble(&mut self, around: &mut Around<'_>) {
        let net = around.net;
        let at = net.below(self.partitions.len());
        let partition = &mut self.partitions[at];
        match net.below(7) {
            0 | 1 => {
                partition.leader = None;
                note!(net, "partition {at} gets another leader");
            }
            2 => {
                self.coordinator = net.below(HOSTS);
                self.loads_until_ms = around.now_ms() + net.pick(&[0, 200, 3_000]);
                note!(net, "broker {} coordinates", self.coordinator);
            }
            3 => {
                let most = net.below(10);
                note!(net, "partition {at} keeps {most} batches");
                while partition.batches.len() > most {
                    let oldest = partition.batches.remove(0);
                    partition.start = oldest.last + 1;
                    oldest
                        .events
                        .iter()
                        .for_each(|it| around.witness.lost(it.1));
                }
            }
            4 => {
                note!(net, "the offset of {at} is forgotten");
                partition.committed = None;
            }
            5 if self.partitions.len() < 6 => {
                note!(net, "there is one more partition");
                self.partitions.push(Partition::new(net.below(HOSTS)));
            }
            _ => self.group.forget_one(around),
        }
    }

    fn calm(&mut self) {
        self.loads_until_ms = 0;
    }

    fn owes(&self) -> Option<String> {
        let owes = |(number, it): (usize, &Partition)| {
            let waits = it.lingering.len();
            let (done, end) = (it.committed, it.end);
            let is_done = waits == 0 && (done == Some(end) || end == 0);
            (!is_done).then(|| format!("partition {number}: {done:?} of {end}, {waits} wait"))
        };
        self.partitions.iter().enumerate().find_map(owes)
    }
}
