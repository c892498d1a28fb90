//! The partitions that are the feed's own, and what was fetched of them from the brokers that lead
//! them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use throng_kafka_protocol::{
    BatchFault, BrokerNode, ErrorCode, Fetched, Metadata, OffsetAnswer, Record, RecordFault,
    TopicPartition, batches,
};
use throng_peer::task::{QueueReceiver, QueueSender, queue};
use throng_types::Millis;

use super::fetcher::{Ask, Fetcher, Reply};
use super::group::Group;
use super::link::{Client, said};
use super::partition::{Partition, Start};
use crate::source::Fault;

/// Nothing more is fetched while so many bytes wait.
const FETCHED_BYTES_MAX: usize = 16 << 20;
/// Milliseconds between two look-ups of leaders and of new partitions.
const REFRESH_EVERY_MS: u64 = 60_000;
/// Between two looks while a partition has no leader, in milliseconds.
const REFRESH_SOON_MS: u64 = 500;
/// A broker that fails so often, one time after the other, is the feed's failure.
const FAILURES_MAX: u32 = 8;

pub(super) struct Shelf {
    client: Rc<Client>,
    /// Bound: what the group deals.
    partitions: BTreeMap<TopicPartition, Partition>,
    /// The partition whose turn it is.
    turn: usize,
    brokers: HashMap<i32, BrokerNode>,
    /// Number of partitions of each topic.
    counts: BTreeMap<Arc<str>, usize>,
    refresh_at: Millis,
    /// One for each broker that leads a partition. Bound: `brokers`.
    fetchers: BTreeMap<i32, Fetcher>,
    /// Failures of brokers since they worked. Bound: one a broker that has led a partition.
    failures: HashMap<i32, u32>,
    /// Rung by fetchers that have replied.
    bell: (QueueSender<()>, QueueReceiver<()>),
}

impl Shelf {
    pub(super) fn new(client: &Rc<Client>) -> Self {
        Self {
            client: client.clone(),
            partitions: BTreeMap::new(),
            turn: 0,
            brokers: HashMap::new(),
            counts: BTreeMap::new(),
            refresh_at: client.net.now().mono,
            fetchers: BTreeMap::new(),
            failures: HashMap::new(),
            bell: queue(1),
        }
    }

    fn now(&self) -> Millis {
        self.client.net.now().mono
    }

    /// These partitions are the feed's own now, and no others.
    pub(super) async fn begin(
        &mut self,
        places: Vec<TopicPartition>,
        group: &mut Group,
    ) -> Result<(), Fault> {
        let asked: BTreeSet<TopicPartition> = places.into_iter().collect();
        let asked: Vec<(TopicPartition, ())> = asked.into_iter().map(|place| (place, ())).collect();
        let offsets = match asked.is_empty() {
            true => Vec::new(),
            false => group.offsets(&asked).await?,
        };
        let otherwise = match self.client.options.reads.begins_with_newest {
            true => Start::Newest,
            false => Start::Oldest,
        };
        self.partitions.clear();
        for answer in offsets {
            if answer.error != ErrorCode::NONE {
                return Err(said(answer.error));
            }
            let committed = Some(answer.offset).filter(|offset| *offset >= 0);
            let partition = Partition::new(committed, otherwise);
            self.partitions.insert(answer.place, partition);
        }
        let group_name = &self.client.options.reads.group;
        let count = self.partitions.len();
        tracing::info!(
            group = group_name,
            count,
            "the feed has partitions of Kafka"
        );
        let metadata = group.metadata().await?;
        self.counts = counts(&metadata);
        self.learn(metadata);
        Ok(())
    }

    /// Looks leaders up, if it is time.
    pub(super) async fn refresh(&mut self, group: &mut Group) -> Result<(), Fault> {
        if self.now() < self.refresh_at {
            return Ok(());
        }
        let metadata = group.metadata().await?;
        if counts(&metadata) != self.counts {
            group.join_again();
        }
        self.learn(metadata);
        Ok(())
    }

