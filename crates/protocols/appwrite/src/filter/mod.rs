//! Subscription queries: which events of a channel a subscription wants.
//!
//! Owns: the texts' grammar and limits, and the verdict on a payload with PHP's notion of equal
//! and less. Never: knows channels, roles or connections.
//!
//! Appwrite evaluates in `RuntimeQuery`: the payload's top level alone, AND between the queries of
//! one subscription, a missing attribute fails its query, and `select(["*"])` among the outermost
//! queries means everything.

mod compare;
mod key;
mod parse;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{Fault, Limits};

pub(crate) use key::payload_keys;

/// The queries of one subscription, ready to evaluate. Cloning counts a reference.
#[derive(Clone, Default)]
pub struct Filter(Option<Arc<Inner>>);

struct Inner {
    /// Every query in Appwrite's own text form, in a JSON array: equal texts, equal filters.
    text: Box<str>,
    conditions: Vec<Condition>,
}

impl Filter {
    /// Wants every event.
    pub const ALL: Self = Self(None);

    /// Reads the query texts of one subscription.
    ///
    /// # Errors
    /// What stock would answer, with `fault` wrapping the text as the place of the queries asks
    /// ([`Fault::UrlQuery`] or [`Fault::MessageQuery`]); [`Fault::Internal`] where PHP would
    /// stumble; the same wrapped fault for our own limits.
    pub fn parse<S: AsRef<str>>(
        queries: &[S],
        limits: &Limits,
        fault: fn(String) -> Fault,
    ) -> Result<Self, Fault> {
        let parsed = parse::parse(queries, limits).map_err(|error| match error {
            parse::QueryError::Query(text) => fault(text),
            parse::QueryError::Php(text) => Fault::Internal(text),
        })?;
        Ok(match parsed {
            None => Self::ALL,
            Some((text, conditions)) => Self(Some(Arc::new(Inner { text, conditions }))),
        })
    }

    /// Whether it wants every event.
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

    /// Whether an event with this payload is wanted.
    #[must_use]
    pub fn wants(&self, payload: &Map<String, Value>) -> bool {
        self.0
            .as_ref()
            .is_none_or(|inner| all(&inner.conditions, payload))
    }

    /// What the filter keeps on the heap, shared among its clones, in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| {
            size_of::<Inner>()
                + inner.text.len()
                + inner.conditions.iter().map(Condition::bytes).sum::<usize>()
        })
    }
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Filter {}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filter({})", self.text())
    }
}

#[derive(Debug, PartialEq)]
enum Condition {
    And(Vec<Self>),
    Or(Vec<Self>),
    /// `select` below the outermost level, which Appwrite evaluates to false.
    Never,
    IsNull(Box<str>),
    IsNotNull(Box<str>),
    Compare {
        attribute: Box<str>,
        operator: Operator,
        values: Vec<Value>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Condition {
    fn holds(&self, payload: &Map<String, Value>) -> bool {
        match self {
            Self::And(conditions) => all(conditions, payload),
            Self::Or(conditions) => conditions.iter().any(|inner| inner.holds(payload)),
            Self::Never => false,
            Self::IsNull(attribute) => payload.get(&**attribute).is_some_and(Value::is_null),
            Self::IsNotNull(attribute) => payload
                .get(&**attribute)
                .is_some_and(|value| !value.is_null()),
            Self::Compare {
                attribute,
                operator,
                values,
            } => payload
                .get(&**attribute)
                .is_some_and(|actual| operator.holds(actual, values)),
        }
    }

    fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::And(inner) | Self::Or(inner) => inner.iter().map(Self::bytes).sum(),
                Self::Never => 0,
                Self::IsNull(attribute) | Self::IsNotNull(attribute) => attribute.len(),
                Self::Compare {
                    attribute, values, ..
                } => attribute.len() + values.len() * size_of::<Value>(),
            }
    }
}

impl Operator {
    /// Any value suffices, except for `notEqual`, where any equal value spoils it.
    fn holds(self, actual: &Value, values: &[Value]) -> bool {
        match self {
            Self::Equal => values.iter().any(|value| compare::identical(actual, value)),
            Self::NotEqual => !values.iter().any(|value| compare::identical(actual, value)),
            Self::Less => values.iter().any(|value| compare::less(actual, value)),
            Self::LessEqual => values
                .iter()
                .any(|value| compare::less_equal(actual, value)),
            // PHP turns `a > b` into `b < a`, which matters for what cannot be compared.
            Self::Greater => values.iter().any(|value| compare::less(value, actual)),
            Self::GreaterEqual => values
                .iter()
                .any(|value| compare::less_equal(value, actual)),
        }
    }
}

fn all(conditions: &[Condition], payload: &Map<String, Value>) -> bool {
    conditions.iter().all(|inner| inner.holds(payload))
}

#[cfg(test)]
mod tests;
