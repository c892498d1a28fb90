use super::*;
use crate::filters::Filters;
use crate::headers::Header;
use throng_types::cases;

fn read(headers: &[(&str, &str)], body: &str) -> Result<Instruct, InstructError> {
    let fields: Vec<HeaderRef<'_>> = headers.iter().map(|&(n, v)| (n, v.as_bytes())).collect();
    let head = ResponseHead {
        code: 200,
        reason: "OK",
        headers: &fields,
    };
    Instruct::from_response(head, body.as_bytes(), 20)
}

#[track_caller]
fn fault(headers: &[(&str, &str)], body: &str, expect: &str) {
    let found = read(headers, body)
        .expect_err("must be refused")
        .to_string();
    assert_eq!(found, expect);
}

fn channel(name: &str, prev_id: Option<&str>, filters: &[&str]) -> HoldChannel {
    HoldChannel {
        name: name.to_owned(),
        prev_id: prev_id.map(str::to_owned),
        filters: Filters::from_names(filters.iter().copied()).unwrap(),
    }
}

#[test]
fn the_handler_of_the_million_streams() {
    let found = read(
        &[
            ("Content-Type", "text/event-stream"),
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "group-17"),
            ("Grip-Keep-Alive", r":\n\n; format=cstring; timeout=55"),
        ],
        "event: message\ndata: stream open\n\n",
    )
    .unwrap();
    assert_eq!(found.hold, Hold::Stream);
    assert_eq!(found.channels, [channel("group-17", None, &[])]);
    assert_eq!(
        found.keep_alive,
        Some(KeepAlive {
            data: b":\n\n".to_vec(),
            timeout_s: 55,
            mode: KeepAliveMode::Idle
        })
    );
    assert_eq!(
        found.reply.headers,
        [Header::new("Content-Type", "text/event-stream")]
    );
    assert_eq!(found.reply.body, ReplyBody::AsReceived);
    assert_eq!(
        (found.reply.code, found.reply.reason.as_deref()),
        (200, Some("OK"))
    );
}

#[test]
fn every_header() {
    let found = read(
        &[
            ("grip-hold", "response"),
            (
                "Grip-Channel",
                "a; prev-id=1; filter=skip-self, b;filter=build-id;filter=nobody",
            ),
            ("Grip-Channel", "\"q\"; prev-id=\"x,y\","),
            ("Grip-Timeout", "3"),
            ("Grip-Set-Meta", "user=jo, id_format=\"a, b\""),
            ("Grip-Set-Meta", "user=alice; ignored=1"),
            ("Grip-Status", "304 Not There"),
            ("Grip-Link", "</next?a=1>; rel=next; timeout=0"),
            ("Grip-Link", "<http://o/gone>; rel=gone, <other>"),
            ("Grip-Last", "a; last-id=9, b"),
            ("Grip-Expose-Headers", "x-a, Content-Type"),
            ("X-A", "1"),
            ("X-B", "2"),
        ],
        "",
    )
    .unwrap();
    assert_eq!(found.hold, Hold::Response);
    assert_eq!(
        found.channels,
        [
            channel("a", Some("1"), &["skip-self"]),
            channel("b", None, &["build-id", "nobody"]),
            channel("\"q\"", Some("x,y"), &[]),
        ]
    );
    assert_eq!(found.timeout_s, TIMEOUT_MIN_S);
    let meta: Vec<_> = found
        .meta
        .iter()
        .map(|(k, v)| (k.as_str(), v.as_str()))
        .collect();
    assert_eq!(meta, [("user", "alice"), ("id_format", "a, b")]);
    assert_eq!(
        (found.reply.code, found.reply.reason.as_deref()),
        (304, Some("Not There"))
    );
    assert_eq!(
        found.next,
        Some(NextLink {
            uri: "/next?a=1".to_owned(),
            timeout_s: 0
        })
    );
    assert_eq!(found.gone.as_deref(), Some("http://o/gone"));
    assert_eq!(found.reply.headers, [Header::new("X-A", "1")]);
}

