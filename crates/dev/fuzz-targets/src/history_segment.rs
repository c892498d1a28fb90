//! Segments of history, whole, torn and damaged.
//!
//! Input: a segment; also as records, each behind a byte with its length, and as one record.

use std::sync::Arc;

use throng_broker::{
    ChannelOptions, Head, Lineage, LogEntry, NamespaceOptions, Replay, Retention, SegmentRecords,
    home_of, write_frame,
};

/// Checks that only whole records are read, and that no record harms its reader.
pub(crate) fn history_segment(input: &[u8]) {
    let mut frames = SegmentRecords::new(input);
    let count = frames.by_ref().count();
    assert!(frames.end() <= input.len());
    assert_eq!(SegmentRecords::new(&input[..frames.end()]).count(), count);
    // As records that are whole: the length of each is its first byte.
    let mut segment = Vec::new();
    let mut records = Vec::new();
    let mut rest = input;
    while let Some((length, more)) = rest.split_first() {
        let (record, more) = more.split_at(more.len().min(usize::from(*length)));
        records.push(record);
        write_frame(record, &mut segment);
        rest = more;
    }
    records.push(input);
    write_frame(input, &mut segment);
    let mut frames = SegmentRecords::new(&segment);
    assert!(frames.by_ref().eq(records.iter().copied()));
    assert!(frames.is_whole());
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: 3,
            ttl_ms: 1000,
        },
        ..ChannelOptions::default()
    };
    let namespaces = Arc::new(NamespaceOptions::new(kept, Vec::new()));
    let mut replay = Replay::new(namespaces, 1, 500);
    for record in records {
        match Head::of_record(record) {
            Ok(head) => {
                assert_eq!(head.to_record(), record);
                replay.head(&head);
            }
            Err(_) => assert_eq!(replay.record(record), LogEntry::of_record(record).is_some()),
        }
    }
    let lineage = replay.lineage().cloned().unwrap_or_else(Lineage::default);
    let next = lineage.next(9);
    let homes = replay.finish(&next, 3, home_of);
    assert_eq!(homes.len(), 3);
}
