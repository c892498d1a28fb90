//! The Protobuf form of the client protocol.
//!
//! Owns: framing, the encoding of what the server says, the decoding of what a client says.
//! Written by hand, because requests borrow from their frame and one publication is encoded
//! straight into the frame that all subscribers share.
//!
//! Facts come from the protocol's public schema (`client.proto`) and from "Encoding" in Protobuf's
//! documentation. Every message, also a single one, stands behind its length; several share a
//! frame. The server's ping, and the answer to it, is an empty message: one byte `00`.
//!
//! Invariants
//! - A length is compared with what has arrived; nothing is reserved for it.
//! - Fields that hold their default are left out; fields that are not known are passed over.

use throng_types::{Epoch, Payload};

use crate::code::{Malformed, utf8};
use crate::form::{Form, Key};
use crate::json::each_tag;
use crate::strict::Nothing;

/// The server's ping, and the client's answer to it.
pub(crate) const PING: &[u8] = &[0];

/// A message that is read field by field; what it does not know it passes over.
pub(crate) trait Message<'a>: Default {
    fn field(&mut self, number: u64, value: Value<'a>) -> Result<(), Malformed>;
}

pub(crate) fn read<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, Malformed> {
    let mut message = M::default();
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        message.field(number, value)?;
    }
    Ok(message)
}

impl Message<'_> for Nothing {
    fn field(&mut self, _: u64, _: Value<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// A field's value out of Protobuf.
pub(crate) trait FromProtobuf<'de> {
    /// Replaces the value, or adds to a list.
    fn merge(&mut self, value: Value<'de>) -> Result<(), Malformed>;
}

/// A field's value, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A number or a truth value.
    Varint(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes; no field that is known has them.
    Fixed,
}

impl<'a> Value<'a> {
    pub(crate) const fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(Malformed::NotProtobuf),
        }
    }

    pub(crate) const fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::NotProtobuf),
        }
    }

    pub(crate) fn text(self) -> Result<&'a str, Malformed> {
        utf8(self.bytes()?)
    }
}

pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field and its number; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        // Field numbers have at most 29 bits, and the wire type has three.
        let key = varint(&mut self.0)?;
        if key > u64::from(u32::MAX) {
            return Err(Malformed::NotProtobuf);
        }
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut self.0)?),
            2 => Value::Bytes(delimited(&mut self.0)?),
            1 => skip(&mut self.0, 8)?,
            5 => skip(&mut self.0, 4)?,
            // 3 and 4 are groups, which the schema does not have; 6 and 7 mean nothing.
            _ => return Err(Malformed::NotProtobuf),
        };
        match key >> 3 {
            0 => Err(Malformed::NotProtobuf),
            number => Ok(Some((number, value))),
        }
    }
}

fn skip<'a>(rest: &mut &'a [u8], count: usize) -> Result<Value<'a>, Malformed> {
    take(rest, count).map(|_| Value::Fixed)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (taken, left) = rest.split_at_checked(count).ok_or(Malformed::NotProtobuf)?;
    *rest = left;
    Ok(taken)
}

/// Bytes behind their length.
pub(crate) fn delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = varint(rest)?;
    take(
        rest,
        usize::try_from(length).map_err(|_| Malformed::NotProtobuf)?,
    )
}

/// A number of up to 64 bits, seven to a byte, the lowest first.
fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        // The tenth byte has room for the highest bit alone.
        if at == 9 && byte > 1 {
            break;
        }
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *rest = &rest[at + 1..];
            return Ok(number);
        }
    }
    Err(Malformed::NotProtobuf)
}

/// Appends a number, seven bits to a byte, the lowest first.
fn append_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A message under construction.
pub(crate) struct Protobuf<'a>(&'a mut Vec<u8>);

impl<'a> Protobuf<'a> {
    /// Appends a message behind its length.
    pub(crate) fn append(out: &'a mut Vec<u8>, write: impl FnOnce(&mut Self)) {
        Self(out).delimited(write);
    }

    /// Appends to a message without a length.
    pub(crate) fn bare(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    fn key(&mut self, field: u32, wire_type: u8) {
        append_varint(u64::from(field) << 3 | u64::from(wire_type), self.0);
    }

    /// Writes bytes or text, unless they are empty.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.key(field, 2);
            append_varint(bytes.len() as u64, self.0);
            self.0.extend_from_slice(bytes);
        }
    }

    /// Writes an entry of a map.
    fn entry(&mut self, field: u32, name: &str, write: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        self.delimited(|entry| {
            entry.bytes(1, name.as_bytes());
            write(entry);
        });
    }

    /// Puts the length of it in front of whatever `write` appends.
    fn delimited(&mut self, write: impl FnOnce(&mut Self)) {
        // Most messages are short: one byte is left for the length, and more is made if need be.
        let at = self.0.len();
        self.0.push(0);
        write(self);
        let out = &mut *self.0;
        let length = out.len() - at - 1;
        let (mut rest, mut prefix, mut more) = (length, [0; 10], 0);
        while rest >= 0x80 {
            prefix[more] = rest as u8 | 0x80;
            rest >>= 7;
            more += 1;
        }
        prefix[more] = rest as u8;
        if more > 0 {
            out.extend_from_slice(&prefix[..more]);
            out.copy_within(at + 1..at + 1 + length, at + 1 + more);
        }
        out[at..=at + more].copy_from_slice(&prefix[..=more]);
    }
}

impl Form for Protobuf<'_> {
    fn number(&mut self, (_, field): Key, number: u64) {
        if number != 0 {
            self.key(field, 0);
            append_varint(number, self.0);
        }
    }

    fn flag_if_set(&mut self, key: Key, flag: bool) {
        self.number(key, flag.into());
    }

    fn flag(&mut self, key: Key, flag: bool) {
        self.flag_if_set(key, flag);
    }

    fn text(&mut self, (_, field): Key, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn texts(&mut self, key: Key, texts: &[&str]) {
        for text in texts {
            self.text(key, text);
        }
    }

    fn json_if_any(&mut self, key: Key, json: Option<&str>) {
        self.text(key, json.unwrap_or_default());
    }

    fn data(&mut self, (_, field): Key, payload: &Payload) {
        self.bytes(field, &payload.bytes);
    }

    fn delta(&mut self, (_, field): Key, payload: &Payload, patch: Option<&[u8]>) {
        self.bytes(field, patch.unwrap_or(&payload.bytes));
    }

    fn tags(&mut self, (_, field): Key, tags: &str) {
        each_tag(tags, |name, value| {
            self.entry(field, &name, |entry| entry.bytes(2, value.as_bytes()));
        });
    }

    fn epoch(&mut self, key: Key, epoch: Epoch) {
        self.text(key, &epoch.to_string());
    }

    fn message(&mut self, (_, field): Key, write: impl FnOnce(&mut Self)) {
        self.key(field, 2);
        self.delimited(write);
    }

    fn list<T>(&mut self, key: Key, items: &[T], write: impl Fn(&T, &mut Self)) {
        for item in items {
            self.message(key, |form| write(item, form));
        }
    }

    fn map<'t, T>(
        &mut self,
        (_, field): Key,
        entries: impl Iterator<Item = (&'t str, T)>,
        write: impl Fn(T, &mut Self),
    ) {
        for (name, item) in entries {
            self.entry(field, name, |entry| {
                entry.message(("value", 2), |form| write(item, form));
            });
        }
    }
}
