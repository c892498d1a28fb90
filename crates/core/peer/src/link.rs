//! Links: their addresses and their ends.

use std::fmt;
use std::path::PathBuf;

/// A link that a peer dialled. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

/// Address and options of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// A name, an address, or the path of a socket of this machine, which begins with `/`. If one
    /// of a name's addresses fails, the next is tried.
    pub host: String,
    /// TCP port of the host.
    pub port: u16,
    /// TLS options; `None` for plain text.
    pub tls: Option<DialTls>,
    /// Milliseconds for look-up, connection and handshake together.
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
    /// The link could not be established; the text has the reason.
    Unreachable(String),
    /// The link broke, and bytes behind those received may be missing; the text has the reason.
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

/// Whether the host reads more input of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Continue to read the link.
    More,
    /// Read nothing until [`crate::Context::resume`].
    Hold,
}
