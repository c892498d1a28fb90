//! Fields out of bytes.

use std::borrow::Cow;

use crate::malformed::Malformed;

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

/// The fields of one message.
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
