//! Subscription queries: which events of a channel a subscription wants.
//!
//! Owns: the texts' grammar and limits, and the verdict on a payload with PHP's notion of equal
//! and less. Never: knows channels, roles or connections.
//!
//! Appwrite evaluates in `RuntimeQuery`: the payload's top level alone, AND between the queries of
//! one subscription, a missing attribute fails its query, and `select(["*"])` among the outermost
//! queries means everything.

mod compare;
mod condition;
mod key;
mod parse;

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};
use throng_types::{Save, Saved, save_bytes};

use condition::{Condition, all};

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

/// As its text, which is read again: the same grammar decides what it means.
impl Save for Filter {
    fn save(&self, out: &mut Vec<u8>) {
        save_bytes(self.text().as_bytes(), out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let queries: Vec<String> = serde_json::from_slice(from.bytes()?).ok()?;
        // It was within the limits when it came. Depth is a matter of the stack.
        let limits = Limits {
            queries_max: usize::MAX,
            query_values_max: usize::MAX,
            ..Limits::default()
        };
        Self::parse(&queries, &limits, Fault::MessageQuery).ok()
    }
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

#[cfg(test)]
mod tests;
