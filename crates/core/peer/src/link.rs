//! Links: where they go and how they end.

use std::fmt;
use std::path::PathBuf;

/// A link that a peer dialled. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// The way of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// A name, an address, or the path of a socket of this machine, which begins with `/`. Of a
    /// name's addresses the next is tried where one fails.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// TLS, if it is spoken.
    pub tls: Option<DialTls>,
    /// Bound of look-up, connection and handshake together.
    pub timeout_ms: u64,
}

/// TLS on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTls {
    /// The name that the certificate must carry.
    pub name: String,
    /// Accepts any certificate; no verification.
    pub insecure: bool,
    /// PEM file of the trusted authorities, read for each handshake; without one, those of this
    /// machine.
    pub authorities: Option<PathBuf>,
}

/// Causes of a link's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The other side closed it, behind all of its bytes.
    ByPeer,
    /// No link came about; the text says why.
    Unreachable(String),
    /// Something may be missing behind the bytes that came; the text says why.
    Broken(String),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByPeer => f.write_str("it closed the connection"),
            Self::Unreachable(why) | Self::Broken(why) => f.write_str(why),
        }
    }
}

/// Whether more input of a link is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Read on.
    More,
    /// Nothing until [`crate::Context::resume`].
    Hold,
}
