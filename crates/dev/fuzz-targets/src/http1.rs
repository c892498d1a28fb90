//! HTTP/1.1: requests, responses, bodies, and what proxies put in front.

use throng_http1::{
    BadBody, BadRequest, BodyDecoder, HttpLimits, KnownHead, LAST_CHUNK, Request, ResponseBody,
    encode_chunk, encode_request, parse_request, parse_request_resumed, parse_response, query,
};
use throng_proxy::{Block, HEADER_BYTES_MAX, client_of, parse};

use crate::pieces::{Wire, chopped, parts};

#[derive(Debug, PartialEq)]
struct Outcome {
    data: Vec<u8>,
    /// Bytes of the wire up to the end of the body, if it ended.
    end: Option<usize>,
    fault: Option<BadBody>,
}

fn decode(mut decoder: BodyDecoder, pieces: &[&[u8]]) -> Outcome {
    let mut outcome = Outcome {
        data: Vec::new(),
        end: decoder.is_done().then_some(0),
        fault: None,
    };
    let mut came = 0;
    for piece in pieces {
        let mut taken = 0;
        while taken < piece.len() && outcome.end.is_none() {
            match decoder.feed(&piece[taken..]) {
                Ok(step) => {
                    assert!(step.consumed != 0, "the decoder stalls");
                    outcome.data.extend_from_slice(step.data);
                    taken += step.consumed;
                    outcome.end = step.done.then_some(came + taken);
                }
                Err(fault) => {
                    outcome.fault = Some(fault);
                    return outcome;
                }
            }
        }
        came += piece.len();
    }
    outcome
}

/// Any bytes to a body decoder: it never panics and never stalls, what it hands out does
/// not depend on how they were cut, and it never hands out more than the limit.
///
/// Input: one byte that selects the framing, one of limit, four lengths of pieces (used
/// over and over), then the wire.
pub(crate) fn http1_body(input: &[u8]) {
    let Some(([framing, limit], wire)) = chopped(input) else {
        return;
    };
    let limits = HttpLimits {
        body_bytes_max: if limit == 255 {
            u64::MAX
        } else {
            u64::from(limit)
        },
        ..HttpLimits::default()
    };
    let body = match framing % 4 {
        0 => ResponseBody::UntilClose,
        1 => ResponseBody::Length(u64::from(framing / 4)),
        _ => ResponseBody::Chunked,
    };
    let decoder = BodyDecoder::for_response(body, &limits);
    let whole = wire.read(|pieces| decode(decoder.clone(), pieces));
    assert!(whole.data.len() as u64 <= limits.body_bytes_max);

    if body == ResponseBody::Chunked && whole.end.is_some() {
        let mut again = Vec::new();
        encode_chunk(&whole.data, &mut again);
        again.extend_from_slice(LAST_CHUNK);
        assert_eq!(decode(decoder, &[&again]).data, whole.data);
    }
}

type Parsed<'b> = Result<Option<(Request<'b>, usize)>, BadRequest>;

fn in_pieces<'b>(wire: &Wire<'b>, lengths: &[usize], limits: &HttpLimits) -> Parsed<'b> {
    let bytes = wire.bytes;
    let mut searched = 0;
    for length in lengths.iter().cycle() {
        let end = bytes.len().min(searched + length);
        let parsed = parse_request_resumed(&bytes[..end], searched, limits);
        if parsed != Ok(None) || end == bytes.len() {
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

/// Any bytes to the request parser: it never panics, what it answers does not depend on
/// how they were cut or on what follows, and what it accepts it accepts again when the same
/// request is encoded.
///
/// Input: one byte of limits, four lengths of pieces (used over and over), then the wire.
pub(crate) fn http1_request(input: &[u8]) {
    let Some(([limit], wire)) = chopped(input) else {
        return;
    };
    let limits = HttpLimits {
        head_bytes_max: if limit % 2 == 0 {
            16384
        } else {
            usize::from(limit)
        },
        headers_max: usize::from(limit / 4),
        body_bytes_max: 1000,
    };
    let whole = parse_request(wire.bytes, &limits);
    for lengths in [&wire.lengths[..], &[1]] {
        assert_eq!(whole, in_pieces(&wire, lengths, &limits));
    }
    let wire = wire.bytes;
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

/// Any bytes to the response parser: it never panics, and what it answers does not depend
/// on how they were cut or on what follows.
///
/// Input: one byte of limits, then the wire.
pub(crate) fn http1_response(input: &[u8]) {
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

/// Client addresses given by proxies: PROXY headers, cut anywhere, and lists of forwarded
/// addresses.
///
/// Input: the bytes of a connection; the part behind the first NUL also as `X-Forwarded-For`.
///
/// Checks that no cut changes what is read, and that only trusted proxies are believed.
pub(crate) fn proxy_header(input: &[u8]) {
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
