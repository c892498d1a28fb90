//! The PROXY protocol, versions 1 and 2: a header in front of everything else on a connection
//! (HAProxy, "The PROXY protocol", version 2.2; sections 2.1 and 2.2).
//!
//! A header that says nothing of the client (`UNKNOWN`, `LOCAL`, a UNIX socket) is good: proxies
//! send it when they speak for themselves, to check our health.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str;

use memchr::memmem;

use crate::block::number;

/// The longest header that is taken, in bytes: extensions that we do not read may follow the
/// addresses of version 2.
pub const HEADER_BYTES_MAX: usize = 4096;
/// The longest header of version 1 (section 2.1).
const TEXT_BYTES_MAX: usize = 107;
const TEXT_START: &[u8] = b"PROXY ";
const BINARY_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const BINARY_FIXED_BYTES: usize = 16;

/// A header, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Whose connection it is; none if the proxy speaks for itself or does not know.
    pub client: Option<SocketAddr>,
    /// Bytes of the header. What follows is the client's.
    pub length: usize,
}

/// Why a connection does not begin as it must: the proxy's fault, or that of whoever came past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// It begins otherwise.
    NoHeader,
    /// A version that there is not.
    Version,
    /// Longer than [`HEADER_BYTES_MAX`], or than version 1 allows.
    TooLong,
    /// The text of version 1 breaks its grammar.
    Text,
    /// Too short for the addresses that it promises, or an unknown command or family.
    Binary,
}

impl BadHeader {
    /// A sentence for the log.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NoHeader => "the connection does not begin with a PROXY header",
            Self::Version => "the PROXY header has an unknown version",
            Self::TooLong => "the PROXY header is too long",
            Self::Text => "the PROXY header breaks the grammar of version 1",
            Self::Binary => "the PROXY header breaks the layout of version 2",
        }
    }
}

/// Reads the header at the start of a connection's bytes; `None` while it is not whole.
///
/// # Errors
/// A [`BadHeader`], as soon as no further bytes could make it a good one, except that faults in a
/// header of version 1 wait for its end.
pub fn parse(input: &[u8]) -> Result<Option<Announced>, BadHeader> {
    let begins = |start: &[u8]| {
        let common = input.len().min(start.len());
        input.get(..common) == start.get(..common)
    };
    if begins(TEXT_START) {
        text(input)
    } else if begins(BINARY_START) {
        binary(input)
    } else {
        Err(BadHeader::NoHeader)
    }
}

fn text(input: &[u8]) -> Result<Option<Announced>, BadHeader> {
    let window = &input[..input.len().min(TEXT_BYTES_MAX)];
    let Some(end) = memmem::find(window, b"\r\n") else {
        return match window.len() < TEXT_BYTES_MAX {
            true => Ok(None),
            false => Err(BadHeader::TooLong),
        };
    };
    let line = window.get(TEXT_START.len()..end).unwrap_or_default();
    let line = str::from_utf8(line).map_err(|_| BadHeader::Text)?;
    let (family, addresses) = line.split_once(' ').unwrap_or((line, ""));
    let client = match family {
        "UNKNOWN" => None,
        "TCP4" => Some(text_client::<Ipv4Addr>(addresses)?),
        "TCP6" => Some(text_client::<Ipv6Addr>(addresses)?),
        _ => return Err(BadHeader::Text),
    };
    let length = end + 2;
    Ok(Some(Announced { client, length }))
}

/// `SOURCE DESTINATION PORT PORT`, both of one family.
fn text_client<A: str::FromStr + Into<IpAddr>>(line: &str) -> Result<SocketAddr, BadHeader> {
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or(BadHeader::Text);
    let (source, destination, port, to) = (word()?, word()?, word()?, word()?);
    let address = |text: &str| text.parse::<A>().map_err(|_| BadHeader::Text);
    let port_of = |text: &str| number::<u16>(text).ok_or(BadHeader::Text);
    let client = SocketAddr::new(address(source)?.into(), port_of(port)?);
    address(destination)?;
    port_of(to)?;
    match words.next() {
        None => Ok(client),
        Some(_) => Err(BadHeader::Text),
    }
}

fn binary(input: &[u8]) -> Result<Option<Announced>, BadHeader> {
    let Some(&version_command) = input.get(BINARY_START.len()) else {
        return Ok(None);
    };
    if version_command >> 4 != 2 {
        return Err(BadHeader::Version);
    }
    let is_local = match version_command & 15 {
        0 => true,
        1 => false,
        _ => return Err(BadHeader::Binary),
    };
    let Some(&[_, family, high, low]) = input.get(BINARY_START.len()..BINARY_FIXED_BYTES) else {
        return Ok(None);
    };
    let length = BINARY_FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > HEADER_BYTES_MAX {
        return Err(BadHeader::TooLong);
    }
    let address_bytes = match family >> 4 {
        0 => 0,
        1 => 12,
        2 => 36,
        3 => 216,
        _ => return Err(BadHeader::Binary),
    };
    if family & 15 > 2 || !is_local && length < BINARY_FIXED_BYTES + address_bytes {
        return Err(BadHeader::Binary);
    }
    let Some(body) = input.get(BINARY_FIXED_BYTES..length) else {
        return Ok(None);
    };
    let client = match family >> 4 {
        _ if is_local => None,
        1 => body
            .first_chunk()
            .map(|bytes: &[u8; 4]| Ipv4Addr::from(*bytes).into()),
        2 => body
            .first_chunk()
            .map(|bytes: &[u8; 16]| Ipv6Addr::from(*bytes).into()),
        _ => None,
    };
    // Both addresses stand before both ports.
    let port_at = address_bytes.saturating_sub(4);
    let port = match body.get(port_at..port_at + 2) {
        Some(&[high, low]) => u16::from_be_bytes([high, low]),
        _ => 0,
    };
    let client = client.map(|address: IpAddr| SocketAddr::new(address, port));
    Ok(Some(Announced { client, length }))
}

#[cfg(test)]
mod tests;
