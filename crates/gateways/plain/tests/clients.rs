//! Identity of clients of `/ws`, `/sse` and `/stream`, their ports, the end of their tokens, and
//! other ends.

use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_auth::{Algorithm, KeyConfig, NewToken, SigningKey, Verifier, sign};
use throng_broker::{ChannelOptions, Namespaces, Recovery, Refusal, Subscribed};
use throng_gateway_plain::Plain;
use throng_hub::{Answer, Command, FormKind};
use throng_metrics::Counter;
use throng_session::{CloseReason, Event, Gateway, OPENING, Port, Shared, Transport};
use throng_solo::{Order, Solo};
use throng_types::{
    ChannelName, ConnId, Disconnect, End, Epoch, Millis, Now, Payload, PayloadKind, Position,
    Publication, PublicationKind, ShardId, Unsubscribe,
};
use throng_ws::{WsDecoder, WsLimits, WsRole};

const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
/// Unix seconds at which clients connect.
const NOW_S: u64 = 1_700_000_000;

/// Each path, with what its request needs besides.
const PATHS: [(&str, &str, Transport); 3] = [
    ("/ws", HANDSHAKE, Transport::WebSocket),
    ("/sse", "", Transport::Sse),
    ("/stream", "", Transport::Stream),
];

fn opens(shared: Shared, port: Port, target: &str, fields: &str) -> Solo<Plain> {
    let id = ConnId::new(ShardId(0), 1, 1);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut solo = Solo::new(id, port, peer, Rc::new(shared), Rc::default());
    solo.now = Now {
        mono: Millis(1000),
        unix_ms: NOW_S * 1000,
    };
    solo.feed(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
    solo
}

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

fn answer(solo: &mut Solo<Plain>, channel: &str, result: Result<Recovery, Refusal>) {
    let position = Some(Position {
        epoch: Epoch(7),
        offset: 3,
    });
    let answer = Answer::Subscribed {
        channel: name(channel),
        result: result.map(|recovery| Subscribed { position, recovery }),
    };
    let token = OPENING;
    solo.event(Event::Answer { token, answer });
}

/// Takes the output as text.
fn told(solo: &mut Solo<Plain>) -> String {
    String::from_utf8_lossy(&std::mem::take(&mut solo.out)).into_owned()
}

/// Each subscribe that was ordered: the channel, the number and kind of its form, and since when.
fn subscribes(solo: &mut Solo<Plain>) -> Vec<(String, u8, FormKind, Option<Position>)> {
    let orders = std::mem::take(&mut solo.orders).into_iter();
    let subscribes = orders.map(|order| match order {
        Order::Hub(Command::Subscribe {
            channel,
            format,
            since,
            ..
        }) => (
            channel.as_str().to_owned(),
            format.number(),
            format.kind(),
            since,
        ),
        other => panic!("{other:?}"),
    });
    subscribes.collect()
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
        assert!(told(refused).starts_with("HTTP/1.1 401 "), "{path}");
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
        answer(&mut solo, "a", Ok(Recovery::NotAsked));
        told(&mut solo);
        let at = |ms| Now {
            mono: Millis(1000 + ms),
            unix_ms: NOW_S * 1000 + ms,
        };
        solo.now = at(9000);
        solo.event(Event::Timeout);
        assert_eq!((told(&mut solo).as_str(), solo.actions.end), ("", None));
        solo.now = at(10_000);
        solo.event(Event::Timeout);
        assert!(told(&mut solo).contains("connection expired"), "{path}");
        assert_eq!(solo.actions.end, Some(End::Flush), "{path}");
        let counter = Counter::closed(Disconnect::Expired);
        assert_eq!(solo.shared.counters.counter(counter), 1, "{path}");
    }
}

#[test]
fn who_brings_no_token_is_nobody() {
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a");
        let mut solo = opens(throng_solo::shared(), Port::Client, &target, fields);
        let class = Plain::class(solo.session().expect("a session"));
        assert!(class.is_client && class.identity.is_none(), "{path}");
    }
    let mut publisher = opens(throng_solo::shared(), Port::Api, "/pub", HANDSHAKE);
    let class = Plain::class(publisher.session().expect("a session"));
    assert!(!class.is_client && class.identity.is_none());
    assert_eq!(class.transport, Transport::WebSocket);
}

