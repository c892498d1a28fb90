//! Tnetstrings: the coding of publishers over ZeroMQ, and of the command socket.
//!
//! `SIZE:DATA` and a type: `,` bytes, `#` whole number, `^` float, `!` bool, `~` null,
//! `]` list, `}` object with bytes as keys. Owns: the coding. Never: knows what it carries.

use crate::value::Value;

/// The deepest nesting that is read; an item needs five levels.
pub const DEPTH_MAX: usize = 32;
/// Nesting that is read of the server's own items: one may have come as JSON, which may nest 128
/// levels deep, and is wrapped once more.
pub(crate) const OWN_DEPTH_MAX: usize = 160;

/// Why bytes are not a tnetstring. All of them are the sender's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TnetError {
    #[error("tnetstring has no size")]
    NoSize,
    #[error("tnetstring is longer than what holds it")]
    TooLong,
    #[error("tnetstring has an unknown type")]
    UnknownType,
    #[error("tnetstring has data that does not fit its type")]
    BadData,
    #[error("tnetstring object has a key that is not a string")]
    BadKey,
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("tnetstring is nested too deep")]
    TooDeep,
}

/// Reads the first tnetstring of a whole message and says how many bytes it has.
/// Bytes behind it are the caller's affair.
pub fn decode(input: &[u8]) -> Result<(Value, usize), TnetError> {
    decode_nested(input, DEPTH_MAX)
}

/// Reads with a bound of the caller's own on the nesting.
pub(crate) fn decode_nested(input: &[u8], depth_max: usize) -> Result<(Value, usize), TnetError> {
    let (value, rest) = element(input, depth_max)?;
    Ok((value, input.len() - rest.len()))
}

/// Appends a value. Text is written as bytes.
pub fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"0:~"),
        Value::Bool(true) => out.extend_from_slice(b"4:true!"),
        Value::Bool(false) => out.extend_from_slice(b"5:false!"),
        Value::Int(number) => sized(itoa::Buffer::new().format(*number).as_bytes(), b'#', out),
        Value::Float(number) => sized(number.to_string().as_bytes(), b'^', out),
        Value::Text(text) => sized(text.as_bytes(), b',', out),
        Value::Bytes(bytes) => sized(bytes, b',', out),
        Value::List(list) => {
            let mut inner = Vec::new();
            for value in list {
                encode(value, &mut inner);
            }
            sized(&inner, b']', out);
        }
        Value::Object(entries) => {
            let mut inner = Vec::new();
            for (name, value) in entries {
                sized(name.as_bytes(), b',', &mut inner);
                encode(value, &mut inner);
            }
            sized(&inner, b'}', out);
        }
    }
}

fn sized(data: &[u8], kind: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(data.len()).as_bytes());
    out.push(b':');
    out.extend_from_slice(data);
    out.push(kind);
}

/// Splits off one element: its data, its type and what follows.
fn frame(input: &[u8]) -> Result<(&[u8], u8, &[u8]), TnetError> {
    let colon = input
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .filter(|&at| at > 0 && input.get(at) == Some(&b':'))
        .ok_or(TnetError::NoSize)?;
    // More digits than any message has bytes is a lie, and would overflow.
    let size = str::from_utf8(&input[..colon])
        .ok()
        .and_then(|digits| digits.parse::<u32>().ok())
        .ok_or(TnetError::TooLong)? as usize;
    let body = &input[colon + 1..];
    let (Some(data), Some(&kind)) = (body.get(..size), body.get(size)) else {
        return Err(TnetError::TooLong);
    };
    Ok((data, kind, &body[size + 1..]))
}

