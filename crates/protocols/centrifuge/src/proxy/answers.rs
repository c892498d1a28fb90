//! Answers in Protobuf, made into those in JSON: what an answer may say is judged there alone.

use std::borrow::Cow;

use throng_types::PayloadKind;
use throng_types::json::{append_base64, append_json};

use super::ProxyKind;
use crate::api::Overrides;
use crate::code::Malformed;
use crate::field::{Tags, message};
use crate::json::{Object, payload_of};
use crate::protobuf::{Fields, FromProtobuf as _, Value, read};

/// Form of a field in JSON.
enum Shape {
    Text,
    Number,
    Flag,
    Texts,
    /// JSON in bytes; bytes that are none go in base64.
    Data,
    Tags,
    Overrides,
    Message(Rows),
    /// A map from text to messages.
    Map(Rows),
}

/// Number, name and form of a field.
type Row = (u64, &'static str, Shape);
type Rows = &'static [Row];

const ERROR: Rows = &[
    (1, "code", Shape::Number),
    (2, "message", Shape::Text),
    (3, "temporary", Shape::Flag),
];
const DISCONNECT: Rows = &[(1, "code", Shape::Number), (2, "reason", Shape::Text)];
const CONNECT: Rows = &[
    (1, "user", Shape::Text),
    (2, "expire_at", Shape::Number),
    (3, "info", Shape::Data),
    (4, "b64info", Shape::Text),
    (5, "data", Shape::Data),
    (6, "b64data", Shape::Text),
    (7, "channels", Shape::Texts),
    (8, "subs", Shape::Map(OPTIONS)),
    (9, "meta", Shape::Data),
];
const SUBSCRIBE: Rows = &[
    (1, "expire_at", Shape::Number),
    (2, "info", Shape::Data),
    (3, "b64info", Shape::Text),
    (4, "data", Shape::Data),
    (5, "b64data", Shape::Text),
    (6, "override", Shape::Overrides),
    (7, "allow", Shape::Texts),
];
/// Options of one of the channels that a connection begins with.
const OPTIONS: Rows = SUBSCRIBE.split_at(6).0;
const PUBLISH: Rows = &[
    (1, "data", Shape::Data),
    (2, "b64data", Shape::Text),
    (3, "skip_history", Shape::Flag),
    (4, "tags", Shape::Tags),
    (5, "idempotency_key", Shape::Text),
];
const REFRESH: Rows = &[
    (1, "expired", Shape::Flag),
    (2, "expire_at", Shape::Number),
    (3, "info", Shape::Data),
    (4, "b64info", Shape::Text),
    (5, "meta", Shape::Data),
];

message! {
    struct Entry<'a> {
        name: Cow<'a, str> = 1,
        value: Cow<'a, [u8]> = 2,
    }
}

impl ProxyKind {
    /// Makes the JSON of an answer in Protobuf.
    ///
    /// # Errors
    /// Fails if the message is not an answer of this kind.
    pub fn answer_in_json(self, message: &[u8]) -> Result<Vec<u8>, Malformed> {
        let result = match self {
            Self::Connect => CONNECT,
            Self::Refresh | Self::SubRefresh => REFRESH,
            Self::Subscribe => SUBSCRIBE,
            Self::Publish => PUBLISH,
            Self::Rpc => PUBLISH.split_at(2).0,
            Self::CacheEmpty => &[],
        };
        let rows = [
            (1, "result", Shape::Message(result)),
            (2, "error", Shape::Message(ERROR)),
            (3, "disconnect", Shape::Message(DISCONNECT)),
        ];
        let (mut json, mut written) = (Vec::new(), Ok(()));
        Object::append(&mut json, |object| written = write(&rows, message, object));
        written.map(|()| json)
    }
}

