//! Subscription queries: the choice of a channel's events that a subscription wants.
//!
//! Owns: the texts' grammar and limits, and the verdict on a payload with PHP's notion of equal
//! and less. Never: knows channels, roles or connections.
//!
//! Appwrite evaluates in `RuntimeQuery`: the payload's top level alone, AND between the queries of
//! one subscription, a missing attribute fails its query, and `select(["*"])` among the outermost
//! queries means everything.

mod compare;
mod parse;

use std::fmt;
use std::sync::Arc;

pub(crate) use compare::truthy;
use parse::{Condition, Operator, all};
use serde_json::{Map, Value};
use throng_types::{Load, Save, Saved};

use crate::{MessageLimits, RealtimeError};

/// The queries of one subscription, ready to evaluate. Cloning counts a reference.
#[derive(Clone, Default)]
pub struct QueryFilter(Option<Arc<Inner>>);

struct Inner {
    /// Every query in Appwrite's own text form, in a JSON array: equal texts, equal filters.
    text: Box<str>,
    conditions: Vec<Condition>,
}

/// As its text, which is read again: the same grammar decides what it means.
impl Save for QueryFilter {
    fn save(&self, out: &mut Vec<u8>) {
        self.text().save(out);
    }
}

impl Load for QueryFilter {
    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let queries: Vec<String> = serde_json::from_slice(from.bytes()?).ok()?;
        // It was within the limits when it came. Depth is a matter of the stack.
        let limits = MessageLimits {
            queries_max: usize::MAX,
            query_values_max: usize::MAX,
            ..MessageLimits::default()
        };
        Self::parse(&queries, &limits, RealtimeError::MessageQuery).ok()
    }
}

impl QueryFilter {
    /// Filter that wants every event.
    pub const ALL: Self = Self(None);

    /// Reads the query texts of one subscription.
    ///
    /// # Errors
    /// The answer of stock, with `fault` wrapping the text as the place of the queries asks
    /// ([`RealtimeError::UrlQuery`] or [`RealtimeError::MessageQuery`]);
    /// [`RealtimeError::Internal`] where PHP would stumble; the same wrapped fault for our own
    /// limits.
    pub fn parse<S: AsRef<str>>(
        queries: &[S],
        limits: &MessageLimits,
        fault: fn(String) -> RealtimeError,
    ) -> Result<Self, RealtimeError> {
        let parsed = parse::parse(queries, limits).map_err(|error| match error {
            parse::QueryError::Query(text) => fault(text),
            parse::QueryError::Php(text) => RealtimeError::Internal(text),
        })?;
        Ok(match parsed {
            None => Self::ALL,
            Some((text, conditions)) => Self(Some(Arc::new(Inner { text, conditions }))),
        })
    }

    /// Tells whether it wants every event.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.0.is_none()
    }

    /// A JSON array of the queries in Appwrite's text form, as `subscribe` answers them: equal
    /// texts mean equal filters. Everything is `[]`.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.as_ref().map_or("[]", |inner| &inner.text)
    }

    #[must_use]
    pub fn wants(&self, payload: &Map<String, Value>) -> bool {
        self.0
            .as_ref()
            .is_none_or(|inner| all(&inner.conditions, payload))
    }
}

impl PartialEq for QueryFilter {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for QueryFilter {}

impl fmt::Debug for QueryFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QueryFilter({})", self.text())
    }
}

/// More values than this are tried rather than found.
const VALUES_MAX: usize = 16;
/// Longer attributes and values are tried rather than found, so that keys stay small.
const TEXT_BYTES_MAX: usize = 256;

impl QueryFilter {
    /// Calls `each` with every key of the filter, one of which a wanted payload has: an outermost
    /// `equal` on plain values holds for no other. False if it has none and must be tried.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use throng_types::cases;

    fn parse(queries: &[&str]) -> Result<QueryFilter, RealtimeError> {
        QueryFilter::parse(queries, &MessageLimits::default(), RealtimeError::UrlQuery)
    }

    fn query(method: &str, attribute: &str, values: &Value) -> String {
        json!({"method": method, "attribute": attribute, "values": values}).to_string()
    }

    #[test]
    fn payloads_are_wanted_or_not() {
        for (case, expect) in cases(include_str!("wanted.txt")) {
            let (queries, payload) = case.split_once(" on ").unwrap();
            let queries: Vec<Value> = serde_json::from_str(queries).unwrap();
            let queries: Vec<String> = queries.iter().map(Value::to_string).collect();
            let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
            let wants = parse(&queries)
                .unwrap()
                .wants(&serde_json::from_str(payload).unwrap());
            assert_eq!(wants.to_string(), expect, "{case}");
        }
        assert!(parse(&[]).unwrap().is_all());
        let star = r#"{"method":"select","values":["*"]}"#;
        assert!(parse(&[star]).unwrap().is_all());
    }

    #[test]
    fn refusals() {
        let nameless = RealtimeError::UrlQuery("Invalid query method: ".to_owned());
        assert_eq!(parse(&["[]"]), Err(nameless));
        for (query, expect) in cases(include_str!("refused.txt")) {
            match parse(&[query]) {
                Err(RealtimeError::UrlQuery(text)) => assert_eq!(text, expect, "{query}"),
                Err(RealtimeError::Internal(_)) => assert_eq!(expect, "internal", "{query}"),
                other => panic!("{query}: {other:?}"),
            }
        }
    }

    #[test]
    fn limits_hold() {
        let limits = MessageLimits {
            queries_max: 3,
            query_depth_max: 1,
            query_values_max: 2,
            ..MessageLimits::default()
        };
        let with =
            |queries: &[&str]| QueryFilter::parse(queries, &limits, RealtimeError::MessageQuery);
        let leaf = r#"{"method":"isNull","attribute":"a"}"#;
        assert!(with(&[leaf, leaf, leaf]).is_ok());
        assert!(matches!(
            with(&[leaf; 4]),
            Err(RealtimeError::MessageQuery(_))
        ));
        let nested = format!(r#"{{"method":"and","values":[{leaf}]}}"#);
        assert!(with(&[&nested]).is_ok());
        let deeper = format!(r#"{{"method":"and","values":[{nested}]}}"#);
        assert!(with(&[&deeper]).is_err());
        assert!(with(&[&query("equal", "a", &json!([1, 2, 3]))]).is_err());
        let deep_json = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(with(&[&deep_json]).is_err());
    }

    #[test]
    fn the_text_is_what_appwrite_answers() {
        let filter = parse(&[
            r#"{ "values" : ["x", 1], "attribute":"a", "method":"equal" }"#,
            r#"{"method":"or","values":[{"method":"isNull","attribute":"b"}]}"#,
        ])
        .unwrap();
        let texts: Vec<String> = serde_json::from_str(filter.text()).unwrap();
        assert_eq!(
            texts,
            [
                r#"{"method":"equal","attribute":"a","values":["x",1]}"#,
                r#"{"method":"or","values":[{"method":"isNull","attribute":"b","values":[]}]}"#,
            ]
        );
        // Reading the text again gives the same filter.
        assert_eq!(
            parse(&texts.iter().map(String::as_str).collect::<Vec<_>>()).unwrap(),
            filter
        );
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,80}", piece in "[{}\\[\\]\":,a-z0-9]{0,40}") {
            let _ = parse(&[&text]);
            let _ = parse(&[&piece]);
        }
    }
}