    fn learn(&mut self, metadata: Metadata) {
        let brokers = metadata.brokers.into_iter();
        self.brokers = brokers.map(|broker| (broker.id, broker)).collect();
        let mut leaders = HashMap::new();
        for topic in metadata.topics {
            for partition in topic.partitions {
                let place = TopicPartition {
                    topic: topic.name.clone(),
                    partition: partition.partition,
                };
                leaders.insert(place, partition.leader);
            }
        }
        let mut is_whole = true;
        for (place, partition) in &mut self.partitions {
            let leader = leaders.get(place).copied();
            partition.leader = leader.filter(|leader| self.brokers.contains_key(leader));
            is_whole &= partition.leader.is_some();
        }
        // A broker that leads nothing any more, or is somewhere else, is left.
        let partitions = &self.partitions;
        let brokers = &self.brokers;
        self.fetchers.retain(|id, fetcher| {
            let leads = partitions.values().any(|it| it.leader == Some(*id));
            leads && brokers.get(id) == Some(&fetcher.broker)
        });
        self.refresh_at = self.now() + REFRESH_EVERY_MS;
        if !is_whole {
            self.refresh_soon();
        }
    }

    fn refresh_soon(&mut self) {
        self.refresh_at = self.refresh_at.min(self.now() + REFRESH_SOON_MS);
    }

    /// Asks every broker for what is missing, if it has nothing to answer yet.
    pub(super) fn ask(&mut self) {
        let waiting: usize = self.partitions.values().map(Partition::bytes).sum();
        if waiting >= FETCHED_BYTES_MAX {
            return;
        }
        let leaders = self.partitions.values().filter_map(|it| it.leader);
        let leaders: BTreeSet<i32> = leaders.collect();
        for leader in leaders {
            if self.fetchers.get(&leader).is_some_and(Fetcher::is_busy) {
                continue;
            }
            let (Some(ask), Some(broker)) = (self.wanted(leader), self.brokers.get(&leader)) else {
                continue;
            };
            let start = || Fetcher::start(&self.client, broker, self.bell.0.clone());
            self.fetchers.entry(leader).or_insert_with(start).ask(ask);
        }
    }

    /// The next question to a broker: where to begin, before anything is read.
    fn wanted(&self, leader: i32) -> Option<Ask> {
        let led = |(_, it): &(&TopicPartition, &Partition)| it.leader == Some(leader);
        for (start, newest) in [(Start::Oldest, false), (Start::Newest, true)] {
            let places = self.partitions.iter().filter(led);
            let places = places.filter(|(_, it)| it.start == start);
            let places: Vec<(TopicPartition, ())> =
                places.map(|(place, _)| (place.clone(), ())).collect();
            if !places.is_empty() {
                return Some(Ask::Offsets { newest, places });
            }
        }
        let offsets = self.partitions.iter().filter(led);
        let offset =
            |(place, it): (&TopicPartition, &Partition)| Some((place.clone(), it.wanted()?));
        let offsets: Vec<(TopicPartition, i64)> = offsets.filter_map(offset).collect();
        (!offsets.is_empty()).then_some(Ask::Records(offsets))
    }

