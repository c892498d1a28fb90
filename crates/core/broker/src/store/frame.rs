//! Records as they stand in a segment: length, checksum, bytes.
//!
//! Invariants
//! - The checksum (CRC-32, as in zlib) covers the length. Zeros are no record.
//! - Reading never goes beyond a record that is not whole or not what was written: what follows it
//!   cannot be told from chance.

use throng_types::Save as _;

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
pub struct Frames<'a> {
    bytes: &'a [u8],
    end: usize,
}

impl<'a> Frames<'a> {
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

impl<'a> Iterator for Frames<'a> {
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
            let mut frames = Frames::new(&bytes[..cut]);
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
            let mut frames = Frames::new(&bytes);
            let read: Vec<&[u8]> = frames.by_ref().take(9).collect();
            assert!(read.len() < records.len(), "bit {place}");
            assert!(read.iter().eq(&records[..read.len()]), "bit {place}");
            assert!(frames.end() <= place / 8 && !frames.is_whole());
        }
    }

    #[test]
    fn zeros_are_no_records() {
        assert_eq!(Frames::new(&[0; 64]).next(), None);
    }
}
