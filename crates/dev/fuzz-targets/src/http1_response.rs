//! Any bytes to the response parser: it never panics, and what it answers does not depend
//! on how they were cut or on what follows.
//!
//! Input: one byte of limits, then the wire.

use throng_http1::{HttpLimits, ResponseBody, parse_response};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x50HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: b\r\n\r\nhello",
    b"\x52HTTP/1.0 304 \r\nConnection: keep-alive\r\n\r\n",
    b"\x50HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn http1_response(input: &[u8]) {
    let [limit, wire @ ..] = input else {
        return;
    };
    let was_head = limit % 4 > 1;
    let limits = HttpLimits {
        head_bytes_max: if limit % 2 == 0 {
            16384
        } else {
            usize::from(*limit)
        },
        headers_max: usize::from(limit / 4),
        body_bytes_max: 1000,
    };
    let whole = parse_response(wire, &limits, was_head);
    let cut = (0..=wire.len())
        .map(|end| parse_response(&wire[..end], &limits, was_head))
        .find(|parsed| *parsed != Ok(None));
    assert_eq!(cut.unwrap_or(Ok(None)), whole);
    if let Ok(Some((response, length))) = whole {
        assert!(length <= limits.head_bytes_max && wire[..length].ends_with(b"\r\n\r\n"));
        assert!((100..1000).contains(&response.status));
        assert!(!was_head || response.body == ResponseBody::None);
        assert!(response.headers().count() <= limits.headers_max);
        let _ = response.keep_alive();
    }
}