    /// Takes replies; waits for the first so long at most.
    pub(super) async fn wait(&mut self, wait_ms: u64) -> Result<(), Fault> {
        // If nobody rings, there is nothing to take.
        let _ = self.client.net.timeout(wait_ms, self.bell.1.next()).await;
        let reply = |(id, fetcher): (&i32, &mut Fetcher)| {
            let (asked, reply) = fetcher.reply()?;
            Some((*id, asked, reply))
        };
        let replies: Vec<_> = self.fetchers.iter_mut().filter_map(reply).collect();
        for (broker, asked, reply) in replies {
            self.take_in(broker, &asked, reply)?;
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        broker: i32,
        asked: &HashMap<TopicPartition, i64>,
        reply: Result<Reply, Fault>,
    ) -> Result<(), Fault> {
        match reply {
            Ok(reply) => {
                self.failures.remove(&broker);
                match reply {
                    Reply::Records(fetched) => {
                        for fetched in fetched {
                            self.fetched(asked, &fetched)?;
                        }
                    }
                    Reply::Offsets(offsets) => {
                        for offset in offsets {
                            self.found(&offset)?;
                        }
                    }
                }
                Ok(())
            }
            Err(fault) => {
                self.fetchers.remove(&broker);
                let failures = self.failures.entry(broker).or_default();
                *failures += 1;
                if *failures >= FAILURES_MAX {
                    return Err(fault);
                }
                // Another broker may lead, and the one that would say so may be gone, too.
                for partition in self.partitions.values_mut() {
                    if partition.leader == Some(broker) {
                        partition.leader = None;
                    }
                }
                let soon_ms = if *failures == 1 { 0 } else { REFRESH_SOON_MS };
                self.refresh_at = self.refresh_at.min(self.now() + soon_ms);
                Ok(())
            }
        }
    }

    fn fetched(
        &mut self,
        asked: &HashMap<TopicPartition, i64>,
        fetched: &Fetched,
    ) -> Result<(), Fault> {
        let place = &fetched.place;
        let asked = asked.get(place).copied();
        let partition = self.partitions.get_mut(place);
        let partition = partition.filter(|it| asked.is_some() && it.wanted() == asked);
        let (Some(partition), Some(asked)) = (partition, asked) else {
            return Ok(());
        };
        match fetched.error {
            ErrorCode::NONE => {
                let found = batches(&fetched.records, &fetched.aborted);
                let found = found.map_err(|fault| unreadable(place, asked, why(&fault)))?;
                partition.take_in(asked, fetched.end, found);
                Ok(())
            }
            ErrorCode::OFFSET_OUT_OF_RANGE => {
                partition.start = Start::Oldest;
                let (topic, partition) = (&*place.topic, place.partition);
                tracing::warn!(
                    topic,
                    partition,
                    offset = asked,
                    "records of Kafka were removed before they were read: the feed goes on with \
                     the oldest"
                );
                Ok(())
            }
            error if error.is_about_leaders() => {
                partition.leader = None;
                self.refresh_soon();
                Ok(())
            }
            error => Err(Fault(format!("{place}: {error}"))),
        }
    }

    /// Takes the offset at which a partition begins.
    fn found(&mut self, found: &OffsetAnswer) -> Result<(), Fault> {
        let place = &found.place;
        let Some(partition) = self.partitions.get_mut(place) else {
            return Ok(());
        };
        match found.error {
            ErrorCode::NONE => {
                if partition.start != Start::Known {
                    partition.begin(found.offset.max(0));
                }
                Ok(())
            }
            error if error.is_about_leaders() => {
                partition.leader = None;
                self.refresh_soon();
                Ok(())
            }
            error => Err(Fault(format!("{place}: {error}"))),
        }
    }

    /// The next record: of the same partition as before while it has some.
    pub(super) fn next_record(&mut self) -> Result<Option<(TopicPartition, Record)>, Fault> {
        let count = self.partitions.len();
        for _ in 0..count {
            let partition = self.partitions.iter_mut().nth(self.turn % count);
            let Some((place, partition)) = partition else {
                break;
            };
            let record = partition.next_record(self.client.options.record_bytes_max());
            let record = record.map_err(|fault| {
                let why = match fault {
                    RecordFault::Malformed => "a record is malformed".to_owned(),
                    RecordFault::Packing(why) => why,
                };
                unreadable(place, partition.read(), why)
            })?;
            if let Some(record) = record {
                return Ok(Some((place.clone(), record)));
            }
            self.turn = (self.turn + 1) % count;
        }
        Ok(None)
    }

    /// Offsets that the coordinator does not know yet.
    pub(super) fn uncommitted(&self) -> Vec<(TopicPartition, i64)> {
        let offset =
            |(place, it): (&TopicPartition, &Partition)| Some((place.clone(), it.uncommitted()?));
        self.partitions.iter().filter_map(offset).collect()
    }

    pub(super) fn done(&mut self, is_committed: bool) {
        for partition in self.partitions.values_mut() {
            partition.done(is_committed);
        }
    }

    pub(super) fn put_back(&mut self) {
        for partition in self.partitions.values_mut() {
            partition.put_back();
        }
    }

    /// Number of offsets of the own partitions that are not done.
    pub(super) fn lag(&self) -> u64 {
        let lags = self.partitions.values().filter_map(Partition::lag);
        lags.fold(0, u64::saturating_add)
    }
}

fn counts(metadata: &Metadata) -> BTreeMap<Arc<str>, usize> {
    let topics = metadata.topics.iter();
    topics
        .map(|it| (it.name.clone(), it.partitions.len()))
        .collect()
}

fn why(fault: &BatchFault) -> String {
    match fault {
        BatchFault::Old => "records are in the format of before Kafka 0.11".to_owned(),
        BatchFault::Damaged => "a batch has a wrong checksum".to_owned(),
        BatchFault::Packing(number) => format!("a batch is packed in an unknown way ({number})"),
        BatchFault::Short => "a batch is cut off".to_owned(),
    }
}

fn unreadable(place: &TopicPartition, offset: i64, why: String) -> Fault {
    Fault(format!(
        "{place} cannot be read from offset {offset} on: {why}"
    ))
}
