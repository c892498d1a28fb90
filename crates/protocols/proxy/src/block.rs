//! Blocks of addresses, as operators write them.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

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

    /// Whether the address is in the block. An IPv4 address is the same in its mapped form.
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
pub(crate) fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
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
    use super::*;

    #[test]
    fn a_block_has_its_addresses_and_no_others() {
        for (block, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("10.0.0.0/8", "::a01:203", false),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "198.51.100.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::1", "::1", true),
            ("::1", "127.0.0.1", false),
            ("::/0", "127.0.0.1", true),
            ("::ffff:10.0.0.0/104", "10.9.9.9", true),
        ] {
            let read = Block::parse(block).unwrap();
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(read.contains(address), inside, "{block} {address}");
        }
    }

    #[test]
    fn what_is_written_reads_the_same_again() {
        for (text, written) in [
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:db8:1::5/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::/0", "::/0"),
            ("0.0.0.0/0", "0.0.0.0/0"),
        ] {
            let block = Block::parse(text).unwrap();
            assert_eq!(block.to_string(), written);
            assert_eq!(Block::parse(written), Some(block));
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
