use proptest::prelude::*;
use throng_types::Millis;

use super::*;
use crate::filters::Filters;
use crate::headers::HeaderRef;
use crate::instruct::ResponseHead;
use crate::item::WsKind;

#[test]
fn events_of_client_libraries() {
    // What gripcontrol 4.4.0 encodes, but for the upper-case length.
    let body = b"OPEN\r\nTEXT 5\r\nhello\r\nTEXT 0\r\n\r\nPING\r\nBINARY \
                 A\r\n\x00\r\n3456789\r\nCLOSE 5\r\n\x03\xe8bye\r\nDISCONNECT\r\n";
    let events = decode_events(body).unwrap();
    let names: Vec<_> = events
        .iter()
        .map(|event| (event.kind.name(), event.content))
        .collect();
    assert_eq!(
        names,
        [
            ("OPEN", None),
            ("TEXT", Some(&b"hello"[..])),
            ("TEXT", Some(b"")),
            ("PING", None),
            ("BINARY", Some(b"\0\r\n3456789")),
            ("CLOSE", Some(b"\x03\xe8bye")),
            ("DISCONNECT", None),
        ]
    );
    assert_eq!(events[5].close_code(), Some((1000, &b"bye"[..])));
    let mut out = Vec::new();
    for event in &events {
        encode_event(*event, &mut out);
    }
    let lower = body
        .iter()
        .copied()
        .map(|b| if b == b'A' { b'a' } else { b });
    assert!(out.eq_ignore_ascii_case(&lower.collect::<Vec<_>>()));
    assert!(out.windows(10).any(|w| w == b"BINARY a\r\n"));
    for cut in 0..body.len() {
        // A cut body is refused, or has fewer events, or lacks only its last line end.
        if let Ok(found) = decode_events(&body[..cut]) {
            assert_eq!(found[..], events[..found.len()]);
        }
    }
}

#[test]
fn broken_events() {
    for (body, fault) in [
        (&b"OPEN"[..], EventError::NoLineEnd),
        (b"TEXT \r\n", EventError::BadLength),
        (b"TEXT +1\r\na\r\n", EventError::BadLength),
        (b"TEXT 5g\r\n", EventError::BadLength),
        (b"TEXT fffffffff\r\n", EventError::BadLength),
        (b"TEXT 5\r\nabc", EventError::BadContent),
        (b"TEXT 1\r\nabc\r\n", EventError::BadContent),
    ] {
        assert_eq!(decode_events(body), Err(fault), "{}", body.escape_ascii());
    }
    assert_eq!(decode_events(b"HELLO 1\r\na\r\n").unwrap(), []);
    assert_eq!(decode_events(b"TEXT 1\r\na").unwrap().len(), 1);
}

#[track_caller]
fn control(json: &str, expect: Result<ControlMessage, &str>) {
    let found = ControlMessage::parse(json.as_bytes()).map_err(|fault| fault.to_string());
    assert_eq!(
        found.as_ref().map_err(String::as_str),
        expect.as_ref().map_err(|e| *e)
    );
}

