//! Identity of clients of `/ws`, `/sse` and `/stream`, their ports, how a stream opens, signs of
//! life, the end of their tokens, and other ends.

use std::io::Read as _;
use std::sync::Arc;

use throng_auth::{Algorithm, KeyConfig, NewToken, SigningKey, Verifier, sign};
use throng_broker::{ChannelOptions, NamespaceOptions, Recovery, Refusal};
use throng_gateway_plain::Plain;
use throng_hub::{FormKind, Format};
use throng_metrics::Counter;
use throng_session::{CloseReason, Event, Gateway, Port, Shared, Transport};
use throng_solo::{Solo, WEBSOCKET, name, publication};
use throng_types::{Disconnect, End, Epoch, Millis, Now, Position, Unsubscribe};
use throng_ws::{Masking, WsDecoder, WsLimits, WsRole, encode_pong};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// Unix seconds at which clients connect.
const NOW_S: u64 = 1_700_000_000;

/// Each path, with what its request needs besides.
const PATHS: [(&str, &str, Transport); 3] = [
    ("/ws", WEBSOCKET, Transport::WebSocket),
    ("/sse", "", Transport::Sse),
    ("/stream", "", Transport::Stream),
];

fn opens(shared: Shared, port: Port, target: &str, fields: &str) -> Solo<Plain> {
    let mut solo = Solo::at(port, shared);
    solo.now = Now::new(1000, NOW_S * 1000);
    solo.get(target, fields);
    solo
}

/// A client of a server without keys.
fn client(target: &str, fields: &str) -> Solo<Plain> {
    opens(throng_solo::shared(), Port::Client, target, fields)
}

/// Creates a server that requires tokens, and a token that expires after so many seconds.
fn with_token(after_s: u64) -> (Shared, String) {
    let claims = NewToken {
        sub: "ann",
        exp: Some(NOW_S + after_s),
        ..NewToken::default()
    };
    let token = sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(SECRET));
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.into()),
        ..KeyConfig::default()
    };
    let shared = Shared {
        verifier: Some(Arc::new(Verifier::new(keys).expect("a key"))),
        anonymous: false,
        ..throng_solo::shared()
    };
    (shared, token.expect("a token"))
}

#[test]
fn a_token_says_who_a_client_is_and_when_it_ends() {
    for (path, fields, transport) in PATHS {
        let (shared, token) = with_token(10);
        let refused = &mut opens(shared, Port::Client, &format!("{path}?channel=a"), fields);
        assert!(refused.told().starts_with("HTTP/1.1 401 "), "{path}");
        let (shared, token_target) = (with_token(10).0, format!("{path}?channel=a&token={token}"));
        let mut solo = opens(shared, Port::Client, &token_target, fields);
        let class = Plain::class(solo.session().expect("a session"));
        assert_eq!(class.transport, transport);
        assert!(class.is_client);
        let user = class.identity.map(|identity| &*identity.user);
        assert_eq!(user, Some("ann"), "{path}");
        // The token's end comes before a sign of life is due.
        let due = solo.actions.deadline.flatten().expect("a deadline");
        assert_eq!(due.since(solo.now.mono), 10_000, "{path}");
        solo.subscribed("a", Ok(Recovery::NotAsked));
        solo.told();
        let at = |ms| Now::new(1000 + ms, NOW_S * 1000 + ms);
        solo.now = at(9000);
        solo.event(Event::Timeout);
        assert_eq!((solo.told().as_str(), solo.actions.end), ("", None));
        solo.now = at(10_000);
        solo.event(Event::Timeout);
        assert!(solo.told().contains("connection expired"), "{path}");
        assert_eq!(solo.actions.end, Some(End::Flush), "{path}");
        let counter = Counter::closed(Disconnect::Expired);
        assert_eq!(solo.shared.counters.counter(counter), 1, "{path}");
    }
}

#[test]
fn who_brings_no_token_is_nobody() {
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a");
        let mut solo = client(&target, fields);
        let class = Plain::class(solo.session().expect("a session"));
        assert!(class.is_client && class.identity.is_none(), "{path}");
    }
    let mut publisher = opens(throng_solo::shared(), Port::Api, "/pub", WEBSOCKET);
    let class = Plain::class(publisher.session().expect("a session"));
    assert!(!class.is_client && class.identity.is_none());
    assert_eq!(class.transport, Transport::WebSocket);
}

