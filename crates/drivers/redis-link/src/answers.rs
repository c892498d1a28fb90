//! Reads what Redis says (RESP3), and bounds what one answer may keep.
//!
//! Owns the bytes that were read and belong to no answer yet. Memory follows what has arrived: a
//! length is a claim, and one that leads beyond the bound ends the connection. The parser of the
//! crate `redis` has no bound; it is given single lines and texts whose length is known.

use std::io::{self, ErrorKind, Read};
use std::ops::Range;

use redis::{PushKind, RedisError, Value};

/// Bytes of a line: a length, a number, a short text or an error.
const LINE_MAX: usize = 64 << 10;
/// How deep values may lie in others. Scripts of ours answer with two levels.
const DEPTH_MAX: usize = 8;
/// Bytes that are read at once.
const CHUNK: usize = 16 << 10;

/// What was read and not taken.
pub struct Answers {
    /// Bound: [`LINE_MAX`] and [`CHUNK`].
    buffer: Vec<u8>,
    /// Where what is not taken begins.
    at: usize,
    /// Bytes that one answer may keep, its values included.
    bytes_max: usize,
}

fn wrong(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

fn unread(error: RedisError) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Answers {
    /// None yet, each of which may keep so many bytes.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            at: 0,
            bytes_max,
        }
    }

    /// Reads one answer, or one message.
    ///
    /// # Errors
    /// The reader's; `UnexpectedEof` at the end; `InvalidData` if it is no RESP or too much.
    pub fn next(&mut self, from: &mut impl Read) -> io::Result<Value> {
        let mut left = self.bytes_max;
        self.value(from, &mut left, DEPTH_MAX)
    }

    /// Waits until something of the next answer is here.
    ///
    /// # Errors
    /// The reader's; `UnexpectedEof` at the end.
    pub fn has_begun(&mut self, from: &mut impl Read) -> io::Result<()> {
        if self.at < self.buffer.len() {
            return Ok(());
        }
        self.fill(from)
    }

    fn value(&mut self, from: &mut impl Read, left: &mut usize, depth: usize) -> io::Result<Value> {
        let line = self.line(from)?;
        spend(left, size_of::<Value>() + line.len())?;
        let Some((&kind, rest)) = self.buffer[line.clone()].split_first() else {
            return Err(wrong("an empty line"));
        };
        if !b"$!=*>~%|".contains(&kind) {
            let whole = &self.buffer[line.start..line.end + 2];
            return redis::parse_redis_value(whole).map_err(unread);
        }
        let length = std::str::from_utf8(rest)
            .ok()
            .and_then(|it| it.parse().ok());
        let length: i64 = length.ok_or_else(|| wrong("a length that is no number"))?;
        let Ok(length) = usize::try_from(length) else {
            return Ok(Value::Nil);
        };
        if b"$!=".contains(&kind) {
            let text = self.text(from, length, left)?;
            if kind == b'$' {
                return Ok(Value::BulkString(text));
            }
            let head = format!("{}{length}\r\n", char::from(kind));
            let whole = [head.as_bytes(), &text, b"\r\n"].concat();
            return redis::parse_redis_value(&whole).map_err(unread);
        }
        let depth = depth.checked_sub(1).ok_or_else(|| wrong("too deep"))?;
        let count = match kind {
            b'%' | b'|' => length.checked_mul(2),
            _ => Some(length),
        };
        let count = count.ok_or_else(|| wrong("too many values"))?;
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(self.value(from, left, depth)?);
        }
        match kind {
            b'*' => Ok(Value::Array(values)),
            b'~' => Ok(Value::Set(values)),
            b'>' => push(values),
            b'%' => Ok(Value::Map(pairs(values))),
            // What is said of the next value matters to nobody here.
            _ => self.value(from, left, depth),
        }
    }

    /// Where the next line lies in the buffer, without its end.
    fn line(&mut self, from: &mut impl Read) -> io::Result<Range<usize>> {
        let mut seen = self.at;
        loop {
            let end = { &self.buffer[seen..] }
                .windows(2)
                .position(|two| two == b"\r\n");
            if let Some(end) = end {
                let line = self.at..seen + end;
                self.at = seen + end + 2;
                return Ok(line);
            }
            if self.buffer.len() - self.at > LINE_MAX {
                return Err(wrong("a line that does not end"));
            }
            self.buffer.drain(..self.at);
            self.at = 0;
            seen = self.buffer.len().saturating_sub(1);
            self.fill(from)?;
        }
    }

    /// Reads once.
    fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        let before = self.buffer.len();
        self.buffer.resize(before + CHUNK, 0);
        let read = loop {
            match from.read(&mut self.buffer[before..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(before + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            read => read.map(drop),
        }
    }

    /// A text of so many bytes, without the end of line that follows.
    fn text(
        &mut self,
        from: &mut impl Read,
        length: usize,
        left: &mut usize,
    ) -> io::Result<Vec<u8>> {
        spend(left, length)?;
        let whole = length + 2;
        let here = whole.min(self.buffer.len() - self.at);
        let mut text = self.buffer[self.at..self.at + here].to_vec();
        self.at += here;
        // Grows as bytes arrive.
        from.take((whole - here) as u64).read_to_end(&mut text)?;
        if text.len() < whole {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !text.ends_with(b"\r\n") {
            return Err(wrong("a text that is longer than its length"));
        }
        text.truncate(length);
        Ok(text)
    }
}

fn spend(left: &mut usize, bytes: usize) -> io::Result<()> {
    let rest = left.checked_sub(bytes);
    *left = rest.ok_or_else(|| wrong("an answer that is longer than any may be"))?;
    Ok(())
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut values = values.into_iter();
    std::iter::from_fn(|| values.next().zip(values.next())).collect()
}

/// A message: the first value says of what kind.
fn push(mut values: Vec<Value>) -> io::Result<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of this size.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            let (now, later) = self.0.split_at(count);
            into[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }

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

    #[test]
    fn answers_are_those_of_the_crate_wherever_they_are_cut() {
        let all = WORDS.concat();
        for size in [1, 2, 3, 7, 1000] {
            let mut answers = Answers::new(1 << 20);
            let mut from = Pieces(all.as_bytes(), size);
            for word in WORDS {
                let expected = redis::parse_redis_value(word.as_bytes()).expect("RESP");
                let value = answers.next(&mut from).expect("an answer");
                assert_eq!(format!("{value:?}"), format!("{expected:?}"), "{word}");
            }
            let end = answers.next(&mut from).expect_err("the end");
            assert_eq!(end.kind(), ErrorKind::UnexpectedEof);
        }
        let told = "|1\r\n+ttl\r\n:3\r\n$1\r\na\r\n";
        let value = Answers::new(1 << 10).next(&mut told.as_bytes());
        assert_eq!(value.expect("a value"), Value::BulkString(b"a".to_vec()));
    }

    #[test]
    fn what_is_cut_short_is_the_end() {
        for word in WORDS {
            for cut in 0..word.len() {
                let cut = &word[..cut];
                let error = Answers::new(1 << 20).next(&mut cut.as_bytes());
                let error = error.expect_err(cut);
                assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{cut}");
            }
        }
    }

    #[test]
    fn what_is_too_much_is_refused_before_it_is_kept() {
        let mut endless_line = io::repeat(b'+');
        let mut endless_array = Read::chain(&b"*99999999999\r\n"[..], Ones(0));
        let mut deep = "*1\r\n".repeat(100).into_bytes();
        deep.extend_from_slice(b":1\r\n");
        let mut long = Read::chain(&b"$2147483648\r\n"[..], io::repeat(0));
        let mut deep: &[u8] = &deep;
        let readers: [&mut dyn Read; 4] =
            [&mut endless_line, &mut endless_array, &mut deep, &mut long];
        for mut from in readers {
            let mut answers = Answers::new(1 << 20);
            let error = answers.next(&mut from).expect_err("too much");
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(answers.buffer.capacity() <= 4 * (LINE_MAX + CHUNK));
        }
        for wrong in [
            "$x\r\n",
            "$1\r\nabc\r\n",
            ">0\r\n",
            ">1\r\n:1\r\n",
            "?\r\n",
            "\r\n",
        ] {
            let error = Answers::new(1 << 20).next(&mut wrong.as_bytes());
            assert_eq!(
                error.expect_err(wrong).kind(),
                ErrorKind::InvalidData,
                "{wrong}"
            );
        }
    }

    /// Numbers without end.
    struct Ones(usize);

    impl Read for Ones {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            for byte in &mut *into {
                *byte = b":1\r\n"[self.0];
                self.0 = (self.0 + 1) % 4;
            }
            Ok(into.len())
        }
    }
}
