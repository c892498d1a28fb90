//! What a value of Redis holds; `None` where it is of another kind.

use redis::Value;

/// The bytes of a text, of either kind.
#[must_use]
pub fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}

/// A text that is UTF-8.
#[must_use]
pub fn text(value: &Value) -> Option<&str> {
    std::str::from_utf8(bytes(value)?).ok()
}

/// A whole number, as itself or in digits.
#[must_use]
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => text(value)?.parse().ok(),
    }
}

/// The values of an array or a set.
#[must_use]
pub fn list(value: &Value) -> Option<&[Value]> {
    match value {
        Value::Array(values) | Value::Set(values) => Some(values),
        _ => None,
    }
}
