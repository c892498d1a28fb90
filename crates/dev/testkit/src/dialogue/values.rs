//! Words and values of dialogues: JSON with times, patterns that JSON must fit, rows, SDKs.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

use crate::{Sdk, unescaped, unix_s};

/// Parses JSON. A text `@+60` is the Unix time in seconds a minute from now.
pub(super) fn parse(text: &str) -> Value {
    let value = serde_json::from_str(text);
    let mut value = value.unwrap_or_else(|error| panic!("{error} in {text}"));
    put_times(&mut value);
    value
}

/// Puts times in the place of texts such as `@+60`.
pub(super) fn put_times(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(put_times),
        Value::Object(all) => all.values_mut().for_each(put_times),
        Value::String(text) => {
            let offset = text.strip_prefix('@').and_then(|it| it.parse().ok());
            if let Some(offset) = offset {
                *value = json!(unix_s().saturating_add_signed(offset));
            }
        }
        _ => {}
    }
}

/// Values in a row: a JSON array, or `series NAME COUNT` for objects with a round and a number.
pub(super) fn series(text: &str) -> Vec<Value> {
    if let Some(rest) = text.strip_prefix("series ") {
        let (round, count) = rest.rsplit_once(' ').expect("a name and a count");
        let count: usize = count.parse().expect("a count");
        let numbers = 0..count;
        return numbers.map(|n| json!({ "round": round, "n": n })).collect();
    }
    let Value::Array(all) = parse(text) else {
        panic!("not an array: {text}");
    };
    all
}

/// Checks that a value fits a pattern: objects have the fields that the pattern names, a field that
/// is `null` there may be missing. In texts of the pattern `*` is anything, `~x` contains x, `!~x`
/// does not, `>1` is a number above it, `#3` has three elements, and `?NAME` takes the
/// value as a variable. The pattern `{}` alone is anything.
pub(super) fn fit(
    found: &Value,
    wanted: &Value,
    variables: &mut HashMap<String, String>,
) -> Result<(), String> {
    match wanted == &json!({}) {
        true => Ok(()),
        false => fit_part(found, wanted, variables),
    }
}

fn fit_part(
    found: &Value,
    wanted: &Value,
    variables: &mut HashMap<String, String>,
) -> Result<(), String> {
    let differ = || Err(format!("found {found}\nwanted {wanted}"));
    match (found, wanted) {
        (_, Value::String(pattern)) if pattern == "*" => match found {
            Value::Null => differ(),
            _ => Ok(()),
        },
        (_, Value::String(pattern)) if pattern.starts_with('?') => {
            variables.insert(pattern[1..].to_owned(), text_of(found));
            Ok(())
        }
        (_, Value::String(pattern)) if pattern.starts_with('~') => {
            match text_of(found).contains(&pattern[1..]) {
                true => Ok(()),
                false => differ(),
            }
        }
        (_, Value::String(pattern)) if pattern.starts_with("!~") => {
            match text_of(found).contains(&pattern[2..]) {
                true => differ(),
                false => Ok(()),
            }
        }
        (Value::Number(found), Value::String(pattern)) if pattern.starts_with('>') => {
            let least: Option<f64> = pattern[1..].parse().ok();
            match found.as_f64() > least {
                true => Ok(()),
                false => differ(),
            }
        }
        (Value::Array(_) | Value::Object(_), Value::String(pattern))
            if pattern.starts_with('#') =>
        {
            let count = found.as_array().map(Vec::len);
            let count = count.or_else(|| found.as_object().map(Map::len));
            match count.map(|count| count.to_string()).as_deref() == Some(&pattern[1..]) {
                true => Ok(()),
                false => differ(),
            }
        }
        (Value::Object(found), Value::Object(wanted)) if !wanted.is_empty() => {
            wanted.iter().try_for_each(|(name, wanted)| {
                let found = found.get(name).unwrap_or(&Value::Null);
                fit_part(found, wanted, variables).map_err(|why| format!("{name}: {why}"))
            })
        }
        (Value::Array(all), Value::Array(wanted)) if all.len() == wanted.len() => all
            .iter()
            .zip(wanted)
            .try_for_each(|(found, wanted)| fit_part(found, wanted, variables)),
        _ if found == wanted => Ok(()),
        _ => differ(),
    }
}

