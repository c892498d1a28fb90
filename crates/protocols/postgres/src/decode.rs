//! Decoder of a server's messages, from bytes in any pieces.
//!
//! Invariant: a message is refused when its header declares more than the bound, before its body
//! arrives.

/// The longest message about anything but rows and errors, in bytes.
const SMALL_MAX: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// A message is longer than this client takes, or shorter than its own header.
    Length,
    /// A message ends before its fields do.
    Short,
}

/// Authentication that the server asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Authentication is complete; nothing more is asked.
    Done,
    Password,
    /// SASL, by one of these mechanisms.
    Sasl(Vec<String>),
    /// Challenge of SASL: the next message is ours.
    SaslContinue(Vec<u8>),
    /// Last message of SASL: the server has accepted the client.
    SaslFinal(Vec<u8>),
    /// Another method, by its number.
    Other(u32),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// The SQLSTATE: five letters or digits.
    pub code: String,
    /// The sentence for people.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Step of the authentication.
    Auth(Auth),
    /// The next query may come.
    Ready,
    /// The types of the columns that follow, by their object ids.
    Columns(Vec<u32>),
    /// A row; `None` is NULL.
    Row(Vec<Option<Vec<u8>>>),
    /// A statement is done.
    Complete,
    /// A statement, or the session, has failed.
    Error(ServerError),
    /// A notification arrived on a channel that this session listens to.
    Notified,
    /// Message of another type, which is given.
    Other(u8),
}

/// Takes bytes, gives messages.
#[derive(Debug)]
pub struct Decoder {
    message_bytes_max: usize,
    /// Bound: one message, and what one read brought with it.
    bytes: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Refuses rows, their columns, errors, notices and notifications that are longer than this.
    /// Other messages have a smaller bound of their own.
    #[must_use]
    pub const fn new(message_bytes_max: usize) -> Self {
        Self {
            message_bytes_max,
            bytes: Vec::new(),
            taken: 0,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next message, once it is whole.
    ///
    /// # Errors
    /// [`MessageError`]; nothing that follows can be read.
    pub fn next_message(&mut self) -> Result<Option<Message>, MessageError> {
        let rest = &self.bytes[self.taken..];
        let Some((&[kind, a, b, c, d], body)) = rest.split_first_chunk::<5>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let max = match kind {
            b'D' | b'E' | b'N' | b'A' | b'T' => self.message_bytes_max,
            _ => SMALL_MAX,
        };
        let length = length.checked_sub(4).filter(|length| *length <= max);
        let length = length.ok_or(MessageError::Length)?;
        let Some(body) = body.get(..length) else {
            return Ok(None);
        };
        let message = read(kind, Body(body)).ok_or(MessageError::Short)?;
        self.taken += 5 + length;
        Ok(Some(message))
    }
}

fn read(kind: u8, mut body: Body<'_>) -> Option<Message> {
    Some(match kind {
        b'R' => Message::Auth(auth(&mut body)?),
        b'Z' => Message::Ready,
        b'C' => Message::Complete,
        b'A' => Message::Notified,
        b'T' => {
            let count = body.u16()?;
            let mut types = Vec::new();
            for _ in 0..count {
                body.text()?;
                body.take(6)?;
                types.push(body.u32()?);
                body.take(8)?;
            }
            Message::Columns(types)
        }
        b'D' => {
            let count = body.u16()?;
            let mut values = Vec::new();
            for _ in 0..count {
                values.push(match body.u32()? {
                    u32::MAX => None,
                    length => Some(body.take(length as usize)?.to_vec()),
                });
            }
            Message::Row(values)
        }
        b'E' => {
            let mut error = ServerError::default();
            while let Some(field) = body.u8().filter(|field| *field != 0) {
                let text = body.text()?;
                match field {
                    b'C' => error.code = text,
                    b'M' => error.message = text,
                    _ => {}
                }
            }
            Message::Error(error)
        }
        other => Message::Other(other),
    })
}

fn auth(body: &mut Body<'_>) -> Option<Auth> {
    Some(match body.u32()? {
        0 => Auth::Done,
        3 => Auth::Password,
        10 => {
            let mut mechanisms = Vec::new();
            while let Some(name) = body.text().filter(|name| !name.is_empty()) {
                mechanisms.push(name);
            }
            Auth::Sasl(mechanisms)
        }
        11 => Auth::SaslContinue(body.0.to_vec()),
        12 => Auth::SaslFinal(body.0.to_vec()),
        other => Auth::Other(other),
    })
}

struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.take(4)?;
        Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    fn text(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(decoder: &mut Decoder) -> Vec<Message> {
        std::iter::from_fn(|| decoder.next_message().unwrap()).collect()
    }

    /// Server's messages for a query with two columns, and an error.
    const DIALOGUE: &[u8] = b"R\0\0\0\x08\0\0\0\0\
        T\0\0\0\x32\0\x02id\0\0\0\0\0\0\0\0\0\0\x14\0\x08\xff\xff\xff\xff\0\0\
        data\0\0\0\0\0\0\0\0\0\0\x11\xff\xff\xff\xff\xff\xff\0\0\
        D\0\0\0\x10\0\x02\0\0\0\x02\x34\x32\xff\xff\xff\xff\
        C\0\0\0\x0dSELECT 1\0\
        A\0\0\0\x0b\0\0\0\x01x\0\0\
        E\0\0\0\x16C42P01\0Mno table\0\0\
        Z\0\0\0\x05I";

    #[test]
    fn a_dialogue_reads_the_same_in_any_two_pieces() {
        let expected = [
            Message::Auth(Auth::Done),
            Message::Columns(vec![20, 17]),
            Message::Row(vec![Some(b"42".to_vec()), None]),
            Message::Complete,
            Message::Notified,
            Message::Error(ServerError {
                code: "42P01".to_owned(),
                message: "no table".to_owned(),
            }),
            Message::Ready,
        ];
        for cut in 0..=DIALOGUE.len() {
            let (head, tail) = DIALOGUE.split_at(cut);
            let mut decoder = Decoder::new(1000);
            decoder.feed(head);
            let mut found = all(&mut decoder);
            decoder.feed(tail);
            found.extend(all(&mut decoder));
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn mechanisms_end_with_an_empty_name() {
        let mut decoder = Decoder::new(1000);
        decoder.feed(b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0");
        let mechanisms = vec!["SCRAM-SHA-256".to_owned()];
        let expected = Message::Auth(Auth::Sasl(mechanisms));
        assert_eq!(decoder.next_message(), Ok(Some(expected)));
    }

    #[test]
    fn what_is_too_long_is_refused_by_its_header() {
        for (bytes, fault) in [
            (&b"D\0\0\x03\xed"[..], MessageError::Length),
            (b"D\0\0\0\x03", MessageError::Length),
            (b"Z\0\x02\0\0", MessageError::Length),
            (b"D\0\0\0\x06\0\x01", MessageError::Short),
            (b"D\0\0\0\x0a\0\x01\0\0\0\x09", MessageError::Short),
        ] {
            let mut decoder = Decoder::new(1000);
            decoder.feed(bytes);
            assert_eq!(decoder.next_message(), Err(fault), "{bytes:?}");
        }
    }
}
