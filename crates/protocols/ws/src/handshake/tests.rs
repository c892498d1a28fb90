use super::*;

/// The example of section 1.3.
const REQUEST: [(&str, &str); 6] = [
    ("host", "server.example.com"),
    ("upgrade", "websocket"),
    ("connection", "Upgrade"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "chat, superchat"),
    ("sec-websocket-version", "13"),
];
const NONCE: [u8; 16] = *b"the sample nonce";
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// The fields of a request, with some replaced, or removed by `None`, and some more behind them.
fn fields<'a>(
    changes: &[(&str, Option<&'a str>)],
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a [u8])> {
    let changed = REQUEST.iter().filter_map(|(name, value)| {
        let change = changes.iter().find(|(changed, _)| changed == name);
        Some((*name, change.map_or(Some(*value), |(_, value)| *value)?))
    });
    let new = changes.iter().filter_map(|(name, value)| {
        let known = REQUEST.iter().find(|(known, _)| known == name);
        // Only names of the request and of `NEW` are changed in these tests.
        let name = NEW.iter().find(|new| *new == name);
        Some((*name.filter(|_| known.is_none())?, (*value)?))
    });
    let all = changed.chain(new).chain(more.iter().copied());
    all.map(|(name, value)| (name, value.as_bytes())).collect()
}

/// Fields that the example has not.
const NEW: [&str; 1] = ["sec-websocket-extensions"];

/// A lookup in `headers` with some replaced, or removed by `None`.
fn lookup<'a>(
    headers: &'a [(&'a str, &'a str)],
    changes: &'a [(&'a str, Option<&'a str>)],
) -> impl Fn(&str) -> Option<&'a str> {
    move |name| {
        if let Some((_, value)) = changes.iter().find(|(changed, _)| *changed == name) {
            return *value;
        }
        let found = headers.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

fn accept_with<'a>(
    changes: &'a [(&'a str, Option<&'a str>)],
) -> Result<Accept<'a>, HandshakeError> {
    accept("GET", fields(changes, &[]))
}

#[test]
fn the_example_of_the_rfc() {
    let accepted = accept_with(&[]).expect("the example");
    assert_eq!(accepted.key, ACCEPT.as_bytes());
    assert_eq!(
        accepted.protocols.iter().collect::<Vec<_>>(),
        ["chat", "superchat"]
    );
    assert!(accepted.protocols.contains("chat"));
    assert!(!accepted.protocols.contains("Chat"));

    let mut out = Vec::new();
    encode_response(&accepted, Some("chat"), None, &mut out);
    let expected = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
        Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
        Sec-WebSocket-Protocol: chat\r\n\r\n";
    assert_eq!(out, expected.as_bytes());

    out.clear();
    encode_response(&accepted, None, None, &mut out);
    let expected = expected.replace("Sec-WebSocket-Protocol: chat\r\n", "");
    assert_eq!(out, expected.as_bytes());
}

