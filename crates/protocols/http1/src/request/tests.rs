use proptest::prelude::*;

use super::*;
use crate::encode_request;

type Parsed<'b> = Result<Option<(Request<'b>, usize)>, BadRequest>;

/// Parses `wire` whole, cut at every place, byte by byte and with more behind it, and
/// answers what all of them agree on.
#[track_caller]
fn parse_all_ways<'b>(wire: &'b [u8], limits: &HttpLimits) -> Parsed<'b> {
    let whole = parse_request(wire, limits);
    let mut decided = None;
    let mut searched = 0;
    for cut in 0..=wire.len() {
        let prefix = parse_request(&wire[..cut], limits);
        let resumed = parse_request_resumed(&wire[..cut], searched, limits);
        assert_eq!(prefix, resumed, "resumed at {searched} of {cut}");
        if prefix == Ok(None) {
            assert_eq!(decided, None, "undecided again at {cut}");
            let rest = parse_request_resumed(wire, cut, limits);
            assert_eq!(rest, whole, "cut at {cut}");
            searched = cut;
        } else {
            decided = Some(cut);
            assert_eq!(prefix, whole, "decided at {cut}");
        }
    }
    if whole != Ok(None) {
        for more in ["\r", "\n", "\r\n\r\n", " ", "GET / HTTP/1.1\r\n\r\n", "\0"] {
            let longer = [wire, more.as_bytes()].concat();
            assert_eq!(parse_request(&longer, limits), whole, "with more");
        }
    }
    whole
}

/// The cases of `cases.txt` of one kind: input and outcome.
pub(crate) fn cases(kind: &str) -> Vec<(String, &'static str)> {
    let lines = include_str!("../cases.txt").lines();
    let own = lines.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    let cases = own.map(|line| {
        let (input, outcome) = line.split_once(" => ").expect("INPUT => OUTCOME");
        let mut parts = input.split('\\');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (escape, rest) = part.split_at(if part.starts_with('x') { 3 } else { 1 });
            text.push(match escape {
                "r" => '\r',
                "n" => '\n',
                "t" => '\t',
                hex => char::from(u8::from_str_radix(&hex[1..], 16).unwrap()),
            });
            text += rest;
        }
        (text, outcome)
    });
    let cases: Vec<_> = cases.collect();
    assert!(!cases.is_empty(), "{kind}");
    cases
}

#[track_caller]
fn refuse(wire: &str, fault: &str) {
    let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default());
    let found = format!("{:?}", parsed.expect_err("refused"));
    assert_eq!(found, fault, "{wire:?}");
}

#[test]
fn requests_of_the_table_are_refused() {
    for kind in ["wire", "line", "host", "field"] {
        for (input, fault) in cases(kind) {
            let wire = match kind {
                "line" => format!("{input}\r\nHost: a\r\n\r\n"),
                "host" => format!("GET / HTTP/1.1\r\nHost: {input}\r\n\r\n"),
                "field" => with_fields(&input),
                _ => input,
            };
            refuse(&wire, fault);
        }
    }
    refuse(&"A".repeat(METHOD_BYTES_MAX + 1), "MethodTooLong");
    for (wire, fault) in cases("first") {
        refuse(&wire, fault);
        let before = &wire.as_bytes()[..wire.len() - 1];
        assert_eq!(parse_request(before, &HttpLimits::default()), Ok(None));
    }
}

#[track_caller]
fn accepted(wire: &str) -> Request<'_> {
    let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default());
    let (request, length) = parsed.unwrap().unwrap();
    assert_eq!(length, wire.len());
    request
}

/// A request with these lines behind a valid Host.
fn with_fields(lines: &str) -> String {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n")
}

