//! Answers and messages of Redis, as values of ours.

use std::sync::Arc;

use redis::{RedisError, Value};
use throng_redis_link::command;
use throng_remote::agent::{Looked, Status};
use throng_remote::blob;
use throng_types::{ChannelName, Epoch, Position, Publication, PublicationKind, Publisher};

use crate::options::Verbs;

/// The text of a value, if it is one.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

pub(crate) fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => text(value)?.parse().ok(),
    }
}

pub(crate) fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        _ => None,
    }
}

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

/// Reads an answer of the script `publish`.
pub(crate) fn published(value: &Value) -> Option<Option<Position>> {
    let [epoch, offset, ..] = list(value)? else {
        return None;
    };
    position(text(epoch)?, text(offset)?)
}

/// Reads an answer of the script `look`.
pub(crate) fn looked(value: &Value, channel: &ChannelName) -> Option<Looked> {
    let [epoch, offset, status, entries @ ..] = list(value)? else {
        return None;
    };
    let position = Position {
        epoch: Epoch::parse(text(epoch)?)?,
        offset: number(offset)?,
    };
    let mut status = match number(status)? {
        0 => Status::Fits,
        1 => Status::Lost,
        2 => Status::NoSuchPosition,
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
            status = Status::Lost;
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
    })
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Publish,
    Look,
    Release,
    Come,
    Quit,
    Present,
    Sweep,
    Ask,
}

impl Script {
    pub(crate) const ALL: [Self; 8] = [
        Self::Publish,
        Self::Look,
        Self::Release,
        Self::Come,
        Self::Quit,
        Self::Present,
        Self::Sweep,
        Self::Ask,
    ];

    /// Returns the script's text, which publishes and counts subscribers by these commands.
    pub(crate) fn text(self, verbs: Verbs) -> String {
        let own = match self {
            Self::Publish => include_str!("lua/publish.lua"),
            Self::Look => include_str!("lua/look.lua"),
            Self::Release => include_str!("lua/release.lua"),
            Self::Come => include_str!("lua/come.lua"),
            Self::Quit => include_str!("lua/quit.lua"),
            Self::Present => include_str!("lua/present.lua"),
            Self::Sweep => include_str!("lua/sweep.lua"),
            Self::Ask => include_str!("lua/ask.lua"),
        };
        let common = include_str!("lua/common.lua");
        let Verbs {
            publish, numsub, ..
        } = verbs;
        format!("local publish, numsub = '{publish}', '{numsub}'\n{common}{own}")
    }
}

/// Appends a call of a script that Redis knows by its digest.
pub(crate) fn call(out: &mut Vec<u8>, digest: &str, keys: &[&str], args: &[&[u8]]) {
    let count = keys.len().to_string();
    let head = [b"EVALSHA".as_slice(), digest.as_bytes(), count.as_bytes()];
    let keys = keys.iter().map(|key| key.as_bytes());
    let parts = head.into_iter().chain(keys).chain(args.iter().copied());
    command(out, &parts.collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_command() {
        let mut out = Vec::new();
        call(&mut out, "abc", &["k"], &[b"1"]);
        assert_eq!(
            out,
            b"*5\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\n1\r\n"
        );
    }
}