/// The API port is watched without a token, and on the server itself alone.
#[test]
fn each_port_has_its_paths() {
    for (port, target, fields, status) in [
        (Port::Client, "/ws?channel=a", WEBSOCKET, "101"),
        (Port::Client, "/ws?channel=a", "", "426"),
        (Port::Client, "/sse?channel=a", "", "200"),
        (Port::Client, "/stream?channel=a", "", "200"),
        (Port::Client, "/sse", "", "400"),
        (Port::Client, "/sse?channel=%ff", "", "400"),
        (Port::Client, "/stream?channel=a%C0%80", "", "400"),
        (Port::Client, "/other?channel=a", "", "404"),
        (Port::Api, "/ws?channel=a", WEBSOCKET, "404"),
        (Port::Api, "/stream?channel=a", "", "404"),
        (Port::Api, "/sse?channel=a", "", "403"),
        (Port::Api, "/sse?channel=%E2%82", "", "400"),
        (Port::Api, "/sse?channel=throng:state", "", "200"),
        (Port::Api, "/pub", WEBSOCKET, "101"),
        (Port::Api, "/pub?channel=a", "", "405"),
    ] {
        let mut solo = opens(throng_solo::shared(), port, target, fields);
        let head = solo.told();
        assert_eq!(head.get(9..12), Some(status), "{target}: {head}");
        let shared = Shared {
            draining: true,
            ..throng_solo::shared()
        };
        let mut away = opens(shared, port, target, fields);
        if matches!(status, "101" | "200") {
            assert!(away.told().starts_with("HTTP/1.1 503 "), "{target}");
        }
    }
}

/// One channel's deliveries are shared bytes, those of several the connection's own.
#[test]
fn the_form_follows_from_path_and_channels() {
    use FormKind::{Personal, Shared};
    for (path, fields, one, several) in [
        ("/ws", WEBSOCKET, (0, Shared), (0, Shared)),
        ("/sse", "", (1, Shared), (3, Personal)),
        ("/stream", "", (2, Shared), (4, Personal)),
    ] {
        for (query, names, form) in [
            ("channel=a", &["a"][..], one),
            ("channel=a&channel=a", &["a"], one),
            ("channel=a&channel=b", &["a", "b"], several),
        ] {
            let target = format!("{path}?{query}");
            let mut solo = client(&target, fields);
            let asked = solo.subscribes();
            let expected: Vec<_> = { names.iter() }
                .map(|name| ((*name).to_owned(), Format::new(form.0, form.1), None))
                .collect();
            assert_eq!(asked, expected, "{target}");
        }
    }
}

/// An id that is none of ours is a place that cannot be found; no id asks for nothing.
#[test]
fn where_a_stream_goes_on_stands_in_the_last_id() {
    let hash = name("a").stable_hash();
    let at = |epoch, offset| {
        let epoch = Epoch(epoch);
        Some(Position { epoch, offset })
    };
    for (id, expected) in [
        (None, None),
        (Some(String::new()), None),
        (Some(format!("{hash:x}.7.3")), at(7, 3)),
        (Some("1.7.3".to_owned()), at(0, 0)),
        (Some("nonsense".to_owned()), at(0, 0)),
    ] {
        for path in ["/sse", "/stream"] {
            let fields = id.as_ref().map(|id| format!("Last-Event-ID: {id}\r\n"));
            let target = format!("{path}?channel=a");
            let fields = fields.unwrap_or_default();
            let mut solo = client(&target, &fields);
            assert_eq!(solo.subscribes()[0].2, expected, "{id:?}");
        }
    }
}

/// A client whose subscription ends is disconnected, and gets nothing after that.
#[test]
fn a_client_without_its_stream_is_ended_and_hears_no_more() {
    let channel = &name("a");
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a");
        let open = || client(&target, fields);
        // The broker lost something: the client comes again with the place that it has.
        let mut lost = open();
        lost.subscribed("a", Ok(Recovery::NotAsked));
        lost.told();
        let why = Unsubscribe::InsufficientState;
        lost.event(Event::Unsubscribed { channel, why });
        assert!(lost.told().contains("insufficient state"), "{path}");
        assert_eq!(lost.actions.end, Some(End::Flush), "{path}");
        let counter = Counter::closed(Disconnect::InsufficientState);
        assert_eq!(lost.shared.counters.counter(counter), 1, "{path}");
        let shutdown = CloseReason::Because(Disconnect::Shutdown);
        for event in [
            Event::Unsubscribed { channel, why },
            Event::Unsubscribed {
                channel,
                why: Unsubscribe::Server,
            },
            Event::Drained { dropped: 1 },
            Event::Close(&shutdown),
            Event::Timeout,
        ] {
            lost.now.mono = Millis(1_000_000);
            lost.event(event);
            assert_eq!(lost.told(), "", "{path}");
        }
        // The subscribe is refused.
        let mut refused = open();
        refused.told();
        refused.subscribed("a", Err(Refusal::ChannelLimit));
        assert!(refused.told().contains("internal server error"));
        assert_eq!(refused.actions.end, Some(End::Flush), "{path}");
    }
}

