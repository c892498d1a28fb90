//! Query texts such as `{"method":"equal","attribute":"status","values":["x"]}`, and their
//! conditions.
//!
//! Messages are the facts that a client of Appwrite may show to its user, so they name the same
//! cause in the same order of checks.

use serde_json::{Map, Value};
use throng_types::json::{append_list, append_str};

use crate::MessageLimits;
use crate::filter::compare::{identical, less, less_equal};

/// Why queries are refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueryError {
    /// Appwrite's query exception, whose text the client gets.
    Query(String),
    /// Fault for which PHP has an exception of its own, which the client sees as code 0.
    Php(String),
}

/// Methods that Appwrite names in its refusal, in its order.
const ALLOWED: &str = "equal, notEqual, lessThan, lessThanEqual, greaterThan, greaterThanEqual, \
                       isNull, isNotNull, and, or, select";

/// The canonical text with the conditions, or nothing if everything is wanted.
type Parsed = Option<(Box<str>, Vec<Condition>)>;

pub(super) fn parse<S: AsRef<str>>(
    queries: &[S],
    limits: &MessageLimits,
) -> Result<Parsed, QueryError> {
    let mut parser = Parser {
        limits,
        queries: 0,
        text: Vec::new(),
    };
    let mut conditions = Vec::new();
    let mut everything = queries.is_empty();
    parser.text.push(b'[');
    for query in queries {
        let value: Value = serde_json::from_str(query.as_ref()).map_err(|_| syntax())?;
        if !conditions.is_empty() {
            parser.text.push(b',');
        }
        // The text of a nested query is an object, that of an outermost one a string.
        let outer = std::mem::take(&mut parser.text);
        let condition = parser.query(&value, 0);
        let inner = std::mem::replace(&mut parser.text, outer);
        let condition = condition?;
        append_str(&String::from_utf8_lossy(&inner), &mut parser.text);
        everything |= condition == Condition::Never;
        conditions.push(condition);
    }
    parser.text.push(b']');
    if everything {
        return Ok(None);
    }
    let text = String::from_utf8(parser.text).map_err(|_| syntax())?;
    Ok(Some((text.into(), conditions)))
}

struct Parser<'l> {
    limits: &'l MessageLimits,
    queries: usize,
    text: Vec<u8>,
}

