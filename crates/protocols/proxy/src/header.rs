//! The PROXY protocol, versions 1 and 2: a header in front of everything else on a connection
//! (HAProxy, "The PROXY protocol", version 2.2; sections 2.1 and 2.2).
//!
//! A header that says nothing of the client (`UNKNOWN`, `LOCAL`, a UNIX socket) is good: proxies
//! send it when they speak for themselves, to check our health.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str;

use memchr::memmem;
use throng_types::coded_enum;

use crate::forwarded::number;

/// The longest header that is taken, in bytes: extensions that we do not read may follow the
/// addresses of version 2.
pub const HEADER_BYTES_MAX: usize = 4096;
/// The longest header of version 1 (section 2.1).
const TEXT_BYTES_MAX: usize = 107;
const TEXT_START: &[u8] = b"PROXY ";
const BINARY_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Signature, version and command, family, length.
const BINARY_FIXED_BYTES: usize = 16;

/// Header of the PROXY protocol, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client; none if the proxy speaks for itself or does not know.
    pub client: Option<SocketAddr>,
    /// Bytes of the header. What follows is the client's.
    pub length: usize,
}

coded_enum! {
    /// Fault of a header: the proxy's, or that of a peer that came past it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProxyHeaderError {
        /// Sentence for the log.
        fn reason;
        /// The connection begins with something else.
        NoHeader = "the connection does not begin with a PROXY header";
        Version = "the PROXY header has an unknown version";
        /// Longer than [`HEADER_BYTES_MAX`], or than the 107 bytes of version 1 (section 2.1).
        TooLong = "the PROXY header is too long";
        Text = "the PROXY header breaks the grammar of version 1";
        /// Too short for the addresses that it promises, or an unknown command or family.
        Binary = "the PROXY header breaks the layout of version 2";
    }
}

/// Reads the header at the start of a connection's bytes; `None` while it is not whole.
///
/// # Errors
/// A [`ProxyHeaderError`], as soon as no further bytes could make it a good one, except that faults
/// in a header of version 1 wait for its end.
pub fn parse(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let begins = |start: &[u8]| {
        let common = input.len().min(start.len());
        input.get(..common) == start.get(..common)
    };
    if begins(TEXT_START) {
        text(input)
    } else if begins(BINARY_START) {
        binary(input)
    } else {
        Err(ProxyHeaderError::NoHeader)
    }
}

fn text(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let window = &input[..input.len().min(TEXT_BYTES_MAX)];
    let Some(end) = memmem::find(window, b"\r\n") else {
        return match window.len() < TEXT_BYTES_MAX {
            true => Ok(None),
            false => Err(ProxyHeaderError::TooLong),
        };
    };
    let line = window.get(TEXT_START.len()..end).unwrap_or_default();
    let line = str::from_utf8(line).map_err(|_| ProxyHeaderError::Text)?;
    let (family, addresses) = line.split_once(' ').unwrap_or((line, ""));
    let client = match family {
        "UNKNOWN" => None,
        "TCP4" => Some(text_client::<Ipv4Addr>(addresses)?),
        "TCP6" => Some(text_client::<Ipv6Addr>(addresses)?),
        _ => return Err(ProxyHeaderError::Text),
    };
    let length = end + 2;
    Ok(Some(ProxyHeader { client, length }))
}

/// `SOURCE DESTINATION PORT PORT`, both of one family.
fn text_client<A: str::FromStr + Into<IpAddr>>(line: &str) -> Result<SocketAddr, ProxyHeaderError> {
    let mut words = line.split(' ');
    let mut word = || words.next().ok_or(ProxyHeaderError::Text);
    let (source, destination, port, to) = (word()?, word()?, word()?, word()?);
    let address = |text: &str| text.parse::<A>().map_err(|_| ProxyHeaderError::Text);
    let port_of = |text: &str| number::<u16>(text).ok_or(ProxyHeaderError::Text);
    let client = SocketAddr::new(address(source)?.into(), port_of(port)?);
    address(destination)?;
    port_of(to)?;
    match words.next() {
        None => Ok(client),
        Some(_) => Err(ProxyHeaderError::Text),
    }
}

