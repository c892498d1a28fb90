//! Centrifugo's protocol in Protobuf, put into words of JSON and back, so that one client speaks
//! both. It is written from the schema's numbers and shares no code with the server.
//!
//! Source: `client.proto` of Centrifugo's protocol.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

/// Type of a field's value.
#[derive(Clone, Copy)]
enum Holds {
    Number,
    Flag,
    Text,
    /// Bytes that are JSON, or else what a client in JSON would be given.
    Data,
    Message(Fields),
    List(Fields),
    /// Messages, each under a name.
    Map(Fields),
}

/// A number, a name, and what is held.
type Fields = &'static [(u64, &'static str, Holds)];

use Holds::{Data, Flag, List, Message, Number, Text};

const NOTHING: Fields = &[];
const OF_CHANNEL: Fields = &[(1, "channel", Text)];

const SUBSCRIBE: Fields = &[
    (1, "channel", Text),
    (2, "token", Text),
    (3, "recover", Flag),
    (6, "epoch", Text),
    (7, "offset", Number),
];

const COMMAND: Fields = &[
    (1, "id", Number),
    (
        4,
        "connect",
        Message(&[(1, "token", Text), (3, "subs", Holds::Map(SUBSCRIBE))]),
    ),
    (5, "subscribe", Message(SUBSCRIBE)),
    (6, "unsubscribe", Message(OF_CHANNEL)),
    (
        7,
        "publish",
        Message(&[(1, "channel", Text), (2, "data", Data)]),
    ),
    (8, "presence", Message(OF_CHANNEL)),
    (
        10,
        "history",
        Message(&[
            (1, "channel", Text),
            (7, "limit", Number),
            (9, "reverse", Flag),
        ]),
    ),
    (11, "ping", Message(NOTHING)),
    (
        13,
        "rpc",
        Message(&[(1, "data", Data), (2, "method", Text)]),
    ),
];

const INFO: Fields = &[
    (1, "user", Text),
    (2, "client", Text),
    (3, "conn_info", Data),
    (4, "chan_info", Data),
];

const PUBLICATION: Fields = &[
    (4, "data", Data),
    (5, "info", Message(INFO)),
    (6, "offset", Number),
];

const SUBSCRIBED: Fields = &[
    (3, "recoverable", Flag),
    (6, "epoch", Text),
    (7, "publications", List(PUBLICATION)),
    (8, "recovered", Flag),
    (9, "offset", Number),
    (10, "positioned", Flag),
    (12, "was_recovering", Flag),
    (1, "expires", Flag),
    (2, "ttl", Number),
];

const PUSH: Fields = &[
    (2, "channel", Text),
    (4, "pub", Message(PUBLICATION)),
    (6, "leave", Message(&[(1, "info", Message(INFO))])),
    (5, "join", Message(&[(1, "info", Message(INFO))])),
    (
        7,
        "unsubscribe",
        Message(&[(2, "code", Number), (3, "reason", Text)]),
    ),
    (8, "message", Message(&[(1, "data", Data)])),
];

const REPLY: Fields = &[
    (1, "id", Number),
    (
        2,
        "error",
        Message(&[
            (1, "code", Number),
            (2, "message", Text),
            (3, "temporary", Flag),
        ]),
    ),
    (4, "push", Message(PUSH)),
    (
        5,
        "connect",
        Message(&[
            (1, "client", Text),
            (2, "version", Text),
            (3, "expires", Flag),
            (4, "ttl", Number),
            (6, "subs", Holds::Map(SUBSCRIBED)),
            (7, "ping", Number),
            (8, "pong", Flag),
        ]),
    ),
    (6, "subscribe", Message(SUBSCRIBED)),
    (7, "unsubscribe", Message(NOTHING)),
    (8, "publish", Message(NOTHING)),
    (9, "presence", Message(&[(1, "presence", Holds::Map(INFO))])),
    (
        11,
        "history",
        Message(&[
            (1, "publications", List(PUBLICATION)),
            (2, "epoch", Text),
            (3, "offset", Number),
        ]),
    ),
    (12, "ping", Message(NOTHING)),
];

/// Commands, a line of JSON each, as one frame.
pub(super) fn commands(lines: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines.lines() {
        let words = super::streams::json(line.as_bytes());
        bytes(&message(COMMAND, &words), &mut out);
    }
    out
}

/// The replies in a frame, each in words of JSON.
pub(super) fn replies(mut frame: &[u8]) -> Vec<Value> {
    let mut all = Vec::new();
    while !frame.is_empty() {
        all.push(words(REPLY, take(&mut frame)));
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

fn message(fields: Fields, words: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for &(number, name, holds) in fields {
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
            Message(fields) => delimited(&message(fields, value)),
            List(_) => panic!("no command has a list"),
            Holds::Map(fields) => {
                for (key, value) in value.as_object().expect("a map") {
                    let mut entry = vec![10];
                    bytes(key.as_bytes(), &mut entry);
                    entry.push(18);
                    bytes(&message(fields, value), &mut entry);
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

fn words(fields: Fields, mut input: &[u8]) -> Value {
    let mut all = Map::new();
    while !input.is_empty() {
        let tag = read_varint(&mut input);
        let known = fields.iter().find(|(number, ..)| *number == tag >> 3);
        let &(_, name, holds) = known.unwrap_or_else(|| panic!("a field that nobody knows: {tag}"));
        let is_delimited = !matches!(holds, Number | Flag);
        assert_eq!(tag & 7, if is_delimited { 2 } else { 0 }, "{name}");
        let value = match holds {
            Number => read_varint(&mut input).into(),
            Flag => (read_varint(&mut input) == 1).into(),
            Text => text(take(&mut input)),
            Data => data(take(&mut input)),
            Message(fields) => words(fields, take(&mut input)),
            List(fields) => {
                let list = all
                    .entry(name)
                    .or_insert_with(|| Vec::<Value>::new().into());
                let list = list.as_array_mut().expect("a list");
                list.push(words(fields, take(&mut input)));
                continue;
            }
            Holds::Map(fields) => {
                let mut entry = take(&mut input);
                assert_eq!(read_varint(&mut entry), 10, "{name}: a key");
                let key = text(take(&mut entry));
                let value = match entry.is_empty() {
                    true => Map::new().into(),
                    false => {
                        assert_eq!(read_varint(&mut entry), 18, "{name}: a value");
                        words(fields, take(&mut entry))
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
