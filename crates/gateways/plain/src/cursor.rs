//! The opaque place in several streams that an `EventSource` brings back.
//!
//! Text form: entries joined by `,`, each `channel.epoch.offset` with the channel's
//! stable hash, the epoch and the offset in hexadecimal. A hash instead of the name
//! keeps the id short and free of whatever a name may contain; two of one
//! connection's channels share a 64-bit hash practically never.

use std::fmt::Write as _;

use throng_types::{ChannelName, Epoch, Position, Save};

/// The place in one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
struct CursorEntry {
    /// Stable hash of the channel's name ([`ChannelName::stable_hash`]).
    channel: u64,
    /// Last position that the client has.
    position: Position,
}

/// The places in all streams of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct Cursor(Vec<CursorEntry>);

impl Cursor {
    /// Reads the text form of one to `entries_max` entries; `None` for any other text.
    pub fn parse(text: &str, entries_max: usize) -> Option<Self> {
        if text.is_empty() || text.split(',').count() > entries_max {
            return None;
        }
        let entries = text.split(',').map(|entry| {
            let mut parts = entry.split('.');
            let (channel, epoch, offset) = (parts.next()?, parts.next()?, parts.next()?);
            if parts.next().is_some() {
                return None;
            }
            // An epoch's text form is that of the two numbers as well.
            let number = |text| Epoch::parse(text).map(|Epoch(number)| number);
            let position = Position {
                epoch: Epoch::parse(epoch)?,
                offset: number(offset)?,
            };
            Some(CursorEntry {
                channel: number(channel)?,
                position,
            })
        });
        entries.collect::<Option<Vec<_>>>().map(Self)
    }

    /// The place in one channel's stream.
    pub fn position(&self, channel: &ChannelName) -> Option<Position> {
        let hash = channel.stable_hash();
        self.0
            .iter()
            .find(|entry| entry.channel == hash)
            .map(|entry| entry.position)
    }

    /// Sets the position in one channel's stream, which may be a new one.
    pub fn set(&mut self, channel: &ChannelName, position: Position) {
        let hash = channel.stable_hash();
        match self.0.iter_mut().find(|entry| entry.channel == hash) {
            Some(entry) => entry.position = position,
            None => self.0.push(CursorEntry {
                channel: hash,
                position,
            }),
        }
    }

    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends the text form.
    pub fn write(&self, out: &mut String) {
        for (at, entry) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write_entry(entry.channel, entry.position, out);
        }
    }
}

/// Appends the text form of one place.
pub(crate) fn write_entry(channel: u64, position: Position, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "{channel:x}.{}.{:x}", position.epoch, position.offset);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_survives_its_text_form() {
        let name = |name| ChannelName::new(name).unwrap();
        let mut cursor = Cursor::default();
        assert!(cursor.is_empty());
        for (channel, offset) in [("a", 0), ("b", u64::MAX), ("a", 7)] {
            cursor.set(
                &name(channel),
                Position {
                    epoch: Epoch(0xabc),
                    offset,
                },
            );
        }
        assert!(!cursor.is_empty());
        let mut text = String::new();
        cursor.write(&mut text);
        assert_eq!(Cursor::parse(&text, 2), Some(cursor.clone()));
        assert_eq!(cursor.position(&name("a")).unwrap().offset, 7);
        assert_eq!(cursor.position(&name("c")), None);
        assert_eq!(
            Cursor::parse(&text, 1),
            None,
            "more channels than a connection may have"
        );
    }

    /// The check of the configuration counts on it (`PLACE_BYTES_MAX`).
    #[test]
    fn a_place_has_so_many_bytes_and_no_more() {
        let position = Position {
            epoch: Epoch(u64::MAX),
            offset: u64::MAX,
        };
        let mut text = String::new();
        write_entry(u64::MAX, position, &mut text);
        assert_eq!(text.len() + ",".len(), 51);
    }

    #[test]
    fn what_is_not_a_cursor_is_none() {
        for wrong in [
            "",
            ",",
            "1.2",
            "1.2.3.4",
            "1.2.3,",
            "x.1.1",
            "1.1.-1",
            "1.1.11112222333344445",
        ] {
            assert_eq!(Cursor::parse(wrong, 10), None, "{wrong}");
        }
    }
}