impl Parser<'_> {
    fn query(&mut self, value: &Value, depth: usize) -> Result<Condition, QueryError> {
        self.queries += 1;
        if self.queries > self.limits.queries_max {
            return Err(QueryError::Query("Too many queries".to_owned()));
        }
        if depth > self.limits.query_depth_max {
            return Err(QueryError::Query("Queries nest too deep".to_owned()));
        }
        let empty = Map::new();
        let fields = match value {
            Value::Object(fields) => fields,
            // PHP cannot tell a list from an object; a list simply has no method.
            Value::Array(_) => &empty,
            _ if depth > 0 => {
                return Err(QueryError::Php("nested query is not an object".to_owned()));
            }
            other => {
                return Err(QueryError::Query(format!(
                    "Invalid query. Must be an array, got {}",
                    php_type(other)
                )));
            }
        };
        self.fields(fields, depth)
    }

    fn fields(
        &mut self,
        fields: &Map<String, Value>,
        depth: usize,
    ) -> Result<Condition, QueryError> {
        let method = text_field(fields, "method")?;
        if !KNOWN_METHODS.split(' ').any(|known| known == method) {
            return Err(QueryError::Query(format!("Invalid query method: {method}")));
        }
        let attribute = text_field(fields, "attribute")?;
        let empty = Vec::new();
        let values = match fields.get("values") {
            None | Some(Value::Null) => &empty,
            Some(Value::Array(values)) => values,
            Some(Value::Object(_)) => {
                return Err(QueryError::Php("query values are not a list".to_owned()));
            }
            Some(other) => {
                return Err(QueryError::Query(format!(
                    "Invalid query values. Must be an array, got {}",
                    php_type(other)
                )));
            }
        };
        if values.len() > self.limits.query_values_max {
            return Err(QueryError::Query("Too many query values".to_owned()));
        }
        self.open(method, attribute);
        let condition = self.condition(method, attribute, values, depth)?;
        self.text.push(b'}');
        Ok(condition)
    }

    fn condition(
        &mut self,
        method: &str,
        attribute: &str,
        values: &[Value],
        depth: usize,
    ) -> Result<Condition, QueryError> {
        let operator = match method {
            "and" => return self.nested(values, depth).map(Condition::And),
            "or" => return self.nested(values, depth).map(Condition::Or),
            "select" => {
                if !matches!(values, [Value::String(star)] if star == "*") {
                    return Err(QueryError::Php(
                        "Only select(\"*\") is allowed in Realtime queries. select(\"*\") means \
                         \"listen to all events\"."
                            .to_owned(),
                    ));
                }
                self.values(values);
                return Ok(Condition::Never);
            }
            "isNull" => {
                self.values(values);
                return Ok(Condition::IsNull(attribute.into()));
            }
            "isNotNull" => {
                self.values(values);
                return Ok(Condition::IsNotNull(attribute.into()));
            }
            "equal" => Operator::Equal,
            "notEqual" => Operator::NotEqual,
            "lessThan" => Operator::Less,
            "lessThanEqual" => Operator::LessEqual,
            "greaterThan" => Operator::Greater,
            "greaterThanEqual" => Operator::GreaterEqual,
            _ => {
                return Err(QueryError::Query(format!(
                    "Query method '{method}' is not supported in Realtime queries. Allowed: \
                     {ALLOWED}"
                )));
            }
        };
        self.values(values);
        Ok(Condition::Compare {
            attribute: attribute.into(),
            operator,
            values: values.to_vec(),
        })
    }

    fn nested(&mut self, values: &[Value], depth: usize) -> Result<Vec<Condition>, QueryError> {
        let mut conditions = Vec::new();
        self.text.extend_from_slice(b",\"values\":[");
        for (n, value) in values.iter().enumerate() {
            if n > 0 {
                self.text.push(b',');
            }
            conditions.push(self.query(value, depth + 1)?);
        }
        self.text.push(b']');
        Ok(conditions)
    }

    fn open(&mut self, method: &str, attribute: &str) {
        self.text.extend_from_slice(b"{\"method\":");
        append_str(method, &mut self.text);
        if !attribute.is_empty() {
            self.text.extend_from_slice(b",\"attribute\":");
            append_str(attribute, &mut self.text);
        }
    }

    fn values(&mut self, values: &[Value]) {
        self.text.extend_from_slice(b",\"values\":");
        append_list(values, &mut self.text, |value, out| {
            out.extend_from_slice(value.to_string().as_bytes());
        });
    }
}

fn text_field<'v>(fields: &'v Map<String, Value>, name: &str) -> Result<&'v str, QueryError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => Err(QueryError::Query(format!(
            "Invalid query {name}. Must be a string, got {}",
            php_type(other)
        ))),
    }
}

fn syntax() -> QueryError {
    QueryError::Query("Invalid query: Syntax error".to_owned())
}

/// Name that PHP's `gettype` has for it.
fn php_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "NULL",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_i64() => "integer",
        Value::Number(_) => "double",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "array",
    }
}

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

pub(super) fn all(conditions: &[Condition], payload: &Map<String, Value>) -> bool {
    conditions.iter().all(|inner| inner.holds(payload))
}

/// Methods that Appwrite's databases know. Realtime refuses most of them, with another text than
/// for a method that nobody knows.
const KNOWN_METHODS: &str = "equal notEqual lessThan lessThanEqual greaterThan \
                             greaterThanEqual isNull isNotNull and or select contains \
                             notContains containsAny containsAll search notSearch between \
                             notBetween startsWith notStartsWith endsWith notEndsWith regex \
                             exists notExists elemMatch crosses notCrosses distanceEqual \
                             distanceNotEqual distanceGreaterThan distanceLessThan \
                             intersects notIntersects overlaps notOverlaps touches \
                             notTouches vectorDot vectorCosine vectorEuclidean orderDesc \
                             orderAsc orderRandom limit offset cursorAfter cursorBefore";