#[test]
fn fields_are_read_as_lists_without_case() {
    for changes in [
        ("connection", "keep-alive, Upgrade"),
        ("connection", " KEEP-ALIVE ,,\tuPGRADE\t"),
        ("upgrade", "WebSocket"),
        ("upgrade", "h2c, websocket"),
        ("sec-websocket-version", " 13 "),
        ("sec-websocket-key", " dGhlIHNhbXBsZSBub25jZQ=="),
        (
            "sec-websocket-extensions",
            "permessage-deflate; client_max_window_bits",
        ),
    ] {
        let (name, value) = changes;
        let accepted = accept_with(&[(name, Some(value))]).map(|accepted| accepted.key);
        assert_eq!(
            accepted,
            Ok(*b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
            "{changes:?}"
        );
    }
}

#[test]
fn protocols_that_are_not_tokens_are_not_offered() {
    for (value, expected) in [
        (None, &[][..]),
        (Some(""), &[]),
        (Some(" , ,"), &[]),
        (Some("a b, c\u{e9}, d\", (e)"), &[]),
        (
            Some("graphql-transport-ws ,v1.x"),
            &["graphql-transport-ws", "v1.x"],
        ),
    ] {
        let changes = [("sec-websocket-protocol", value)];
        let accepted = accept_with(&changes).expect("protocols are optional");
        assert_eq!(accepted.protocols.iter().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn refusals() {
    let lines = include_str!("refused.txt").lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    for line in &lines {
        let (field, expected) = line.split_once(" => ").expect("FIELD => REFUSAL");
        let change = match field.split_once(": ") {
            Some((name, value)) => (name, Some(value)),
            None => (field, None),
        };
        let refused = accept_with(&[change]).expect_err("it is not a handshake");
        assert_eq!(
            format!("{refused:?} {}", refused.status()),
            expected,
            "{field}"
        );
    }
    assert_eq!(lines.len(), 17);
    for method in ["POST", "get", "CONNECT", ""] {
        let refused = accept(method, fields(&[], &[]));
        assert_eq!(refused, Err(HandshakeError::Method));
    }
}

#[test]
fn lists_go_over_several_lines() {
    let accepted = |changes: &[(&str, Option<&str>)], more: &[(&str, &str)]| {
        let accepted = accept("GET", fields(changes, more));
        accepted.map(|accept| {
            accept
                .protocols
                .iter()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
    };
    let offered = Ok(vec!["chat".to_owned(), "superchat".to_owned()]);
    for (name, first, second) in [
        ("connection", "keep-alive", "Upgrade"),
        ("connection", "Upgrade", "keep-alive"),
        ("Upgrade", "h2c", "websocket"),
        ("upgrade", "websocket", "h2c"),
    ] {
        let lower = name.to_lowercase();
        let changed = accepted(&[(&lower, Some(first))], &[(name, second)]);
        assert_eq!(changed, offered, "{name}: {first}, {second}");
    }
    let three = accepted(&[], &[("Sec-WebSocket-Protocol", "v1, \u{e9}")]);
    assert_eq!(three.unwrap(), ["chat", "superchat", "v1"]);
    // These two are no lists.
    for (name, value) in [
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Sec-WebSocket-Version", "13"),
        ("sec-websocket-version", "8"),
    ] {
        let repeated = accepted(&[], &[(name, value)]);
        assert_eq!(repeated, Err(HandshakeError::Repeated), "{name}: {value}");
    }
    let bytes = [("connection", &b"\xff"[..]), ("CONNECTION", b"upgrade")];
    let rest = fields(&[("connection", None)], &[]);
    assert!(accept("GET", rest.into_iter().chain(bytes)).is_ok());
}

#[test]
fn refusals_say_what_their_status_obliges_them_to() {
    let names = |refusal: HandshakeError| {
        refusal
            .headers()
            .iter()
            .map(|(name, _)| *name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(HandshakeError::Method), ["Allow"]);
    let upgrade = ["Upgrade", "Sec-WebSocket-Version"];
    assert_eq!(names(HandshakeError::Version), upgrade);
    assert_eq!(names(HandshakeError::UpgradeMissing), upgrade);
    assert!(names(HandshakeError::KeyMissing).is_empty());
}

#[test]
fn a_request_of_ours() {
    let mut out = Vec::new();
    let headers = [
        ("Origin", "http://example.com"),
        ("Sec-WebSocket-Protocol", "chat"),
    ];
    encode_request(
        "server.example.com:8000",
        "/ws?channel=a",
        NONCE,
        &headers,
        &mut out,
    );
    let expected = "GET /ws?channel=a HTTP/1.1\r\nHost: server.example.com:8000\r\n\
        Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
        Origin: http://example.com\r\nSec-WebSocket-Protocol: chat\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_eq!(out, expected.as_bytes());
}

#[test]
fn answers_are_checked() {
    let answer = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-accept", ACCEPT),
    ];
    let check = |changes: &[(&str, Option<&str>)], expected| {
        let checked = check_response(101, lookup(&answer, changes), NONCE);
        assert_eq!(checked, expected, "{changes:?}");
    };
    check(&[], Ok(()));
    check(&[("upgrade", Some("WEBSOCKET"))], Ok(()));
    check(&[("sec-websocket-extensions", Some(""))], Ok(()));
    check(&[("upgrade", None)], Err(UpgradeError::Upgrade));
    check(&[("upgrade", Some("h2c"))], Err(UpgradeError::Upgrade));
    check(&[("connection", None)], Err(UpgradeError::Connection));
    check(
        &[("connection", Some("close"))],
        Err(UpgradeError::Connection),
    );
    check(&[("sec-websocket-accept", None)], Err(UpgradeError::Accept));
    let lower = ACCEPT.to_ascii_lowercase();
    check(
        &[("sec-websocket-accept", Some(&lower))],
        Err(UpgradeError::Accept),
    );
    check(
        &[("sec-websocket-extensions", Some("permessage-deflate"))],
        Err(UpgradeError::Extension),
    );
    for status in [200, 302, 401, 503] {
        let checked = check_response(status, lookup(&answer, &[]), NONCE);
        assert_eq!(checked, Err(UpgradeError::Status(status)));
    }
}
