//! What queries ask, and the verdict on a payload.

use serde_json::{Map, Value};

use super::compare::{identical, less, less_equal};

/// One query.
#[derive(Debug, PartialEq)]
pub(super) enum Condition {
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

/// How an attribute compares with values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Condition {
    pub(super) fn holds(&self, payload: &Map<String, Value>) -> bool {
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

    /// What it keeps on the heap, itself included.
    pub(super) fn bytes(&self) -> usize {
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
    pub(super) fn holds(self, actual: &Value, values: &[Value]) -> bool {
        match self {
            Self::Equal => values.iter().any(|value| identical(actual, value)),
            Self::NotEqual => !values.iter().any(|value| identical(actual, value)),
            Self::Less => values.iter().any(|value| less(actual, value)),
            Self::LessEqual => values.iter().any(|value| less_equal(actual, value)),
            // PHP turns `a > b` into `b < a`, which matters for what cannot be compared.
            Self::Greater => values.iter().any(|value| less(value, actual)),
            Self::GreaterEqual => values.iter().any(|value| less_equal(value, actual)),
        }
    }
}

/// Whether a payload meets all of them.
pub(super) fn all(conditions: &[Condition], payload: &Map<String, Value>) -> bool {
    conditions.iter().all(|inner| inner.holds(payload))
}
