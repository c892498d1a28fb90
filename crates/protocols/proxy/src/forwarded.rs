//! `X-Forwarded-For`: whom a request came from, as far as trusted proxies say.

use std::net::{IpAddr, SocketAddr};
use std::str;

use crate::block::Block;

/// Whom a request came from: the peer, unless it is a trusted proxy; then the last address of
/// `X-Forwarded-For` that is none. Each proxy adds the address that it has seen at the end, on the
/// line that is there or on a line of its own, so everything before that address anybody may have
/// invented. `lines` are the values in the order of the head.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, lines: &[&str], trusted: &[&str]) -> String {
        let trusted: Vec<Block> = { trusted.iter() }
            .map(|text| Block::parse(text).unwrap())
            .collect();
        let lines = lines.iter().map(|line| line.as_bytes());
        client_of(peer.parse().unwrap(), lines, &trusted).to_string()
    }

    const LOCAL: &[&str] = &["127.0.0.0/8", "10.0.0.0/8", "::1"];

    #[test]
    fn the_client_is_the_last_one_that_is_no_trusted_proxy() {
        for (peer, lines, expected) in [
            // Nobody is believed who is not trusted.
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("127.0.0.1", &[], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:127.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            // What the client wrote itself stands before.
            ("127.0.0.1", &["203.0.113.9, 198.51.100.1"], "198.51.100.1"),
            // HAProxy adds a line; what the client wrote is on the first.
            (
                "127.0.0.1",
                &["203.0.113.9", "198.51.100.1"],
                "198.51.100.1",
            ),
            // A chain of proxies.
            (
                "127.0.0.1",
                &["203.0.113.9, 198.51.100.1, 10.0.0.7"],
                "198.51.100.1",
            ),
            (
                "127.0.0.1",
                &["198.51.100.1", "10.0.0.7,10.0.0.8"],
                "198.51.100.1",
            ),
            // Everybody is trusted: the first one.
            ("127.0.0.1", &["10.0.0.6, 10.0.0.7"], "10.0.0.6"),
            // Ports and brackets.
            ("127.0.0.1", &["198.51.100.1:4711"], "198.51.100.1"),
            ("127.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("127.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("127.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("::1", &["  198.51.100.1\t"], "198.51.100.1"),
            ("127.0.0.1", &["::ffff:198.51.100.1"], "198.51.100.1"),
            // What is no address says nothing, and hides what is before it.
            ("127.0.0.1", &["unknown"], "127.0.0.1"),
            ("127.0.0.1", &[""], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1, "], "127.0.0.1"),
            (
                "127.0.0.1",
                &["198.51.100.1, unknown, 10.0.0.7"],
                "10.0.0.7",
            ),
            ("127.0.0.1", &["[198.51.100.1]"], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1:"], "127.0.0.1"),
            ("127.0.0.1", &["198.51.100.1:99999"], "127.0.0.1"),
        ] {
            assert_eq!(client(peer, lines, LOCAL), expected, "{peer} {lines:?}");
        }
    }

    #[test]
    fn without_trusted_proxies_the_peer_is_the_client() {
        assert_eq!(client("127.0.0.1", &["198.51.100.1"], &[]), "127.0.0.1");
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