/// A text without its quotes, anything else as JSON.
pub(super) fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// A pattern's fields, each with `$field` replaced by that field of `asked`.
pub(super) fn answer(pattern: &Value, asked: &Value) -> Value {
    match pattern {
        Value::String(text) => match text.strip_prefix('$') {
            Some(field) => asked[field].clone(),
            None => pattern.clone(),
        },
        Value::Array(all) => all.iter().map(|it| answer(it, asked)).collect(),
        Value::Object(all) => {
            let fields = all
                .iter()
                .map(|(name, it)| (name.clone(), answer(it, asked)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// Function that starts a client.
type Start = fn() -> Sdk;

/// Official SDKs by their names: both in both forms of the protocol, centrifuge-js without a
/// WebSocket, and Java's.
const CLIENTS: [(&str, Start); 8] = [
    ("centrifuge-js", Sdk::javascript),
    ("centrifuge-python", Sdk::python),
    ("centrifuge-js-protobuf", Sdk::javascript_protobuf),
    ("centrifuge-python-protobuf", Sdk::python_protobuf),
    ("http_stream", Sdk::javascript_stream),
    ("http_stream-protobuf", Sdk::javascript_protobuf_stream),
    ("sse", Sdk::javascript_events),
    ("java", Sdk::java),
];

/// Numbers of `FIRST..LAST`, with the last one.
pub(super) fn numbers(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once("..")?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// Cells of the rows of a loop: words in its line with commas between, where `sdks`, `emulated` and
/// `1..9` stand for several; or the lines below it, with bars between the cells.
pub(super) fn rows(line: &str, block: &str) -> Vec<Vec<String>> {
    if line.is_empty() {
        let cells = |row: &str| row.split(" | ").map(cell).collect();
        return block.lines().map(cells).collect();
    }
    let words = line.split(", ").flat_map(words);
    words.map(|word| vec![word]).collect()
}

/// A cell; two apostrophes are an empty one.
pub(super) fn cell(text: &str) -> String {
    let text = text.trim();
    if text == "''" { "" } else { text }.to_owned()
}

fn words(word: &str) -> Vec<String> {
    let names = |some: &[(&str, Start)]| some.iter().map(|(name, _)| (*name).to_owned()).collect();
    match word {
        "sdks" => names(&CLIENTS[..4]),
        "emulated" => names(&CLIENTS[4..7]),
        word => match numbers(word) {
            Some(numbers) => numbers.map(|number| number.to_string()).collect(),
            None => vec![word.to_owned()],
        },
    }
}

/// Starts a client by its name.
pub(super) fn start(name: &str) -> Sdk {
    let found = CLIENTS.iter().find(|(known, _)| *known == name);
    let (_, start) = found.unwrap_or_else(|| panic!("no client has the name {name}"));
    start()
}

/// Splits `what => wanted`; nothing is wanted where there is no arrow.
pub(super) fn arrow(text: &str) -> (&str, &str) {
    let (what, wanted) = text.split_once("=>").unwrap_or((text, ""));
    (what.trim(), wanted.trim())
}

/// Splits off the first word.
pub(super) fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Text of a step with the escapes of Rust.
pub(super) fn text(escapes: &str) -> String {
    String::from_utf8(unescaped(escapes)).expect("UTF-8")
}

/// Fields of JSON, or none.
pub(super) fn fields(text: &str) -> Value {
    match text {
        "" => json!({}),
        text => parse(text),
    }
}

/// Compares what was found with what was wanted.
pub(super) fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("found {found:?}, wanted {wanted:?}")),
    }
}

/// Header lines, which have bars between; without those that have no value.
pub(super) fn lines(fields: &str) -> String {
    let lines = fields
        .split(" | ")
        .filter(|line| !line.trim_end().ends_with(':'));
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\r\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_patterns_or_do_not() {
        for (found, pattern, fits) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
            (r#"{"a":1}"#, r#"{"b":null}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, false),
            (r#"{"a":1}"#, "{}", true),
            ("[1,2]", r#"[1,"*"]"#, true),
            ("[1,2]", "[1]", false),
            ("null", r#""*""#, false),
            (r#""abc""#, r#""~b""#, true),
            (r#""abc""#, r#""!~b""#, false),
            ("[\"abc\"]", r#""~b""#, true),
            ("2", r#"">1""#, true),
            ("1", r#"">1""#, false),
            ("[1,2]", r##""#2""##, true),
            (r#"{"a":1}"#, r##""#2""##, false),
        ] {
            let outcome = fit(&parse(found), &parse(pattern), &mut HashMap::new());
            assert_eq!(outcome.is_ok(), fits, "{found} {pattern}");
        }
        let mut variables = HashMap::new();
        fit(
            &parse(r#"{"a":"x"}"#),
            &parse(r#"{"a":"?A"}"#),
            &mut variables,
        )
        .expect("it fits");
        assert_eq!(variables["A"], "x");
    }
}
