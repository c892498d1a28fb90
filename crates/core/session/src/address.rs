//! Addresses of clients: which addresses count as one client, and which are private.
//!
//! Owns nothing. Never: asks the kernel.

use std::net::{IpAddr, Ipv6Addr};

/// Whether the address may belong to a proxy close by: this machine's, or one of a private network.
pub fn is_close_by(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// Network that limits count as one address: an IPv4 address itself, or the /64 of an IPv6 address,
/// because a client has all of its /64.
pub fn counted_as(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

/// Number of the network of [`counted_as`]; `None` for a private address, unless `counts_private`.
pub(crate) fn network(address: IpAddr, counts_private: bool) -> Option<u128> {
    if !counts_private && is_close_by(address) {
        return None;
    }
    Some(match counted_as(address) {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_a_64() {
        for (one, other, same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::1", "2001:db8::ffff:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
        ] {
            assert_eq!(
                counted_as(ip(one)) == counted_as(ip(other)),
                same,
                "{one} {other}"
            );
        }
    }

    #[test]
    fn addresses_close_by_may_be_proxies() {
        for (text, close) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("192.168.1.1", true),
            ("169.254.1.1", true),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("172.32.0.1", false),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_close_by(ip(text)), close, "{text}");
            assert_eq!(network(ip(text), false).is_none(), close, "{text}");
            assert!(network(ip(text), true).is_some(), "{text}");
        }
    }
}
