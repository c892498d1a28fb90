use throng_types::cases;

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

/// These fields with one of them replaced, by `NAME: VALUE`, or removed, by `NAME`; with one more,
/// if there is none of that name.
fn changed<'a>(fields: &[(&'a str, &'a str)], change: &'a str) -> Vec<(&'a str, &'a str)> {
    let (changed, value) = match change.split_once(": ") {
        Some((name, value)) => (name, Some(value)),
        None => (change, None),
    };
    let mut fields = fields.to_vec();
    let at = fields.iter().position(|(name, _)| *name == changed);
    if let Some(at) = at {
        fields.remove(at);
    }
    if let Some(value) = value {
        fields.insert(at.unwrap_or(fields.len()), (changed, value));
    }
    fields
}

fn accept_get<'a>(fields: &[(&'a str, &'a str)]) -> Result<Accept<'a>, HandshakeError> {
    let fields = fields.iter();
    accept("GET", fields.map(|(name, value)| (*name, value.as_bytes())))
}

#[test]
fn the_example_of_the_rfc() {
    let accepted = accept_get(&REQUEST).expect("the example");
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
fn requests_are_accepted_or_refused() {
    for (change, expected) in cases(include_str!("requests.txt")) {
        let fields = changed(&REQUEST, change);
        let told = match accept_get(&fields) {
            Ok(accepted) => {
                assert_eq!(accepted.key, ACCEPT.as_bytes(), "{change}");
                let protocols: Vec<&str> = accepted.protocols.iter().collect();
                format!("accepted {}", protocols.join(" "))
            }
            Err(refused) => format!("{refused:?} {}", refused.status()),
        };
        assert_eq!(told.trim_end(), expected, "{change}");
    }
    for method in ["POST", "get", "CONNECT", ""] {
        let refused = accept(
            method,
            REQUEST.map(|(name, value)| (name, value.as_bytes())),
        );
        assert_eq!(refused, Err(HandshakeError::Method));
    }
}

#[test]
fn lists_go_over_several_lines() {
    let protocols = |fields: &[(&str, &str)]| {
        let accepted = accept_get(fields).expect("lists");
        accepted.protocols.iter().collect::<Vec<_>>().join(" ")
    };
    for (name, first, second) in [
        ("connection", "keep-alive", "Upgrade"),
        ("connection", "Upgrade", "keep-alive"),
        ("Upgrade", "h2c", "websocket"),
        ("upgrade", "websocket", "h2c"),
    ] {
        let change = format!("{}: {first}", name.to_lowercase());
        let mut fields = changed(&REQUEST, &change);
        fields.push((name, second));
        assert_eq!(
            protocols(&fields),
            "chat superchat",
            "{name}: {first}, {second}"
        );
    }
    let three = [&REQUEST[..], &[("Sec-WebSocket-Protocol", "v1, \u{e9}")]].concat();
    assert_eq!(protocols(&three), "chat superchat v1");
    // These two are no lists.
    for (name, value) in [
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
        ("Sec-WebSocket-Version", "13"),
        ("sec-websocket-version", "8"),
    ] {
        let repeated = [&REQUEST[..], &[(name, value)]].concat();
        let refused = accept_get(&repeated);
        assert_eq!(refused, Err(HandshakeError::Repeated), "{name}: {value}");
    }
    let bytes = [("connection", &b"\xff"[..]), ("CONNECTION", b"upgrade")];
    let rest = changed(&REQUEST, "connection").into_iter();
    let rest = rest.map(|(name, value)| (name, value.as_bytes()));
    assert!(accept("GET", rest.chain(bytes)).is_ok());
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
    for (change, expected) in cases(include_str!("answers.txt")) {
        let (status, change) = change.split_once(' ').unwrap_or((change, "-"));
        let fields = changed(&answer, change);
        let header = |name: &str| {
            let found = fields.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| *value)
        };
        let checked = check_response(status.parse().unwrap(), header, NONCE);
        let told = checked.map_or_else(|error| format!("{error:?}"), |()| "good".to_owned());
        assert_eq!(told, expected, "{change}");
    }
}
