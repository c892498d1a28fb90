//! Fields out of bytes and into bytes. Each writer takes the field's number first.

use std::borrow::Cow;

use crate::code::Malformed;

/// A field's value, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number or a truth value.
    Varint(u64),
    /// Text, bytes or a message.
    Bytes(&'a [u8]),
    /// Eight or four bytes; no field that is known has them.
    Fixed,
}

impl<'a> Value<'a> {
    pub(super) const fn number(self) -> Result<u64, Malformed> {
        match self {
            Self::Varint(number) => Ok(number),
            _ => Err(Malformed::NotProtobuf),
        }
    }

    /// A number of 32 bits: the upper half is cut off, as every reader does.
    pub(super) fn int32(self) -> Result<i32, Malformed> {
        self.number().map(|number| number as i32)
    }

    pub(super) fn int64(self) -> Result<i64, Malformed> {
        self.number().map(|number| number as i64)
    }

    pub(super) fn flag(self) -> Result<bool, Malformed> {
        self.number().map(|number| number != 0)
    }

    pub(super) const fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(Malformed::NotProtobuf),
        }
    }

    pub(super) fn text(self) -> Result<Cow<'a, str>, Malformed> {
        let text = std::str::from_utf8(self.bytes()?).map_err(|_| Malformed::NotUtf8)?;
        Ok(Cow::Borrowed(text))
    }
}

pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next field and its number; nothing at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, Malformed> {
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
pub(super) fn delimited<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let length = varint(rest)?;
    take(
        rest,
        usize::try_from(length).map_err(|_| Malformed::NotProtobuf)?,
    )
}

/// A number of up to 64 bits, seven to a byte, the lowest first.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, Malformed> {
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
pub(super) fn append_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn key(field: u32, wire_type: u8, out: &mut Vec<u8>) {
    append_varint(u64::from(field) << 3 | u64::from(wire_type), out);
}

/// A number, unless it is zero.
pub(super) fn number(field: u32, number: u64, out: &mut Vec<u8>) {
    if number != 0 {
        key(field, 0, out);
        append_varint(number, out);
    }
}

/// A truth value, unless it is false.
pub(super) fn flag(field: u32, flag: bool, out: &mut Vec<u8>) {
    number(field, flag.into(), out);
}

/// Bytes or text, unless they are empty.
pub(super) fn bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        key(field, 2, out);
        append_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

/// A message, also an empty one.
pub(super) fn message(field: u32, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    key(field, 2, out);
    append_delimited(out, write);
}

/// Puts the length of it in front of whatever `write` appends.
pub(super) fn append_delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    // Most messages are short: one byte is left for the length, and more is made if need be.
    let at = out.len();
    out.push(0);
    write(out);
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
