//! State of a partition that is the feed's own, and the records fetched of it.
//!
//! Invariants: `committed <= done <= read <= next`, and records are given in the order of their
//! offsets, each once until [`Partition::put_back`].

use std::collections::VecDeque;

use throng_kafka_protocol::{Record, RecordBatch, RecordFault, Records};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Known,
    Oldest,
    Newest,
}

pub(super) struct Partition {
    pub(super) leader: Option<i32>,
    pub(super) start: Start,
    next: i64,
    /// The offset after the last record that was given.
    read: i64,
    /// The offset after the last record that is done.
    done: i64,
    /// The one that the coordinator knows.
    committed: Option<i64>,
    /// The offset after the last record that there is, once it is known.
    end: Option<i64>,
    /// Bound: what one answer brings, since nothing is fetched until it is taken.
    batches: VecDeque<RecordBatch>,
    /// The batch that is being read, and its last offset.
    records: Option<(Records, i64)>,
}

impl Partition {
    /// From the offset that the coordinator knows, if it knows one.
    pub(super) fn new(committed: Option<i64>, otherwise: Start) -> Self {
        let offset = committed.unwrap_or_default();
        Self {
            leader: None,
            start: committed.map_or(otherwise, |_| Start::Known),
            next: offset,
            read: offset,
            done: offset,
            committed,
            end: None,
            batches: VecDeque::new(),
            records: None,
        }
    }

    /// The offset to fetch now; none while there is something to read.
    pub(super) fn wanted(&self) -> Option<i64> {
        let is_empty = self.batches.is_empty() && self.records.is_none();
        (is_empty && self.start == Start::Known).then_some(self.next)
    }

    pub(super) fn begin(&mut self, offset: i64) {
        *self = Self {
            leader: self.leader,
            committed: self.committed,
            end: self.end,
            ..Self::new(Some(offset), Start::Known)
        };
        // It is committed to the coordinator, so that the next reader begins there, too.
    }

    /// Takes what was fetched from an offset, if that is the one that is wanted.
    pub(super) fn take_in(&mut self, asked: i64, end: i64, batches: Vec<RecordBatch>) {
        if self.wanted() != Some(asked) {
            return;
        }
        self.end = Some(end);
        if let Some(last) = batches.last() {
            self.next = self.next.max(last.last_offset.saturating_add(1));
        }
        self.batches.extend(batches);
    }

    /// Bytes that wait, packed.
    pub(super) fn bytes(&self) -> usize {
        self.batches.iter().map(RecordBatch::bytes).sum()
    }

    /// The offset after the last record that was given.
    pub(super) const fn read(&self) -> i64 {
        self.read
    }

    /// The next record; none if it must be fetched.
    pub(super) fn next_record(&mut self, bytes_max: usize) -> Result<Option<Record>, RecordFault> {
        loop {
            let Some((records, last)) = &mut self.records else {
                let Some(batch) = self.batches.pop_front() else {
                    return Ok(None);
                };
                let last = batch.last_offset;
                self.records = Some((Records::new(batch, bytes_max)?, last));
                continue;
            };
            match records.next_record()? {
                // A batch comes whole, with what was read of it before.
                Some(record) if record.offset < self.read => {}
                Some(record) => {
                    self.read = record.offset.saturating_add(1);
                    return Ok(Some(record));
                }
                None => {
                    // Records may be missing at the end.
                    self.read = self.read.max(last.saturating_add(1));
                    self.records = None;
                }
            }
        }
    }

    /// The offset up to which all is read, if the coordinator does not know it.
    pub(super) fn uncommitted(&self) -> Option<i64> {
        let is_news = self.start == Start::Known && self.committed != Some(self.read);
        is_news.then_some(self.read)
    }

    /// All that was given is done, and perhaps the coordinator knows it.
    pub(super) fn done(&mut self, is_committed: bool) {
        if self.start == Start::Known {
            self.done = self.read;
            if is_committed {
                self.committed = Some(self.read);
            }
        }
    }

    /// Nothing that was given since is done.
    pub(super) fn put_back(&mut self) {
        if self.start == Start::Known {
            self.begin(self.done);
        }
    }

    /// Number of offsets that are not done, once that is known.
    pub(super) fn lag(&self) -> Option<u64> {
        let lag = self.end?.saturating_sub(self.done);
        Some(u64::try_from(lag).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use throng_kafka_protocol::batches;

    use super::super::tests::BATCH;
    use super::*;

    fn batch() -> Vec<RecordBatch> {
        batches(&BATCH.into(), &[]).unwrap()
    }

    fn read(partition: &mut Partition) -> Vec<i64> {
        let mut found = Vec::new();
        while let Some(record) = partition.next_record(1000).unwrap() {
            found.push(record.offset);
        }
        found
    }

    #[test]
    fn records_are_given_once_and_come_back() {
        let mut partition = Partition::new(Some(6), Start::Oldest);
        assert_eq!(partition.wanted(), Some(6));
        partition.take_in(5, 20, batch());
        assert_eq!(
            partition.wanted(),
            Some(6),
            "the answer to another question"
        );
        partition.take_in(6, 20, batch());
        assert_eq!(partition.wanted(), None);
        assert_eq!(read(&mut partition), [6, 8]);
        assert_eq!((partition.wanted(), partition.lag()), (Some(10), Some(14)));
        assert_eq!(partition.uncommitted(), Some(10));
        partition.put_back();
        assert_eq!(
            (partition.wanted(), partition.uncommitted()),
            (Some(6), None)
        );
        partition.take_in(6, 20, batch());
        assert_eq!(read(&mut partition), [6, 8]);
        partition.done(true);
        assert_eq!((partition.lag(), partition.uncommitted()), (Some(10), None));
        partition.put_back();
        assert_eq!(partition.wanted(), Some(10));
    }

    #[test]
    fn a_beginning_is_told() {
        let mut partition = Partition::new(None, Start::Newest);
        assert_eq!((partition.wanted(), partition.uncommitted()), (None, None));
        partition.put_back();
        assert_eq!(partition.start, Start::Newest);
        partition.begin(7);
        assert_eq!(
            (partition.wanted(), partition.uncommitted()),
            (Some(7), Some(7))
        );
        partition.done(true);
        assert_eq!(partition.uncommitted(), None);
    }
}
