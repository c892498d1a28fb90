//! One message of a channel on NATS, as bytes.
//!
//! Form `0` is a time and items that are not kept. Form `1` is a state, and the items that led to
//! it: the newest message of a channel says where its stream stands. Numbers are LEB128, epochs
//! have eight bytes, high first. A node that does not know a form takes it for a gap.
//!
//! Not `throng_types::Save`, for the reason that [`throng_remote::blob`] gives.

use std::sync::Arc;

use throng_remote::blob;
use throng_types::{ChannelName, Epoch, Position, Publication, PublicationKind, SpanContext};

/// Messages before it whose sequences a message knows.
pub(crate) const BEFORE_MAX: usize = 16;
/// Epochs before it that a stream knows.
pub(crate) const FORMERS_MAX: usize = 8;
/// Items of a message whose traces other nodes are told.
const TRACES_MAX: usize = 8;
/// Items that one message may have.
pub(crate) const ITEMS_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) epoch: Epoch,
    pub(crate) offset: u64,
    /// Server process that stored it; see the head of the crate.
    pub(crate) server: u64,
    /// The epochs before, newest first, and up to which offset each has the same publications.
    /// Bound: [`FORMERS_MAX`].
    pub(crate) formers: Vec<Position>,
    /// Time of the message, never before that of the one before it, in Unix milliseconds.
    pub(crate) time_ms: u64,
    /// Publications up to this offset are forgotten.
    pub(crate) forgotten: u64,
    /// The newest version, and the epoch of versions.
    pub(crate) version: Option<(u64, Box<str>)>,
    /// The sequences of the messages before it, newest first: up to [`BEFORE_MAX`].
    pub(crate) before: Vec<u64>,
}

impl State {
    pub(crate) const fn position(&self) -> Position {
        Position {
            epoch: self.epoch,
            offset: self.offset,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kept,
    Passing,
    Joined,
    Left,
}

/// A part of a message, in the form of [`throng_remote::blob`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) body: Box<[u8]>,
    /// Trace of the publication, which is in a header of the message.
    pub(crate) trace: Option<Box<SpanContext>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// `None` in those that are not kept.
    pub(crate) state: Option<State>,
    pub(crate) time_ms: u64,
    /// Publications and news of members. Bound: [`ITEMS_MAX`].
    pub(crate) items: Vec<Item>,
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn fixed(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*bytes))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bodies: usize = self.items.iter().map(|item| item.body.len() + 4).sum();
        let mut out = Vec::with_capacity(bodies + 96);
        out.push(if self.state.is_some() { b'1' } else { b'0' });
        put(&mut out, self.time_ms);
        if let Some(state) = &self.state {
            out.extend_from_slice(&state.epoch.0.to_be_bytes());
            put(&mut out, state.offset);
            out.extend_from_slice(&state.server.to_be_bytes());
            put(&mut out, state.forgotten);
            let (newest, older) = match state.formers.split_first() {
                Some((newest, older)) => (Some(newest), older),
                None => (None, &[][..]),
            };
            let bits = [newest.is_some(), state.version.is_some(), !older.is_empty()];
            let there = bits.iter().enumerate();
            put(
                &mut out,
                there.fold(0, |sum, (n, is_there)| sum | u64::from(*is_there) << n),
            );
            let count = (!older.is_empty()).then_some(older.len() as u64);
            let put_former = |out: &mut Vec<u8>, former: &Position| {
                out.extend_from_slice(&former.epoch.0.to_be_bytes());
                put(out, former.offset);
            };
            newest.into_iter().for_each(|it| put_former(&mut out, it));
            count.into_iter().for_each(|count| put(&mut out, count));
            older.iter().for_each(|it| put_former(&mut out, it));
            if let Some((number, epoch)) = &state.version {
                put(&mut out, *number);
                put_bytes(&mut out, epoch.as_bytes());
            }
            put(&mut out, state.before.len() as u64);
            let mut later = 0;
            for (n, &seq) in state.before.iter().enumerate() {
                put(&mut out, if n == 0 { seq } else { later - seq });
                later = seq;
            }
        }
        for item in &self.items {
            out.push(match item.kind {
                Kind::Kept => b'k',
                Kind::Passing => b'p',
                Kind::Joined => b'j',
                Kind::Left => b'l',
            });
            put_bytes(&mut out, &item.body);
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (&form, rest) = bytes.split_first()?;
        let mut rest = Rest(rest);
        let time_ms = rest.number()?;
        let state = match form {
            b'0' => None,
            b'1' => Some(state(&mut rest, time_ms)?),
            _ => return None,
        };
        let mut items = Vec::new();
        while let Some((&kind, after)) = rest.0.split_first() {
            rest.0 = after;
            let kind = match kind {
                b'k' if state.is_some() => Kind::Kept,
                b'p' => Kind::Passing,
                b'j' => Kind::Joined,
                b'l' => Kind::Left,
                _ => return None,
            };
            let body = rest.bytes()?.into();
            if items.len() == ITEMS_MAX {
                return None;
            }
            let trace = None;
            items.push(Item { kind, body, trace });
        }
        let record = Self {
            state,
            time_ms,
            items,
        };
        let fits = { record.state.as_ref() }.is_none_or(|state| state.offset >= record.kept());
        fits.then_some(record)
    }

