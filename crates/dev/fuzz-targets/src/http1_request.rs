//! Any bytes to the request parser: it never panics, what it answers does not depend on
//! how they were cut or on what follows, and what it accepts it accepts again when the same
//! request is encoded.
//!
//! Input: one byte of limits, four chunk lengths (used over and over), then the wire.

use throng_http1::{
    BadRequest, HttpLimits, KnownHead, Request, encode_request, parse_request,
    parse_request_resumed, query,
};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x00\x03\x09\x01\x20GET /a?b=c%20d&e HTTP/1.1\r\nHost: a\r\nX: y \r\nConnection: \
      close\r\n\r\nrest",
    b"\xfe\x05\x05\x05\x05POST http://h:80/p HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: \
      100-continue\r\n\r\nhello",
    b"\x00\x05\x05\x05\x05POST /pub?a HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nPOST \
      /pub?bc HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\n",
    b"\x50\x01\x02\x03\x04PUT /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\nUpgrade: \
      websocket\r\nConnection: upgrade\r\n\r\n",
];

type Parsed<'b> = Result<Option<(Request<'b>, usize)>, BadRequest>;

fn in_chunks<'b>(wire: &'b [u8], chunk_bytes: &[u8], limits: &HttpLimits) -> Parsed<'b> {
    let mut searched = 0;
    for chunk in chunk_bytes.iter().cycle() {
        let end = wire.len().min(searched + usize::from(*chunk) + 1);
        let parsed = parse_request_resumed(&wire[..end], searched, limits);
        if parsed != Ok(None) || end == wire.len() {
            return parsed;
        }
        searched = end;
    }
    Ok(None)
}

/// Whatever is accepted can be asked about, and is one request for its own parser again.
fn check_accepted(request: &Request<'_>) {
    assert!(!request.path().is_empty());
    assert!(request.target.contains(request.query()));
    assert!(
        !request
            .target
            .bytes()
            .any(|byte| byte.is_ascii_control() || byte == b' ')
    );
    let _ = (request.keep_alive(), request.expects_continue());
    let _ = request.wants_upgrade("websocket");
    for (name, value) in query::pairs(request.query()) {
        let mut again = String::new();
        query::encode(&name, &mut again);
        again.push('=');
        query::encode(&value, &mut again);
        assert_eq!(query::pairs(&again).next(), Some((name, value)));
    }
    let headers: Vec<(&str, &str)> = request
        .headers()
        .filter_map(|(name, value)| Some((name, std::str::from_utf8(value).ok()?)))
        .collect();
    for (name, value) in &headers {
        assert!(!name.is_empty() && !value.bytes().any(|byte| b"\r\n\0".contains(&byte)));
        assert!(request.header(name).is_some() || request.headers().values(name).count() > 1);
    }
    let mut wire = Vec::new();
    let (method, target, host) = (request.method, request.target, request.host());
    encode_request(method, target, host, &headers, None, &mut wire);
    let no_limits = HttpLimits {
        head_bytes_max: usize::MAX,
        headers_max: usize::MAX,
        body_bytes_max: 0,
    };
    let (again, length) = parse_request(&wire, &no_limits)
        .expect("what was accepted is accepted again")
        .expect("an encoded head is whole");
    assert_eq!(
        (again.method, again.host(), length),
        (method, host, wire.len())
    );
}

/// Runs one input of this target; panics if the target finds a fault.
pub fn http1_request(input: &[u8]) {
    let [limit, first, second, third, fourth, wire @ ..] = input else {
        return;
    };
    let limits = HttpLimits {
        head_bytes_max: if limit % 2 == 0 {
            16384
        } else {
            usize::from(*limit)
        },
        headers_max: usize::from(limit / 4),
        body_bytes_max: 1000,
    };
    let whole = parse_request(wire, &limits);
    let cut = in_chunks(wire, &[*first, *second, *third, *fourth], &limits);
    assert_eq!(whole, cut);
    assert_eq!(whole, in_chunks(wire, &[0], &limits));
    if let Ok(Some((request, length))) = whole {
        assert!(length <= limits.head_bytes_max && wire[..length].ends_with(b"\r\n\r\n"));
        assert_eq!(parse_request(&wire[..length], &limits), whole);
        check_accepted(&request);
        check_known(&wire[..length], &request, &wire[length..], &limits);
    }
}

/// A head that is read because of the one before it is read as it always is.
fn check_known(head: &[u8], request: &Request<'_>, next: &[u8], limits: &HttpLimits) {
    let Some(known) = KnownHead::of(head, request) else {
        return;
    };
    let again = parse_request(head, limits).expect("it was accepted");
    assert_eq!(known.read(head, limits), again);
    if let Some(read) = known.read(next, limits) {
        assert_eq!(parse_request(next, limits), Ok(Some(read)));
    }
}
