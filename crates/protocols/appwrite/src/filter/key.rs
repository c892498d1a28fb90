//! Keys by which filters are found instead of tried: one attribute and one value of `equal`.
//!
//! An outermost `equal` on plain values holds only if the payload has exactly one of them, so a
//! subscription with such a query need not be looked at for any other payload.

use serde_json::{Map, Value};

use super::Filter;
use super::condition::{Condition, Operator};

/// More values than this are tried rather than found.
const VALUES_MAX: usize = 16;
/// Longer attributes and values are tried rather than found, so that keys stay small.
const TEXT_BYTES_MAX: usize = 256;

impl Filter {
    /// Calls `each` with every key of the filter, one of which a wanted payload has; false if it
    /// has none and must be tried.
    pub(crate) fn keys(&self, channel: &str, mut each: impl FnMut(&str)) -> bool {
        let conditions = self.0.as_ref().map_or(&[][..], |inner| &inner.conditions);
        let Some((attribute, values)) = conditions.iter().find_map(keyed) else {
            return false;
        };
        let mut key = String::new();
        for value in values {
            if write_key(channel, attribute, value, &mut key) {
                each(&key);
            }
        }
        true
    }
}

/// Calls `each` with every key under which a payload may be wanted on a channel.
pub(crate) fn payload_keys(
    channel: &str,
    payload: &Map<String, Value>,
    key: &mut String,
    mut each: impl FnMut(&str),
) {
    for (attribute, value) in payload {
        if attribute.len() <= TEXT_BYTES_MAX && write_key(channel, attribute, value, key) {
            each(key);
        }
    }
}

fn keyed(condition: &Condition) -> Option<(&str, &[Value])> {
    let Condition::Compare {
        attribute,
        operator: Operator::Equal,
        values,
    } = condition
    else {
        return None;
    };
    let short = attribute.len() <= TEXT_BYTES_MAX && values.len() <= VALUES_MAX;
    let plain = |value: &Value| match value {
        Value::String(text) => text.len() <= TEXT_BYTES_MAX,
        value => !value.is_array() && !value.is_object(),
    };
    (short && values.iter().all(plain)).then_some((attribute, values))
}

/// Writes a key over what `key` held; false if the value has none. Values that PHP calls identical
/// have the same key. Two keys may be one text only if a name has a control character in it, which
/// costs a trial and loses nothing.
fn write_key(channel: &str, attribute: &str, value: &Value, key: &mut String) -> bool {
    let number;
    let (kind, text) = match value {
        Value::Null => ("n", ""),
        Value::Bool(true) => ("t", ""),
        Value::Bool(false) => ("f", ""),
        Value::String(text) if text.len() <= TEXT_BYTES_MAX => ("s", text.as_str()),
        Value::Number(value) => {
            number = match (value.as_i64(), value.as_f64()) {
                (Some(int), _) => format!("i{int}"),
                // The sum makes one of the two zeros, which are identical.
                (None, Some(float)) => format!("d{:x}", (float + 0.0).to_bits()),
                (None, None) => return false,
            };
            ("", number.as_str())
        }
        _ => return false,
    };
    key.clear();
    for part in [channel, "\u{1}", attribute, "\u{1}", kind, text] {
        key.push_str(part);
    }
    true
}
