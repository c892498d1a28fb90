//! Reads what Redis says (RESP3), and bounds what one answer may keep.
//!
//! Owns the bytes that came and belong to no answer yet. Memory follows what has arrived: a length
//! is a claim, and one that leads beyond the bound ends the connection. The parser of the crate
//! `redis` has no bound; it is given single lines and texts whose length is known.

use std::ops::Range;

use redis::{PushKind, Value};

/// Bytes of a line: a length, a number, a short text or an error.
const LINE_MAX: usize = 64 << 10;
/// Depth of values in others. Scripts of ours answer with two levels.
const DEPTH_MAX: usize = 8;

/// Answers that come in pieces. After an error nothing is known of what follows.
pub struct Answers {
    /// Bound: a line or a text that is not whole, and what was fed last.
    buffer: Vec<u8>,
    /// Beginning of what is not taken.
    at: usize,
    /// Place at which the end of a line is looked for next.
    seen: usize,
    /// Bytes that one answer may keep, its values included.
    bytes_max: usize,
    /// Bytes that the answer that comes may still keep.
    left: usize,
    /// The kind and the length of a text that is not whole.
    text: Option<(u8, usize)>,
    /// Values that are not whole, the outermost first. Bound: [`DEPTH_MAX`].
    open: Vec<Open>,
}

struct Open {
    kind: u8,
    /// Values that are still to come.
    missing: usize,
    /// Bound: the bytes that one answer may keep.
    values: Vec<Value>,
}

enum Part {
    Whole(Value),
    Begins(Open),
}

impl Answers {
    /// None yet, each of which may keep so many bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            seen: 0,
            bytes_max,
            left: bytes_max,
            text: None,
            open: Vec::new(),
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.at);
        self.seen -= self.at;
        self.at = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether something of an answer is here.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.at < self.buffer.len() || self.text.is_some() || !self.open.is_empty()
    }

    /// Takes one answer, or one message; `None` until it is whole.
    ///
    /// # Errors
    /// If it is no RESP or too much.
    pub fn take(&mut self) -> Result<Option<Value>, String> {
        while let Some(part) = self.part()? {
            let whole = match part {
                Part::Whole(value) => Some(value),
                Part::Begins(_) if self.open.len() == DEPTH_MAX => return Err(wrong("too deep")),
                Part::Begins(open) if open.missing > 0 => {
                    self.open.push(open);
                    None
                }
                Part::Begins(open) => open.close()?,
            };
            if let Some(whole) = whole
                && let Some(answer) = self.put(whole)?
            {
                self.left = self.bytes_max;
                return Ok(Some(answer));
            }
        }
        if self.at == self.buffer.len() {
            // A long text may have been here.
            (self.buffer, self.at, self.seen) = (Vec::new(), 0, 0);
        }
        Ok(None)
    }

    /// Puts a value into the one that it belongs to; gives the answer that is whole by that.
    fn put(&mut self, mut value: Value) -> Result<Option<Value>, String> {
        while let Some(mut open) = self.open.pop() {
            open.missing -= 1;
            open.values.push(value);
            if open.missing > 0 {
                self.open.push(open);
                return Ok(None);
            }
            match open.close()? {
                Some(closed) => value = closed,
                None => return Ok(None),
            }
        }
        Ok(Some(value))
    }

    fn part(&mut self) -> Result<Option<Part>, String> {
        if let Some((kind, length)) = self.text {
            return self.text(kind, length);
        }
        let Some(line) = self.line()? else {
            return Ok(None);
        };
        self.spend(size_of::<Value>() + line.len())?;
        let Some((&kind, rest)) = self.buffer[line.clone()].split_first() else {
            return Err(wrong("an empty line"));
        };
        if !b"$!=*>~%|".contains(&kind) {
            let whole = &self.buffer[line.start..line.end + 2];
            return parsed(whole).map(Some);
        }
        let length = std::str::from_utf8(rest).ok();
        let length = length.and_then(|it| it.parse::<i64>().ok());
        let length = length.ok_or_else(|| wrong("a length that is no number"))?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(Some(Part::Whole(Value::Nil)));
        };
        if b"$!=".contains(&kind) {
            self.spend(length)?;
            self.text = Some((kind, length));
            return self.text(kind, length);
        }
        let missing = match kind {
            b'%' | b'|' => length.checked_mul(2),
            _ => Some(length),
        };
        Ok(Some(Part::Begins(Open {
            kind,
            missing: missing.ok_or_else(|| wrong("too many values"))?,
            values: Vec::new(),
        })))
    }

    /// Finds the next line in the buffer, without its end.
    fn line(&mut self) -> Result<Option<Range<usize>>, String> {
        let mut ends = { &self.buffer[self.seen..] }.windows(2);
        if let Some(end) = ends.position(|two| two == b"\r\n") {
            let line = self.at..self.seen + end;
            self.at = line.end + 2;
            self.seen = self.at;
            return Ok(Some(line));
        }
        if self.buffer.len() - self.at > LINE_MAX {
            return Err(wrong("a line that does not end"));
        }
        self.seen = self.at.max(self.buffer.len().saturating_sub(1));
        Ok(None)
    }

    /// A text of so many bytes, once it and the end of line that follows are here.
    fn text(&mut self, kind: u8, length: usize) -> Result<Option<Part>, String> {
        let here = &self.buffer[self.at..];
        let Some(whole) = here.get(..length.saturating_add(2)) else {
            return Ok(None);
        };
        let Some(text) = whole.strip_suffix(b"\r\n") else {
            return Err(wrong("a text that is longer than its length"));
        };
        let part = match kind {
            b'$' => Part::Whole(Value::BulkString(text.to_vec())),
            _ => {
                let head = format!("{}{length}\r\n", char::from(kind));
                parsed(&[head.as_bytes(), whole].concat())?
            }
        };
        self.at += whole.len();
        self.seen = self.at;
        self.text = None;
        Ok(Some(part))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        let rest = self.left.checked_sub(bytes);
        self.left = rest.ok_or_else(|| wrong("an answer that is longer than any may be"))?;
        Ok(())
    }
}