/// A subscription that the server ends before all have answered is left out, and delays nothing.
#[test]
fn an_opening_does_without_a_channel_that_was_ended() {
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a&channel=b");
        let mut solo = client(&target, fields);
        solo.subscribed("a", Err(Refusal::ChannelLimit));
        solo.told();
        let (channel, why) = (&name("a"), Unsubscribe::Server);
        solo.event(Event::Unsubscribed { channel, why });
        solo.told();
        solo.subscribed("b", Ok(Recovery::NotAsked));
        assert_eq!(solo.actions.end, None, "{path}");
        let first = solo.told();
        let names_b = first.contains(r#""channels":["b"]"#);
        assert_eq!(names_b, path != "/ws", "{path}: {first}");
    }
}

/// Each event of a stream as its id's offsets by channel, and its data.
fn events(told: &str) -> Vec<(Vec<(char, u64)>, String)> {
    let hashes = ['a', 'b'].map(|n| (format!("{:x}", name(&n.to_string()).stable_hash()), n));
    let field = |event: &str, field: &str| {
        let lines = event.lines();
        let mut found = lines.filter_map(|line| line.strip_prefix(field).map(str::to_owned));
        found.next().unwrap_or_default()
    };
    let events = told.split("\n\n").filter(|event| event.contains("data: "));
    let events = events.map(|event| {
        let id = field(event, "id: ");
        let places = id.split(',').map(|place| {
            let mut parts = place.split('.');
            let hash = parts.next().unwrap_or_default();
            let channel = hashes.iter().find(|(known, _)| known == hash);
            let offset = parts.nth(1).unwrap_or_default();
            let offset = u64::from_str_radix(offset, 16).expect("a number");
            (channel.expect("one of both").1, offset)
        });
        (places.collect(), field(event, "data: "))
    });
    events.collect()
}

/// The position is the old one until missed publications are written; it moves with each
/// publication.
#[test]
fn what_was_missed_is_said_from_the_old_place_on() {
    let ids = |channels: &[&str]| {
        let each = channels
            .iter()
            .map(|channel| format!("{:x}.7.1", name(channel).stable_hash()));
        format!("Last-Event-ID: {}\r\n", each.collect::<Vec<_>>().join(","))
    };
    let missed = |channel: &str| {
        let missed = |n| publication(channel, n, &format!("{channel}{n}"));
        vec![missed(2), missed(3)]
    };
    let words = |recovered: bool, names: &str| {
        format!("{{\"recovered\":{recovered},\"resuming\":true,\"channels\":[{names}]}}")
    };
    let mut one = client("/sse?channel=a", &ids(&["a"]));
    one.told();
    one.subscribed("a", Ok(Recovery::Whole(missed("a"))));
    let expected = [
        (vec![('a', 1)], words(true, "\"a\"")),
        (vec![('a', 2)], "a2".to_owned()),
        (vec![('a', 3)], "a3".to_owned()),
    ];
    assert_eq!(events(&one.told()), expected);
    let both = "/sse?channel=a&channel=b";
    let mut two = client(both, &ids(&["a", "b"]));
    two.told();
    two.subscribed("a", Ok(Recovery::Whole(missed("a"))));
    two.subscribed("b", Ok(Recovery::Whole(Vec::new())));
    let expected = [
        (vec![('a', 1), ('b', 3)], words(true, "\"a\",\"b\"")),
        (vec![('a', 2), ('b', 3)], "a2".to_owned()),
        (vec![('a', 3), ('b', 3)], "a3".to_owned()),
    ];
    assert_eq!(events(&two.told()), expected);
    // One of them lost something: nothing is said of what was missed in the other one.
    let mut lost = client(both, &ids(&["a", "b"]));
    lost.told();
    lost.subscribed("a", Ok(Recovery::Whole(missed("a"))));
    lost.subscribed("b", Ok(Recovery::Lost));
    let expected = [(vec![('a', 3), ('b', 3)], words(false, "\"a\",\"b\""))];
    assert_eq!(events(&lost.told()), expected);
}

