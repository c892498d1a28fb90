//! RESP: commands as clients send them, answers as RESP3 writes them.

use std::fmt::Display;

/// An answer, or what a script gives or gets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Bulk(Vec<u8>),
    Simple(&'static str),
    Error(String),
    Array(Vec<Self>),
    Set(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Push(Vec<Self>),
    /// Text in Redis's own words, as `INFO` answers.
    Verbatim(String),
}

impl Reply {
    pub(crate) fn text(text: impl Display) -> Self {
        Self::Bulk(text.to_string().into_bytes())
    }

    pub(crate) fn bulk(bytes: Option<&Vec<u8>>) -> Self {
        bytes.map_or(Self::Nil, |bytes| Self::Bulk(bytes.clone()))
    }

    pub(crate) fn bulks<'a>(all: impl Iterator<Item = &'a Vec<u8>>) -> Self {
        Self::Array(all.map(|it| Self::Bulk(it.clone())).collect())
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let line = |out: &mut Vec<u8>, kind: char, rest: &dyn Display| {
            out.extend(format!("{kind}{rest}\r\n").into_bytes());
        };
        let all = |out: &mut Vec<u8>, kind, items: &[Self]| {
            line(out, kind, &items.len());
            items.iter().for_each(|item| item.write(out));
        };
        match self {
            Self::Nil => out.extend(b"_\r\n"),
            Self::Int(number) => line(out, ':', number),
            Self::Bulk(bytes) => {
                line(out, '$', &bytes.len());
                out.extend(bytes);
                out.extend(b"\r\n");
            }
            Self::Simple(text) => line(out, '+', text),
            Self::Error(text) => line(out, '-', text),
            Self::Array(items) => all(out, '*', items),
            Self::Set(items) => all(out, '~', items),
            Self::Push(items) => all(out, '>', items),
            Self::Map(pairs) => {
                line(out, '%', &pairs.len());
                for (name, value) in pairs {
                    name.write(out);
                    value.write(out);
                }
            }
            Self::Verbatim(text) => {
                line(out, '=', &(text.len() + 4));
                out.extend(format!("txt:{text}\r\n").into_bytes());
            }
        }
    }
}

/// Takes a whole command from the front of the input.
pub(crate) fn take_command(input: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
    let mut at = 0;
    let count = length(input, &mut at, b'*')?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let length = length(input, &mut at, b'$')?;
        parts.push(input.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    if at > input.len() {
        return None;
    }
    input.drain(..at);
    Some(parts)
}

fn length(input: &[u8], at: &mut usize, kind: u8) -> Option<usize> {
    let rest = input.get(*at..)?;
    let end = rest.windows(2).position(|it| it == b"\r\n")?;
    assert_eq!(rest[0], kind, "a command is an array of strings");
    let number = std::str::from_utf8(&rest[1..end]).expect("a number");
    *at += end + 2;
    Some(number.parse().expect("a number"))
}
