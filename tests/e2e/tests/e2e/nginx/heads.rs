//! Request lines, hosts, fields, and several requests at once.

use super::{Row, why};

pub(super) fn rows() -> Vec<Row> {
    let lines = LINES.iter().map(|(line, why)| {
        let line = line.as_bytes();
        Row::new([line, b"\r\nHost: localhost\r\n\r\n"].concat(), why)
    });
    let fields = FIELDS.iter().map(|(field, why)| {
        let head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n";
        Row::new([head, *field, b"\r\n\r\n"].concat(), why)
    });
    let hosts = HOSTS
        .iter()
        .map(|(host, why)| Row::new([b"GET /healthz HTTP/1.1\r\n", *host, b"\r\n"].concat(), why));
    let whole = WHOLE.iter().map(|(bytes, why)| Row::new(bytes, why));
    let long = [
        (
            format!(
                "GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n",
                "x".repeat(20_000)
            ),
            "",
        ),
        (get(&format!("A: {}\r\n", "x".repeat(8000))), ""),
        (get(&format!("A: {}\r\n", "x".repeat(20_000))), ""),
        (get(&"A: b\r\n".repeat(60)), ""),
        (get(&"A: b\r\n".repeat(100)), why::LIMIT),
        (get(&format!("{}: b\r\n", "A".repeat(1000))), ""),
        (
            format!("{} / HTTP/1.1\r\nHost: localhost\r\n\r\n", "A".repeat(100)),
            why::LIMIT,
        ),
    ];
    let long = long.into_iter().map(|(text, why)| Row::new(text, why));
    lines
        .chain(fields)
        .chain(hosts)
        .chain(whole)
        .chain(long)
        .collect()
}

