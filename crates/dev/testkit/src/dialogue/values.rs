//! Values of dialogues that only real clients need: rows, SDKs, fields and lines of HTTP.

use serde_json::{Map, Value, json};

use crate::{Sdk, unescaped, unix_s};

/// Parses JSON, with times from now on.
pub(super) fn parse(text: &str) -> Value {
    throng_dialogue::parse(text, unix_s())
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
pub type Start = fn() -> Sdk;

/// Both official SDKs in both forms of the protocol, each with its name.
pub const SDKS: [(&str, Start); 4] = [
    ("centrifuge-js", Sdk::javascript),
    ("centrifuge-python", Sdk::python),
    ("centrifuge-js-protobuf", Sdk::javascript_protobuf),
    ("centrifuge-python-protobuf", Sdk::python_protobuf),
];

/// centrifuge-js without a WebSocket: a stream downwards, a request for each command upwards.
pub const EMULATED: [(&str, Start); 3] = [
    ("http_stream", Sdk::javascript_stream),
    ("http_stream-protobuf", Sdk::javascript_protobuf_stream),
    ("sse", Sdk::javascript_events),
];

/// Names of the SDKs for which a word stands in a loop.
pub(super) fn several(word: &str) -> Option<Vec<String>> {
    let some: &[(&str, Start)] = match word {
        "sdks" => &SDKS,
        "emulated" => &EMULATED,
        _ => return None,
    };
    Some(some.iter().map(|(name, _)| (*name).to_owned()).collect())
}

/// Starts a client by its name.
pub(super) fn start(name: &str) -> Sdk {
    let java: (&str, Start) = ("java", Sdk::java);
    let mut all = SDKS.into_iter().chain(EMULATED).chain([java]);
    let found = all.find(|(known, _)| *known == name);
    let (_, start) = found.unwrap_or_else(|| panic!("no client has the name {name}"));
    start()
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

/// Header lines, which have bars between; without those that have no value.
pub(super) fn lines(fields: &str) -> String {
    let lines = fields
        .split(" | ")
        .filter(|line| !line.trim_end().ends_with(':'));
    let lines = lines.filter(|line| !line.is_empty());
    lines.map(|line| format!("{line}\r\n")).collect()
}
