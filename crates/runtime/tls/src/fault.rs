//! Why TLS with a peer came to an end.

use std::fmt;

use rustls::{CertificateError, Error, InvalidMessage};

/// Why TLS with a peer came to an end.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The peer, or what it sent, is refused; or the peer refuses us.
    Refused(Error),
    /// The client speaks plain HTTP; it was told so.
    PlainHttp,
    /// The connection does not begin with what has to stand before TLS.
    Preface(&'static str),
    /// The peer keeps back the end of a message that is too long to be kept.
    TooLong,
    /// The handshake took too long.
    TimedOut,
    /// The peer went away during the handshake.
    Gone,
    /// The connection's keys may not be used any longer, and the peer's version knows no others.
    Exhausted,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
                f.write_str("the bytes received are not TLS")
            }
            Self::Refused(Error::NoCertificatesPresented) => {
                f.write_str("the client sent no certificate, and this port requires one")
            }
            Self::Refused(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                f.write_str("the peer's certificate is from an authority that is not trusted here")
            }
            Self::Refused(error) => error.fmt(f),
            Self::PlainHttp => f.write_str("received plain HTTP on a TLS port"),
            Self::Preface(why) => f.write_str(why),
            Self::TooLong => f.write_str("a handshake message is too long"),
            Self::TimedOut => f.write_str("the handshake took too long"),
            Self::Gone => f.write_str("the peer went away during the handshake"),
            Self::Exhausted => f.write_str("the keys are used up"),
        }
    }
}

impl std::error::Error for Fault {}