fn get(fields: &str) -> String {
    format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

/// Request lines, good and bad.
const LINES: &[(&str, &str)] = &[
    ("GET /healthz HTTP/1.1", ""),
    ("HEAD /healthz HTTP/1.1", ""),
    ("HEAD /nowhere HTTP/1.1", ""),
    ("GET /nowhere HTTP/1.1", ""),
    ("POST /healthz HTTP/1.1", ""),
    ("PUT /healthz HTTP/1.1", ""),
    ("DELETE /healthz HTTP/1.1", ""),
    ("OPTIONS /healthz HTTP/1.1", ""),
    ("TRACE /healthz HTTP/1.1", why::METHOD),
    ("CONNECT localhost:80 HTTP/1.1", ""),
    ("M-SEARCH /healthz HTTP/1.1", ""),
    ("get /healthz HTTP/1.1", why::METHOD),
    ("G3T /healthz HTTP/1.1", why::METHOD),
    ("G(T /healthz HTTP/1.1", ""),
    ("G\u{e9}T /healthz HTTP/1.1", ""),
    ("GET  /healthz HTTP/1.1", why::SPACES),
    ("GET /healthz  HTTP/1.1", why::SPACES),
    ("GET /healthz HTTP/1.1 ", why::SPACES),
    (" GET /healthz HTTP/1.1", ""),
    ("GET\t/healthz HTTP/1.1", ""),
    ("GET /healthz\tHTTP/1.1", ""),
    ("GET /healthz HTTP/1.0", ""),
    ("GET /healthz HTTP/0.9", why::VERSION),
    ("GET /healthz HTTP/1.2", why::VERSION),
    ("GET /healthz HTTP/1.9", why::VERSION),
    ("GET /healthz HTTP/1.10", why::VERSION),
    ("GET /healthz HTTP/01.1", ""),
    ("GET /healthz HTTP/2.0", ""),
    ("GET /healthz HTTP/3.0", ""),
    ("GET /healthz HTTP/1.", ""),
    ("GET /healthz HTTP/1", ""),
    ("GET /healthz HTTP/", ""),
    ("GET /healthz http/1.1", ""),
    ("GET /healthz HTTPS/1.1", ""),
    ("GET /healthz HTTP/1.1x", ""),
    ("GET /healthz HTTP /1.1", ""),
    ("GET /healthz HTTP/-1.1", ""),
    ("GET /healthz XTTP/1.1", ""),
    ("GET /healthz", why::OLD),
    ("GET", ""),
    ("GET ", ""),
    ("/healthz HTTP/1.1", ""),
    ("GET healthz HTTP/1.1", ""),
    ("GET http://localhost/healthz HTTP/1.1", ""),
    ("GET http://other/healthz HTTP/1.1", ""),
    ("GET https://localhost/healthz HTTP/1.1", ""),
    ("GET ftp://localhost/healthz HTTP/1.1", why::TARGET),
    ("GET http://localhost HTTP/1.1", why::ROOT),
    ("GET http:///healthz HTTP/1.1", ""),
    ("GET http://user@localhost/healthz HTTP/1.1", ""),
    ("GET //healthz HTTP/1.1", why::PATH),
    ("GET /./healthz HTTP/1.1", why::PATH),
    ("GET /x/../healthz HTTP/1.1", why::PATH),
    ("GET /../healthz HTTP/1.1", why::PATH),
    ("GET /%68ealthz HTTP/1.1", why::PATH),
    ("GET /healthz/ HTTP/1.1", ""),
    ("GET /healthz? HTTP/1.1", ""),
    ("GET /healthz?a=b&c HTTP/1.1", ""),
    ("GET /healthz?a=%zz HTTP/1.1", ""),
    ("GET /healthz?a=%ff HTTP/1.1", ""),
    ("GET /healthz?a b HTTP/1.1", ""),
    ("GET /healthz#a HTTP/1.1", why::TARGET),
    ("GET /healthz%00 HTTP/1.1", why::PATH),
    ("GET /%zz HTTP/1.1", why::PATH),
    ("GET /\u{1} HTTP/1.1", ""),
    ("GET /\u{7f} HTTP/1.1", ""),
    ("GET /\u{e9} HTTP/1.1", ""),
    ("GET /\"<>\\^`{|} HTTP/1.1", ""),
    ("GET * HTTP/1.1", ""),
    ("OPTIONS * HTTP/1.1", why::STAR),
    ("OPTIONS http://localhost HTTP/1.1", ""),
];

/// Fields of a request whose other parts are good.
const FIELDS: &[(&[u8], &str)] = &[
    (b"A: b", ""),
    (b"A:b", ""),
    (b"A:", ""),
    (b"A: \tb\t ", ""),
    (b"A: b\r\nA: c", ""),
    (b"A : b", ""),
    (b"A\t: b", ""),
    (b" A: b", ""),
    (b"\tA: b", ""),
    (b": b", ""),
    (b"A", why::NAME),
    (b"A b", ""),
    (b"A: b\r\n c", ""),
    (b"A: b\r\n\tc: d", ""),
    (b"A: b\r\n ", ""),
    (b"A: \x00b", ""),
    (b"A: \x01b", why::CONTROL),
    (b"A: \x0bb", why::CONTROL),
    (b"A: \x7fb", why::CONTROL),
    (b"A: \xff\xfe", ""),
    (b"A\x00: b", ""),
    (b"A\x7f: b", ""),
    (b"A(: b", why::NAME),
    (b"A@b: c", why::NAME),
    (b"A/b: c", why::NAME),
    (b"A\"b: c", why::NAME),
    (b"A[]: c", why::NAME),
    (b"A_b: c", ""),
    (b"A.b: c", ""),
    (b"A!#$%&'*+^`|~: c", ""),
    (b"\xc3\xa9: b", why::NAME),
    (b"A: b\rC: d", ""),
    (b"A: b\nC: d", why::LINE_END),
    (b"A: b\r\r\nC: d", why::LINE_END),
    (b"A: b\n\r\nC: d", why::LINE_END),
    (b"Connection: close", ""),
    (b"Connection: CLOSE", ""),
    (b"Connection: keep-alive", ""),
    (b"Connection: x, close", ""),
    (b"Connection: close, x", ""),
    (b"Connection: closed", why::CLOSE),
    (b"Connection: keep-alive\r\nConnection: close", ""),
    (b"Connection: close\r\nConnection: keep-alive", why::CLOSE),
    (b"Connection:", ""),
    (b"Proxy-Connection: close", ""),
    (
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA",
        "",
    ),
    (b"Connection: Upgrade\r\nUpgrade: websocket", ""),
    (b"Expect: 100-continue", ""),
    (b"Expect: 200-ok", ""),
    (b"Host: localhost", ""),
    (b"Host: other", ""),
    (b"hOST: localhost", ""),
    (b"Content-Length: 0", ""),
    (b"Content-Length: 0\r\nContent-Length: 0", ""),
    (b"Content-Length: -1", ""),
    (b"Content-Length: x", ""),
    (b"Range: bytes=0-0", ""),
    (b"Range: bytes=9-", ""),
    (b"If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT", ""),
    (b"If-None-Match: *", why::CONDITION),
    (b"If-Match: \"a\"", why::CONDITION),
    (b"Accept: \"", ""),
    (b"Accept-Encoding: gzip;q=x", ""),
    (b"Cookie: a=b\r\nCookie: c", ""),
    (b"Authorization: Basic x", ""),
    (b"TE: trailers", ""),
    (b"Trailer: A", ""),
    (b"Max-Forwards: 0", ""),
];

/// Lines about the host, each with its end, or none.
const HOSTS: &[(&[u8], &str)] = &[
    (b"", ""),
    (b"Host:\r\n", why::NO_HOST),
    (b"Host: \r\n", why::NO_HOST),
    (b"Host: localhost:80\r\n", ""),
    (b"Host: LOCALHOST\r\n", ""),
    (b"Host: localhost.\r\n", ""),
    (b"Host: localhost:\r\n", ""),
    (b"Host: localhost:x\r\n", why::BAD_HOST),
    (b"Host: localhost:99999\r\n", ""),
    (b"Host: 127.0.0.1\r\n", ""),
    (b"Host: [::1]\r\n", ""),
    (b"Host: [::1]:80\r\n", ""),
    (b"Host: [::1\r\n", why::BAD_HOST),
    (b"Host: a b\r\n", ""),
    (b"Host: a/b\r\n", ""),
    (b"Host: a,b\r\n", why::BAD_HOST),
    (b"Host: a@b\r\n", why::BAD_HOST),
    (b"Host: a\\b\r\n", why::BAD_HOST),
    (b"Host: a#b\r\n", why::BAD_HOST),
    (b"Host: a?b\r\n", why::BAD_HOST),
    (b"Host: a\"b\r\n", why::BAD_HOST),
    (b"Host: a%20b\r\n", ""),
    (b"Host: a..b\r\n", why::NO_HOST),
    (b"Host: .\r\n", why::NO_HOST),
    (b"Host: \xff\r\n", why::BAD_HOST),
    (b"Host: a\x00b\r\n", ""),
    (b"Host : localhost\r\n", ""),
    (b"Host: localhost\r\nHost: localhost\r\n", ""),
    (b"Host: a\r\nhost: b\r\n", ""),
];

/// Bytes as they are.
const WHOLE: &[(&[u8], &str)] = &[
    (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n",
        "",
    ),
    (
        b"HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        "",
    ),
    (b"\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", ""),
    (b"\r\n\r\n\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", ""),
    (
        b"\n\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        why::LINE_END,
    ),
    (b"\rGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", why::LINE_END),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n", ""),
    (b"GET /healthz HTTP/1.1\nHost: a\n\n", why::LINE_END),
    (b"GET /healthz HTTP/1.1\nHost: a\r\n\r\n", why::LINE_END),
    (b"GET /healthz HTTP/1.1\r\nHost: a\r\n\n", why::LINE_END),
    (b"GET /healthz HTTP/1.1\rHost: a\r\r", ""),
    (b"GET /healthz HTTP/1.1\r\n Host: a\r\n\r\n", ""),
    (b"GET /healthz HTTP/1.0\r\n\r\n", ""),
    (b"GET /healthz HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", ""),
    (
        b"GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        why::OLD_KEEP,
    ),
    (b"HEAD /healthz HTTP/1.0\r\n\r\n", ""),
    (b"GET /healthz\r\n", why::OLD),
    (b"\x00\x01\x02\x03\r\n\r\n", ""),
    (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", ""),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", why::VERSION),
    (b"{\"id\":1}\r\n\r\n", ""),
    (b"HEAD /healthz HTTP/1.1\r\n\r\n", ""),
    (b"HEAD /healthz HTTP/9.9\r\nHost: a\r\n\r\n", ""),
];