fn write(rows: &[Row], message: &[u8], out: &mut Object<'_>) -> Result<(), Malformed> {
    for (number, name, shape) in rows {
        let (mut values, mut fields) = (Vec::new(), Fields(message));
        while let Some((of, value)) = fields.next()? {
            values.extend((of == *number).then_some(value));
        }
        let Some(last) = values.last() else {
            continue;
        };
        match shape {
            Shape::Text => out.text(name, last.text()?),
            Shape::Number => out.number(name, last.number()? as i64),
            Shape::Flag => out.flag(name, last.number()? != 0),
            Shape::Texts => {
                let texts: Result<Vec<&str>, _> = values.into_iter().map(Value::text).collect();
                out.texts(name, texts?);
            }
            Shape::Data => data(name, last.bytes()?, out),
            Shape::Tags => {
                let mut tags = Tags::default();
                values.into_iter().try_for_each(|value| tags.merge(value))?;
                out.json_if_any(name, tags.0.as_deref());
            }
            Shape::Overrides => {
                let mut overrides = Overrides::default();
                overrides.merge(*last)?;
                out.json_if_any(name, overrides.0.as_ref().map(|json| json.get()));
            }
            Shape::Message(rows) => {
                out.value(name);
                nested(rows, last.bytes()?, out)?;
            }
            Shape::Map(rows) => {
                let mut written = Ok(());
                out.value(name);
                out.nest(|out| {
                    written = values.into_iter().try_for_each(|value| {
                        let Entry { name, value } = read(value.bytes()?)?;
                        out.value_of(&name);
                        nested(rows, &value, out)
                    });
                });
                written?;
            }
        }
    }
    Ok(())
}

fn nested(rows: Rows, message: &[u8], out: &mut Object<'_>) -> Result<(), Malformed> {
    let mut written = Ok(());
    out.nest(|out| written = write(rows, message, out));
    written
}

fn data(name: &'static str, bytes: &[u8], out: &mut Object<'_>) {
    match payload_of(bytes).kind {
        _ if bytes.is_empty() => {}
        PayloadKind::Json => append_json(bytes, out.value(name)),
        PayloadKind::Text | PayloadKind::Binary => {
            let out = out.value_of(&format!("b64{name}"));
            out.push(b'"');
            append_base64(bytes, out);
            out.push(b'"');
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::Peekable;
    use std::str::Chars;

    use throng_types::cases;

    use super::*;

    fn append_varint(mut number: u64, out: &mut Vec<u8>) {
        while number > 0x7f {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }

    fn digits(text: &mut Peekable<Chars<'_>>) -> String {
        std::iter::from_fn(|| text.next_if(|c| c.is_ascii_digit() || *c == '-')).collect()
    }

    /// A message in the form of the table. One that is not closed is a byte too long.
    fn message(text: &mut Peekable<Chars<'_>>) -> Vec<u8> {
        let mut out = Vec::new();
        while text.next_if_eq(&' ').is_some() || text.peek().is_some_and(char::is_ascii_digit) {
            let Ok(number) = digits(text).parse::<u64>() else {
                continue;
            };
            let bytes = match text.next() {
                Some('=') => {
                    append_varint(number << 3, &mut out);
                    let value: i64 = digits(text).parse().expect("a number");
                    append_varint(value as u64, &mut out);
                    continue;
                }
                Some('\'') => {
                    let bytes: String = text.take_while(|c| *c != '\'').collect();
                    bytes.into_bytes()
                }
                _ => {
                    let mut bytes = message(text);
                    if text.next() != Some('}') {
                        bytes.push(0x0a);
                    }
                    bytes
                }
            };
            append_varint(number << 3 | 2, &mut out);
            append_varint(bytes.len() as u64, &mut out);
            out.extend(bytes);
        }
        out
    }

    #[test]
    fn answers_are_as_in_json() {
        for (answer, json) in cases(include_str!("answers.txt")) {
            let (kind, text) = answer.split_once(' ').expect("KIND MESSAGE");
            let mut kinds = ProxyKind::ALL.into_iter();
            let kind = kinds.find(|known| known.name() == kind).expect("a kind");
            let message = message(&mut text.chars().peekable());
            let read = kind.answer_in_json(&message).ok();
            let read = read.and_then(|json| String::from_utf8(json).ok());
            assert_eq!(read.as_deref().unwrap_or("none"), json, "{answer}");
            for cut in 0..message.len() {
                // Bytes that are cut are no message, or a shorter one.
                let _ = kind.answer_in_json(&message[..cut]);
            }
        }
    }
}
