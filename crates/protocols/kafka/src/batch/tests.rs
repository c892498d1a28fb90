use super::*;

/// A batch as a producer makes it, from packed records.
pub(crate) fn made(base: i64, count: u32, attributes: i16, records: &[u8]) -> Vec<u8> {
    let mut tail = attributes.to_be_bytes().to_vec();
    tail.extend(count.saturating_sub(1).to_be_bytes());
    tail.extend([0; 16]);
    tail.extend(7i64.to_be_bytes());
    tail.extend([0; 6]);
    tail.extend(count.to_be_bytes());
    tail.extend(records);
    let mut bytes = base.to_be_bytes().to_vec();
    bytes.extend((tail.len() as u32 + 9).to_be_bytes());
    bytes.extend([0, 0, 0, 0, MAGIC]);
    bytes.extend(SUM.checksum(&tail).to_be_bytes());
    bytes.extend(tail);
    bytes
}

fn found(bytes: &[u8], aborted: &[Aborted]) -> Result<Vec<(i64, i64, u32)>, BatchFault> {
    let found = batches(&Bytes::copy_from_slice(bytes), aborted)?.into_iter();
    Ok(found
        .map(|it| (it.base_offset, it.last_offset, it.count))
        .collect())
}

#[test]
fn a_batch_that_is_cut_off_is_left_out() {
    let bytes = [made(5, 2, 0, b"abc"), made(7, 1, 0, b"d")].concat();
    assert_eq!(found(&bytes, &[]), Ok(vec![(5, 6, 2), (7, 7, 1)]));
    assert_eq!(found(&bytes[..bytes.len() - 1], &[]), Ok(vec![(5, 6, 2)]));
    assert_eq!(found(&bytes[..60], &[]), Err(BatchFault::Short));
    assert_eq!(found(b"", &[]), Ok(vec![]));
}

#[test]
fn what_is_no_batch_is_refused() {
    let good = made(5, 2, 0, b"abc");
    for at in 17..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        assert_eq!(found(&bytes, &[]), Err(BatchFault::Damaged), "byte {at}");
    }
    let mut old = good.clone();
    old[16] = 1;
    assert_eq!(found(&old, &[]), Err(BatchFault::Old));
    let mut short = good;
    short[8..12].copy_from_slice(&48u32.to_be_bytes());
    assert_eq!(found(&short, &[]), Err(BatchFault::Short));
    assert_eq!(
        found(&made(0, 1, 5, b"")[..], &[]),
        Err(BatchFault::Packing(5))
    );
}

#[test]
fn what_was_taken_back_has_no_records() {
    let aborted = |first_offset| Aborted {
        producer: 7,
        first_offset,
    };
    let bytes = [
        made(0, 2, TRANSACTIONAL, b""),
        made(2, 1, CONTROL | TRANSACTIONAL, b""),
        made(3, 1, TRANSACTIONAL, b""),
        made(4, 1, 0, b""),
        made(5, 1, CONTROL | TRANSACTIONAL, b""),
        made(6, 1, TRANSACTIONAL, b""),
    ];
    let counts = |aborted: &[Aborted]| {
        let found = found(&bytes.concat(), aborted).unwrap().into_iter();
        found.map(|(.., count)| count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&[]), [2, 0, 1, 1, 0, 1]);
    assert_eq!(counts(&[aborted(0)]), [0, 0, 1, 1, 0, 1]);
    assert_eq!(counts(&[aborted(3)]), [2, 0, 0, 1, 0, 1]);
    assert_eq!(counts(&[aborted(3), aborted(0)]), [0, 0, 0, 1, 0, 1]);
}
