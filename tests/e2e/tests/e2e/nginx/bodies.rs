//! Bodies: how they are declared, and chunks.

use super::{Row, why};

pub(super) fn rows() -> Vec<Row> {
    let declared = DECLARED.iter().map(|(fields, why)| {
        let head = b"POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\n";
        Row::new([head, *fields, b"\r\nhello"].concat(), why)
    });
    let coded = CODED.iter().map(|(fields, why)| {
        let head = b"POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\n";
        let body = b"\r\n5\r\nhello\r\n0\r\n\r\n";
        Row::new([head, *fields, body].concat(), why)
    });
    let chunks = CHUNKS.iter().map(|(body, why)| {
        let head = b"POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\n\
            Transfer-Encoding: chunked\r\n\r\n";
        Row::new([head, *body].concat(), why)
    });
    let whole = WHOLE.iter().map(|(bytes, why)| Row::new(bytes, why));
    declared.chain(coded).chain(chunks).chain(whole).collect()
}

/// Fields before the body `hello`.
const DECLARED: &[(&[u8], &str)] = &[
    (b"Content-Length: 5\r\n", ""),
    (b"content-length:5\r\n", ""),
    (b"Content-Length: \t5 \r\n", why::TAB),
    (b"Content-Length: 05\r\n", ""),
    (b"Content-Length: 0000000000000000000005\r\n", ""),
    (b"Content-Length: +5\r\n", ""),
    (b"Content-Length: -5\r\n", ""),
    (b"Content-Length: 0x5\r\n", ""),
    (b"Content-Length: 5 5\r\n", ""),
    (b"Content-Length: 5,5\r\n", ""),
    (b"Content-Length: 5, 5\r\n", ""),
    (b"Content-Length: 5,\r\n", ""),
    (b"Content-Length: 5;\r\n", ""),
    (b"Content-Length: 5.0\r\n", ""),
    (b"Content-Length: 5a\r\n", ""),
    (b"Content-Length: five\r\n", ""),
    (b"Content-Length: \"5\"\r\n", ""),
    (b"Content-Length:\r\n", ""),
    (b"Content-Length: \xef\xbc\x95\r\n", ""),
    (b"Content-Length: 1048577\r\n", ""),
    (b"Content-Length: 9223372036854775807\r\n", ""),
    (b"Content-Length: 18446744073709551615\r\n", ""),
    (b"Content-Length: 18446744073709551621\r\n", ""),
    (b"Content-Length: 99999999999999999999999999\r\n", ""),
    (b"Content-Length: 5\r\nContent-Length: 5\r\n", ""),
    (b"Content-Length: 5\r\nContent-Length: 6\r\n", ""),
    (b"Content-Length: 5\r\ncontent-length: 5\r\n", ""),
    (b"Content-Length : 5\r\n", ""),
    (b" Content-Length: 5\r\n", ""),
    (b"Content-Length: 5\r\n 6\r\n", ""),
    (b"Content-Length:\r\n 5\r\n", ""),
    (b"Content-Length\x00: 5\r\n", ""),
    (b"Content_Length: 5\r\n", ""),
    (b"A: b\nContent-Length: 5\r\n", why::LINE_END),
    (b"A: b\rContent-Length: 5\r\n", ""),
    (b"Content-Length: 5\r\nExpect: 100-continue\r\n", ""),
    (b"Content-Length: 5\r\nExpect: 100-CONTINUE\r\n", ""),
    (b"Content-Length: 5\r\nExpect: x\r\n", ""),
    (b"Content-Length: 5\r\nConnection: close\r\n", ""),
    (b"Content-Length: 5\r\nContent-Encoding: gzip\r\n", ""),
    (b"Content-Length: 5\r\nContent-Type: \r\n", ""),
    (b"", ""),
    (b"Content-Length: 0\r\n", ""),
    (b"Content-Length: 4\r\n", ""),
];

/// Fields before the body `hello` in a chunk.
const CODED: &[(&[u8], &str)] = &[
    (b"Transfer-Encoding: chunked\r\n", ""),
    (b"transfer-encoding:CHUNKED\r\n", ""),
    (b"Transfer-Encoding: \tchunked \r\n", why::TAB),
    (b"Transfer-Encoding: gzip\r\n", ""),
    (b"Transfer-Encoding: identity\r\n", ""),
    (b"Transfer-Encoding: gzip, chunked\r\n", ""),
    (b"Transfer-Encoding: chunked, gzip\r\n", ""),
    (b"Transfer-Encoding: chunked, identity\r\n", ""),
    (b"Transfer-Encoding: chunked, chunked\r\n", why::CODING),
    (b"Transfer-Encoding: chunked,\r\n", why::CODING),
    (b"Transfer-Encoding: ,chunked\r\n", why::CODING),
    (b"Transfer-Encoding: chunked;a=b\r\n", why::CODING),
    (b"Transfer-Encoding: xchunked\r\n", ""),
    (b"Transfer-Encoding: chunkedx\r\n", ""),
    (b"Transfer-Encoding: \"chunked\"\r\n", why::CODING),
    (b"Transfer-Encoding: \x0bchunked\r\n", why::CODING),
    (b"Transfer-Encoding: \xffchunked\r\n", why::CODING),
    (b"Transfer-Encoding: chun ked\r\n", why::CODING),
    (b"Transfer-Encoding:\r\n", why::CODING),
    (
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "",
    ),
    (
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        why::CODINGS,
    ),
    (
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
        why::CODINGS,
    ),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 15\r\n", ""),
    (b"Content-Length: 15\r\nTransfer-Encoding: chunked\r\n", ""),
    (b"Content-Length: 0\r\nTransfer-Encoding: gzip\r\n", ""),
    (b"Transfer-Encoding : chunked\r\n", ""),
    (b" Transfer-Encoding: chunked\r\n", ""),
    (b"Transfer-Encoding:\r\n chunked\r\n", ""),
    (b"A: b\nTransfer-Encoding: chunked\r\n", why::LINE_END),
    (b"Transfer-Encoding: chunked\r\nTrailer: A\r\n", ""),
    (
        b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
        "",
    ),
];

