//! Numbers, texts, lists and partitions as they travel: big-endian, with their lengths before them.

use std::fmt;
use std::sync::Arc;

use bytes::{Buf as _, BufMut as _};

/// Memory of a list's items, in bytes, without what they point to: an item may take several times
/// the bytes that it has in an answer.
pub(crate) const LIST_BYTES_MAX: usize = 16 << 20;

/// Reads from the front; `None` once something is not there.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn i8(&mut self) -> Option<i8> {
        self.0.try_get_i8().ok()
    }

    pub(crate) fn i16(&mut self) -> Option<i16> {
        self.0.try_get_i16().ok()
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.0.try_get_i32().ok()
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.0.try_get_i64().ok()
    }

    /// A text, or that there is none.
    pub(crate) fn nullable_text(&mut self) -> Option<Option<String>> {
        match self.i16()? {
            -1 => Some(None),
            length => {
                let bytes = self.take(usize::try_from(length).ok()?)?;
                Some(Some(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        self.nullable_text()?
    }

    /// Bytes; none at all are none.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        match self.i32()? {
            -1 => Some(&[]),
            length => self.take(usize::try_from(length).ok()?),
        }
    }

    /// A list. Memory is taken for items that are there, not for those that are declared, and for
    /// no more of them than [`LIST_BYTES_MAX`] holds.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let mut items = Vec::new();
        // A list that is none has the length -1.
        for _ in 0..self.i32()? {
            items.push(item(self)?);
            if items.len() * size_of::<T>() > LIST_BYTES_MAX {
                return None;
            }
        }
        Some(items)
    }
}

/// Appends texts and lists to a buffer; numbers are those of [`bytes::BufMut`].
pub(crate) trait Write {
    /// Longer texts than 32,767 bytes are cut; no name or message is that long.
    fn text(&mut self, text: &str);
    /// No text at all.
    fn no_text(&mut self);
    fn texts(&mut self, texts: &[impl AsRef<str>]);
    fn bytes(&mut self, bytes: &[u8]);
    /// The number of items that follow.
    fn count(&mut self, count: usize);
}

impl Write for Vec<u8> {
    fn text(&mut self, text: &str) {
        let length = i16::try_from(text.len()).unwrap_or(i16::MAX);
        self.put_i16(length);
        self.extend_from_slice(&text.as_bytes()[..length as usize]);
    }

    fn no_text(&mut self) {
        self.put_i16(-1);
    }

    fn texts(&mut self, texts: &[impl AsRef<str>]) {
        self.count(texts.len());
        for text in texts {
            self.text(text.as_ref());
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.extend_from_slice(bytes);
    }

    fn count(&mut self, count: usize) {
        self.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
    }
}

/// A partition of a topic, by its number. Shown as Kafka's own tools do: `topic-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: Arc<str>,
    /// The partition's number, from 0 on.
    pub partition: i32,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Writes items by their topics; those of a topic stand side by side.
pub(crate) fn write_places<T>(
    items: &[(TopicPartition, T)],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&T, &mut Vec<u8>),
) {
    let same = |a: &(TopicPartition, T), b: &(TopicPartition, T)| a.0.topic == b.0.topic;
    out.count(items.chunk_by(same).count());
    for topic in items.chunk_by(same) {
        out.text(&topic[0].0.topic);
        out.count(topic.len());
        for (place, item) in topic {
            out.put_i32(place.partition);
            write(item, out);
        }
    }
}

/// Parses a list of topics and partitions of a response.
pub(crate) fn read_places<T>(
    body: &mut Reader<'_>,
    mut read: impl FnMut(TopicPartition, &mut Reader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let topics = body.list(|body| {
        let topic: Arc<str> = body.text()?.into();
        body.list(|body| {
            let partition = body.i32()?;
            let place = TopicPartition {
                topic: topic.clone(),
                partition,
            };
            read(place, body)
        })
    })?;
    Some(topics.into_iter().flatten().collect())
}
