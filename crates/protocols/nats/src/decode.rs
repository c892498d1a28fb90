//! Operations of a server, read from bytes as they come.

use memchr::memmem;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a line. `INFO` has the longest, with the addresses of all servers.
    pub line_bytes_max: usize,
    /// Bytes of a message with its headers.
    pub message_bytes_max: usize,
}

impl Limits {
    /// Bounds for a server: no cluster's `INFO` and no message that it may carry is longer.
    pub const SERVER: Self = Self {
        line_bytes_max: 256 << 10,
        message_bytes_max: 64 << 20,
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// About the server, a JSON object.
    Info(&'a [u8]),
    Message(Message<'a>),
    /// A [`crate::write::pong`] is expected.
    Ping,
    /// Reply to our own [`crate::write::ping`].
    Pong,
    /// Confirmation of a command, for clients in verbose mode.
    Okay,
    /// An error, a text between quotes.
    Error(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub subject: &'a str,
    pub sid: u64,
    /// Subject for an answer, if one is wanted.
    pub reply: Option<&'a str>,
    /// Headers of the message, which may be empty.
    pub headers: Headers<'a>,
    pub payload: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the server sent a line that is too long")]
    LineTooLong,
    #[error("the server sent a message that is too long")]
    MessageTooLong,
    #[error("the server does not speak NATS")]
    Malformed,
}

/// Takes bytes in any pieces, gives operations.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    /// Bytes that were fed, from `taken` on. Bound: one operation, and what one read brought.
    bytes: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Refuses operations that are longer than this.
    #[must_use]
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            bytes: Vec::new(),
            taken: 0,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next operation, once it is whole.
    ///
    /// # Errors
    /// The bytes are not of this protocol; nothing after them can be read.
    pub fn next_op(&mut self) -> Result<Option<Op<'_>>, DecodeError> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let found = decode(rest, self.limits)?;
        Ok(found.map(|(op, taken)| {
            self.taken += taken;
            op
        }))
    }

    /// Whether all that was fed has been given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

/// Reads one operation, and says how many bytes it took; nothing if it is not whole yet.
fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Op<'_>, usize)>, DecodeError> {
    let window = &bytes[..bytes.len().min(limits.line_bytes_max)];
    let Some(end) = memmem::find(window, b"\r\n") else {
        if bytes.len() >= limits.line_bytes_max {
            return Err(DecodeError::LineTooLong);
        }
        return Ok(None);
    };
    let line = window.get(..end).unwrap_or_default();
    let after = end + 2;
    let verb_end = memchr::memchr2(b' ', b'\t', line).unwrap_or(line.len());
    let (verb, rest) = line.split_at(verb_end);
    let rest = rest.trim_ascii();
    let op = if verb.eq_ignore_ascii_case(b"MSG") {
        return message(bytes, after, rest, false, limits);
    } else if verb.eq_ignore_ascii_case(b"HMSG") {
        return message(bytes, after, rest, true, limits);
    } else if verb.eq_ignore_ascii_case(b"INFO") {
        Op::Info(rest)
    } else if verb.eq_ignore_ascii_case(b"PING") {
        Op::Ping
    } else if verb.eq_ignore_ascii_case(b"PONG") {
        Op::Pong
    } else if verb.eq_ignore_ascii_case(b"+OK") {
        Op::Okay
    } else if verb.eq_ignore_ascii_case(b"-ERR") {
        Op::Error(rest)
    } else {
        return Err(DecodeError::Malformed);
    };
    Ok(Some((op, after)))
}

/// `MSG subject sid [reply] size`, `HMSG subject sid [reply] headers size`.
fn message<'a>(
    bytes: &'a [u8],
    after: usize,
    rest: &'a [u8],
    has_headers: bool,
    limits: Limits,
) -> Result<Option<(Op<'a>, usize)>, DecodeError> {
    let wrong = DecodeError::Malformed;
    let rest = std::str::from_utf8(rest).map_err(|_| wrong)?;
    let mut parts = rest.split_ascii_whitespace();
    let subject = parts.next().ok_or(wrong)?;
    let sid = parts.next().and_then(number).ok_or(wrong)?;
    let mut size = parts.next_back().and_then(number).ok_or(wrong)? as usize;
    let mut headers_size = 0;
    if has_headers {
        headers_size = parts.next_back().and_then(number).ok_or(wrong)? as usize;
        size = size.checked_sub(headers_size).ok_or(wrong)?;
    }
    let reply = parts.next();
    if parts.next().is_some() {
        return Err(wrong);
    }
    if size.saturating_add(headers_size) > limits.message_bytes_max {
        return Err(DecodeError::MessageTooLong);
    }
    let end = after + headers_size + size;
    let Some(body) = bytes.get(after..end + 2) else {
        return Ok(None);
    };
    let (headers, body) = body.split_at(headers_size);
    let (payload, last) = body.split_at(size);
    if last != b"\r\n" {
        return Err(wrong);
    }
    let message = Message {
        subject,
        sid,
        reply,
        headers: Headers(headers),
        payload,
    };
    Ok(Some((Op::Message(message), end + 2)))
}

/// Digits alone, so that no two texts are one number.
pub(crate) fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// The headers of a message: `NATS/1.0`, a status if a server sends it, and lines of names and
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// Reads the headers of a message that came in another one.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn lines(self) -> impl Iterator<Item = &'a str> {
        let lines = self.0.split(|byte| *byte == b'\n');
        lines.filter_map(|line| std::str::from_utf8(line).ok().map(str::trim_end))
    }

    /// The status of an answer without a message, such as 404 or 503.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        let mut words = self.status_text()?.split_ascii_whitespace();
        words.next()?.parse().ok()
    }

    /// The status line without the protocol's name, such as `404 No Messages`.
    #[must_use]
    pub fn status_text(self) -> Option<&'a str> {
        let first = self.lines().next()?.strip_prefix("NATS/1.0")?;
        Some(first.trim()).filter(|text| !text.is_empty())
    }

    /// The value of the first header of that name.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        self.lines().skip(1).find_map(|line| {
            let (theirs, value) = line.split_once(':')?;
            theirs.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        line_bytes_max: 64,
        message_bytes_max: 64,
    };

    /// Every operation of a wire that arrives in these pieces.
    fn read(pieces: [&[u8]; 2]) -> Vec<String> {
        let mut decoder = Decoder::new(LIMITS);
        let mut read = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            while let Some(op) = decoder.next_op().expect("NATS") {
                read.push(match op {
                    Op::Message(it) => {
                        let payload = String::from_utf8_lossy(it.payload);
                        let (status, seq) = (it.headers.status(), it.headers.get("nats-sequence"));
                        let (subject, sid, reply) = (it.subject, it.sid, it.reply.unwrap_or("-"));
                        format!("{subject} {sid} {reply} {status:?} {seq:?} {payload}")
                    }
                    op => format!("{op:?}"),
                });
            }
        }
        assert!(decoder.is_empty());
        read
    }

    const DIALOGUE: &[u8] = b"INFO {\"a\":1} \r\nPING\r\nPONG\r\n+OK\r\n-ERR 'No'\r\n\
        MSG a.b 7 2\r\nhi\r\nMSG a 7 r.1 0\r\n\r\n\
        HMSG a 7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n\
        HMSG a 7 r 31 33\r\nNATS/1.0\r\nNats-Sequence: 12\r\n\r\n\r\n\r\n";

    #[test]
    fn what_a_server_says_is_read_and_no_part_of_it() {
        let whole = read([DIALOGUE, b""]);
        assert_eq!(
            whole[5..],
            [
                "a.b 7 - None None hi",
                "a 7 r.1 None None ",
                "a 7 - Some(503) None ",
                "a 7 r None Some(\"12\") \r\n",
            ]
        );
        for cut in 0..DIALOGUE.len() {
            let (head, tail) = DIALOGUE.split_at(cut);
            assert_eq!(read([head, tail]), whole, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_wrong_or_too_long_is_refused_when_it_is_declared() {
        for wrong in [
            &b"HELLO\r\n"[..],
            b"MSG a\r\n",
            b"MSG a x 1\r\n",
            b"MSG a 1 +1\r\n",
            b"MSG a 1 r r 1\r\n",
            b"HMSG a 1 5 4\r\n",
            b"MSG a 1 1\r\nabc",
        ] {
            assert_eq!(
                decode(wrong, LIMITS),
                Err(DecodeError::Malformed),
                "{wrong:?}"
            );
        }
        let long = decode(b"MSG a 1 65\r\n", LIMITS);
        assert_eq!(long, Err(DecodeError::MessageTooLong));
        let huge = decode(b"MSG a 1 18446744073709551615\r\n", LIMITS);
        assert_eq!(huge, Err(DecodeError::MessageTooLong));
        assert_eq!(decode(&[b'x'; 64], LIMITS), Err(DecodeError::LineTooLong));
    }
}
