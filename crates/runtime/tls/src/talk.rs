//! One call of a connection that rustls keeps: what it reads, and what it is asked to say.
//!
//! Never: keeps anything from one call to the next.

use std::{fmt, mem};

use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{CertificateError, Error, InvalidMessage};

/// Bytes that a record is longer than its text, at most (TLS 1.2 with an explicit nonce).
const RECORD_OVERHEAD: usize = 5 + 8 + 16 + 1;
/// Bytes that a record says at most (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 1 << 14;
/// Room for what rustls has to say itself, beside a record.
const SPARE_BYTES: usize = 64;

/// Output that the caller asks for.
#[derive(Clone, Copy)]
pub(crate) enum Words<'a> {
    Nothing,
    Data(&'a [u8]),
    Close,
    /// Bytes that rustls holds back until the next record.
    Waiting,
}

pub(crate) enum Next {
    Again,
    Enough,
}

pub(crate) struct Talk<'a> {
    pub(crate) plain: &'a mut Vec<u8>,
    pub(crate) wire: &'a mut Vec<u8>,
    pub(crate) words: Words<'a>,
    pub(crate) peer_closed: bool,
}

impl<'a> Talk<'a> {
    pub(crate) const fn new(plain: &'a mut Vec<u8>, wire: &'a mut Vec<u8>) -> Self {
        Self {
            plain,
            wire,
            words: Words::Nothing,
            peer_closed: false,
        }
    }

    /// Does what one state of rustls' asks for. Gives how many bytes it has read.
    pub(crate) fn step<D>(
        &mut self,
        status: UnbufferedStatus<'_, '_, D>,
    ) -> (usize, Result<Next, TlsFault>) {
        let mut discard = status.discard;
        let state = match status.state {
            Ok(state) => state,
            Err(error) => return (discard, Err(TlsFault::Refused(error))),
        };
        let next = match state {
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            discard += record.discard;
                            self.plain.extend_from_slice(record.payload);
                        }
                        Err(error) => return (discard, Err(TlsFault::Refused(error))),
                    }
                }
                Ok(Next::Again)
            }
            ConnectionState::EncodeTlsData(mut data) => append(self.wire, SPARE_BYTES, |room| {
                data.encode(room).map_err(|error| match error {
                    EncodeError::InsufficientSize(size) => Some(size.required_size),
                    EncodeError::AlreadyEncoded => None,
                })
            })
            .map(|()| Next::Again),
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Ok(Next::Again)
            }
            ConnectionState::PeerClosed => {
                self.peer_closed = true;
                Ok(Next::Again)
            }
            ConnectionState::WriteTraffic(mut traffic) => {
                let size = |error| match error {
                    EncryptError::InsufficientSize(size) => Some(size.required_size),
                    EncryptError::EncryptExhausted => None,
                };
                match mem::replace(&mut self.words, Words::Nothing) {
                    Words::Nothing => Ok(()),
                    Words::Waiting => {
                        // Without room nothing is sealed, but what waits comes before it.
                        let _ = traffic.encrypt(&[0], &mut []);
                        return (discard, Ok(Next::Again));
                    }
                    Words::Data(data) => append(self.wire, sealed_bytes(data.len()), |room| {
                        traffic.encrypt(data, room).map_err(size)
                    }),
                    Words::Close => append(self.wire, SPARE_BYTES, |room| {
                        traffic.queue_close_notify(room).map_err(size)
                    }),
                }
                .map(|()| Next::Enough)
            }
            // Early data is never offered (`ServerConfig::max_early_data_size`).
            _ => Ok(Next::Enough),
        };
        (discard, next)
    }
}

const fn sealed_bytes(plain: usize) -> usize {
    plain + (plain / RECORD_BYTES_MAX + 1) * RECORD_OVERHEAD + SPARE_BYTES
}

/// Appends what `write` writes into the room that it is given. It says how much it needs if that is
/// more, or that it cannot.
fn append(
    wire: &mut Vec<u8>,
    guess: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), TlsFault> {
    let start = wire.len();
    let mut room = guess;
    loop {
        wire.resize(start + room, 0);
        match write(&mut wire[start..]) {
            Ok(written) => {
                wire.truncate(start + written);
                return Ok(());
            }
            Err(Some(needed)) if room < needed => room = needed,
            Err(_) => {
                wire.truncate(start);
                return Err(TlsFault::Exhausted);
            }
        }
    }
}

/// Why TLS with a peer came to an end.
#[derive(Clone, Debug)]
pub enum TlsFault {
    /// The peer, or what it sent, is refused; or the peer refuses us.
    Refused(Error),
    /// The client speaks plain HTTP; it was told so.
    PlainHttp,
    /// The connection does not begin with what has to stand before TLS.
    Preface(&'static str),
    /// The peer keeps back the end of a message that is too long to be kept.
    TooLong,
    TimedOut,
    Gone,
    /// The connection's keys may not be used any longer, and the peer's version knows no others.
    Exhausted,
}

impl TlsFault {
    /// Whether the peer spoke, and not by TLS.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        matches!(
            self,
            Self::PlainHttp
                | Self::Refused(Error::InvalidMessage(InvalidMessage::InvalidContentType))
        )
    }
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PlainHttp => f.write_str("received plain HTTP on a TLS port"),
            _ if self.is_plain() => f.write_str("the bytes received are not TLS"),
            Self::Refused(Error::NoCertificatesPresented) => {
                f.write_str("the client sent no certificate, and this port requires one")
            }
            // Or it has the name of one that is trusted, and another key.
            Self::Refused(Error::InvalidCertificate(
                CertificateError::UnknownIssuer
                | CertificateError::BadSignature
                | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. },
            )) => {
                f.write_str("the peer's certificate is from an authority that is not trusted here")
            }
            Self::Refused(error) => error.fmt(f),
            Self::Preface(why) => f.write_str(why),
            Self::TooLong => f.write_str("a handshake message is too long"),
            Self::TimedOut => f.write_str("the handshake took too long"),
            Self::Gone => f.write_str("the peer went away during the handshake"),
            Self::Exhausted => f.write_str("the keys are used up"),
        }
    }
}

impl std::error::Error for TlsFault {}
