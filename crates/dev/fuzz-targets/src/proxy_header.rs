//! Client addresses given by proxies: PROXY headers, cut anywhere, and lists of forwarded
//! addresses.
//!
//! Input: the bytes of a connection; the part behind the first NUL also as `X-Forwarded-For`.

use throng_proxy::{Block, HEADER_BYTES_MAX, client_of, parse};

use crate::pieces::parts;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"PROXY TCP4 192.0.2.7 10.0.0.1 56789 8000\r\nGET / HTTP/1.1\r\n",
    b"PROXY TCP6 2001:db8::7 2001:db8::1 56789 8000\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\x0a\x00\x00\x01\xdd\xd5\x1f\x40",
    b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00",
    b"10.0.0.0/8\x00203.0.113.9, [2001:db8::1]:55, 10.0.0.7:8",
];

/// Checks that no cut changes what is read, and that only trusted proxies are believed.
pub fn proxy_header(input: &[u8]) {
    let whole = parse(input);
    for cut in 0..input.len().min(HEADER_BYTES_MAX) {
        match parse(&input[..cut]) {
            Ok(None) => {}
            early => assert_eq!(early, whole, "to {cut}"),
        }
    }
    if let Ok(Some(announced)) = whole {
        assert!(announced.length <= input.len().min(HEADER_BYTES_MAX));
    }
    let [block, lines] = parts::<2>(input);
    let block = std::str::from_utf8(block).ok().and_then(Block::parse);
    let peer = [10, 0, 0, 1].into();
    let client = |trusted: &[Block]| client_of(peer, lines.split(|byte| *byte == 0), trusted);
    assert_eq!(client(&[]), peer, "nobody is believed");
    if let Some(block) = block {
        assert_eq!(Block::parse(&block.to_string()), Some(block));
        let found = client(&[block]);
        assert!(
            found == peer || block.contains(peer),
            "a stranger is believed"
        );
    }
}