/// Bodies in chunked transfer coding.
const CHUNKS: &[(&[u8], &str)] = &[
    (b"0\r\n\r\n", ""),
    (b"1\r\nh\r\n4\r\nello\r\n0\r\n\r\n", ""),
    (b"a\r\nhellohello\r\n0\r\n\r\n", ""),
    (b"A\r\nhellohello\r\n0\r\n\r\n", ""),
    (b"05\r\nhello\r\n00\r\n\r\n", ""),
    (b"0000000000000005\r\nhello\r\n0\r\n\r\n", ""),
    (b"00000000000000005\r\nhello\r\n0\r\n\r\n", why::SIZE),
    (b"5;\r\nhello\r\n0\r\n\r\n", ""),
    (b"5;a\r\nhello\r\n0\r\n\r\n", ""),
    (b"5;a=b;c=\"d\"\r\nhello\r\n0;e\r\n\r\n", ""),
    (b"5 ;a=b\r\nhello\r\n0\r\n\r\n", ""),
    (b"5;a=\x01\r\nhello\r\n0\r\n\r\n", why::CONTROL),
    (b"5;a\nhello\r\n0\r\n\r\n", why::LINE_END),
    (b"5 \r\nhello\r\n0\r\n\r\n", why::SIZE),
    (b"5\t\r\nhello\r\n0\r\n\r\n", why::SIZE),
    (b" 5\r\nhello\r\n0\r\n\r\n", ""),
    (b"\r\n5\r\nhello\r\n0\r\n\r\n", ""),
    (b"\r\nhello\r\n0\r\n\r\n", ""),
    (b"0x5\r\nhello\r\n0\r\n\r\n", ""),
    (b"5h\r\nhello\r\n0\r\n\r\n", ""),
    (b"g\r\nhello\r\n0\r\n\r\n", ""),
    (b"-5\r\nhello\r\n0\r\n\r\n", ""),
    (b"+5\r\nhello\r\n0\r\n\r\n", ""),
    (b"5,\r\nhello\r\n0\r\n\r\n", ""),
    (b"5\nhello\r\n0\r\n\r\n", why::LINE_END),
    (b"5\rhello\r\n0\r\n\r\n", ""),
    (b"5\r\nhello\n0\r\n\r\n", why::LINE_END),
    (b"5\r\nhello\r0\r\n\r\n", ""),
    (b"5\r\nhello0\r\n\r\n", ""),
    (b"5\r\nhelloX\r\n0\r\n\r\n", ""),
    (b"4\r\nhello\r\n0\r\n\r\n", ""),
    (b"5\r\nhello\r\n\r\n0\r\n\r\n", ""),
    (b"5\r\nhello\r\n0\r\n\n", why::LINE_END),
    (b"5\r\nhello\r\n0\n\n", why::LINE_END),
    (b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", ""),
    (b"5\r\nhello\r\n0\r\nA: b\r\nC:\r\n\r\n", ""),
    (b"5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", ""),
    (b"5\r\nhello\r\n0\r\nA\r\n\r\n", why::TRAILER),
    (b"5\r\nhello\r\n0\r\n: b\r\n\r\n", why::TRAILER),
    (b"5\r\nhello\r\n0\r\nA : b\r\n\r\n", why::TRAILER),
    (b"5\r\nhello\r\n0\r\nA: b\n\r\n", why::LINE_END),
    (b"5\r\nhello\r\n0\r\nA: \x00\r\n\r\n", why::CONTROL),
    (b"100001\r\nhello\r\n0\r\n\r\n", ""),
    (b"7fffffffffffffff\r\nhello\r\n0\r\n\r\n", ""),
    (b"8000000000000000\r\nhello\r\n0\r\n\r\n", ""),
    (b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", ""),
    (b"10000000000000005\r\nhello\r\n0\r\n\r\n", ""),
];

/// Bytes as they are.
const WHOLE: &[(&[u8], &str)] = &[
    (
        b"POST /pub?channel=a HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        "",
    ),
    (
        b"POST /pub?channel=a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
        "",
    ),
    (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "",
    ),
    (
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
        "",
    ),
    (
        b"HEAD /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "",
    ),
    (
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "",
    ),
    (
        b"PUT /pub?channel=a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
        "",
    ),
    (
        b"POST /nowhere HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX",
        "",
    ),
    (
        b"POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello\
          POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab",
        "",
    ),
];
