//! Segments: their heads, records as they stand there (length, checksum, bytes), and the rule when
//! the log is written anew.
//!
//! Invariants
//! - The checksum (CRC-32, as in zlib) covers the length. Zeros are no record.
//! - Reading never goes beyond a record that is not whole or not what was written: what follows it
//!   cannot be told from chance.

use throng_types::{Load, Save, Saved};

/// First bytes of each segment's first record.
const MAGIC: [u8; 8] = *b"throngHS";
/// The version of the format of segments. It rises with each change of what a record looks like; a
/// program refuses every version but its own.
const VERSION: u32 = 1;
/// Number of earlier starts whose positions are still known.
pub const ANCESTORS_MAX: usize = 8;
/// Bytes up to which a log is never written anew.
const LOG_BYTES_MIN: u64 = 64 << 20;

/// Nonces of a store's epochs: the current one, and those before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct Lineage {
    /// High half of every epoch that is given out.
    pub nonce: u32,
    /// Nonces of earlier processes, the oldest first. At most [`ANCESTORS_MAX`].
    pub ancestors: Vec<u32>,
}

impl Lineage {
    /// The epochs of the next process, with a nonce that was never used.
    #[must_use]
    pub fn next(&self, nonce: u32) -> Self {
        let mut ancestors = self.ancestors.clone();
        ancestors.push(self.nonce);
        ancestors.drain(..ancestors.len().saturating_sub(ANCESTORS_MAX));
        let is_used = |nonce: &u32| *nonce == 0 || ancestors.contains(nonce);
        let mut nonces = std::iter::successors(Some(nonce), |last| Some(last.wrapping_add(1)));
        let nonce = nonces.find(|nonce| !is_used(nonce)).unwrap_or(nonce);
        Self { nonce, ancestors }
    }
}

/// Relation of a segment to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub enum Begins {
    /// Starts a new log: those before it are of another store, and are ignored.
    Fresh,
    Continues,
    /// Begins new epochs in another process: what stands before it may lack something, or be an
    /// older copy.
    NextEpochs,
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Head {
    pub number: u64,
    pub begins: Begins,
    pub lineage: Lineage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    Version(u32),
    Damaged,
}

impl Head {
    #[must_use]
    pub fn to_record(&self) -> Vec<u8> {
        let mut out = (MAGIC, VERSION).saved();
        self.save(&mut out);
        out
    }

    /// Parses the first record of a segment.
    ///
    /// # Errors
    /// A damaged head, or one of another version; see [`HeadFault`].
    pub fn of_record(record: &[u8]) -> Result<Self, HeadFault> {
        let mut from = Saved::new(record);
        match <([u8; 8], u32)>::load(&mut from) {
            Some((MAGIC, VERSION)) => {}
            Some((MAGIC, other)) => return Err(HeadFault::Version(other)),
            _ => return Err(HeadFault::Damaged),
        }
        Self::load(&mut from)
            .filter(|head| from.is_empty() && head.lineage.ancestors.len() <= ANCESTORS_MAX)
            .ok_or(HeadFault::Damaged)
    }
}

/// Whether a log of so many bytes is to be written anew, when so many bytes of memory are in use.
/// They take fewer bytes in the log than in memory, so afterwards it is not due again before as
/// much was written.
#[must_use]
pub const fn copy_is_due(log_bytes: u64, live_bytes: u64) -> bool {
    log_bytes > LOG_BYTES_MIN.saturating_add(live_bytes.saturating_mul(2))
}

/// Bytes before a record: its length and its checksum, 4 bytes each, little-endian.
const FRAME_BYTES: usize = 8;

fn checksum(length: [u8; 4], record: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&length);
    crc.update(record);
    crc.finalize()
}

/// Appends a record.
///
/// # Panics
/// If the record has 4 GiB or more, which no publication may have.
pub fn write_frame(record: &[u8], out: &mut Vec<u8>) {
    let length = u32::try_from(record.len())
        .expect("below 4 Gi")
        .to_le_bytes();
    (length, checksum(length, record)).save(out);
    out.extend_from_slice(record);
}