#[test]
fn a_request_is_taken_apart() {
    let request = accepted(
        "GET /sse?channel=a&b=1?2 HTTP/1.1\r\nHost: example.org:8000\r\nAccept:text/\
         event-stream\r\n\
         X-Empty:\r\nX-Space: \t padded value \t\r\nx-twice: 1\r\nX-Twice: 2\r\n\r\n",
    );
    assert_eq!(request.method, "GET");
    assert_eq!(request.target, "/sse?channel=a&b=1?2");
    assert_eq!(request.path(), "/sse");
    assert_eq!(request.query(), "channel=a&b=1?2");
    assert_eq!(request.host(), "example.org:8000");
    assert_eq!(request.minor_version, 1);
    assert_eq!(request.body, Body::None);
    assert_eq!(request.header("ACCEPT"), Some("text/event-stream"));
    assert_eq!(request.header("x-empty"), Some(""));
    assert_eq!(request.header("x-space"), Some("padded value"));
    assert_eq!(request.header("x-twice"), Some("1"));
    assert_eq!(request.header("x-none"), None);
    let names: Vec<_> = request.headers().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["Host", "Accept", "X-Empty", "X-Space", "x-twice", "X-Twice"]
    );
}

#[test]
fn accepted_requests_are_what_the_table_says() {
    for kind in [
        "asks",
        "keeps",
        "upgrades",
        "waits",
        "forwarded",
        "body",
        "target",
    ] {
        for (wire, expected) in cases(kind) {
            let request = accepted(&wire);
            let found = match kind {
                "asks" => request.asks_keep_alive().to_string(),
                "keeps" => request.keep_alive().to_string(),
                "upgrades" => request.wants_upgrade("websocket").to_string(),
                "waits" => request.expects_continue().to_string(),
                "forwarded" => request.headers().are_forwarded().to_string(),
                "body" => format!("{:?}", request.body),
                _ => {
                    assert_eq!(wire.split(' ').nth(1), Some(request.target));
                    format!("{} {} {}", request.path(), request.query(), request.host())
                }
            };
            assert_eq!(found, expected, "{kind}: {wire}");
        }
    }
    for (wire, _) in cases("begun") {
        let parsed = parse_all_ways(wire.as_bytes(), &HttpLimits::default());
        assert_eq!(parsed, Ok(None), "{wire:?}");
    }
}

#[test]
fn only_the_first_of_two_requests_is_taken() {
    let first = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = format!("{first}GET /2 HTTP/1.1\r\nHost: b\r\n\r\n");
    let (request, length) = parse_all_ways(both.as_bytes(), &HttpLimits::default())
        .unwrap()
        .unwrap();
    assert_eq!((request.path(), length), ("/1", first.len()));
}

#[test]
fn empty_lines_before_a_request_are_skipped() {
    assert_eq!(
        accepted("\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n").path(),
        "/x"
    );
}

#[test]
fn targets_have_to_be_utf8() {
    let wire = b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n";
    let parsed = parse_all_ways(wire, &HttpLimits::default());
    assert_eq!(parsed, Err(BadRequest::Target));
}

#[test]
fn hosts_are_taken() {
    for host in [
        "a:",
        "a:80",
        "127.0.0.1:1",
        "[::1]",
        "[::ffff:1.2.3.4]:80",
        "[v1.x:y]",
        "a%20b",
    ] {
        let wire = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(accepted(&wire).host(), host);
    }
    assert_eq!(accepted("GET / HTTP/1.0\r\n\r\n").host(), "");
    assert_eq!(accepted("GET / HTTP/1.1\r\nHost:\r\n\r\n").host(), "");
}

#[test]
fn values_may_be_of_any_script() {
    let wire = with_fields("X: caf\u{e9} \u{4f60}\ty");
    assert_eq!(accepted(&wire).header("x"), Some("caf\u{e9} \u{4f60}\ty"));
}

#[test]
fn values_that_are_not_utf8_are_kept_but_not_text() {
    let wire = b"GET / HTTP/1.1\r\nHost: a\r\nX: \xff\r\n\r\n";
    let (request, _) = parse_all_ways(wire, &HttpLimits::default())
        .unwrap()
        .unwrap();
    assert_eq!(request.header("x"), None);
    assert_eq!(request.headers().last(), Some(("X", b"\xff".as_slice())));
}