impl Open {
    /// The value, now that nothing is missing; `None` if it only says something of the next one.
    fn close(self) -> Result<Option<Value>, String> {
        Ok(Some(match self.kind {
            b'*' => Value::Array(self.values),
            b'~' => Value::Set(self.values),
            b'>' => push(self.values)?,
            b'%' => Value::Map(pairs(self.values)),
            _ => return Ok(None),
        }))
    }
}

fn wrong(why: &str) -> String {
    why.to_owned()
}

fn parsed(whole: &[u8]) -> Result<Part, String> {
    let value = redis::parse_redis_value(whole);
    value.map(Part::Whole).map_err(|error| error.to_string())
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut values = values.into_iter();
    std::iter::from_fn(|| values.next().zip(values.next())).collect()
}

/// A message: the first value says of what kind.
fn push(mut values: Vec<Value>) -> Result<Value, String> {
    if values.is_empty() {
        return Err(wrong("a message without a kind"));
    }
    let name = match values.remove(0) {
        Value::BulkString(name) => name,
        Value::SimpleString(name) => name.into_bytes(),
        _ => return Err(wrong("a message whose kind is no text")),
    };
    let kind = match &*name {
        b"message" => PushKind::Message,
        b"smessage" => PushKind::SMessage,
        b"subscribe" => PushKind::Subscribe,
        b"ssubscribe" => PushKind::SSubscribe,
        b"unsubscribe" => PushKind::Unsubscribe,
        b"sunsubscribe" => PushKind::SUnsubscribe,
        // Nothing that was asked for.
        name => PushKind::Other(String::from_utf8_lossy(name).into_owned()),
    };
    Ok(Value::Push { kind, data: values })
}

/// Appends a command as an array of texts.
pub fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    length(out, b'*', parts.len());
    for part in parts {
        length(out, b'$', part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 16] = [
        "+OK\r\n",
        "+PONG\r\n",
        "-OOM command not allowed\r\n",
        ":-12\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "$6\r\na\r\nb\r\n\r\n",
        "!9\r\nERR wrong\r\n",
        "=7\r\ntxt:a\r\n\r\n",
        "*2\r\n*2\r\n$1\r\na\r\n:1\r\n*-1\r\n",
        "~1\r\n+a\r\n",
        "%1\r\n+a\r\n*0\r\n",
        ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n",
    ];

    /// Answers in bytes that come in pieces of this size.
    fn answers(bytes: &[u8], size: usize) -> Vec<Value> {
        let mut answers = Answers::new(1 << 20);
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            assert_eq!(answers.take(), Ok(None));
            answers.feed(piece);
            let next = || answers.take().expect("an answer");
            found.extend(std::iter::from_fn(next));
        }
        assert!(!answers.has_begun());
        found
    }

    #[test]
    fn answers_are_those_of_the_crate_wherever_they_are_cut() {
        let expected = WORDS.map(|word| redis::parse_redis_value(word.as_bytes()).expect("RESP"));
        for size in [1, 2, 3, 7, 1000] {
            let found = answers(WORDS.concat().as_bytes(), size);
            assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{size}");
        }
        let told = "*2\r\n|1\r\n+ttl\r\n:3\r\n$1\r\na\r\n|0\r\n:1\r\n";
        let pair = Value::Array(vec![Value::BulkString(b"a".to_vec()), Value::Int(1)]);
        assert_eq!(answers(told.as_bytes(), 1), [pair]);
    }

    #[test]
    fn what_is_cut_short_is_no_answer() {
        for word in WORDS {
            for cut in 1..word.len() {
                let mut answers = Answers::new(1 << 20);
                answers.feed(&word.as_bytes()[..cut]);
                assert_eq!(answers.take(), Ok(None), "{word} {cut}");
                assert!(answers.has_begun(), "{word} {cut}");
            }
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_kept() {
        let once = |head: &str, again: &str| (head.to_owned(), again.to_owned());
        for (head, again) in [
            once("", "+"),
            once("*99999999999\r\n", ":1\r\n"),
            once(&"*1\r\n".repeat(100), ":1\r\n"),
            once("$2147483648\r\n", "0"),
            once("$9223372036854775807\r\n", "0"),
            once("%9223372036854775807\r\n", "0"),
        ] {
            let mut answers = Answers::new(1 << 20);
            answers.feed(head.as_bytes());
            let piece = again.repeat((16 << 10) / again.len());
            let mut fed = 0;
            while answers.take() == Ok(None) {
                answers.feed(piece.as_bytes());
                fed += piece.len();
                assert!(fed < 2 << 20, "{head:?} {again:?}");
            }
            assert!(answers.buffer.capacity() <= 4 * (LINE_MAX + piece.len()));
        }
        for wrong in [
            "$x\r\n",
            "$1\r\nabc\r\n",
            ">0\r\n",
            ">1\r\n:1\r\n",
            "?\r\n",
            "\r\n",
        ] {
            let mut answers = Answers::new(1 << 20);
            answers.feed(wrong.as_bytes());
            assert!(answers.take().is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"k", b"a\r\n"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n");
    }
}