/// The API port is watched without a token, and on the server itself alone.
#[test]
fn each_port_has_its_paths() {
    for (port, target, fields, status) in [
        (Port::Client, "/ws?channel=a", HANDSHAKE, "101"),
        (Port::Client, "/ws?channel=a", "", "426"),
        (Port::Client, "/sse?channel=a", "", "200"),
        (Port::Client, "/stream?channel=a", "", "200"),
        (Port::Client, "/sse", "", "400"),
        (Port::Client, "/sse?channel=%ff", "", "400"),
        (Port::Client, "/stream?channel=a%C0%80", "", "400"),
        (Port::Client, "/other?channel=a", "", "404"),
        (Port::Api, "/ws?channel=a", HANDSHAKE, "404"),
        (Port::Api, "/stream?channel=a", "", "404"),
        (Port::Api, "/sse?channel=a", "", "403"),
        (Port::Api, "/sse?channel=%E2%82", "", "400"),
        (Port::Api, "/sse?channel=throng:state", "", "200"),
        (Port::Api, "/pub", HANDSHAKE, "101"),
        (Port::Api, "/pub?channel=a", "", "405"),
    ] {
        let mut solo = opens(throng_solo::shared(), port, target, fields);
        let head = told(&mut solo);
        assert_eq!(head.get(9..12), Some(status), "{target}: {head}");
        let shared = Shared {
            draining: true,
            ..throng_solo::shared()
        };
        let mut away = opens(shared, port, target, fields);
        if matches!(status, "101" | "200") {
            assert!(told(&mut away).starts_with("HTTP/1.1 503 "), "{target}");
        }
    }
}

/// One channel's deliveries are shared bytes, those of several the connection's own.
#[test]
fn the_form_follows_from_path_and_channels() {
    use FormKind::{Personal, Shared};
    for (path, fields, one, several) in [
        ("/ws", HANDSHAKE, (0, Shared), (0, Shared)),
        ("/sse", "", (1, Shared), (3, Personal)),
        ("/stream", "", (2, Shared), (4, Personal)),
    ] {
        for (query, names, form) in [
            ("channel=a", &["a"][..], one),
            ("channel=a&channel=a", &["a"], one),
            ("channel=a&channel=b", &["a", "b"], several),
        ] {
            let target = format!("{path}?{query}");
            let mut solo = opens(throng_solo::shared(), Port::Client, &target, fields);
            let asked = subscribes(&mut solo);
            let expected: Vec<_> = { names.iter() }
                .map(|name| ((*name).to_owned(), form.0, form.1, None))
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
            let mut solo = opens(throng_solo::shared(), Port::Client, &target, &fields);
            assert_eq!(subscribes(&mut solo)[0].3, expected, "{id:?}");
        }
    }
}

/// A client whose subscription ends is disconnected, and gets nothing after that.
#[test]
fn a_client_without_its_stream_is_ended_and_hears_no_more() {
    let channel = &name("a");
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a");
        let open = || opens(throng_solo::shared(), Port::Client, &target, fields);
        // The broker lost something: the client comes again with the place that it has.
        let mut lost = open();
        answer(&mut lost, "a", Ok(Recovery::NotAsked));
        told(&mut lost);
        let why = Unsubscribe::InsufficientState;
        lost.event(Event::Unsubscribed { channel, why });
        assert!(told(&mut lost).contains("insufficient state"), "{path}");
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
            assert_eq!(told(&mut lost), "", "{path}");
        }
        // The subscribe is refused.
        let mut refused = open();
        told(&mut refused);
        answer(&mut refused, "a", Err(Refusal::ChannelLimit));
        assert!(told(&mut refused).contains("internal server error"));
        assert_eq!(refused.actions.end, Some(End::Flush), "{path}");
    }
}

