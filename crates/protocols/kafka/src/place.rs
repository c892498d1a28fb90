//! A partition of a topic.

use std::fmt;
use std::sync::Arc;

use bytes::BufMut as _;

use crate::wire::{Reader, Write};

/// A partition of a topic, by its number. Shown as Kafka's own tools do: `topic-0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub topic: Arc<str>,
    /// The partition's number, from 0 on.
    pub partition: i32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Writes items by their topics; those of a topic stand side by side.
pub(crate) fn write_places<T>(
    items: &[(Place, T)],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&T, &mut Vec<u8>),
) {
    let same = |a: &(Place, T), b: &(Place, T)| a.0.topic == b.0.topic;
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

/// Reads what [`write_places`] has its like of in answers.
pub(crate) fn read_places<T>(
    body: &mut Reader<'_>,
    mut read: impl FnMut(Place, &mut Reader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let topics = body.list(|body| {
        let topic: Arc<str> = body.text()?.into();
        body.list(|body| {
            let partition = body.i32()?;
            let place = Place {
                topic: topic.clone(),
                partition,
            };
            read(place, body)
        })
    })?;
    Some(topics.into_iter().flatten().collect())
}
