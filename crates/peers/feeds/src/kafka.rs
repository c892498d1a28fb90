//! Topics of Kafka that are read by a group of consumers.
//!
//! Records are read, published, and committed: the group's offset of a partition goes on after the
//! broker has all publications before it. The nodes of a group share the partitions; when one comes
//! or goes they are dealt anew, and each is read on from its offset.
//!
//! # Why order holds
//!
//! One member of the group has a partition, and gives its records in the order of their offsets. A
//! member that was silent for too long may still publish the one batch that it had read while the
//! next owner begins with the same records, since they are not committed: each of the two offers
//! those of a channel in their order and with the same idempotency keys. So each is published once,
//! in order. Records of one channel in several partitions have no order, here as in Kafka.
//!
//! The place of a record is its topic, partition and offset. A topic that is deleted and made anew
//! gives the same places again.
//!
//! # Bounds
//!
//! Records wait as they were fetched, packed: 16 MiB, and one answer of each broker
//! (4 MiB, or one batch that is longer). They are unpacked one by one, for a batch of
//! [`GIVEN_BYTES_MAX`] and one record.

mod fetcher;
mod group;
mod link;
mod options;
mod partition;
mod shelf;

use throng_kafka_protocol::{Record, TopicPartition};
use throng_types::SpanContext;

use self::group::{Group, Step};
use self::link::Client;
use self::shelf::Shelf;
use crate::event::Event;
use crate::source::{Fault, LOOK_MS, Setup, Source};

pub use options::{KafkaFeedOptions, KafkaTopics};

/// A batch ends with the record that brings it to so many bytes.
const GIVEN_BYTES_MAX: usize = 4 << 20;
/// Records that are read at most for one batch: most may be marks of deleted keys.
const READ_MAX: usize = 100_000;
/// The header with a record's tags.
const TAGS_HEADER: &str = "tags";

pub(crate) struct Topics {
    reads: KafkaTopics,
    batch_max: usize,
    group: Group,
    shelf: Shelf,
    /// A heartbeat's fault, for the next call.
    fault: Option<Fault>,
}

pub(crate) async fn connect(options: &KafkaFeedOptions, setup: Setup) -> Result<Topics, Fault> {
    let batch_max = setup.batch_max;
    let client = Client::new(options, setup);
    let mut group = Group::find(&client).await?;
    // Faults of the topics are reported at once.
    group.metadata().await?;
    Ok(Topics {
        reads: options.reads.clone(),
        batch_max,
        group,
        shelf: Shelf::new(&client),
        fault: None,
    })
}

impl Source for Topics {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        match self.group.step(LOOK_MS).await? {
            Step::Waits => return Ok(Vec::new()),
            Step::New(places) => self.shelf.begin(places, &mut self.group).await?,
            Step::In => self.shelf.refresh(&mut self.group).await?,
        }
        let mut events = self.gather()?;
        if events.is_empty() {
            self.shelf.ask();
            self.shelf.wait(LOOK_MS).await?;
            events = self.gather()?;
        }
        // The next records come while these are published.
        self.shelf.ask();
        if events.is_empty() {
            // Where reading begins, and what is no event.
            self.done().await?;
        }
        Ok(events)
    }

    async fn done(&mut self) -> Result<(), Fault> {
        let is_committed = self.group.commit(&self.shelf.uncommitted()).await?;
        self.shelf.done(is_committed);
        Ok(())
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        self.shelf.put_back();
        Ok(())
    }

    fn reads(&self) -> bool {
        self.group.is_in()
    }

    async fn keep(&mut self) {
        if self.fault.is_none() {
            self.fault = self.group.beat().await.err();
        }
    }

    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        Ok(self.group.is_in().then(|| self.shelf.lag()))
    }

    async fn leave(self) {
        self.group.leave().await;
    }
}

impl Topics {
    /// The next batch of what is there.
    fn gather(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = Vec::new();
        let (mut bytes, mut read) = (0, 0);
        while events.len() < self.batch_max && bytes < GIVEN_BYTES_MAX && read < READ_MAX {
            let Some((place, record)) = self.shelf.next_record()? else {
                break;
            };
            read += 1;
            // A mark that a key is deleted is no event.
            if record.value.is_some() || record.is_too_long {
                bytes += record.value.as_ref().map_or(0, Vec::len);
                events.push(event(&self.reads, &place, record));
            }
        }
        Ok(events)
    }
}

/// Makes an event of a record. The last of several headers with one name counts, as in Kafka's
/// own clients.
fn event(reads: &KafkaTopics, place: &TopicPartition, record: Record) -> Event {
    let header = |name: &str| {
        let mut headers = record.headers.iter().rev();
        let found = headers.find(|header| header.name == name)?;
        String::from_utf8(found.value.clone()?).ok()
    };
    Event {
        place: format!("kafka {} {place} {}", reads.feed, record.offset),
        channel: header(&reads.channel_header),
        tags: header(TAGS_HEADER),
        trace: header(SpanContext::FIELD).and_then(|it| SpanContext::sampled(&it)),
        key: record.key.and_then(|key| String::from_utf8(key).ok()),
        data: record.value,
        is_too_long: record.is_too_long,
    }
}

#[cfg(test)]
mod tests;
