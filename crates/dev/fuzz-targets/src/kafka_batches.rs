//! Batches of records, as a broker of Kafka hands them out.
//!
//! Input: batches; the checksum of each is put right, so that mutations get past it.

use throng_kafka_protocol::{Aborted, Records, batches};

pub(crate) const SEEDS: &[&[u8]] = &[
    // A record with a header and one without anything.
    b"\0\0\0\0\0\0\0\x07\0\0\0W\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\x02<\0\0\0\x08news\x0e{\"a\":1}\x02\x0e\
        channel\x08news\x0c\0\0\x02\x01\x01\0",
    // Three that are packed by gzip.
    b"\0\0\0\0\0\0\0d\0\0\0X\0\0\0\0\x02\0\0\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\x03\x1f\x8b\x08\0\0\0\0\0\x02\x033c```\
        \xca\xd6\xa8\xc0\x02\x18\xcc\x80Rx\xe4Xp\xc9\x01\0\xd0\xefU\xbfT\0\0\0",
    // One of a transaction, and the mark of its end.
    b"\0\0\0\0\0\0\0\x07\0\0\0:\0\0\0\0\x02\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\x01\x10\0\0\0\x02a\x02b\0\0\0\0\0\0\0\0\
        \x07\0\0\0;\0\0\0\0\x02\0\0\0\0\x000\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        \0\0\x05\0\0\0\0\0\0\0\0\0\x01\x10\0\0\0\x08\0\0\0\x01\0",
];

/// The longest record that is read, in bytes.
const RECORD_MAX: usize = 64;
/// Records that are read of one batch: what is packed may be much more than the input.
const COUNT_MAX: usize = 1000;

/// Checks that what is read of a batch has its offsets and is within its bounds.
pub fn kafka_batches(input: &[u8]) {
    let mut bytes = input.to_vec();
    // As far as heads are whole, each gives the place of the next one.
    let mut at = 0;
    while let Some(length) = bytes.get(at + 8..at + 12) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(batch) = bytes.get_mut(at..at + 12 + length) else {
            break;
        };
        if batch.len() > 21 {
            let sum = crc32c(&batch[21..]);
            batch[17..21].copy_from_slice(&sum.to_be_bytes());
        }
        at += 12 + length;
    }
    let aborted = Aborted {
        producer: 5,
        first_offset: 7,
    };
    for aborted in [&[][..], &[aborted]] {
        for batch in batches(&bytes.clone().into(), aborted).unwrap_or_default() {
            assert!(batch.base_offset <= batch.last_offset && batch.bytes() <= input.len());
            let Ok(mut records) = Records::new(batch, RECORD_MAX) else {
                continue;
            };
            for _ in 0..COUNT_MAX {
                let Ok(Some(record)) = records.next_record() else {
                    break;
                };
                let bytes = [&record.key, &record.value];
                let bytes = bytes.into_iter().flatten().map(|it| it.len());
                assert!(bytes.sum::<usize>() <= RECORD_MAX);
            }
        }
    }
}

/// Castagnoli's, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            sum >> 1 ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 }
        })
    })
}