#[test]
fn limits_hold_to_the_byte() {
    let wire = b"GET /abc HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\nmore";
    let head = wire.len() - 4;
    let check = |head_bytes_max, headers_max, expect: Result<(), BadRequest>| {
        let limits = HttpLimits {
            head_bytes_max,
            headers_max,
            body_bytes_max: 0,
        };
        let parsed = parse_all_ways(wire, &limits);
        assert_eq!(parsed.map(|parsed| assert!(parsed.is_some())), expect);
    };
    check(head, 2, Ok(()));
    check(head - 1, 2, Err(BadRequest::HeadTooLarge));
    check(19, 2, Err(BadRequest::HeadTooLarge));
    check(18, 2, Err(BadRequest::TargetTooLong));
    check(6, 2, Err(BadRequest::TargetTooLong));
    check(head, 1, Err(BadRequest::TooManyHeaders));
    check(head, usize::MAX, Ok(()));
    check(0, 2, Err(BadRequest::HeadTooLarge));
}

#[test]
fn a_wrong_word_about_what_was_searched_is_not_believed() {
    // The end of the first head is skipped over; what was found behind it must not count.
    let wire = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nX: 1\r\n\r\n";
    let whole = parse_request(wire, &HttpLimits::default());
    for searched in 0..wire.len() + 2 {
        let parsed = parse_request_resumed(wire, searched, &HttpLimits::default());
        assert!(parsed == whole || parsed == Ok(None), "{searched}");
    }
}

/// Texts near enough to a request to get past its first line now and then.
fn almost_requests() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "GET",
        " ",
        "/",
        "?q",
        "http://a",
        "HTTP/1.1",
        "HTTP/1.0",
        "\r\n",
        "\r",
        "\n",
        "Host: a",
        "Host",
        ":",
        "Content-Length: 3",
        "Transfer-Encoding: chunked",
        "X",
        "\t",
        "\0",
        ",",
        "\u{e9}",
    ]);
    let start = prop::sample::select(vec!["", "\r\n", "GET / HTTP/1.1\r\nHost: a\r\n"]);
    (start, prop::collection::vec(part, 0..16))
        .prop_map(|(start, parts)| format!("{start}{}", parts.concat()).into_bytes())
}

proptest! {
    #[test]
    fn cuts_change_nothing(wire in almost_requests(), head_bytes_max in 0_usize..80) {
        let limits = HttpLimits { head_bytes_max, ..HttpLimits::default() };
        let _ = parse_all_ways(&wire, &limits);
        let _ = parse_all_ways(&wire, &HttpLimits::default());
    }

    #[test]
    fn what_is_encoded_is_parsed(
        method in "[A-Z]{1,10}",
        target in "/[!-\"$-~]{0,30}",
        host in "([a-z0-9.-]{1,20}(:[0-9]{0,5})?)?",
        headers in prop::collection::vec(
            ("X-[A-Za-z0-9-]{0,10}", "([!-~]([ -~]{0,20}[!-~])?)?"),
            0..8,
        ),
        body in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
    ) {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut wire = Vec::new();
        encode_request(&method, &target, &host, &headers, body.as_deref(), &mut wire);
        let (request, length) = parse_request(&wire, &HttpLimits::default()).unwrap().unwrap();
        prop_assert_eq!(request.method, method);
        prop_assert_eq!(request.target, target);
        prop_assert_eq!(request.host(), host);
        let count = headers.len();
        let parsed: Vec<_> = request.headers().skip(1).take(count)
            .map(|(name, value)| (name, str::from_utf8(value).unwrap())).collect();
        prop_assert_eq!(parsed, headers);
        prop_assert_eq!(&wire[length..], body.as_deref().unwrap_or_default());
        let body = body.map_or(Body::None, |body| Body::Length(body.len() as u64));
        prop_assert_eq!(request.body, body);
    }
}
