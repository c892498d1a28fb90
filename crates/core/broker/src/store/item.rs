//! Records of the history log, as items.

use throng_types::{ChannelName, Load as _, Payload, Publication, Publisher, Save};

use crate::Version;

const BASE: u8 = 1;
const PUBLISHED: u8 = 2;
const FORGOTTEN: u8 = 3;
const COUNT: u8 = 4;
const KEY: u8 = 5;
const CLOSED: u8 = 6;

/// Event at a home, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
#[repr(u8)]
pub enum LogEntry {
    /// A stream stands here or further, and keeps nothing up to here. What it keeps behind it
    /// follows, if it does not stand before it.
    Base {
        channel: ChannelName,
        /// The low half of its epoch.
        generation: u32,
        /// Offset up to which it keeps nothing.
        offset: u64,
        version: Option<Version>,
        /// Up to which offset each earlier nonce is the same stream.
        tops: Vec<(u32, u64)>,
    } = BASE,
    Published {
        channel: ChannelName,
        /// The low half of its epoch.
        generation: u32,
        offset: u64,
        version: Option<Version>,
        payload: Payload,
        publisher: Option<Box<Publisher>>,
        /// JSON object with text values.
        tags: Option<Box<str>>,
        time_unix_ms: u64,
    } = PUBLISHED,
    /// A stream was forgotten; later ones have this generation or a later one.
    Forgotten {
        channel: ChannelName,
        count: u32,
    } = FORGOTTEN,
    /// New streams have this generation or a later one.
    Count(u32) = COUNT,
    Key(UsedKey) = KEY,
    /// The server ended cleanly, and nothing is missing.
    Closed = CLOSED,
}

/// An idempotency key that was used.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct UsedKey {
    /// The channel, a line break, and the key.
    pub(crate) text: Box<str>,
    pub(crate) at_unix_ms: u64,
    /// Generation and offset that its publication got.
    pub(crate) position: Option<(u32, u64)>,
}

impl LogEntry {
    /// Parses a record; `None` if it is not valid.
    #[must_use]
    pub fn of_record(record: &[u8]) -> Option<Self> {
        Self::load_whole(record)
    }

    #[must_use]
    pub fn closed() -> Vec<u8> {
        Self::Closed.saved()
    }
}

pub(crate) fn write_base(
    (channel, generation, offset): (&ChannelName, u32, u64),
    version: Option<&Version>,
    tops: &[(u32, u64)],
    out: &mut Vec<u8>,
) {
    (BASE, channel, generation, offset, version, tops).save(out);
}

pub(crate) fn write_published(
    publication: &Publication,
    (generation, offset): (u32, u64),
    version: Option<&Version>,
    out: &mut Vec<u8>,
) {
    let Publication {
        channel,
        payload,
        publisher,
        tags,
        time_unix_ms,
        ..
    } = publication;
    (PUBLISHED, channel, generation, offset, version).save(out);
    (payload, publisher, tags, time_unix_ms).save(out);
}

pub(crate) fn write_forgotten(channel: &ChannelName, count: u32, out: &mut Vec<u8>) {
    (FORGOTTEN, channel, count).save(out);
}

pub(crate) fn write_count(count: u32, out: &mut Vec<u8>) {
    (COUNT, count).save(out);
}

pub(crate) fn write_key(
    text: &str,
    at_unix_ms: u64,
    position: Option<(u32, u64)>,
    out: &mut Vec<u8>,
) {
    (KEY, text, at_unix_ms, position).save(out);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_types::{Epoch, PayloadKind, Position, PublicationKind, check_saved};

    use super::*;

    #[test]
    fn records_say_what_was_written() {
        let channel = ChannelName::new("news").expect("a name");
        let version = Version {
            number: 4,
            epoch: "e".into(),
        };
        let publication = Publication {
            channel: channel.clone(),
            told: PublicationKind::Data,
            position: Some(Position {
                epoch: Epoch(9),
                offset: 3,
            }),
            payload: Payload {
                bytes: Arc::from(&b"{}"[..]),
                kind: PayloadKind::Json,
            },
            publisher: Some(Box::default()),
            tags: Some("{}".into()),
            time_unix_ms: 8,
            trace: None,
        };
        let mut records = vec![Vec::new(); 5];
        write_base((&channel, 1, 2), Some(&version), &[(6, 7)], &mut records[0]);
        write_published(&publication, (1, 3), None, &mut records[1]);
        write_forgotten(&channel, 5, &mut records[2]);
        write_count(6, &mut records[3]);
        write_key("news\nk", 9, Some((1, 3)), &mut records[4]);
        records.push(LogEntry::closed());
        let items = [
            LogEntry::Base {
                channel: channel.clone(),
                generation: 1,
                offset: 2,
                version: Some(version),
                tops: vec![(6, 7)],
            },
            LogEntry::Published {
                channel: channel.clone(),
                generation: 1,
                offset: 3,
                version: None,
                payload: publication.payload.clone(),
                publisher: publication.publisher.clone(),
                tags: publication.tags,
                time_unix_ms: 8,
            },
            LogEntry::Forgotten { channel, count: 5 },
            LogEntry::Count(6),
            LogEntry::Key(UsedKey {
                text: "news\nk".into(),
                at_unix_ms: 9,
                position: Some((1, 3)),
            }),
            LogEntry::Closed,
        ];
        // As every build of this version of the format has written them.
        let on_disk: [&[u8]; 6] = [
            b"\x01\x04\0\0\0news\x01\0\0\0\x02\0\0\0\0\0\0\0\x01\x04\0\0\0\0\0\0\0\
              \x01\0\0\0e\x01\0\0\0\x06\0\0\0\x07\0\0\0\0\0\0\0",
            b"\x02\x04\0\0\0news\x01\0\0\0\x03\0\0\0\0\0\0\0\0\x02\0\0\0{}\0\
              \x01\0\0\0\0\0\0\0\0\0\0\x01\x02\0\0\0{}\x08\0\0\0\0\0\0\0",
            b"\x03\x04\0\0\0news\x05\0\0\0",
            b"\x04\x06\0\0\0",
            b"\x05\x06\0\0\0news\nk\x09\0\0\0\0\0\0\0\x01\x01\0\0\0\x03\0\0\0\0\0\0\0",
            b"\x06",
        ];
        for ((record, item), bytes) in records.iter().zip(items).zip(on_disk) {
            check_saved(&item);
            assert_eq!((&record[..], item.saved().as_slice()), (bytes, bytes));
            assert_eq!(LogEntry::of_record(record), Some(item));
        }
    }
}
