//! Answers and messages of Redis, as values of ours.

use std::sync::Arc;

use redis::{RedisError, Value};
use throng_redis_link::value::{bytes, list, number, text};
use throng_remote::agent::{HistoryMatch, Looked};
use throng_remote::blob;
use throng_types::{
    ChannelName, Epoch, Position, Publication, PublicationKind, Publisher, SpanContext,
};

/// A position from its two texts; the inner `None` if both are empty.
pub(crate) fn position(epoch: &str, offset: &str) -> Option<Option<Position>> {
    if epoch.is_empty() && offset.is_empty() {
        return Some(None);
    }
    Some(Some(Position {
        epoch: Epoch::parse(epoch)?,
        offset: offset.parse().ok()?,
    }))
}

pub(crate) fn published(value: &Value) -> Option<Option<Position>> {
    let [epoch, offset, ..] = list(value)? else {
        return None;
    };
    position(text(epoch)?, text(offset)?)
}

pub(crate) fn looked(value: &Value, channel: &ChannelName) -> Option<Looked> {
    let [epoch, offset, status, entries @ ..] = list(value)? else {
        return None;
    };
    let position = Position {
        epoch: Epoch::parse(text(epoch)?)?,
        offset: number(offset)?,
    };
    let mut status = match number(status)? {
        0 => HistoryMatch::Fits,
        1 => HistoryMatch::Lost,
        2 => HistoryMatch::NoSuchPosition,
        _ => return None,
    };
    let mut publications = Vec::with_capacity(entries.len());
    for entry in entries {
        let [id, time, body] = list(entry)? else {
            return None;
        };
        let offset = text(id)?.split_once('-')?.0.parse().ok()?;
        let Some(blob) = blob::decode(bytes(body)?) else {
            // Of a form that this node does not know yet: for it, that is a gap.
            status = HistoryMatch::Lost;
            continue;
        };
        let publication = Publication {
            channel: channel.clone(),
            told: PublicationKind::Data,
            position: Some(Position { offset, ..position }),
            payload: blob.payload,
            publisher: blob.publisher,
            tags: blob.tags,
            time_unix_ms: number(time)?,
            trace: None,
        };
        publications.push(publication.shared());
    }
    Some(Looked {
        position,
        status,
        publications,
    })
}

/// A message of a channel: what it tells, its position and its time stand before its body, with
/// blanks between.
pub(crate) fn message(
    channel: &ChannelName,
    message: &[u8],
    now_unix_ms: u64,
) -> Option<Publication> {
    let mut parts = message.splitn(5, |byte| *byte == b' ');
    let mut part = || std::str::from_utf8(parts.next()?).ok();
    let told = match part()? {
        "p" => PublicationKind::Data,
        "j" => PublicationKind::Joined,
        "l" => PublicationKind::Left,
        _ => return None,
    };
    let position = position(part()?, part()?)?;
    let time: u64 = part()?.parse().ok()?;
    let blob = blob::decode(parts.next()?)?;
    Some(Publication {
        channel: channel.clone(),
        told,
        position,
        payload: blob.payload,
        publisher: blob.publisher,
        tags: blob.tags,
        // Scripts that sweep leave the time to the receiver.
        time_unix_ms: if time == 0 { now_unix_ms } else { time },
        trace: None,
    })
}

/// The name in Redis of a channel, and the trace of the publication that comes there next.
pub(crate) fn trace(message: &[u8]) -> Option<(Box<str>, SpanContext)> {
    let (trace, there) = std::str::from_utf8(message).ok()?.split_once(' ')?;
    Some((there.into(), SpanContext::sampled(trace)?))
}

/// Reads the members that the script `present` lists.
pub(crate) fn members(value: &Value) -> Option<Vec<Arc<Publisher>>> {
    let one = |row: &Value| Some(Arc::new(*blob::decode(bytes(row)?)?.publisher?));
    list(value)?.iter().map(one).collect()
}

/// The cause of an error, without its kind.
pub(crate) fn reason(error: RedisError) -> String {
    let parts: Vec<&str> = { error.code().into_iter() }.chain(error.detail()).collect();
    match parts.is_empty() {
        true => error.to_string(),
        false => parts.join(" "),
    }
}
