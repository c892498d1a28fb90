//! A publication's fixed parts as bytes, in history and on their way between nodes.
//!
//! Form 1: the byte `1`; the payload's kind (`j`, `t`, `b`); what is there (bit 0 publisher, bit 1
//! tags, bit 2 `conn_info`, bit 3 `chan_info`); then client, user, `conn_info`, `chan_info` and
//! tags as far as they are there, each behind its length in four bytes, high first; then the data.
//! A node that does not know a form drops what has it, and counts a gap.
//!
//! Not `throng_types::Save`, as other internal bytes: brokers keep history in this form, and nodes
//! of several versions read it while they are upgraded one after the other.

use throng_types::{Payload, PayloadKind, Publisher};

const FORM: u8 = b'1';
const PUBLISHER: u8 = 1;
const TAGS: u8 = 2;
const CONN_INFO: u8 = 4;
const CHAN_INFO: u8 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    pub payload: Payload,
    /// Publisher, if a connection published it.
    pub publisher: Option<Box<Publisher>>,
    pub tags: Option<Box<str>>,
}

/// A member, as a publication without data.
#[must_use]
pub fn of_somebody(who: &Publisher) -> Vec<u8> {
    let payload = Payload {
        bytes: (&[][..]).into(),
        kind: PayloadKind::Text,
    };
    let mut out = Vec::new();
    encode(&payload, Some(who), None, &mut out);
    out
}

pub fn encode(
    payload: &Payload,
    publisher: Option<&Publisher>,
    tags: Option<&str>,
    out: &mut Vec<u8>,
) {
    let conn_info = publisher.and_then(|who| who.conn_info.as_deref());
    let chan_info = publisher.and_then(|who| who.chan_info.as_deref());
    let bit = |is_there: bool, bit: u8| if is_there { bit } else { 0 };
    let there = bit(publisher.is_some(), PUBLISHER)
        | bit(tags.is_some(), TAGS)
        | bit(conn_info.is_some(), CONN_INFO)
        | bit(chan_info.is_some(), CHAN_INFO);
    let kind = match payload.kind {
        PayloadKind::Json => b'j',
        PayloadKind::Text => b't',
        PayloadKind::Binary => b'b',
    };
    out.extend_from_slice(&[FORM, kind, there]);
    let names = publisher.map(|who| [&*who.client, &*who.user]);
    let texts = names.into_iter().flatten().chain(conn_info);
    for text in texts.chain(chan_info).chain(tags) {
        out.extend_from_slice(&(text.len() as u32).to_be_bytes());
        out.extend_from_slice(text.as_bytes());
    }
    out.extend_from_slice(&payload.bytes);
}

#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Blob> {
    let (&[form, kind, there], mut rest) = bytes.split_first_chunk::<3>()?;
    if form != FORM {
        return None;
    }
    let kind = match kind {
        b'j' => PayloadKind::Json,
        b't' => PayloadKind::Text,
        b'b' => PayloadKind::Binary,
        _ => return None,
    };
    let publisher = if there & PUBLISHER == 0 {
        None
    } else {
        Some(Box::new(Publisher {
            client: text(&mut rest)?,
            user: text(&mut rest)?,
            conn_info: optional(there & CONN_INFO, &mut rest)?,
            chan_info: optional(there & CHAN_INFO, &mut rest)?,
        }))
    };
    let tags = optional(there & TAGS, &mut rest)?;
    if kind != PayloadKind::Binary && std::str::from_utf8(rest).is_err() {
        return None;
    }
    Some(Blob {
        payload: Payload {
            bytes: rest.into(),
            kind,
        },
        publisher,
        tags,
    })
}

fn text(rest: &mut &[u8]) -> Option<Box<str>> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let length = u32::from_be_bytes(*length) as usize;
    let (text, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(std::str::from_utf8(text).ok()?.into())
}

/// A text, if its bit is set; nothing at all if it cannot be read.
fn optional(bit: u8, rest: &mut &[u8]) -> Option<Option<Box<str>>> {
    if bit == 0 {
        return Some(None);
    }
    text(rest).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(kind: PayloadKind, data: &[u8], publisher: Option<Publisher>, tags: bool) -> Blob {
        Blob {
            payload: Payload {
                bytes: data.into(),
                kind,
            },
            publisher: publisher.map(Box::new),
            tags: tags.then(|| "{\"a\":\"b\"}".into()),
        }
    }

    #[test]
    fn what_is_written_is_read_and_no_part_of_it() {
        let who = Publisher {
            client: "c".into(),
            user: "ünï".into(),
            conn_info: Some("{}".into()),
            chan_info: None,
        };
        let full = Publisher {
            chan_info: Some("[1]".into()),
            ..who.clone()
        };
        for publisher in [None, Some(Publisher::default()), Some(who), Some(full)] {
            for kind in [PayloadKind::Json, PayloadKind::Text, PayloadKind::Binary] {
                for tags in [false, true] {
                    let blob = blob(kind, b"{}", publisher.clone(), tags);
                    let mut bytes = Vec::new();
                    let (who, tags) = (blob.publisher.as_deref(), blob.tags.as_deref());
                    encode(&blob.payload, who, tags, &mut bytes);
                    assert_eq!(decode(&bytes), Some(blob));
                    for end in 0..bytes.len() - 2 {
                        assert_eq!(decode(&bytes[..end]), None, "{end}");
                    }
                }
            }
        }
    }

    #[test]
    fn other_forms_are_not_read() {
        for wrong in [
            &b"2t\0x"[..],
            b"1x\0x",
            b"1t\0\xff",
            b"1t\x01\xff\xff\xff\xffx",
            b"1t\x02\0\0\0\x01\xff",
        ] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
        assert!(decode(b"1b\0\xff").is_some());
    }
}