/// A subscription that the server ends before all have answered is left out, and delays nothing.
#[test]
fn an_opening_does_without_a_channel_that_was_ended() {
    for (path, fields, _) in PATHS {
        let target = format!("{path}?channel=a&channel=b");
        let mut solo = opens(throng_solo::shared(), Port::Client, &target, fields);
        answer(&mut solo, "a", Err(Refusal::ChannelLimit));
        told(&mut solo);
        let (channel, why) = (&name("a"), Unsubscribe::Server);
        solo.event(Event::Unsubscribed { channel, why });
        told(&mut solo);
        answer(&mut solo, "b", Ok(Recovery::NotAsked));
        assert_eq!(solo.actions.end, None, "{path}");
        let first = told(&mut solo);
        let names_b = first.contains(r#""channels":["b"]"#);
        assert_eq!(names_b, path != "/ws", "{path}: {first}");
    }
}

fn publication(channel: &str, offset: u64) -> Arc<Publication> {
    Arc::new(Publication {
        channel: name(channel),
        told: PublicationKind::Data,
        position: Some(Position {
            epoch: Epoch(7),
            offset,
        }),
        payload: Payload {
            bytes: format!("{channel}{offset}").into_bytes().into(),
            kind: PayloadKind::Text,
        },
        publisher: None,
        tags: None,
        time_unix_ms: 0,
    })
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
    let missed = |channel: &str| vec![publication(channel, 2), publication(channel, 3)];
    let words = |recovered: bool, names: &str| {
        format!("{{\"recovered\":{recovered},\"resuming\":true,\"channels\":[{names}]}}")
    };
    let mut one = opens(
        throng_solo::shared(),
        Port::Client,
        "/sse?channel=a",
        &ids(&["a"]),
    );
    told(&mut one);
    answer(&mut one, "a", Ok(Recovery::Whole(missed("a"))));
    let expected = [
        (vec![('a', 1)], words(true, "\"a\"")),
        (vec![('a', 2)], "a2".to_owned()),
        (vec![('a', 3)], "a3".to_owned()),
    ];
    assert_eq!(events(&told(&mut one)), expected);
    let both = "/sse?channel=a&channel=b";
    let mut two = opens(throng_solo::shared(), Port::Client, both, &ids(&["a", "b"]));
    told(&mut two);
    answer(&mut two, "a", Ok(Recovery::Whole(missed("a"))));
    answer(&mut two, "b", Ok(Recovery::Whole(Vec::new())));
    let expected = [
        (vec![('a', 1), ('b', 3)], words(true, "\"a\",\"b\"")),
        (vec![('a', 2), ('b', 3)], "a2".to_owned()),
        (vec![('a', 3), ('b', 3)], "a3".to_owned()),
    ];
    assert_eq!(events(&told(&mut two)), expected);
    // One of them lost something: nothing is said of what was missed in the other one.
    let mut lost = opens(throng_solo::shared(), Port::Client, both, &ids(&["a", "b"]));
    told(&mut lost);
    answer(&mut lost, "a", Ok(Recovery::Whole(missed("a"))));
    answer(&mut lost, "b", Ok(Recovery::Lost));
    let expected = [(vec![('a', 3), ('b', 3)], words(false, "\"a\",\"b\""))];
    assert_eq!(events(&told(&mut lost)), expected);
}

/// Channels open to all, with or without compression.
fn compressing(compression: bool) -> Shared {
    let options = ChannelOptions {
        anonymous_subscribe: true,
        compression,
        ..ChannelOptions::default()
    };
    Shared {
        namespaces: Arc::new(Namespaces::new(options, Vec::new())),
        ..throng_solo::shared()
    }
}

/// Where a namespace asks for it and the client offers it, deliveries are compressed.
#[test]
fn deliveries_are_compressed_where_both_want_it() {
    let offer = format!("{HANDSHAKE}Sec-WebSocket-Extensions: permessage-deflate\r\n");
    for (compression, fields, form) in [
        (true, offer.as_str(), 5),
        (true, HANDSHAKE, 0),
        (false, &offer, 0),
    ] {
        let mut solo = opens(
            compressing(compression),
            Port::Client,
            "/ws?channel=a",
            fields,
        );
        assert_eq!(subscribes(&mut solo)[0].1, form, "{compression} {fields}");
    }
    let text = "the same again and again, ".repeat(100);
    let publication = Publication {
        payload: Payload {
            bytes: text.clone().into_bytes().into(),
            kind: PayloadKind::Text,
        },
        ..Arc::unwrap_or_clone(publication("a", 1))
    };
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
        assert_eq!(
            head.contains("Content-Encoding: gzip\r\n"),
            is_gzip,
            "{head}"
        );
        assert_eq!(
            head.contains("Vary: Accept-Encoding\r\n"),
            is_gzip,
            "{head}"
        );
        assert_eq!(
            subscribes(&mut solo)[0].1,
            form,
            "{compression} {target} {fields}"
        );
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
            answer(
                &mut solo,
                "a",
                Ok(Recovery::Whole(vec![publication("a", 3)])),
            );
            let long = Publication {
                payload: Payload {
                    bytes: "the same again and again, "
                        .repeat(9000)
                        .into_bytes()
                        .into(),
                    kind: PayloadKind::Text,
                },
                ..Arc::unwrap_or_clone(publication("a", 4))
            };
            Plain::encode(&Default::default(), form, &long, None, &mut solo.out);
            solo.event(Event::Drained { dropped: 3 });
            Plain::encode(
                &Default::default(),
                form,
                &publication("a", 5),
                None,
                &mut solo.out,
            );
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
        assert_eq!(
            String::from_utf8_lossy(&said[0]),
            String::from_utf8_lossy(&said[1])
        );
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
