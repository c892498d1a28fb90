//! Records of the history log, as items.

use throng_types::{
    ChannelName, Payload, Publication, Publisher, Save, Saved, save_bytes, save_count, save_option,
};

use crate::Version;

const BASE: u8 = 1;
const PUBLISHED: u8 = 2;
const FORGOTTEN: u8 = 3;
const COUNT: u8 = 4;
const KEY: u8 = 5;
const CLOSED: u8 = 6;

/// Event at a home, as a record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A stream stands here or further, and keeps nothing up to here. What it keeps behind it
    /// follows, if it does not stand before it.
    Base {
        channel: ChannelName,
        /// The low half of its epoch.
        generation: u32,
        /// Offset up to which it keeps nothing.
        offset: u64,
        /// The newest version that was published in it.
        version: Option<Version>,
        /// Up to which offset each earlier nonce is the same stream.
        tops: Vec<(u32, u64)>,
    },
    /// A stream got a publication.
    Published {
        channel: ChannelName,
        /// The low half of its epoch.
        generation: u32,
        offset: u64,
        /// The newest version that was published in it.
        version: Option<Version>,
        payload: Payload,
        /// Connection that published it, if one did.
        publisher: Option<Box<Publisher>>,
        /// JSON object with text values.
        tags: Option<Box<str>>,
        /// Time of acceptance, in Unix milliseconds.
        time_unix_ms: u64,
    },
    /// A stream was forgotten; later ones have this generation or a later one.
    Forgotten { channel: ChannelName, count: u32 },
    /// New streams have this generation or a later one.
    Count(u32),
    /// An idempotency key was used.
    Key {
        /// The channel, a line break, and the key.
        text: Box<str>,
        /// Time of use, in Unix milliseconds.
        at_unix_ms: u64,
        /// Generation and offset that its publication got.
        position: Option<(u32, u64)>,
    },
    /// The server ended cleanly, and nothing is missing.
    Closed,
}

impl Item {
    /// Parses a record; `None` if it is not valid.
    #[must_use]
    pub fn of_record(record: &[u8]) -> Option<Self> {
        let mut from = Saved::new(record);
        let item = Self::load(&mut from)?;
        from.is_empty().then_some(item)
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        Some(match u8::load(from)? {
            BASE => Self::Base {
                channel: Save::load(from)?,
                generation: Save::load(from)?,
                offset: Save::load(from)?,
                version: Save::load(from)?,
                tops: Save::load(from)?,
            },
            PUBLISHED => Self::Published {
                channel: Save::load(from)?,
                generation: Save::load(from)?,
                offset: Save::load(from)?,
                version: Save::load(from)?,
                payload: Save::load(from)?,
                publisher: Save::load(from)?,
                tags: Save::load(from)?,
                time_unix_ms: Save::load(from)?,
            },
            FORGOTTEN => Self::Forgotten {
                channel: Save::load(from)?,
                count: Save::load(from)?,
            },
            COUNT => Self::Count(Save::load(from)?),
            KEY => Self::Key {
                text: Save::load(from)?,
                at_unix_ms: Save::load(from)?,
                position: Save::load(from)?,
            },
            CLOSED => Self::Closed,
            _ => return None,
        })
    }

    /// The record of a clean end.
    #[must_use]
    pub fn closed() -> Vec<u8> {
        vec![CLOSED]
    }
}

/// Appends the bytes of an [`Item::Base`].
pub(crate) fn write_base(
    (channel, generation, offset): (&ChannelName, u32, u64),
    version: Option<&Version>,
    tops: &[(u32, u64)],
    out: &mut Vec<u8>,
) {
    out.push(BASE);
    channel.save(out);
    (generation, offset).save(out);
    save_option(version, out);
    save_count(tops.len(), out);
    for top in tops {
        top.save(out);
    }
}

/// Appends the bytes of an [`Item::Published`].
pub(crate) fn write_published(
    publication: &Publication,
    (generation, offset): (u32, u64),
    version: Option<&Version>,
    out: &mut Vec<u8>,
) {
    out.push(PUBLISHED);
    publication.channel.save(out);
    (generation, offset).save(out);
    save_option(version, out);
    publication.payload.save(out);
    publication.publisher.save(out);
    publication.tags.save(out);
    publication.time_unix_ms.save(out);
}

/// Appends the bytes of an [`Item::Forgotten`].
pub(crate) fn write_forgotten(channel: &ChannelName, count: u32, out: &mut Vec<u8>) {
    out.push(FORGOTTEN);
    channel.save(out);
    count.save(out);
}

/// Appends the bytes of an [`Item::Count`].
pub(crate) fn write_count(count: u32, out: &mut Vec<u8>) {
    out.push(COUNT);
    count.save(out);
}

/// Appends the bytes of an [`Item::Key`].
pub(crate) fn write_key(
    text: &str,
    at_unix_ms: u64,
    position: Option<(u32, u64)>,
    out: &mut Vec<u8>,
) {
    out.push(KEY);
    save_bytes(text.as_bytes(), out);
    at_unix_ms.save(out);
    position.save(out);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use throng_types::{Epoch, PayloadKind, Position, PublicationKind};

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
        };
        let mut records = vec![Vec::new(); 5];
        write_base((&channel, 1, 2), Some(&version), &[(6, 7)], &mut records[0]);
        write_published(&publication, (1, 3), None, &mut records[1]);
        write_forgotten(&channel, 5, &mut records[2]);
        write_count(6, &mut records[3]);
        write_key("news\nk", 9, Some((1, 3)), &mut records[4]);
        records.push(Item::closed());
        let items = [
            Item::Base {
                channel: channel.clone(),
                generation: 1,
                offset: 2,
                version: Some(version),
                tops: vec![(6, 7)],
            },
            Item::Published {
                channel: channel.clone(),
                generation: 1,
                offset: 3,
                version: None,
                payload: publication.payload.clone(),
                publisher: publication.publisher.clone(),
                tags: publication.tags,
                time_unix_ms: 8,
            },
            Item::Forgotten { channel, count: 5 },
            Item::Count(6),
            Item::Key {
                text: "news\nk".into(),
                at_unix_ms: 9,
                position: Some((1, 3)),
            },
            Item::Closed,
        ];
        for (record, item) in records.iter().zip(items) {
            assert_eq!(Item::of_record(record), Some(item));
            for cut in 0..record.len() {
                assert_eq!(Item::of_record(&record[..cut]), None);
            }
            let longer = [&record[..], &[0]].concat();
            assert_eq!(Item::of_record(&longer), None);
        }
    }
}
