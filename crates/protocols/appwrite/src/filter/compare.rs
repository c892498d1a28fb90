//! PHP 8's `===` and `<` on JSON values, as `json_decode(.., true)` delivers them.
//!
//! Both lists and objects are arrays there. Rules: PHP manual, "Comparison Operators" and
//! "Numeric strings"; the order of the cases is that of the manual's table.
//!
//! One difference remains: `===` on two objects ignores the order of their keys.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// Deeper values than this never compare as less, so that nesting cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

/// Compares as PHP's `a === b`.
pub(super) fn identical(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (num(a), num(b)) {
            (Num::Int(a), Num::Int(b)) => a == b,
            (Num::Float(a), Num::Float(b)) => a == b,
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| identical(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| identical(a, b)))
        }
        // An empty object and an empty list are the same empty array.
        (Value::Array(list), Value::Object(map)) | (Value::Object(map), Value::Array(list)) => {
            list.is_empty() && map.is_empty()
        }
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => a == b,
        _ => false,
    }
}

/// Compares as PHP's `a < b`.
pub(super) fn less(a: &Value, b: &Value) -> bool {
    spaceship(a, b, DEPTH_MAX) == Ordering::Less
}

/// Compares as PHP's `a <= b`.
pub(super) fn less_equal(a: &Value, b: &Value) -> bool {
    spaceship(a, b, DEPTH_MAX) != Ordering::Greater
}

/// `a <=> b`, where what cannot be compared is greater, whichever side it is on.
fn spaceship(a: &Value, b: &Value, depth: usize) -> Ordering {
    match (a, b) {
        (Value::Null, Value::String(b)) => "".cmp(b),
        (Value::String(a), Value::Null) => a.as_str().cmp(""),
        (Value::Null | Value::Bool(_), _) | (_, Value::Null | Value::Bool(_)) => {
            truthy(a).cmp(&truthy(b))
        }
        (Value::Number(a), Value::Number(b)) => numbers(num(a), num(b)),
        (Value::String(a), Value::String(b)) => strings(a, b),
        (Value::Number(a), Value::String(b)) => number_with_string(num(a), b),
        (Value::String(a), Value::Number(b)) => number_with_string(num(b), a).reverse(),
        (Value::Array(_) | Value::Object(_), Value::Array(_) | Value::Object(_)) => {
            arrays(a, b, depth)
        }
        (Value::Array(_) | Value::Object(_), _) => Ordering::Greater,
        (_, Value::Array(_) | Value::Object(_)) => Ordering::Less,
    }
}

/// Whether PHP takes a value for true.
pub(crate) fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => match num(number) {
            Num::Int(int) => int != 0,
            Num::Float(float) => float != 0.0,
        },
        Value::String(text) => !text.is_empty() && text != "0",
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Fewer entries is less; then the first unequal entry decides; a key that the other side lacks
/// makes the two incomparable.
fn arrays(a: &Value, b: &Value, depth: usize) -> Ordering {
    let by_length = entries(a).cmp(&entries(b));
    if by_length != Ordering::Equal {
        return by_length;
    }
    let Some(depth) = depth.checked_sub(1) else {
        return Ordering::Greater;
    };
    let decide = |pair: Option<(&Value, &Value)>| match pair {
        Some((a, b)) => spaceship(a, b, depth),
        None => Ordering::Greater,
    };
    let first_unequal = |order: &Ordering| *order != Ordering::Equal;
    match a {
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(n, a)| decide(entry(b, &n.to_string()).map(|b| (a, b))))
            .find(first_unequal),
        Value::Object(map) => map
            .iter()
            .map(|(key, a)| decide(entry(b, key).map(|b| (a, b))))
            .find(first_unequal),
        _ => None,
    }
    .unwrap_or(Ordering::Equal)
}

fn entries(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

fn entry<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Array(list) => key.parse().ok().and_then(|n: usize| list.get(n)),
        Value::Object(map) => map.get(key),
        _ => None,
    }
}

/// A PHP number: JSON integers beyond 64 bits become floats there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Num {
    Int(i64),
    Float(f64),
}

impl Num {
    fn as_float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

fn num(number: &Number) -> Num {
    match number.as_i64() {
        Some(int) => Num::Int(int),
        None => Num::Float(number.as_f64().unwrap_or(f64::NAN)),
    }
}

fn numbers(a: Num, b: Num) -> Ordering {
    match (a, b) {
        (Num::Int(a), Num::Int(b)) => a.cmp(&b),
        _ => floats(a.as_float(), b.as_float()),
    }
}

fn floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Greater)
}

/// Against a numeric string by value, against any other by the number's own text.
fn number_with_string(number: Num, text: &str) -> Ordering {
    match numeric(text) {
        Some((value, _)) => numbers(number, value),
        None => match number {
            Num::Int(int) => int.to_string().as_str().cmp(text),
            Num::Float(float) => float_text(float).as_str().cmp(text),
        },
    }
}