fn binary(input: &[u8]) -> Result<Option<ProxyHeader>, ProxyHeaderError> {
    let Some(&version_command) = input.get(BINARY_START.len()) else {
        return Ok(None);
    };
    if version_command >> 4 != 2 {
        return Err(ProxyHeaderError::Version);
    }
    let is_local = match version_command & 15 {
        0 => true,
        1 => false,
        _ => return Err(ProxyHeaderError::Binary),
    };
    let Some(&[_, family, high, low]) = input.get(BINARY_START.len()..BINARY_FIXED_BYTES) else {
        return Ok(None);
    };
    let length = BINARY_FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if length > HEADER_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let address_bytes = match family >> 4 {
        0 => 0,
        1 => 12,
        2 => 36,
        3 => 216,
        _ => return Err(ProxyHeaderError::Binary),
    };
    if family & 15 > 2 || !is_local && length < BINARY_FIXED_BYTES + address_bytes {
        return Err(ProxyHeaderError::Binary);
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
    Ok(Some(ProxyHeader { client, length }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::{cases, hex_byte};

    use super::*;

    /// Bytes that HAProxy sends with `send-proxy` and `send-proxy-v2`, and that its document shows.
    const V4: &[u8] =
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x01\xdd\xd5\x1f\x40";
    const V6: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\x00\x24\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x07\
    \x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\xdd\xd5\x1f\x40";
    /// A health check of the proxy's own.
    const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
    /// With a type-length-value behind the addresses (PP2_TYPE_NOOP).
    const WITH_TLV: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x10\
    \xc0\x00\x02\x07\x0a\x00\x00\x01\xdd\xd5\x1f\x40\x04\x00\x01\x00";

    fn good() -> Vec<(Vec<u8>, Option<&'static str>)> {
        let unix = [&b"\r\n\r\n\0\r\nQUIT\n\x21\x31\x00\xd8"[..], &[0x2f; 216]].concat();
        vec![
            (
                b"PROXY TCP4 192.0.2.7 10.0.0.1 56789 8000\r\n".to_vec(),
                Some("192.0.2.7:56789"),
            ),
            (
                b"PROXY TCP6 2001:db8::7 2001:db8::1 56789 8000\r\n".to_vec(),
                Some("[2001:db8::7]:56789"),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (b"PROXY UNKNOWN ffff::1 whatever 1 2 3\r\n".to_vec(), None),
            (V4.to_vec(), Some("192.0.2.7:56789")),
            (V6.to_vec(), Some("[2001:db8::7]:56789")),
            (LOCAL.to_vec(), None),
            (WITH_TLV.to_vec(), Some("192.0.2.7:56789")),
            (unix, None),
        ]
    }

    #[test]
    fn headers_tell_the_client_however_they_are_cut() {
        for (header, client) in good() {
            let client = client.map(|text| text.parse().unwrap());
            let length = header.len();
            for rest in [&b""[..], b"GET / HTTP/1.1\r\n\r\n", b"\0", b"PROXY "] {
                let wire = [&header[..], rest].concat();
                for cut in 0..=wire.len() {
                    let expected = (cut >= length).then_some(ProxyHeader { client, length });
                    assert_eq!(parse(&wire[..cut]), Ok(expected), "{wire:?} to {cut}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_header_is_refused_at_once_or_at_its_end() {
        let rows =
            cases(include_str!("header.txt")).map(|(case, fault)| match case.split_once(' ') {
                Some(("v2", hex)) => {
                    let bytes = hex.as_bytes().chunks(2);
                    let bytes = bytes.map(|pair| hex_byte(pair[0], pair[1]).unwrap());
                    (BINARY_START.iter().copied().chain(bytes).collect(), fault)
                }
                _ => (format!("{case}\r\n").into_bytes(), fault),
            });
        let long = [b"PROXY UNKNOWN ", &[b'x'; 200][..], b"\r\n"].concat();
        for (wire, fault) in rows.chain([
            (b"PROXI".to_vec(), "NoHeader"),
            (b"\r\n\r\n\0\r\nQUIT\r".to_vec(), "NoHeader"),
            (b"PROXY TCP4 \xff 1.2.3.4 1 1\r\n".to_vec(), "Text"),
            (long, "TooLong"),
        ]) {
            let told = parse(&wire);
            assert_eq!(
                format!("{told:?}"),
                format!("Err({fault})"),
                "{}",
                wire.escape_ascii()
            );
            for cut in 0..wire.len() {
                let answer = parse(&wire[..cut]);
                assert!(
                    answer == Ok(None) || answer == told,
                    "{} to {cut}: {answer:?}",
                    wire.escape_ascii()
                );
            }
        }
    }

    proptest! {
        #[test]
        fn nothing_panics_and_no_cut_matters(
            start in prop_oneof![Just(TEXT_START), Just(BINARY_START), Just(V4), Just(&b""[..])],
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let wire = [start, &rest].concat();
            let whole = parse(&wire);
            for cut in 0..wire.len() {
                match parse(&wire[..cut]) {
                    Ok(None) => {}
                    early => prop_assert_eq!(early, whole),
                }
            }
            if let Ok(Some(announced)) = whole {
                prop_assert!(announced.length <= wire.len().min(HEADER_BYTES_MAX));
            }
        }
    }
}