/// Channels open to all, with or without compression.
fn compressing(compression: bool) -> Shared {
    let options = ChannelOptions {
        anonymous_subscribe: true,
        compression,
        ..ChannelOptions::default()
    };
    Shared {
        namespaces: Arc::new(NamespaceOptions::new(options, Vec::new())),
        ..throng_solo::shared()
    }
}

/// Where a namespace asks for it and the client offers it, deliveries are compressed.
#[test]
fn deliveries_are_compressed_where_both_want_it() {
    let offer = format!("{WEBSOCKET}Sec-WebSocket-Extensions: permessage-deflate\r\n");
    for (compression, fields, form) in [
        (true, offer.as_str(), 5),
        (true, WEBSOCKET, 0),
        (false, &offer, 0),
    ] {
        let shared = compressing(compression);
        let mut solo = opens(shared, Port::Client, "/ws?channel=a", fields);
        assert_eq!(
            solo.subscribes()[0].1.number(),
            form,
            "{compression} {fields}"
        );
    }
    let text = "the same again and again, ".repeat(100);
    let publication = publication("a", 1, &text);
    let mut out = Vec::new();
    Plain::encode(&Default::default(), 5, &publication, None, &mut out);
    assert!(out.len() < text.len() / 10, "{} bytes", out.len());
    let limits = WsLimits {
        deflates: true,
        ..WsLimits::new(1 << 20)
    };
    let mut heard = Vec::new();
    WsDecoder::new(WsRole::Client)
        .feed(&mut out, &limits, |event| {
            if let throng_ws::WsEvent::Message { data, .. } = event {
                heard.extend_from_slice(data);
            }
            std::ops::ControlFlow::Continue(())
        })
        .expect("a good frame");
    assert_eq!(heard, text.as_bytes());
}

/// A stream has gzip where its namespace asks for it, the client takes it, and its deliveries are
/// shared with others.
#[test]
fn streams_are_compressed_where_both_want_it() {
    let takes = "Accept-Encoding: br, gzip;q=0.5\r\n";
    for (compression, target, fields, form) in [
        (true, "/sse?channel=a", takes, 6),
        (true, "/stream?channel=a", takes, 7),
        (true, "/sse?channel=a&channel=b", takes, 3),
        (true, "/stream?channel=a&channel=b", takes, 4),
        (true, "/sse?channel=a", "Accept-Encoding: gzip;q=0.0\r\n", 1),
        (true, "/sse?channel=a", "Accept-Encoding: br, *\r\n", 1),
        (true, "/stream?channel=a", "", 2),
        (false, "/sse?channel=a", takes, 1),
        (false, "/stream?channel=a", takes, 2),
    ] {
        let mut solo = opens(compressing(compression), Port::Client, target, fields);
        let is_gzip = form >= 6;
        let head = String::from_utf8_lossy(&solo.out).into_owned();
        for field in ["Content-Encoding: gzip\r\n", "Vary: Accept-Encoding\r\n"] {
            assert_eq!(head.contains(field), is_gzip, "{head}");
        }
        let asked = solo.subscribes();
        assert_eq!(asked[0].1.number(), form, "{compression} {target} {fields}");
    }
}

