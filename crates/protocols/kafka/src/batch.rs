//! Batches of records, as they stand in a partition (Kafka's documentation, "Record Batch").

use bytes::Bytes;
use crc::{CRC_32_ISCSI, Crc, Table};

use crate::response::Aborted;
use crate::unpack::Packing;

/// Bytes before a batch's records.
const HEAD: usize = 61;
/// CRC-32C, sixteen bytes a step.
static SUM: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);
/// The bytes that a batch's length does not count, and those that its sum does not cover.
const UNCOUNTED: usize = 12;
const UNSUMMED: usize = 21;
/// The format since Kafka 0.11.
const MAGIC: u8 = 2;
/// Bits of a batch's attributes.
const PACKING: i16 = 0b111;
const TRANSACTIONAL: i16 = 1 << 4;
const CONTROL: i16 = 1 << 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchFault {
    /// The batch is in a format older than Kafka 0.11.
    Old,
    Damaged,
    /// The batch uses an unknown compression, given by its number.
    Packing(u8),
    /// Not even one batch is whole.
    Short,
}

/// A batch whose records are still packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordBatch {
    /// Offsets of records are counted from this one.
    pub base_offset: i64,
    /// The last offset of the batch, which may have no record any more.
    pub last_offset: i64,
    /// The records that are in it: none if they must not be read.
    pub(crate) count: u32,
    pub(crate) packing: Packing,
    pub(crate) bytes: Bytes,
}

impl RecordBatch {
    /// Returns the bytes of the records, compressed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The batches of an answer, in order; a last one that is cut off is left out. Those of
/// transactions that were taken back, and those that are marks between them, have no records.
///
/// # Errors
/// [`BatchFault`].
pub fn batches(records: &Bytes, aborted: &[Aborted]) -> Result<Vec<RecordBatch>, BatchFault> {
    let mut transactions = Transactions::new(aborted);
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(head) = records.get(at..).and_then(<[u8]>::first_chunk::<HEAD>) {
        if head[16] != MAGIC {
            return Err(BatchFault::Old);
        }
        let length = usize::try_from(i32_at(head, 8)).map_err(|_| BatchFault::Short)?;
        let end = at + UNCOUNTED + length;
        if end < at + HEAD {
            return Err(BatchFault::Short);
        }
        let Some(bytes) = records.get(at..end) else {
            break;
        };
        if SUM.checksum(&bytes[UNSUMMED..]) != i32_at(head, 17).cast_unsigned() {
            return Err(BatchFault::Damaged);
        }
        let attributes = i16::from_be_bytes([head[21], head[22]]);
        let base_offset = i64_at(head, 0);
        let last_offset = base_offset.saturating_add(i64::from(i32_at(head, 23).max(0)));
        let producer = i64_at(head, 43);
        let is_taken_back = transactions.has_taken_back(producer, last_offset);
        let has_records = if attributes & CONTROL != 0 {
            transactions.end(producer);
            false
        } else {
            attributes & TRANSACTIONAL == 0 || !is_taken_back
        };
        let packing = (attributes & PACKING) as u8;
        found.push(RecordBatch {
            base_offset,
            last_offset,
            count: match has_records {
                true => u32::try_from(i32_at(head, 57)).unwrap_or_default(),
                false => 0,
            },
            packing: Packing::of(packing).ok_or(BatchFault::Packing(packing))?,
            bytes: records.slice(at + HEAD..end),
        });
        at = end;
    }
    match found.is_empty() && !records.is_empty() {
        true => Err(BatchFault::Short),
        false => Ok(found),
    }
}

/// Transactions that were taken back, while batches go by.
struct Transactions {
    /// Not begun yet, in the order of their first offsets.
    coming: Vec<Aborted>,
    begun: usize,
    /// Producers in the midst of one.
    now: Vec<i64>,
}

impl Transactions {
    fn new(aborted: &[Aborted]) -> Self {
        let mut coming = aborted.to_vec();
        coming.sort_by_key(|it| it.first_offset);
        Self {
            coming,
            begun: 0,
            now: Vec::new(),
        }
    }

    /// Whether what this producer wrote up to this offset was taken back.
    fn has_taken_back(&mut self, producer: i64, last_offset: i64) -> bool {
        while let Some(next) = self.coming.get(self.begun) {
            if next.first_offset > last_offset {
                break;
            }
            self.now.push(next.producer);
            self.begun += 1;
        }
        self.now.contains(&producer)
    }

    /// A mark ends the producer's transaction: the one that was taken back, or one that was not and
    /// is not among these.
    fn end(&mut self, producer: i64) {
        if let Some(place) = self.now.iter().position(|now| *now == producer) {
            self.now.swap_remove(place);
        }
    }
}

fn i32_at(head: &[u8; HEAD], at: usize) -> i32 {
    i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]])
}

fn i64_at(head: &[u8; HEAD], at: usize) -> i64 {
    let (high, low) = (i32_at(head, at), i32_at(head, at + 4));
    i64::from(high) << 32 | i64::from(low.cast_unsigned())
}

#[cfg(test)]
pub(crate) mod tests;