#[test]
fn control_messages() {
    use ControlMessage as C;
    let keep = |kind, content: &[u8], timeout_s, is_interval| {
        Ok(C::KeepAlive(Some(WsKeepAlive {
            kind,
            content: content.to_vec(),
            timeout_s,
            is_interval,
        })))
    };
    control(
        r#"{"type": "subscribe", "channel": "a", "filters": ["skip-self"]}"#,
        Ok(C::Subscribe {
            channel: "a".into(),
            filters: Filters::from_names(["skip-self"]).unwrap(),
        }),
    );
    control(
        r#"{"channel": "a", "type": "unsubscribe"}"#,
        Ok(C::Unsubscribe {
            channel: "a".into(),
        }),
    );
    control(r#"{"type": "detach"}"#, Ok(C::Detach));
    control(
        r#"{"type": "session", "id": ""}"#,
        Ok(C::Session { id: None }),
    );
    control(
        r#"{"type": "set-meta", "name": "user"}"#,
        Ok(C::SetMeta {
            name: "user".into(),
            value: None,
        }),
    );
    control(r#"{"type": "keep-alive"}"#, Ok(C::KeepAlive(None)));
    control(
        r#"{"type": "keep-alive", "content": "x"}"#,
        keep(WsKind::Text, b"x", 55, false),
    );
    control(
        concat!(
            r#"{"type": "keep-alive", "content-bin": "AA==", "message-type": "ping","#,
            r#" "timeout": 7, "mode": "interval"}"#,
        ),
        keep(WsKind::Ping, b"\0", 7, true),
    );
    control(
        r#"{"type": "send-delayed", "content": "x", "timeout": 0}"#,
        Ok(C::SendDelayed {
            kind: WsKind::Text,
            content: b"x".to_vec(),
            timeout_s: 1,
        }),
    );
    control(r#"{"type": "flush-delayed"}"#, Ok(C::FlushDelayed));
    control("x", Err("control message: not JSON"));
    control("[]", Err("control message: an object was expected"));
    control("{}", Err("control message: type is missing"));
    control(
        r#"{"type": "set-hold"}"#,
        Err("control message: there is no type 'set-hold'"),
    );
    control(
        r#"{"type": "subscribe", "channel": ""}"#,
        Err("control message: channel cannot have this value"),
    );
    control(
        r#"{"type": "subscribe", "channel": "a", "filters": ["1","2","3","4","5","6"]}"#,
        Err("control message: channel 'a' has more filters than it may"),
    );
    control(
        r#"{"type": "send-delayed", "content-bin": "/w=="}"#,
        Err("control message: content cannot have this value"),
    );
}

#[test]
fn prefixes() {
    assert_eq!(grip_prefix([&b"deflate, grip"[..]]).as_deref(), Some("m:"));
    assert_eq!(
        grip_prefix([&b"grip; message-prefix=\"\""[..]]).as_deref(),
        Some("")
    );
    assert_eq!(
        grip_prefix([&b"x"[..], b"grip; message-prefix=\"p:\""]).as_deref(),
        Some("p:")
    );
    assert_eq!(grip_prefix([&b"gripe"[..]]), None);
    let filter = GripFilter::new("m:");
    assert_eq!(filter.sort(true, b"m:hi"), GripMessage::Client(b"hi"));
    assert_eq!(filter.sort(false, b"m:\0"), GripMessage::Client(b"\0"));
    assert_eq!(filter.sort(true, b"hi"), GripMessage::Nobody);
    assert_eq!(
        filter.sort(true, b"c:{\"type\": \"detach\"}"),
        GripMessage::Control(Ok(ControlMessage::Detach))
    );
    assert_eq!(filter.sort(false, b"c:{}"), GripMessage::Nobody);
}

/// Plays a conversation; commands are compared as short texts.
struct Play {
    conversation: Conversation,
    now: Millis,
    out: Vec<ConversationCommand>,
}

impl Play {
    fn new(limits: ConversationLimits) -> Self {
        let mut out = Vec::new();
        let conversation = Conversation::start(limits, "cid", &mut out);
        let mut this = Self {
            conversation,
            now: Millis(0),
            out,
        };
        this.expect(&["POST OPEN"]);
        this
    }

    fn opened() -> Self {
        let mut this = Self::new(ConversationLimits::default());
        this.answer(&[("Sec-WebSocket-Extensions", "grip")], "OPEN\r\n");
        this.expect(&["accept"]);
        this
    }

    fn answer(&mut self, headers: &[(&str, &str)], body: &str) {
        let mut fields: Vec<HeaderRef<'_>> = vec![("Content-Type", EVENTS_TYPE.as_bytes())];
        fields.extend(
            headers
                .iter()
                .map(|&(name, value)| (name, value.as_bytes())),
        );
        let head = ResponseHead {
            code: 200,
            reason: "OK",
            headers: &fields,
        };
        self.conversation
            .on_response(self.now, head, body.as_bytes(), &mut self.out);
    }

    fn text(&mut self, content: &str) {
        self.conversation
            .on_message(WsKind::Text, content.into(), &mut self.out)
            .unwrap();
    }

    #[track_caller]
    fn expect(&mut self, expect: &[&str]) {
        let found: Vec<String> = self.out.drain(..).map(describe).collect();
        assert_eq!(found, expect);
        assert!(self.out.is_empty());
    }
}

fn describe(command: ConversationCommand) -> String {
    match command {
        ConversationCommand::Request { headers, body } => {
            let mut text = format!(
                "POST {}",
                String::from_utf8_lossy(&body)
                    .trim_end()
                    .replace("\r\n", "|")
            );
            for header in headers {
                if header.name.starts_with("Meta-") || header.is("Content-Bytes-Replayed") {
                    let value = String::from_utf8_lossy(&header.value);
                    text.extend([" ", &header.name, "=", &value]);
                }
            }
            text
        }
        ConversationCommand::Accept { .. } => "accept".into(),
        ConversationCommand::Reject { code, body, .. } => format!(
            "reject {code} {}",
            String::from_utf8_lossy(&body).trim_end()
        ),
        ConversationCommand::Send { kind, content } => {
            format!("{kind:?} {}", String::from_utf8_lossy(&content))
        }
        ConversationCommand::Control(control) => format!("control {control:?}"),
        ConversationCommand::ControlError(fault) => format!("ignored {fault}"),
        ConversationCommand::Close { code, reason } => {
            format!("close {code:?} {}", String::from_utf8_lossy(&reason))
        }
        ConversationCommand::Abort(fault) => format!("abort {fault:?}"),
    }
}

#[test]
fn messages_are_gathered_while_a_request_is_in_flight() {
    let mut play = Play::opened();
    play.text("a");
    play.expect(&["POST TEXT 1|a"]);
    play.text("b");
    play.text("");
    play.expect(&[]);
    play.answer(
        &[("Set-Meta-User", "jo")],
        "TEXT 4\r\nm:hi\r\nTEXT 3\r\nlog\r\nTEXT 10\r\nc:{\"type\":\"detac\r\n",
    );
    play.expect(&[
        "Text hi",
        "ignored control message: not JSON",
        "POST TEXT 1|b|TEXT 0 Meta-User=jo",
    ]);
    play.answer(&[("Set-Meta-user", "")], "PONG\r\n");
    play.expect(&["Pong "]);
    play.conversation.refresh(&mut play.out);
    play.expect(&["POST "]);
    assert!(play.conversation.has_room(200_000) && !play.conversation.has_room(200_001));
}

#[test]
fn closing_from_either_side() {
    let mut play = Play::opened();
    play.text("a");
    play.conversation.on_close(Some(1000), b"x", &mut play.out);
    play.expect(&["POST TEXT 1|a"]);
    play.answer(&[], "");
    play.expect(&["POST CLOSE 3|\u{3}\u{fffd}x"]);
    play.answer(&[], "CLOSE 2\r\n\u{3}\u{0}\r\n");
    play.expect(&["close Some(768) "]);
    assert_eq!(play.conversation.phase(), ConversationPhase::Done);

    // The backend says nothing to the close.
    let mut play = Play::opened();
    play.conversation.on_close(None, b"", &mut play.out);
    play.expect(&["POST CLOSE"]);
    play.answer(&[], "");
    play.expect(&["abort None"]);

    // The backend closes first; the client's answer is told.
    let mut play = Play::opened();
    play.text("a");
    play.answer(&[], "CLOSE\r\n");
    play.expect(&["POST TEXT 1|a", "close None "]);
    play.conversation.on_close(None, b"", &mut play.out);
    play.conversation.on_lost(&mut play.out);
    play.expect(&["POST CLOSE"]);
    play.answer(&[], "");
    play.expect(&[]);
    assert_eq!(play.conversation.phase(), ConversationPhase::Done);
}

#[test]
fn a_lost_client_is_told_once() {
    let mut play = Play::opened();
    play.text("a");
    play.conversation.on_lost(&mut play.out);
    play.conversation.on_lost(&mut play.out);
    play.expect(&["POST TEXT 1|a"]);
    play.answer(&[], "TEXT 3\r\nm:x\r\n");
    play.expect(&["POST DISCONNECT"]);
    play.answer(&[], "");
    play.expect(&[]);
    assert_eq!(play.conversation.phase(), ConversationPhase::Done);

    let mut play = Play::opened();
    play.text("a");
    play.answer(&[], "DISCONNECT\r\n");
    play.expect(&["POST TEXT 1|a", "abort None"]);
}

#[test]
fn keep_alives() {
    let mut play = Play::new(ConversationLimits::default());
    // Not opened yet, but asked to come again; less than 20 seconds are 20.
    play.answer(&[("Keep-Alive-Interval", "5")], "");
    play.expect(&[]);
    assert_eq!(play.conversation.next_timeout(), Some(Millis(20_000)));
    play.conversation.on_timeout(Millis(19_999), &mut play.out);
    play.expect(&[]);
    play.now = Millis(20_000);
    play.conversation.on_timeout(play.now, &mut play.out);
    play.expect(&["POST OPEN"]);
    play.answer(&[("Keep-Alive-Interval", "30")], "OPEN\r\n");
    play.expect(&["accept"]);
    assert_eq!(play.conversation.next_timeout(), Some(Millis(50_000)));
    play.conversation.on_timeout(Millis(50_000), &mut play.out);
    play.expect(&["POST "]);
    assert_eq!(play.conversation.next_timeout(), None);
    play.answer(&[("Keep-Alive-Interval", "0")], "");
    assert_eq!(play.conversation.next_timeout(), None);
}

#[test]
fn retries() {
    let mut play = Play::opened();
    play.text("a");
    play.expect(&["POST TEXT 1|a"]);
    let mut now = 0;
    for pause_ms in [1000, 2000, 4000, 8000, 16_000] {
        play.conversation
            .on_failure(Millis(now), RequestFailure::Unsent, 7, &mut play.out);
        play.text("b");
        play.expect(&[]);
        now += pause_ms + 7;
        assert_eq!(play.conversation.next_timeout(), Some(Millis(now)));
        play.conversation.on_timeout(Millis(now), &mut play.out);
        play.expect(&["POST TEXT 1|a"]);
    }
    play.conversation
        .on_failure(Millis(now), RequestFailure::Unreachable, 0, &mut play.out);
    play.expect(&["abort None"]);

    let mut play = Play::opened();
    play.text("a");
    play.conversation
        .on_failure(Millis(0), RequestFailure::Sent, 0, &mut play.out);
    play.expect(&["POST TEXT 1|a", "abort None"]);

    let mut play = Play::new(ConversationLimits::default());
    play.conversation
        .on_failure(Millis(0), RequestFailure::Unreachable, 0, &mut play.out);
    play.expect(&["reject 502 The backend did not accept this connection."]);
}

#[test]
fn a_backend_may_accept_a_part() {
    let mut play = Play::opened();
    play.text("hello");
    play.text("x");
    play.answer(&[("Content-Bytes-Accepted", "2")], "");
    // "x" was not offered yet, so there is news.
    play.expect(&[
        "POST TEXT 5|hello",
        "POST TEXT 3|llo|TEXT 1|x Content-Bytes-Replayed=3",
    ]);
    play.answer(&[("Content-Bytes-Accepted", "0")], "");
    // Nothing new: it waits.
    play.expect(&[]);
    play.text("y");
    play.expect(&["POST TEXT 3|llo|TEXT 1|x|TEXT 1|y Content-Bytes-Replayed=4"]);
    play.answer(&[("Content-Bytes-Accepted", "6")], "");
    play.expect(&["abort Some(Accepted)"]);

    let mut play = Play::opened();
    play.text("ab");
    play.conversation.on_close(None, b"", &mut play.out);
    play.answer(&[("Content-Bytes-Accepted", "1")], "");
    play.expect(&[
        "POST TEXT 2|ab",
        "POST TEXT 1|b|CLOSE Content-Bytes-Replayed=1",
    ]);
    play.answer(&[], "CLOSE\r\n");
    play.expect(&["close None "]);
}

#[test]
fn one_event_targets_and_full_buffers() {
    let limits = ConversationLimits {
        events_max: 1,
        pending_bytes_max: 4,
        ..ConversationLimits::default()
    };
    let mut play = Play::new(limits);
    play.answer(&[], "OPEN\r\n");
    play.text("ab");
    play.text("cd");
    assert_eq!(
        play.conversation
            .on_message(WsKind::Text, b"e".to_vec(), &mut play.out),
        Err(Full)
    );
    play.conversation.on_close(None, b"", &mut play.out);
    play.expect(&["accept", "POST TEXT 2|ab"]);
    play.answer(&[], "");
    play.expect(&["POST TEXT 2|cd"]);
    play.answer(&[], "");
    play.expect(&["POST CLOSE"]);
}

#[test]
fn messages_without_bytes_are_bounded_too() {
    let mut play = Play::opened();
    play.text("a");
    play.expect(&["POST TEXT 1|a"]);
    // While the answer is awaited, a client sends six bytes for each of these.
    let mut taken = 0;
    while play.conversation.has_room(0) {
        play.text("");
        taken += 1;
    }
    assert_eq!(taken, 4095);
    let full = play
        .conversation
        .on_message(WsKind::Ping, Vec::new(), &mut play.out);
    assert_eq!(full, Err(Full));
    play.answer(&[], "");
    assert!(play.conversation.has_room(0));
}

#[test]
fn detaching_keeps_the_client() {
    // 0x13 is 19, the length of the control message.
    let mut play = Play::opened();
    play.text("a");
    play.text("b");
    play.answer(
        &[],
        "TEXT 13\r\nc:{\"type\":\"detach\"}\r\nTEXT 3\r\nm:x\r\n",
    );
    play.expect(&["POST TEXT 1|a", "control Detach", "Text x", "POST CLOSE"]);
    assert_eq!(play.conversation.phase(), ConversationPhase::Detached);
    play.answer(&[], "CLOSE\r\n");
    play.text("into the void");
    play.conversation.on_lost(&mut play.out);
    play.expect(&[]);
    assert_eq!(play.conversation.phase(), ConversationPhase::Done);
}

#[test]
fn bad_answers() {
    for (body, expect) in [
        ("", "reject 502 The backend did not accept this connection."),
        (
            "TEXT 1\r\na\r\n",
            "reject 502 The backend did not accept this connection.",
        ),
        (
            "OPEN",
            "reject 502 The backend did not accept this connection.",
        ),
    ] {
        let mut play = Play::new(ConversationLimits::default());
        play.answer(&[], body);
        play.expect(&[expect]);
    }
    let mut play = Play::new(ConversationLimits::default());
    let head = ResponseHead {
        code: 401,
        reason: "No",
        headers: &[("X", b"1")],
    };
    play.conversation
        .on_response(Millis(0), head, b"go away", &mut play.out);
    play.expect(&["reject 401 go away"]);
    let mut play = Play::opened();
    play.text("a");
    play.answer(&[], "OPEN\r\n");
    play.expect(&["POST TEXT 1|a", "abort Some(OpenTwice)"]);
    let mut play = Play::opened();
    play.text("a");
    play.conversation
        .on_response(Millis(0), head, b"", &mut play.out);
    play.expect(&["POST TEXT 1|a", "abort Some(NotEvents)"]);
}

#[test]
fn handshake_fields() {
    let found = handshake_headers(&[
        ("Host", b"h"),
        ("upgrade", b"websocket"),
        ("Connection-Id", b"forged"),
        ("connection_id", b"forged"),
        ("Meta-User", b"forged"),
        ("Meta_user", b"forged"),
        ("Sec-WebSocket-Extensions", b"permessage-deflate"),
        ("Cookie", b"c"),
    ]);
    let names: Vec<_> = found.iter().map(|header| header.name.as_str()).collect();
    assert_eq!(names, ["Host", "Cookie", "Sec-WebSocket-Extensions"]);
    assert_eq!(found[2].value, b"grip");
}

#[test]
fn events_of_a_client_are_seen_under_every_name() {
    for (name, value, expected) in [
        ("Content-Type", "application/websocket-events", true),
        (
            "content_type",
            "Application/WebSocket-Events; charset=x",
            true,
        ),
        (
            "Content-Type",
            " application/websocket-events, text/plain",
            true,
        ),
        ("Content-Type", "text/plain", false),
        ("Content-Type", "", false),
        ("X-Type", "application/websocket-events", false),
    ] {
        let client: [HeaderRef<'_>; 2] = [("Host", b"h"), (name, value.as_bytes())];
        assert_eq!(claims_events(&client), expected, "{name}: {value}");
    }
}

proptest! {
    #[test]
    fn events_read_back(
        contents in proptest::collection::vec(
            (
                0_usize..7,
                proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40)),
            ),
            0..12,
        )
    ) {
        use EventKind::{Binary, Close, Disconnect, Open, Ping, Pong, Text};
        const KINDS: [EventKind; 7] = [Open, Text, Binary, Ping, Pong, Close, Disconnect];
        let events: Vec<_> = contents
            .iter()
            .map(|(kind, content)| WsHttpEvent { kind: KINDS[*kind], content: content.as_deref() })
            .collect();
        let mut wire = Vec::new();
        for event in &events {
            encode_event(*event, &mut wire);
        }
        prop_assert_eq!(decode_events(&wire), Ok(events));
    }

    /// Whatever happens, what the client says reaches the backend once and in order, as long as
    /// the backend accepts what it is offered, and at most one request is in flight.
    #[test]
    fn nothing_is_said_twice(
        steps in proptest::collection::vec((0_u8..4, "[a-z]{0,3}", 0_usize..8), 1..60)
    ) {
        let mut play = Play::opened();
        let (mut said, mut heard) = (String::new(), String::new());
        let mut in_flight: Option<Vec<u8>> = None;
        let mut replayed = 0;
        for (step, text, accept) in steps {
            match step {
                0 | 1 => {
                    said += &text;
                    play.text(&text);
                }
                2 if in_flight.is_some() => {
                    let body = in_flight.take().unwrap();
                    let offered: String = decode_events(&body)
                        .unwrap()
                        .iter()
                        .map(|event| String::from_utf8_lossy(event.bytes()))
                        .collect();
                    prop_assert!(offered.len() >= replayed);
                    let accept = accept.min(offered.len());
                    heard += &offered[..accept];
                    replayed = offered.len() - accept;
                    play.answer(&[("Content-Bytes-Accepted", &accept.to_string())], "");
                }
                _ if in_flight.is_some() => {
                    let failure = RequestFailure::Unsent;
                    play.conversation.on_failure(play.now, failure, 0, &mut play.out);
                    play.now = play.conversation.next_timeout().unwrap_or(play.now);
                    play.conversation.on_timeout(play.now, &mut play.out);
                    in_flight = None;
                }
                _ => {}
            }
            for command in play.out.drain(..) {
                if let ConversationCommand::Request { body, .. } = command {
                    prop_assert!(in_flight.replace(body).is_none());
                }
            }
            prop_assert!(said.starts_with(&heard));
        }
    }
}