/// A compressed stream decompresses to the bytes of an uncompressed one.
#[test]
fn a_compressed_stream_says_the_same() {
    for (path, forms) in [("/sse", [1, 6]), ("/stream", [2, 7])] {
        let said = forms.map(|form| {
            let takes = match form >= 6 {
                true => "Accept-Encoding: gzip\r\n",
                false => "",
            };
            let target = format!("{path}?channel=a");
            let mut solo = opens(compressing(true), Port::Client, &target, takes);
            let head = solo.out.windows(4).position(|window| window == b"\r\n\r\n");
            solo.out.drain(..head.expect("a head") + 4);
            solo.subscribed("a", Ok(Recovery::Whole(vec![publication("a", 3, "a3")])));
            let deliver = |solo: &mut Solo<Plain>, offset, text: &str| {
                let publication = publication("a", offset, text);
                Plain::encode(&Default::default(), form, &publication, None, &mut solo.out);
            };
            deliver(&mut solo, 4, &"the same again and again, ".repeat(9000));
            solo.event(Event::Drained { dropped: 3 });
            deliver(&mut solo, 5, "a5");
            solo.event(Event::Close(&CloseReason::Because(Disconnect::Shutdown)));
            let mut wire = std::mem::take(&mut solo.out);
            if path == "/stream" {
                wire = unchunked(&wire);
            }
            if form < 6 {
                return wire;
            }
            assert!(wire.len() < 3000, "{} bytes", wire.len());
            let mut plain = Vec::new();
            // It is cut off, as every stream of events is.
            let _ = flate2::read::GzDecoder::new(&wire[..]).read_to_end(&mut plain);
            plain
        });
        assert!(said[0].len() > 234_000);
        assert!(said[0] == said[1], "{path}");
    }
}

/// The bytes of whole chunks.
fn unchunked(mut wire: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let end = wire.iter().position(|&byte| byte == b'\r').expect("a size");
        let size = std::str::from_utf8(&wire[..end]).expect("a number");
        let size = usize::from_str_radix(size, 16).expect("a number");
        if size == 0 {
            return bytes;
        }
        bytes.extend_from_slice(&wire[end + 2..end + 2 + size]);
        wire = &wire[end + 4 + size..];
    }
}

/// Deliveries before the last channel's answer wait for the stream's first words, then all go out
/// in order.
#[test]
fn what_comes_while_a_stream_opens_is_all_there_after_the_first_words() {
    for path in ["sse", "stream"] {
        let mut stream = client(&format!("/{path}?channel=a&channel=b&channel=c"), "");
        stream.out.clear();
        for channel in ["a", "b", "c"] {
            assert!(stream.out.is_empty(), "one channel has not answered");
            stream.subscribed(channel, Ok(Recovery::NotAsked));
            let first = publication(channel, 4, &format!("first of {channel}"));
            stream.act(|session, cx| Plain::encode_personal(session, &first, cx.out));
        }
        let told = stream.told();
        let places = ["a", "b", "c"].map(|name| told.find(&format!("first of {name}")));
        assert!(places.iter().all(Option::is_some), "{told}");
        assert!(places.is_sorted(), "{told}");
    }
}

const INTERVAL_MS: u64 = 1000;
const PONG_MS: u64 = 300;

fn socket(port: Port, target: &str) -> Solo<Plain> {
    let mut shared = throng_solo::shared();
    shared.limits.ping_interval_ms = INTERVAL_MS;
    shared.limits.pong_timeout_ms = PONG_MS;
    let mut socket = opens(shared, port, target, WEBSOCKET);
    assert!(socket.told().starts_with("HTTP/1.1 101 "));
    socket
}

/// Advances the clock to the session's deadline, and returns that time.
fn wait(socket: &mut Solo<Plain>) -> u64 {
    let due = socket.actions.deadline.take().flatten();
    let Millis(at) = due.expect("a deadline");
    socket.now.mono = Millis(at);
    socket.event(Event::Timeout);
    at
}

#[test]
fn a_client_that_answers_stays_and_one_that_does_not_is_ended() {
    for (port, target) in [(Port::Client, "/ws?channel=a"), (Port::Api, "/pub")] {
        let mut socket = socket(port, target);
        let began = socket.now.mono.0;
        let first = wait(&mut socket);
        let within = began + INTERVAL_MS / 2..=began + INTERVAL_MS;
        assert!(within.contains(&first), "{target}: {first}");
        assert_eq!(std::mem::take(&mut socket.out), b"\x89\x00", "{target}");
        let mut pong = Vec::new();
        encode_pong(Masking::Client([1; 4]), b"", &mut pong);
        socket.feed(&pong);
        // The wait for the pong is a part of the interval.
        assert_eq!(wait(&mut socket), first + INTERVAL_MS, "{target}");
        assert_eq!(std::mem::take(&mut socket.out), b"\x89\x00", "{target}");
        assert_eq!(wait(&mut socket), first + INTERVAL_MS + PONG_MS, "{target}");
        let close = socket.told();
        assert!(close.contains("no pong"), "{target}: {close}");
        assert_eq!(socket.actions.end, Some(End::Flush), "{target}");
    }
}