/// Two numeric strings by value, others byte by byte. Two whole numbers too long for 64 bits that
/// round to one float compare byte by byte as well.
fn strings(a: &str, b: &str) -> Ordering {
    let (Some((x, x_whole)), Some((y, y_whole))) = (numeric(a), numeric(b)) else {
        return a.cmp(b);
    };
    match (x, y) {
        (Num::Float(x), Num::Float(y)) if x == y && (x_whole && y_whole || !x.is_finite()) => {
            a.cmp(b)
        }
        // A whole number too long for 64 bits is beyond every one that fits.
        (Num::Float(x), Num::Int(_)) if x_whole => floats(x, 0.0),
        (Num::Int(_), Num::Float(y)) if y_whole => floats(0.0, y),
        _ => numbers(x, y),
    }
}

/// The value of a numeric string and whether it is written as a whole number: white space around,
/// a sign, digits with at most one point, an exponent.
fn numeric(text: &str) -> Option<(Num, bool)> {
    let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let text = text.trim_matches(is_space);
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();

    let whole = digits(unsigned);
    let mut at = whole;
    let mut fraction = 0;
    if unsigned[at..].starts_with('.') {
        fraction = digits(&unsigned[at + 1..]);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return None;
    }
    if unsigned[at..].starts_with(['e', 'E']) {
        let exponent = &unsigned[at + 1..];
        let unsigned_exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let count = digits(unsigned_exponent);
        if count == 0 {
            return None;
        }
        at += 1 + (exponent.len() - unsigned_exponent.len()) + count;
    }
    if at != unsigned.len() {
        return None;
    }
    let is_whole = at == whole;
    if is_whole && let Ok(int) = text.parse() {
        return Some((Num::Int(int), true));
    }
    text.parse().ok().map(|float| (Num::Float(float), is_whole))
}

/// A float as PHP prints it with its default precision of 14 significant digits.
fn float_text(float: f64) -> String {
    const PRECISION: i32 = 14;
    if float == 0.0 {
        return if float.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    if !float.is_finite() {
        return if float > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    let scientific = format!("{float:.13e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..PRECISION).contains(&exponent) {
        let mantissa = trim_zeros(mantissa);
        let mantissa = if mantissa.contains('.') {
            mantissa.to_owned()
        } else {
            format!("{mantissa}.0")
        };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}E{sign}{}", exponent.abs());
    }
    let decimals = (PRECISION - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{float:.decimals$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use throng_types::cases;

    fn operands(case: &str, operator: &str) -> (Value, Value) {
        let (a, b) = case.split_once(operator).unwrap();
        (a.parse().unwrap(), b.parse().unwrap())
    }

    #[test]
    fn identity_is_strict() {
        for (case, expect) in cases(include_str!("identical.txt")) {
            let (a, b) = operands(case, " === ");
            assert_eq!(identical(&a, &b).to_string(), expect, "{case}");
        }
    }

    #[test]
    fn order_is_loose() {
        for (case, expect) in cases(include_str!("order.txt")) {
            let (a, b) = operands(case, " <=> ");
            let order = spaceship(&a, &b, DEPTH_MAX);
            assert_eq!(format!("{order:?}"), expect, "{case}");
        }
        // Incomparable arrays are greater from either side, so both `<` and `>` fail.
        let (a, b) = (json!({"a": 1}), json!({"b": 1}));
        assert!(!less(&a, &b) && !less(&b, &a));
    }

    #[test]
    fn floats_print_as_php_prints_them() {
        for (float, text) in [
            (1.5, "1.5"),
            (0.1, "0.1"),
            (100_000.0, "100000"),
            (1e15, "1.0E+15"),
            (1.25e-7, "1.25E-7"),
            (0.0001, "0.0001"),
            (-2.5, "-2.5"),
            (123_456_789.123_456_78, "123456789.12346"),
        ] {
            assert_eq!(float_text(float), text);
        }
    }

    #[test]
    fn deep_values_end() {
        let mut value = json!(1);
        for _ in 0..1000 {
            value = Value::Array(vec![value]);
        }
        assert!(!less(&value, &value.clone()));
    }

    proptest! {
        #[test]
        fn numeric_strings_agree_with_the_parser(text in "[ +\\-]?[0-9]{0,3}\\.?\
                                        [0-9]{0,3}(e[0-9])?") {
            let parsed = text.trim_matches(' ').parse::<f64>().ok();
            let numeric = numeric(&text).map(|(value, _)| value.as_float());
            prop_assert_eq!(numeric, parsed);
        }

        #[test]
        fn whole_numbers_order_as_numbers(a in any::<i64>(), b in any::<i64>()) {
            prop_assert_eq!(strings(&a.to_string(), &b.to_string()), a.cmp(&b));
            prop_assert_eq!(number_with_string(Num::Int(a), &b.to_string()), a.cmp(&b));
        }
    }
}
