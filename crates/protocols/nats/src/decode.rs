//! What a server says, read from bytes as they come.

use memchr::memmem;

/// How much one operation may have.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of a line, in bytes. `INFO` has the longest, with the addresses of all servers.
    pub line_bytes_max: usize,
    /// Of a message with its headers, in bytes.
    pub message_bytes_max: usize,
}

/// One thing that a server says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// About the server, a JSON object.
    Info(&'a [u8]),
    /// A message for a subscription.
    Message {
        /// Where it was published.
        subject: &'a str,
        /// The number of the subscription.
        sid: u64,
        /// Where an answer goes, if one is wanted.
        reply: Option<&'a str>,
        /// Its headers; none if there are none.
        headers: Headers<'a>,
        /// The rest of it.
        payload: &'a [u8],
    },
    /// A [`crate::write::pong`] is expected.
    Ping,
    /// To [`crate::write::ping`].
    Pong,
    /// To a command of a client that wants to hear it.
    Okay,
    /// Something is wrong, in words between quotes.
    Error(&'a [u8]),
}

/// Why bytes are not of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// A line is longer than it may be.
    LineTooLong,
    /// A message is longer than it may be.
    MessageTooLong,
    /// A line is of no known form.
    Malformed,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::LineTooLong => "the server sent a line that is too long",
            Self::MessageTooLong => "the server sent a message that is too long",
            Self::Malformed => "the server does not speak NATS",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Reads one operation, and says how many bytes it took; nothing if it is not whole yet.
///
/// # Errors
/// The bytes are not of this protocol; nothing after them can be read.
pub fn decode(bytes: &[u8], limits: Limits) -> Result<Option<(Op<'_>, usize)>, DecodeError> {
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
    let op = Op::Message {
        subject,
        sid,
        reply,
        headers: Headers(headers),
        payload,
    };
    Ok(Some((op, end + 2)))
}

/// Digits alone, so that no two texts are one number.
fn number(text: &str) -> Option<u64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// The headers of a message: `NATS/1.0`, a status if a server sends it, and lines of names and
/// values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(&'a [u8]);

impl<'a> Headers<'a> {
    /// Those of a message that came in another one.
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

    /// The same in words, such as `404 No Messages`.
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

    fn read(mut bytes: &[u8]) -> Vec<String> {
        let mut read = Vec::new();
        while let Some((op, taken)) = decode(bytes, LIMITS).expect("NATS") {
            read.push(match op {
                Op::Message {
                    subject,
                    sid,
                    reply,
                    headers,
                    payload,
                } => {
                    let payload = String::from_utf8_lossy(payload);
                    let (status, seq) = (headers.status(), headers.get("nats-sequence"));
                    let reply = reply.unwrap_or("-");
                    format!("{subject} {sid} {reply} {status:?} {seq:?} {payload}")
                }
                op => format!("{op:?}"),
            });
            bytes = bytes.get(taken..).expect("what was taken was there");
        }
        assert!(bytes.is_empty());
        read
    }

    const DIALOGUE: &[u8] = b"INFO {\"a\":1} \r\nPING\r\nPONG\r\n+OK\r\n-ERR 'No'\r\n\
        MSG a.b 7 2\r\nhi\r\nMSG a 7 r.1 0\r\n\r\n\
        HMSG a 7 16 16\r\nNATS/1.0 503\r\n\r\n\r\n\
        HMSG a 7 r 31 33\r\nNATS/1.0\r\nNats-Sequence: 12\r\n\r\n\r\n\r\n";

    #[test]
    fn what_a_server_says_is_read_and_no_part_of_it() {
        let read = read(DIALOGUE);
        assert_eq!(
            read[5..],
            [
                "a.b 7 - None None hi",
                "a 7 r.1 None None ",
                "a 7 - Some(503) None ",
                "a 7 r None Some(\"12\") \r\n",
            ]
        );
        let mut at = 0;
        while at < DIALOGUE.len() {
            let (_, taken) = decode(&DIALOGUE[at..], LIMITS).unwrap().unwrap();
            for end in at..at + taken {
                assert_eq!(decode(&DIALOGUE[at..end], LIMITS), Ok(None), "{at} {end}");
            }
            at += taken;
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