#[test]
fn defaults_and_limits() {
    let found = read(&[("Grip-Link", "<n>; rel=next")], "").unwrap();
    assert_eq!(found.hold, Hold::None);
    assert_eq!(found.timeout_s, 55);
    assert_eq!(found.next.unwrap().timeout_s, 120);
    let many = (0..25).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let found = read(&[("Grip-Channel", &many)], "").unwrap();
    assert_eq!(found.channels.len(), 20);
    let keep = |value: &str| {
        read(&[("Grip-Keep-Alive", value)], "")
            .unwrap()
            .keep_alive
            .unwrap()
    };
    assert_eq!(keep("a=b; timeout=0").timeout_s, 1);
    assert_eq!(keep("a=b; timeout=0").data, b"a=b");
    assert_eq!(keep("aGkK; format=base64; mode=interval").data, b"hi\n");
    assert_eq!(keep(r"\x41\q\\; format=cstring").data, br"A\");
    // A broken parameter list is no keep-alive at all.
    assert_eq!(
        read(&[("Grip-Keep-Alive", "a; mode=\"idle")], "")
            .unwrap()
            .keep_alive,
        None
    );
}

#[test]
fn refused_headers() {
    for (header, expect) in cases(include_str!("refused_headers.txt")) {
        let (name, value) = header.split_once(": ").unwrap();
        fault(&[(name, value)], "", expect);
    }
    let filters = format!("c{}", "; filter=skip-self".repeat(6));
    fault(
        &[("Grip-Channel", &filters)],
        "",
        "channel 'c' has more filters than it may",
    );
}

const DOCUMENT: (&str, &str) = ("Content-Type", "application/grip-instruct; charset=utf-8");

#[test]
fn a_document_overrules_headers() {
    // The first is what gripcontrol 4.4.0 writes for a stream.
    let found = read(
        &[DOCUMENT, ("X-Gone", "1")],
        concat!(
            r#"{"hold": {"mode": "stream", "channels": [{"name": "c", "prev-id": "7"}]},"#,
            r#" "response": {"body": "hi\n"}}"#,
        ),
    )
    .unwrap();
    assert_eq!(found.hold, Hold::Stream);
    assert_eq!(found.channels, [channel("c", Some("7"), &[])]);
    assert_eq!(found.reply.headers, []);
    assert_eq!(found.reply.body, ReplyBody::Replaced(b"hi\n".to_vec()));

    let found = read(
        &[
            DOCUMENT,
            ("Grip-Status", "202 Fine"),
            ("Grip-Link", "<n>; rel=next"),
        ],
        r#"{"hold": {"channels": [{"name": "c", "filters": ["skip-self"]}], "timeout": "90",
            "keep-alive": {"content-bin": "aGk", "timeout": 0}, "meta": {"user": "u"}},
            "response": {"headers": [["A", "1"], ["A", "2"]], "body-bin": "AAE="}}"#,
    )
    .unwrap();
    assert_eq!(found.hold, Hold::Response);
    assert_eq!(found.timeout_s, 90);
    assert_eq!(found.channels, [channel("c", None, &["skip-self"])]);
    assert_eq!(
        found.keep_alive,
        Some(KeepAlive {
            data: b"hi".to_vec(),
            timeout_s: 1,
            mode: KeepAliveMode::Interval
        })
    );
    assert_eq!(found.meta, [("user".to_owned(), "u".to_owned())]);
    assert!(found.next.is_some());
    assert_eq!(
        (found.reply.code, found.reply.reason.as_deref()),
        (202, Some("Fine"))
    );
    assert_eq!(
        found.reply.headers,
        [Header::new("A", "1"), Header::new("A", "2")]
    );
    assert_eq!(found.reply.body, ReplyBody::Replaced(vec![0, 1]));

    let found = read(
        &[DOCUMENT],
        r#"{"response": {"code": 404, "headers": {"K": "V"}}}"#,
    )
    .unwrap();
    assert_eq!(
        (found.hold, found.reply.code, found.reply.reason),
        (Hold::None, 404, None)
    );
}

#[test]
fn refused_documents() {
    for (body, expect) in cases(include_str!("refused_documents.txt")) {
        fault(&[DOCUMENT], body, expect);
    }
    fault(
        &[DOCUMENT],
        &" ".repeat(INSTRUCT_BODY_BYTES_MAX + 1),
        "the application/grip-instruct body is larger than 100000 bytes",
    );
    let fields: &[HeaderRef<'_>] = &[("Content-Type", b"application/grip-instruct")];
    let head = ResponseHead {
        code: 201,
        reason: "",
        headers: fields,
    };
    assert_eq!(
        Instruct::from_response(head, b"{}", 20),
        Err(InstructError::DocumentStatus)
    );
}

#[test]
fn what_is_grip() {
    let is_grip = |headers: &[HeaderRef<'_>]| {
        ResponseHead {
            code: 200,
            reason: "",
            headers,
        }
        .is_grip()
    };
    assert!(is_grip(&[("gRIP-Anything", b"")]));
    assert!(is_grip(&[("content-type", b"application/grip-instruct;x")]));
    assert!(!is_grip(&[
        ("Content-Type", b"text/plain"),
        ("X-Grip-Hold", b"stream")
    ]));
}

proptest::proptest! {
    #[test]
    fn nothing_panics(
        name in "Grip-(Channel|Keep-Alive|Link|Set-Meta|Status|Timeout|Last)",
        value in "[a-z0-9 \\\\\"<>,;=x-]{0,40}",
    ) {
        let _ = read(&[("Grip-Hold", "stream"), (&name, &value)], "");
    }

    #[test]
    fn no_document_panics(
        body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..80),
    ) {
        let fields: &[HeaderRef<'_>] = &[("Content-Type", b"application/grip-instruct")];
        let head = ResponseHead { code: 200, reason: "", headers: fields };
        let _ = Instruct::from_response(head, &body, 20);
    }
}