    /// Writes the traces of its items, each behind the item's place, with blanks between; none if
    /// no item is traced.
    pub(crate) fn traces(&self) -> Option<String> {
        let items = self.items.iter().enumerate();
        let traced = items.filter_map(|(n, item)| Some(format!("{n}={}", item.trace.as_ref()?)));
        let traced: Vec<String> = traced.take(TRACES_MAX).collect();
        (!traced.is_empty()).then(|| traced.join(" "))
    }

    /// Takes what [`Self::traces`] has written, as far as it can be read.
    pub(crate) fn trace(&mut self, traces: &str) {
        for one in traces.split(' ') {
            if let Some((n, trace)) = one.split_once('=')
                && let Some(item) = n.parse().ok().and_then(|n: usize| self.items.get_mut(n))
            {
                item.trace = SpanContext::sampled(trace).map(Box::new);
            }
        }
    }

    /// Number of its items that have offsets. They are the newest up to the state's.
    pub(crate) fn kept(&self) -> u64 {
        let kept = self.items.iter().filter(|item| item.kind == Kind::Kept);
        kept.count() as u64
    }

    /// Returns its items as publications of a channel, oldest first, in the epoch of today; nothing
    /// if one cannot be read.
    pub(crate) fn publications(
        &self,
        channel: &ChannelName,
        epoch: Option<Epoch>,
    ) -> Option<Vec<Arc<Publication>>> {
        let kept = self.kept();
        let mut next = self.state.as_ref().map(|state| Position {
            offset: state.offset - kept,
            epoch: epoch.unwrap_or(state.epoch),
        });
        let mut publications = Vec::with_capacity(self.items.len());
        for item in &self.items {
            let blob = blob::decode(&item.body)?;
            let position = match (&mut next, item.kind) {
                (Some(next), Kind::Kept) => {
                    next.offset += 1;
                    Some(*next)
                }
                _ => None,
            };
            let publication = Publication {
                channel: channel.clone(),
                told: match item.kind {
                    Kind::Kept | Kind::Passing => PublicationKind::Data,
                    Kind::Joined => PublicationKind::Joined,
                    Kind::Left => PublicationKind::Left,
                },
                position,
                payload: blob.payload,
                publisher: blob.publisher,
                tags: blob.tags,
                time_unix_ms: self.time_ms,
                trace: item.trace.clone(),
            };
            publications.push(publication.shared());
        }
        Some(publications)
    }
}

fn state(rest: &mut Rest<'_>, time_ms: u64) -> Option<State> {
    let epoch = Epoch(rest.fixed()?);
    let offset = rest.number()?;
    let server = rest.fixed()?;
    let forgotten = rest.number()?;
    let there = rest.number()?;
    let former = |rest: &mut Rest<'_>| {
        Some(Position {
            epoch: Epoch(rest.fixed()?),
            offset: rest.number()?,
        })
    };
    let mut formers = Vec::new();
    if there & 1 != 0 {
        formers.push(former(rest)?);
    }
    if there & 4 != 0 {
        let count = usize::try_from(rest.number()?).ok()?;
        if formers.len() + count > FORMERS_MAX {
            return None;
        }
        for _ in 0..count {
            formers.push(former(rest)?);
        }
    }
    let mut version = None;
    if there & 2 != 0 {
        let number = rest.number()?;
        version = Some((number, std::str::from_utf8(rest.bytes()?).ok()?.into()));
    }
    let count = usize::try_from(rest.number()?).ok()?;
    if count > BEFORE_MAX {
        return None;
    }
    let mut before: Vec<u64> = Vec::with_capacity(count);
    for _ in 0..count {
        let number = rest.number()?;
        before.push(match before.last() {
            None => number,
            Some(later) => later.checked_sub(number)?,
        });
    }
    Some(State {
        epoch,
        offset,
        server,
        formers,
        time_ms,
        forgotten,
        version,
        before,
    })
}

