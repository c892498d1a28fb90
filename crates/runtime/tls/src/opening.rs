//! First bytes of clients: what stands before TLS, such as the header of a proxy, and openings that
//! rustls cannot serve: plain HTTP, or a hello of a version before TLS 1.2.
//!
//! Owns nothing but the first few bytes of the first handshake message, which may come in records
//! of one byte, and a preface. Never: judges the hello; rustls does. Nor knows what a preface
//! means; the owner of the port says where it ends, and gets its bytes as the first that the peer
//! said.

use rustls::{AlertDescription, Error, InvalidMessage, PeerIncompatible};

use crate::TlsFault;

/// Response to a client that speaks plain HTTP. Its request is not read any further.
const TO_PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 46\r\n\
    Connection: close\r\n\r\n\
    This port speaks TLS: use https:// or wss://.\n";

const RECORD_HEAD_BYTES: usize = 5;
/// A hello's type, its length and its version (RFC 8446 section 4.1.2).
const HELLO_HEAD_BYTES: usize = 6;
const TLS12: [u8; 2] = [3, 3];

/// The first bytes of a client.
#[derive(Default)]
pub(crate) struct Opening {
    record: [u8; RECORD_HEAD_BYTES],
    record_bytes: u8,
    /// Bytes that the present record still has.
    left: u16,
    hello: [u8; HELLO_HEAD_BYTES],
    hello_bytes: u8,
}

impl Opening {
    /// Looks at bytes that come next. Errors: [`TlsFault::PlainHttp`], for which `wire` has got an
    /// answer.
    pub(crate) fn look(&mut self, mut input: &[u8], wire: &mut Vec<u8>) -> Result<(), TlsFault> {
        let is_first = self.record_bytes == 0 && self.hello_bytes == 0;
        // Methods have capital letters, and no record begins with one.
        if is_first && input.first().is_some_and(u8::is_ascii_uppercase) {
            wire.extend_from_slice(TO_PLAIN_HTTP);
            return Err(TlsFault::PlainHttp);
        }
        while !self.is_over() {
            let Some((byte, rest)) = input.split_first() else {
                break;
            };
            input = rest;
            if self.left > 0 {
                self.left -= 1;
                self.hello[usize::from(self.hello_bytes)] = *byte;
                self.hello_bytes += 1;
                continue;
            }
            self.record[usize::from(self.record_bytes)] = *byte;
            self.record_bytes += 1;
            if usize::from(self.record_bytes) == RECORD_HEAD_BYTES {
                self.record_bytes = 0;
                let [_, _, _, high, low] = self.record;
                self.left = u16::from_be_bytes([high, low]);
            }
        }
        Ok(())
    }

    /// Whether it has seen what it looks for.
    fn is_over(&self) -> bool {
        usize::from(self.hello_bytes) == HELLO_HEAD_BYTES
    }

    /// Whether the first message says a version from before TLS 1.2. Newer ones say that of TLS
    /// 1.2, and what they are elsewhere.
    fn is_old(&self) -> bool {
        let [.., major, minor] = self.hello;
        self.is_over() && [major, minor] < TLS12
    }

    /// Gives the alert that a fault should have, if that is not rustls': one that misses what only
    /// TLS 1.2 has, in a hello that is older (RFC 5246 appendix E.1), and one for a record that
    /// says that it is too long (RFC 8446 section 5.1). `alert` is what rustls says, as it leaves;
    /// behind the first words of both sides it is sealed, and stays.
    pub(crate) fn correct(&self, fault: TlsFault, alert: &mut [u8]) -> TlsFault {
        let TlsFault::Refused(error) = &fault else {
            return fault;
        };
        let (what, error) = match error {
            Error::PeerIncompatible(PeerIncompatible::SignatureAlgorithmsExtensionRequired)
                if self.is_old() =>
            {
                let error = Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered);
                (AlertDescription::ProtocolVersion, error)
            }
            Error::InvalidMessage(InvalidMessage::MessageTooLarge) => {
                (AlertDescription::RecordOverflow, error.clone())
            }
            _ => return fault,
        };
        if let [21, 3, _, 0, 2, 2, said] = alert {
            *said = what.into();
        }
        TlsFault::Refused(error)
    }
}

/// Says how long what stands at the beginning of these bytes is; `None` while it is not whole.
///
/// Contract: it comes to an end, because bytes are kept until it has an answer. Errors: a sentence
/// on why the connection does not begin as it must.
pub type PrefaceLength = fn(&[u8]) -> Result<Option<usize>, &'static str>;

/// The preface of one connection.
pub(crate) struct Preface {
    length: PrefaceLength,
    /// Bound: what [`PrefaceLength`] takes for a beginning, and one read.
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Preface {
    pub(crate) const fn new(length: PrefaceLength) -> Self {
        Self {
            length,
            bytes: Vec::new(),
            is_whole: false,
        }
    }

    /// Takes bytes; gives those behind the preface once it is whole.
    pub(crate) fn take(&mut self, input: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
        if self.is_whole {
            return Ok(Some(input.to_vec()));
        }
        self.bytes.extend_from_slice(input);
        let Some(length) = (self.length)(&self.bytes)? else {
            return Ok(None);
        };
        let rest = self.bytes.split_off(length.min(self.bytes.len()));
        self.is_whole = true;
        Ok(Some(rest))
    }

    /// Returns the preface alone, without bytes behind it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