/// One element with at most so many levels inside it.
fn element(input: &[u8], depth_max: usize) -> Result<(Value, &[u8]), TnetError> {
    let inside = || depth_max.checked_sub(1).ok_or(TnetError::TooDeep);
    let (data, kind, rest) = frame(input)?;
    let value = match kind {
        b',' => Value::Bytes(data.to_vec()),
        b'#' => Value::Int(number(data)?),
        b'^' => Value::Float(number(data)?),
        b'!' => match data {
            b"true" => Value::Bool(true),
            b"false" => Value::Bool(false),
            _ => return Err(TnetError::BadData),
        },
        b'~' => Value::Null,
        b']' => {
            let mut list = Vec::new();
            let mut inner = data;
            while !inner.is_empty() {
                let (value, after) = element(inner, inside()?)?;
                list.push(value);
                inner = after;
            }
            Value::List(list)
        }
        b'}' => {
            let mut entries = Vec::new();
            let mut inner = data;
            while !inner.is_empty() {
                let (key, b',', after) = frame(inner)? else {
                    return Err(TnetError::BadKey);
                };
                let (value, after) = element(after, inside()?)?;
                entries.push((crate::headers::text(key), value));
                inner = after;
            }
            Value::Object(entries)
        }
        _ => return Err(TnetError::UnknownType),
    };
    Ok((value, rest))
}

fn number<T: std::str::FromStr>(data: &[u8]) -> Result<T, TnetError> {
    str::from_utf8(data)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(TnetError::BadData)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::tests::any_value;

    #[track_caller]
    fn check(wire: &[u8], expect: Result<Value, TnetError>) {
        let found = decode(wire).map(|(value, used)| {
            assert_eq!(used, wire.len());
            value
        });
        assert_eq!(found, expect, "{}", wire.escape_ascii());
        if let Ok(value) = expect {
            let mut out = Vec::new();
            encode(&value, &mut out);
            assert_eq!(out, wire);
            // A message that was cut is refused at every cut: it never reads as another one.
            for cut in 0..wire.len() {
                assert!(decode(&wire[..cut]).is_err(), "cut at {cut}");
            }
        }
    }

    #[test]
    fn values() {
        check(b"0:~", Ok(Value::Null));
        check(b"4:true!", Ok(Value::Bool(true)));
        check(b"5:false!", Ok(Value::Bool(false)));
        check(b"3:-42#", Ok(Value::Int(-42)));
        check(b"3:1.5^", Ok(Value::Float(1.5)));
        check(b"0:,", Ok(Value::Bytes(vec![])));
        check(b"0:]", Ok(Value::List(vec![])));
        check(b"0:}", Ok(Value::Object(vec![])));
        // What pubcontrol asks on the command socket.
        check(
            b"25:6:method,12:get-zmq-uris,}",
            Ok(Value::Object(vec![(
                "method".into(),
                Value::Bytes(b"get-zmq-uris".to_vec()),
            )])),
        );
        check(
            b"8:1:1#1:a,]",
            Ok(Value::List(vec![
                Value::Int(1),
                Value::Bytes(b"a".to_vec()),
            ])),
        );
    }

    #[test]
    fn faults() {
        for (wire, fault) in [
            (&b""[..], TnetError::NoSize),
            (b":,", TnetError::NoSize),
            (b"x:,", TnetError::NoSize),
            (b"-1:,", TnetError::NoSize),
            (b"5:abc,", TnetError::TooLong),
            (b"99999999999999999999:a,", TnetError::TooLong),
            (b"4294967295:a,", TnetError::TooLong),
            (b"1:a?", TnetError::UnknownType),
            (b"1:a#", TnetError::BadData),
            (b"2:no!", TnetError::BadData),
            (b"8:1:1#1:1#}", TnetError::BadKey),
            (b"4:9:a,]", TnetError::TooLong),
        ] {
            assert_eq!(
                decode(wire).map(|_| ()),
                Err(fault),
                "{}",
                wire.escape_ascii()
            );
        }
        let mut deep = b"0:]".to_vec();
        for _ in 0..=DEPTH_MAX {
            deep = format!("{}:{}]", deep.len(), str::from_utf8(&deep).unwrap()).into_bytes();
        }
        assert_eq!(decode(&deep), Err(TnetError::TooDeep));
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in any_value()) {
            let mut wire = Vec::new();
            encode(&value, &mut wire);
            prop_assert_eq!(decode(&wire), Ok((value, wire.len())));
        }

        #[test]
        fn nothing_panics(bytes in "[0-9:,#^!~\\]}a-c]{0,40}") {
            let _ = decode(bytes.as_bytes());
        }
    }
}