#[cfg(test)]
mod tests {
    use throng_types::{Payload, PayloadKind};

    use super::*;

    const TRACE: &str = "00-0000000000000000000000000000000a-000000000000000b-01";

    fn body(text: &str) -> Box<[u8]> {
        let payload = Payload {
            bytes: text.as_bytes().into(),
            kind: PayloadKind::Text,
        };
        let mut out = Vec::new();
        blob::encode(&payload, None, None, &mut out);
        out.into()
    }

    fn record(has_state: bool, has_more: bool, formers: usize) -> Record {
        let former = |n: usize| Position {
            epoch: Epoch(7 + n as u64),
            offset: 300 - n as u64,
        };
        let state = State {
            epoch: Epoch(u64::MAX / 3),
            offset: 1000,
            server: 5,
            formers: (0..formers).map(former).collect(),
            time_ms: 1_700_000_000_000,
            forgotten: 2,
            version: has_more.then(|| (9, "v".into())),
            before: if has_more {
                vec![900, 899, 10]
            } else {
                Vec::new()
            },
        };
        let item = |kind, text| Item {
            kind,
            body: body(text),
            trace: None,
        };
        let mut items = vec![item(Kind::Passing, "p"), item(Kind::Joined, "")];
        if has_state {
            items.extend([item(Kind::Kept, "a"), item(Kind::Kept, "b")]);
        }
        Record {
            state: has_state.then_some(state),
            time_ms: 1_700_000_000_000,
            items,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for (has_state, has_more, formers) in [
            (false, false, 0),
            (true, false, 0),
            (true, true, 0),
            (true, true, 1),
            (true, false, FORMERS_MAX),
        ] {
            let record = record(has_state, has_more, formers);
            let bytes = record.encode();
            assert_eq!(Record::decode(&bytes).as_ref(), Some(&record));
            for end in 0..bytes.len() {
                assert_ne!(
                    Record::decode(&bytes[..end]).as_ref(),
                    Some(&record),
                    "{end}"
                );
            }
            let channel = ChannelName::new("c").unwrap();
            let offsets = record.publications(&channel, None).expect("all of them");
            let offsets = offsets.iter().map(|it| it.position.map(|at| at.offset));
            let offsets: Vec<_> = offsets.flatten().collect();
            assert_eq!(offsets, if has_state { vec![999, 1000] } else { vec![] });
        }
    }

    /// Traces stand beside the message, whose bytes do not differ: so nodes of older versions read
    /// them.
    #[test]
    fn traces_are_told_beside_the_items() {
        let plain = record(true, false, 0);
        let mut traced = plain.clone();
        assert_eq!(traced.traces(), None);
        traced.items.truncate(2);
        traced.items.resize(TRACES_MAX + 3, traced.items[0].clone());
        let bytes = traced.encode();
        for item in &mut traced.items[1..] {
            item.trace = SpanContext::sampled(TRACE).map(Box::new);
        }
        assert_eq!(traced.encode(), bytes);
        let traces = traced.traces().expect("they are sampled");
        assert!(traces.len() < 500 && traces.starts_with(&format!("1={TRACE} 2={TRACE} ")));
        let mut read = Record::decode(&bytes).expect("a message");
        read.trace(&traces);
        for (n, item) in read.items.iter().enumerate() {
            let is_told = (1..=TRACES_MAX).contains(&n);
            assert_eq!(item.trace.is_some(), is_told, "{n}");
        }
        let mut read = plain.clone();
        for strange in [
            "",
            "=",
            "0=",
            &format!("9={TRACE}"),
            &format!("-1={TRACE} x"),
        ] {
            read.trace(strange);
        }
        assert_eq!(read, plain);
    }

    #[test]
    fn other_forms_are_not_read() {
        let many = record(true, true, FORMERS_MAX + 1).encode();
        assert_eq!(Record::decode(&many), None);
        for wrong in [
            &b""[..],
            b"2",
            b"0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"0\0k\0",
            b"0\0x\0",
            b"0\0p\x05a",
            b"1\0",
        ] {
            assert_eq!(Record::decode(wrong), None, "{wrong:?}");
        }
    }
}