/// Valid records at the beginning of a segment.
#[derive(Clone, Debug)]
pub struct SegmentRecords<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl<'a> SegmentRecords<'a> {
    /// Reads the bytes of one segment from its beginning.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, end: 0 }
    }

    /// End of the last valid record that was read.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Whether all bytes were valid records; meaningful once there are no more.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.end == self.bytes.len()
    }
}

impl<'a> Iterator for SegmentRecords<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.bytes.get(self.end..)?.split_first_chunk::<4>()?;
        let (crc, rest) = rest.split_first_chunk::<4>()?;
        let record = rest.get(..u32::from_le_bytes(*length) as usize)?;
        if checksum(*length, record) != u32::from_le_bytes(*crc) {
            return None;
        }
        self.end += FRAME_BYTES + record.len();
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_or_refused() {
        let head = Head {
            number: 7,
            begins: Begins::NextEpochs,
            lineage: Lineage {
                nonce: 3,
                ancestors: vec![1, 2],
            },
        };
        let record = head.to_record();
        let on_disk =
            b"throngHS\x01\0\0\0\x07\0\0\0\0\0\0\0\x02\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\0\0\0";
        assert_eq!(record, on_disk, "as every build of this version wrote it");
        assert_eq!(Head::of_record(&record), Ok(head));
        for cut in 0..record.len() {
            assert_eq!(Head::of_record(&record[..cut]), Err(HeadFault::Damaged));
        }
        let mut other = record;
        other[8] = 9;
        assert_eq!(Head::of_record(&other), Err(HeadFault::Version(9)));
    }

    #[test]
    fn a_start_gives_a_nonce_that_was_never_used() {
        let mut lineage = Lineage {
            nonce: 5,
            ancestors: Vec::new(),
        };
        for _ in 0..20 {
            let next = lineage.next(5);
            assert!(next.nonce != lineage.nonce && !next.ancestors.contains(&next.nonce));
            assert_eq!(next.ancestors.last(), Some(&lineage.nonce));
            assert!(next.ancestors.len() <= ANCESTORS_MAX);
            lineage = next;
        }
        assert_ne!(lineage.next(0).nonce, 0);
    }

    #[test]
    fn a_log_is_written_anew_when_most_of_it_is_dead() {
        const MIB: u64 = 1 << 20;
        for (log, live, due) in [
            (0, 0, false),
            (64 * MIB, 0, false),
            (64 * MIB + 1, 0, true),
            (256 * MIB, 100 * MIB, false),
            (265 * MIB, 100 * MIB, true),
        ] {
            assert_eq!(copy_is_due(log, live), due, "{log} {live}");
        }
    }

    fn segment() -> (Vec<Vec<u8>>, Vec<u8>) {
        let records: Vec<Vec<u8>> = [0, 1, 5, 40]
            .map(|length| vec![length as u8; length])
            .into();
        let mut bytes = Vec::new();
        for record in &records {
            write_frame(record, &mut bytes);
        }
        (records, bytes)
    }

    #[test]
    fn a_segment_that_is_torn_at_any_byte_gives_what_is_whole() {
        let (records, bytes) = segment();
        for cut in 0..=bytes.len() {
            let mut frames = SegmentRecords::new(&bytes[..cut]);
            let read: Vec<&[u8]> = frames.by_ref().take(9).collect();
            assert!(read.len() <= records.len() && read.iter().eq(&records[..read.len()]));
            assert_eq!(frames.is_whole(), frames.end() == cut, "{cut}");
            let next = records
                .get(read.len())
                .map_or(0, |next| FRAME_BYTES + next.len());
            assert!(
                cut - frames.end() < next.max(1),
                "{cut}: one more was whole"
            );
        }
    }

    #[test]
    fn a_flipped_bit_ends_it_before_that_record() {
        let (records, bytes) = segment();
        for place in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[place / 8] ^= 1 << (place % 8);
            let mut frames = SegmentRecords::new(&bytes);
            let read: Vec<&[u8]> = frames.by_ref().take(9).collect();
            assert!(read.len() < records.len(), "bit {place}");
            assert!(read.iter().eq(&records[..read.len()]), "bit {place}");
            assert!(frames.end() <= place / 8 && !frames.is_whole());
        }
    }

    #[test]
    fn zeros_are_no_records() {
        assert_eq!(SegmentRecords::new(&[0; 64]).next(), None);
    }
}
