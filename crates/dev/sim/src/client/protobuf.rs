//! Centrifugo's protocol in Protobuf, put into words of JSON and back, so that one client speaks
//! both. It goes by `centrifuge.proto` and shares no code with the server.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Type of a field's value; messages by their names.
#[derive(Clone, Copy)]
enum Holds {
    Number,
    Flag,
    Text,
    /// Bytes that are JSON, or else what a client in JSON would be given.
    Data,
    Message(&'static str),
    List(&'static str),
    /// Messages, each under a name.
    Map(&'static str),
}

use Holds::{Data, Flag, List, Message, Number, Text};

/// Fields of a message in the order of the schema: number, name, type.
type Fields = Vec<(u64, &'static str, Holds)>;

/// Fields of each message by the message's name.
static SCHEMA: LazyLock<BTreeMap<&str, Fields>> = LazyLock::new(|| {
    let (mut all, mut message) = (BTreeMap::new(), "");
    for line in include_str!("centrifuge.proto").lines() {
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        let (holds, name, number) = match words[..] {
            ["message", name, "{"] => {
                message = name;
                all.insert(name, Vec::new());
                continue;
            }
            ["map<string,", of, name, "=", number] => {
                (Holds::Map(of.trim_end_matches('>')), name, number)
            }
            ["repeated", of, name, "=", number] => (List(of), name, number),
            ["uint32" | "uint64" | "int32", name, "=", number] => (Number, name, number),
            ["bool", name, "=", number] => (Flag, name, number),
            ["string", name, "=", number] => (Text, name, number),
            ["bytes", name, "=", number] => (Data, name, number),
            [of, name, "=", number] => (Message(of), name, number),
            _ => continue,
        };
        let number = number.parse().expect("a field's number");
        { all.get_mut(message) }
            .expect("a field is a message's")
            .push((number, name, holds));
    }
    all
});

/// Commands, a line of JSON each, as one frame.
pub(super) fn commands(lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines.lines() {
        let words = super::streams::json_of(line.as_bytes());
        bytes(&message("Command", &words), &mut out);
    }
    out
}

/// The replies in a frame, each in words of JSON.
pub(super) fn replies(mut frame: &[u8]) -> Vec<Value> {
    let mut all = Vec::new();
    while !frame.is_empty() {
        all.push(words("Reply", take(&mut frame)));
    }
    all
}

// ---- writing ----

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn bytes(data: &[u8], out: &mut Vec<u8>) {
    varint(data.len() as u64, out);
    out.extend_from_slice(data);
}

fn message(name: &str, words: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for &(number, name, holds) in &SCHEMA[name] {
        let Some(value) = words.get(name) else {
            continue;
        };
        let mut delimited = |data: &[u8]| {
            varint(number << 3 | 2, &mut out);
            bytes(data, &mut out);
        };
        match holds {
            Text => delimited(value.as_str().expect("a text").as_bytes()),
            Data => delimited(value.to_string().as_bytes()),
            Message(of) => delimited(&message(of, value)),
            List(_) => panic!("no command has a list"),
            Holds::Map(of) => {
                for (key, value) in value.as_object().expect("a map") {
                    let mut entry = vec![10];
                    bytes(key.as_bytes(), &mut entry);
                    entry.push(18);
                    bytes(&message(of, value), &mut entry);
                    delimited(&entry);
                }
            }
            Number | Flag => {
                let value = value.as_bool().map(i64::from).or_else(|| value.as_i64());
                varint(number << 3, &mut out);
                varint(value.expect("a number") as u64, &mut out);
            }
        }
    }
    out
}

// ---- reading ----

fn read_varint(input: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().expect("a whole number");
        *input = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
    }
    panic!("a number without an end");
}

fn take<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let length = read_varint(input) as usize;
    let (taken, rest) = input.split_at(length);
    *input = rest;
    taken
}

fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).expect("UTF-8").into()
}

/// Data as a client in JSON would be given them.
fn data(bytes: &[u8]) -> Value {
    let parsed = serde_json::from_slice(bytes).ok().filter(Value::is_object);
    parsed.unwrap_or_else(|| match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => STANDARD.encode(bytes).into(),
    })
}

fn words(message: &str, mut input: &[u8]) -> Value {
    let mut all = Map::new();
    while !input.is_empty() {
        let tag = read_varint(&mut input);
        let known = SCHEMA[message]
            .iter()
            .find(|(number, ..)| *number == tag >> 3);
        let &(_, name, holds) = known.unwrap_or_else(|| panic!("a field that nobody knows: {tag}"));
        let is_delimited = !matches!(holds, Number | Flag);
        assert_eq!(tag & 7, if is_delimited { 2 } else { 0 }, "{name}");
        let value = match holds {
            Number => read_varint(&mut input).into(),
            Flag => (read_varint(&mut input) == 1).into(),
            Text => text(take(&mut input)),
            Data => data(take(&mut input)),
            Message(of) => words(of, take(&mut input)),
            List(of) => {
                let list = all
                    .entry(name)
                    .or_insert_with(|| Vec::<Value>::new().into());
                let list = list.as_array_mut().expect("a list");
                list.push(words(of, take(&mut input)));
                continue;
            }
            Holds::Map(of) => {
                let mut entry = take(&mut input);
                assert_eq!(read_varint(&mut entry), 10, "{name}: a key");
                let key = text(take(&mut entry));
                let value = match entry.is_empty() {
                    true => Map::new().into(),
                    false => {
                        assert_eq!(read_varint(&mut entry), 18, "{name}: a value");
                        words(of, take(&mut entry))
                    }
                };
                let map = all.entry(name).or_insert_with(|| Map::new().into());
                map[key.as_str().expect("a text")] = value;
                continue;
            }
        };
        all.insert(name.to_owned(), value);
    }
    all.into()
}
