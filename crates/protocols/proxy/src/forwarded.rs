//! `X-Forwarded-For`: the client of a request as far as trusted proxies say, and the blocks of
//! addresses that are trusted.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::{fmt, str};

/// Finds the client of a request: the peer, unless it is a trusted proxy; then the last address of
/// `X-Forwarded-For` that is no trusted proxy, or the first if all are. Each proxy adds the address
/// that it has seen at the end, on the line that is there or on a line of its own, so everything
/// before that address anybody may have invented. `lines` are the values in the order of the head.
///
/// An element that is no address hides what is before it: then the proxy that has added it counts.
pub fn client_of<'a>(
    peer: IpAddr,
    lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusted: &[Block],
) -> IpAddr {
    let mut client = peer.to_canonical();
    for element in lines
        .rev()
        .flat_map(|line| line.rsplit(|byte| *byte == b','))
    {
        if !trusted.iter().any(|block| block.contains(client)) {
            break;
        }
        match address(element) {
            Some(told) => client = told.to_canonical(),
            None => break,
        }
    }
    client
}

/// The last address that `X-Forwarded-For` names, whoever says so.
pub fn last_address<'a>(mut lines: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<IpAddr> {
    let element = lines.next_back()?.rsplit(|byte| *byte == b',').next()?;
    address(element).map(|address| address.to_canonical())
}

/// An element: an address, with a port or without, an IPv6 one perhaps in brackets.
fn address(element: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(element).ok()?.trim();
    let bracketed = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    text.parse()
        .ok()
        .or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
        .or_else(|| bracketed?.parse().ok().filter(IpAddr::is_ipv6))
}

/// IPv4 addresses are the last 32 bits of a mapped IPv6 address (RFC 4291 section 2.5.5.2).
const V4_PREFIX: u8 = 96;

/// A block such as `10.0.0.0/8` (RFC 4632 section 3.1), or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// The first address; an IPv4 one is mapped.
    first: u128,
    /// Bits that all its addresses share, counted in the mapped form.
    prefix: u8,
}

impl Block {
    /// Reads `ADDRESS` or `ADDRESS/BITS`. Bits of the address behind the prefix do not matter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(number(bits)?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (own, before) = match address {
            IpAddr::V4(_) => (32, V4_PREFIX),
            IpAddr::V6(_) => (128, 0),
        };
        let bits = bits.unwrap_or(own);
        if bits > own {
            return None;
        }
        let prefix = before + bits;
        Some(Self {
            first: mapped(address) & mask(prefix),
            prefix,
        })
    }

    /// Tells whether the address is in the block. An IPv4 address is the same in its mapped form.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        mapped(address) & mask(self.prefix) == self.first
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Ipv6Addr::from_bits(self.first);
        match address
            .to_ipv4_mapped()
            .filter(|_| self.prefix >= V4_PREFIX)
        {
            Some(v4) => write!(f, "{v4}/{}", self.prefix - V4_PREFIX),
            None => write!(f, "{address}/{}", self.prefix),
        }
    }
}

/// Digits alone: no sign, no needless zero.
pub(crate) fn number<N: str::FromStr>(text: &str) -> Option<N> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.len() == 1 || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_number)
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

const fn mask(prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        bits => u128::MAX << (128 - bits as u32),
    }
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn the_client_is_the_last_one_that_is_no_trusted_proxy() {
        let trusted = ["127.0.0.0/8", "10.0.0.0/8", "::1"].map(|it| Block::parse(it).unwrap());
        for (case, expected) in cases(include_str!("forwarded.txt")) {
            let mut lines = case.split(" | ");
            let peer = lines.next().unwrap().parse().unwrap();
            let lines: Vec<&[u8]> = lines.map(str::as_bytes).collect();
            let client = client_of(peer, lines.into_iter(), &trusted);
            assert_eq!(client.to_string(), expected, "{case}");
        }
        // Without trusted proxies it is the peer.
        let peer = "127.0.0.1".parse().unwrap();
        assert_eq!(
            client_of(peer, [&b"198.51.100.1"[..]].into_iter(), &[]),
            peer
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_no_address() {
        let trusted = [Block::parse("127.0.0.1").unwrap()];
        let lines: [&[u8]; 2] = [b"198.51.100.1", b"\xff\xfe"];
        let peer = "127.0.0.1".parse().unwrap();
        assert_eq!(client_of(peer, lines.into_iter(), &trusted), peer);
    }

    #[test]
    fn the_last_address_is_on_the_last_line() {
        let last = |lines: &[&str]| last_address(lines.iter().map(|line| line.as_bytes()));
        assert_eq!(
            last(&["203.0.113.9", "198.51.100.1:55"]),
            "198.51.100.1".parse().ok()
        );
        assert_eq!(last(&["198.51.100.1, x"]), None);
        assert_eq!(last(&[]), None);
    }
}

#[cfg(test)]
mod block_tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn a_block_has_its_addresses_and_no_others() {
        for (case, expected) in cases(include_str!("blocks.txt")) {
            if let Some((block, address)) = case.split_once(" has ") {
                let is_inside = Block::parse(block)
                    .unwrap()
                    .contains(address.parse().unwrap());
                assert_eq!(is_inside.to_string(), expected, "{case}");
            } else {
                let block = Block::parse(case).unwrap();
                assert_eq!(block.to_string(), expected);
                assert_eq!(Block::parse(expected), Some(block));
            }
        }
    }

    #[test]
    fn other_texts_are_no_blocks() {
        for wrong in [
            "",
            "/",
            "10.0.0.0/",
            "/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0/8",
            "::/129",
            "localhost",
            "10.0.0.0/8/8",
            "10.0.0.0 /8",
        ] {
            assert_eq!(Block::parse(wrong), None, "{wrong}");
        }
    }
}
