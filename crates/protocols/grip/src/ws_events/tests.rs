use proptest::prelude::*;
use throng_http1::origin::OriginFailureKind;
use throng_types::{Millis, cases};

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

#[test]
fn control_messages() {
    let filters = format!("{:?}", Filters::from_names(["skip-self"]).unwrap());
    for (json, expect) in cases(include_str!("control.txt")) {
        let found = match ControlMessage::parse(json.as_bytes()) {
            Ok(message) => format!("{message:?}").replace(&filters, "FILTERS"),
            Err(fault) => fault.to_string(),
        };
        assert_eq!(found, expect, "{json}");
    }
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
        Self {
            conversation,
            now: Millis(0),
            out,
        }
    }

    fn opened() -> Self {
        let mut this = Self::new(ConversationLimits::default());
        this.answer(Some(("Sec-WebSocket-Extensions", "grip")), "OPEN\r\n");
        this
    }

    fn answer(&mut self, header: Option<(&str, &str)>, body: &str) {
        let header = header.map(|(name, value)| (name, value.as_bytes()));
        let content_type = ("Content-Type", EVENTS_TYPE.as_bytes());
        let headers: Vec<HeaderRef<'_>> = [content_type].into_iter().chain(header).collect();
        self.respond(200, &headers, body);
    }

    fn respond(&mut self, code: u16, headers: &[HeaderRef<'_>], body: &str) {
        let head = ResponseHead {
            code,
            reason: "",
            headers,
        };
        self.conversation
            .on_response(self.now, head, body.as_bytes(), &mut self.out);
    }

    fn say(&mut self, kind: WsKind, content: &str) -> Result<(), Full> {
        self.conversation
            .on_message(kind, content.into(), &mut self.out)
    }

    fn fail(&mut self, failure: OriginFailureKind, jitter_ms: u64) {
        self.conversation
            .on_failure(self.now, failure, jitter_ms, &mut self.out);
    }

    fn wake(&mut self, now: Millis) {
        self.now = now;
        self.conversation.on_timeout(now, &mut self.out);
    }

    /// Plays a step of `conversations.txt` and returns what it made.
    fn step(&mut self, step: &str) -> String {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let mut told = None;
        match verb {
            "begin" if rest == "small" => {
                *self = Self::new(ConversationLimits {
                    events_max: 1,
                    pending_bytes_max: 4,
                    ..ConversationLimits::default()
                });
            }
            "begin" => *self = Self::new(ConversationLimits::default()),
            "opened" => *self = Self::opened(),
            "text" => told = self.say(WsKind::Text, rest).err().map(|Full| "full".into()),
            "answer" => {
                let with = { rest.strip_prefix('[') }.and_then(|rest| rest.split_once(']'));
                let (header, body) = with.map_or((None, rest), |(header, body)| {
                    (header.split_once(": "), body.trim_start())
                });
                self.answer(header, &body.replace('|', "\r\n"));
            }
            "refuse" => self.respond(401, &[("X", b"1")], rest),
            "close" => {
                let (code, reason) = rest.split_once(' ').unzip();
                let code = code.map(|code| code.parse().unwrap());
                let reason = reason.unwrap_or("").as_bytes();
                self.conversation.on_close(code, reason, &mut self.out);
            }
            "lost" => self.conversation.on_lost(&mut self.out),
            "refresh" => self.conversation.refresh(&mut self.out),
            "unsent" => self.fail(OriginFailureKind::Unsent, rest.parse().unwrap()),
            "sent" => self.fail(OriginFailureKind::Cut, 0),
            "unreachable" => self.fail(OriginFailureKind::Unreachable, 0),
            "time" => {
                let at: u64 = rest.parse().unwrap();
                assert_eq!(self.conversation.next_timeout(), Some(Millis(at)));
                self.wake(Millis(at - 1));
                assert!(self.out.is_empty(), "before {at}");
                self.wake(Millis(at));
            }
            "idle" => assert_eq!(self.conversation.next_timeout(), None),
            "phase" => told = Some(format!("{:?}", self.conversation.phase())),
            _ => panic!("there is no step {step:?}"),
        }
        let made: Vec<_> = self.out.drain(..).map(describe).chain(told).collect();
        if made.is_empty() {
            return "-".to_owned();
        }
        made.join(" / ")
    }
}

fn describe(command: ConversationCommand) -> String {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = match command {
        ConversationCommand::Request { headers, body } => {
            let mut text = format!("POST {}", lossy(body.trim_ascii_end()).replace("\r\n", "|"));
            for header in headers {
                if header.name.starts_with("Meta-") || header.is("Content-Bytes-Replayed") {
                    text.extend([" ", &header.name, "=", &lossy(&header.value)]);
                }
            }
            text
        }
        ConversationCommand::Accept { .. } => "accept".into(),
        ConversationCommand::Reject { code, body, .. } => format!("reject {code} {}", lossy(&body)),
        ConversationCommand::Send { kind, content } => format!("{kind:?} {}", lossy(&content)),
        ConversationCommand::Control(control) => format!("control {control:?}"),
        ConversationCommand::ControlError(fault) => format!("ignored {fault}"),
        ConversationCommand::Close { code, reason } => format!("close {code:?} {}", lossy(&reason)),
        ConversationCommand::Abort(fault) => format!("abort {fault:?}"),
    };
    text.trim_end().to_owned()
}

#[test]
fn conversations() {
    let mut play = Play::opened();
    for (step, expect) in cases(include_str!("conversations.txt")) {
        assert_eq!(play.step(step), expect, "{step}");
    }
}

#[test]
fn what_waits_is_bounded() {
    let mut play = Play::opened();
    assert!(play.conversation.has_room(200_000) && !play.conversation.has_room(200_001));
    assert_eq!(play.say(WsKind::Text, "a"), Ok(()));
    // While the answer is awaited, a client sends six bytes for each of these.
    let mut taken = 0;
    while play.conversation.has_room(0) {
        assert_eq!(play.say(WsKind::Text, ""), Ok(()));
        taken += 1;
    }
    assert_eq!(taken, 4095);
    assert_eq!(play.say(WsKind::Ping, ""), Err(Full));
    play.answer(None, "");
    assert!(play.conversation.has_room(0));
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
        play.out.clear();
        let (mut said, mut heard) = (String::new(), String::new());
        let mut in_flight: Option<Vec<u8>> = None;
        let mut replayed = 0;
        for (step, text, accept) in steps {
            match step {
                0 | 1 => {
                    said += &text;
                    play.say(WsKind::Text, &text).unwrap();
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
                    let accept = accept.to_string();
                    play.answer(Some(("Content-Bytes-Accepted", &accept)), "");
                }
                _ if in_flight.is_some() => {
                    play.fail(OriginFailureKind::Unsent, 0);
                    play.wake(play.conversation.next_timeout().unwrap_or(play.now));
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
