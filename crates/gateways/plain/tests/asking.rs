//! Clients of `/ws`, `/sse` and `/stream` about whom backends are asked: the questions, and the
//! results of the answers.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_auth::{Algorithm, KeyConfig, NewToken, SigningKey, Verifier, sign};
use throng_broker::{BackendId, ChannelOptions, NamespaceOptions, ProxySwitches, Recovery};
use throng_gateway_plain::Plain;
use throng_session::{
    Ask, BackendOptions, CloseReason, Event, Gateway as _, Meter, Port, ProxyKind, ProxyOptions,
    ProxyRefusal, Shared, StatusMeaning, Transport, WorkLimits,
};
use throng_solo::{Order, Solo, WEBSOCKET};
use throng_types::{End, Now};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const NOW_S: u64 = 1_700_000_000;
const YES: &str = r#"{"result":{}}"#;
const ANN: &str = r#"{"result":{"user":"ann"}}"#;

/// Each path, with what its request needs besides, and its name for backends.
const PATHS: [(&str, &str, Transport, &str); 3] = [
    ("ws", WEBSOCKET, Transport::WebSocket, "plain_websocket"),
    ("sse", "", Transport::Sse, "plain_sse"),
    ("stream", "", Transport::Stream, "plain_stream"),
];

/// Keys; `asked:` is a backend's to decide, `open:` is open to users.
fn shared() -> Shared {
    let closed = ChannelOptions::default();
    let asked = ChannelOptions {
        proxies: ProxySwitches {
            subscribe: Some(BackendId::DEFAULT),
            ..ProxySwitches::default()
        },
        ..closed
    };
    let open = ChannelOptions {
        subscribe: true,
        compression: true,
        ..closed
    };
    let named = vec![("asked".into(), asked), ("open".into(), open)];
    let keys = KeyConfig {
        hmac_secret: Some(SECRET.into()),
        ..KeyConfig::default()
    };
    Shared {
        namespaces: Arc::new(NamespaceOptions::new(closed, named)),
        verifier: Some(Arc::new(Verifier::new(keys).expect("a key"))),
        anonymous: false,
        ..throng_solo::shared()
    }
}

fn proxies() -> ProxyOptions {
    let meaning = ProxyRefusal::disconnect(4403, "forbidden").expect("a good code");
    ProxyOptions {
        kinds: vec![ProxyKind::Connect, ProxyKind::Subscribe],
        backends: vec![BackendOptions {
            http_headers: vec!["cookie".into()],
            statuses: vec![StatusMeaning {
                status: 418,
                refusal: meaning,
            }],
            ..BackendOptions::default()
        }],
        ..ProxyOptions::default()
    }
}

fn connect(shared: Shared) -> Solo<Plain> {
    let id = throng_solo::conn(1);
    let peer = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let (shared, own) = (Rc::new(shared), Rc::new(proxies()));
    let mut solo = Solo::new(id, Port::Client, peer, shared, own);
    solo.now = Now::new(1000, NOW_S * 1000);
    solo
}

fn request(target: &str, fields: &str) -> String {
    format!("GET /{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")
}

fn opens(target: &str, fields: &str) -> Solo<Plain> {
    let mut solo = connect(shared());
    solo.feed(request(target, fields).as_bytes());
    solo
}

fn token() -> String {
    let claims = NewToken {
        sub: "ann",
        ..NewToken::default()
    };
    sign(&claims, Algorithm::Hs256, SigningKey::HmacSecret(SECRET)).expect("a token")
}

fn status(solo: &mut Solo<Plain>) -> String {
    solo.told().get(9..12).unwrap_or_default().to_owned()
}

#[track_caller]
fn assert_silent(solo: &mut Solo<Plain>, path: &str) {
    assert_eq!((solo.told().as_str(), solo.orders.len()), ("", 0), "{path}");
}

/// The questions that were ordered: the number, the fields of the request, the body.
fn questions(solo: &mut Solo<Plain>) -> Vec<(u32, String, String)> {
    let asks = solo
        .orders
        .extract_if(.., |order| matches!(order, Order::Gateway(_)));
    let asks = asks.map(|order| match order {
        Order::Gateway(Ask {
            number, question, ..
        }) => {
            let fields = question.headers.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
            let body = String::from_utf8(question.body).expect("text");
            (
                number,
                fields.join(", "),
                format!("{} {body}", question.kind.name()),
            )
        }
        other => panic!("{other:?}"),
    });
    asks.collect()
}

/// The number of the one question.
fn question(solo: &mut Solo<Plain>) -> u32 {
    let asked = questions(solo);
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0].0
}

fn answer(solo: &mut Solo<Plain>, number: u32, answer: Option<(u16, &str)>) {
    let answer = answer.map(|(status, body)| (status, body.as_bytes().to_vec()));
    solo.act_and_become(|session, cx| Plain::answered(session, number, answer, cx));
}

/// The channels that were subscribed to.
fn names(solo: &mut Solo<Plain>) -> Vec<String> {
    { solo.subscribes().into_iter() }
        .map(|(name, ..)| name)
        .collect()
}

#[test]
fn a_backend_says_who_a_client_is() {
    for (path, fields, transport, name) in PATHS {
        let fields = format!("{fields}Cookie: id=7\r\nX-Other: no\r\n");
        let mut solo = opens(&format!("{path}?channel=open:a"), &fields);
        let asked = questions(&mut solo);
        let [(number, passed, body)] = &asked[..] else {
            panic!("{asked:?}");
        };
        assert_eq!(passed, "cookie: id=7");
        for part in [
            "connect {",
            &format!(r#""transport":"{name}""#),
            r#""protocol":"json""#,
            r#""channels":["open:a"]"#,
        ] {
            assert!(body.contains(part), "{part} in {body}");
        }
        // It is a request until there is an answer, and cannot move.
        let session = solo.session().expect("a session");
        let class = Plain::class(session);
        assert_eq!((class.transport, class.is_client), (Transport::Http, true));
        assert!(!Plain::moves(session), "{path}");
        assert_silent(&mut solo, path);
        let who = format!(
            r#"{{"result":{{"user":"ann","channels":["own"],"expire_at":{}}}}}"#,
            NOW_S + 10
        );
        answer(&mut solo, *number, Some((200, &who)));
        let class = Plain::class(solo.session().expect("a session"));
        assert_eq!(class.transport, transport);
        assert_eq!(class.identity.map(|it| &*it.user), Some("ann"));
        let head = status(&mut solo);
        assert_eq!(head, if path == "ws" { "101" } else { "200" });
        assert_eq!(names(&mut solo), ["own", "open:a"], "{path}");
        // No backend is asked about an expired client: it ends, and reconnects.
        let due = solo.actions.deadline.flatten().expect("a deadline");
        assert_eq!(due.since(solo.now.mono), 10_000, "{path}");
        solo.now.mono = solo.now.mono + 10_000;
        solo.now.unix_ms += 10_000;
        solo.event(Event::Timeout);
        assert!(solo.told().contains("connection expired"), "{path}");
        assert_eq!(solo.actions.end, Some(End::Flush));
        assert_eq!(questions(&mut solo).len(), 0);
    }
}

#[test]
fn a_token_is_asked_nobody_about() {
    for (path, fields, ..) in PATHS {
        let target = format!("{path}?channel=open:a&token={}", token());
        let mut solo = opens(&target, fields);
        assert_eq!(questions(&mut solo).len(), 0, "{path}");
        assert_eq!(names(&mut solo), ["open:a"], "{path}");
    }
}

#[test]
fn a_client_that_is_not_let_in_is_told_by_a_status() {
    let user = format!("&token={}", token());
    for (path, fields, ..) in PATHS {
        // First the question about identity, then the one about subscriptions.
        for (who, token) in [(true, ""), (false, &*user)] {
            for (said, expected, text) in [
                (
                    Some((200, r#"{"error":{"code":1000,"message":"not you"}}"#)),
                    "403",
                    "1000 not you",
                ),
                (
                    Some((200, r#"{"disconnect":{"code":4501,"reason":"out"}}"#)),
                    "403",
                    "4501 out",
                ),
                (Some((418, "")), "403", "4403 forbidden"),
                (Some((500, "")), "503", "gave no valid answer"),
                (Some((200, "nonsense")), "503", "gave no valid answer"),
                (
                    Some((200, r#"{"result":{"info":1,"subs":3}}"#)),
                    "503",
                    "gave no valid answer",
                ),
                (None, "503", "gave no valid answer"),
            ] {
                let fields = format!("{fields}Origin: http://localhost\r\n");
                let target = format!("{path}?channel=asked:a{token}");
                let mut solo = opens(&target, &fields);
                let number = question(&mut solo);
                answer(&mut solo, number, said);
                let refusal = solo.told();
                let case = format!("{path} {who} {said:?}: {refusal}");
                assert_eq!(refusal.get(9..12), Some(expected), "{case}");
                assert!(refusal.contains(text), "{case}");
                let origin = "Access-Control-Allow-Origin: http://localhost\r\n";
                assert!(refusal.contains(origin), "{case}");
                assert_eq!(solo.orders.len(), 0, "{case}");
                // The connection serves the next request.
                assert!(solo.session().is_none(), "{case}");
                solo.feed(request("nothing", "").as_bytes());
                assert_eq!(status(&mut solo), "404", "{case}");
            }
        }
        let mut solo = opens(&format!("{path}?channel=open:a"), fields);
        let number = question(&mut solo);
        answer(&mut solo, number, Some((200, "{}")));
        let refusal = solo.told();
        assert_eq!(refusal.get(9..12), Some("401"), "{refusal}");
        assert!(
            refusal.contains("WWW-Authenticate: Bearer\r\n"),
            "{refusal}"
        );
        // Channels that the backend's answer does not open stay closed.
        for (target, expected) in [("open:a", "101 200"), ("closed", "403"), ("no:a", "404")] {
            let mut solo = opens(&format!("{path}?channel={target}"), fields);
            let number = question(&mut solo);
            answer(&mut solo, number, Some((200, ANN)));
            assert!(expected.contains(&status(&mut solo)), "{path} {target}");
        }
        // Neither does it name a channel, nor does the client.
        let mut solo = opens(path, fields);
        let number = question(&mut solo);
        answer(&mut solo, number, Some((200, ANN)));
        assert_eq!(status(&mut solo), "400", "{path}");
    }
}

/// All channels that a backend decides are asked about before the first answer to the client, a few
/// at a time.
#[test]
fn a_backend_says_where_a_client_subscribes() {
    for (path, fields, _, name) in PATHS {
        let mut target = format!("{path}?channel=open:a&token={}", token());
        for n in 0..20 {
            write!(target, "&channel=asked:{n:02}&channel=asked:00").expect("room");
        }
        let mut solo = opens(&target, fields);
        let mut asked = questions(&mut solo);
        assert_eq!(asked.len(), 16, "{path}");
        for part in [
            "subscribe {",
            &format!(r#""transport":"{name}""#),
            r#""user":"ann""#,
            r#""channel":"asked:00""#,
        ] {
            assert!(asked[0].2.contains(part), "{part} in {}", asked[0].2);
        }
        let until = format!(r#"{{"result":{{"expire_at":{}}}}}"#, NOW_S + 10);
        for n in 0..20 {
            assert_silent(&mut solo, path);
            let said = if n == 7 { &until } else { YES };
            answer(&mut solo, asked[n].0, Some((200, said)));
            // A repeated answer is ignored.
            if n < 19 {
                answer(&mut solo, asked[n].0, Some((500, "")));
            }
            asked.extend(questions(&mut solo));
        }
        assert!(!status(&mut solo).is_empty(), "{path}");
        let channels = solo.subscribes();
        assert_eq!((channels.len(), &*channels[0].0), (21, "open:a"), "{path}");
        let due = solo.actions.deadline.flatten().expect("a deadline");
        assert_eq!(due.since(solo.now.mono), 10_000, "{path}");
    }
}

/// The identity decides whether subscriptions are asked about, and the second question carries the
/// answer to the first.
#[test]
fn one_question_leads_to_the_next() {
    for (path, fields, ..) in PATHS {
        let mut solo = opens(&format!("{path}?channel=asked:a&channel=asked:b"), fields);
        let number = question(&mut solo);
        let who = r#"{"result":{"user":"ann","channels":["asked:b"]}}"#;
        answer(&mut solo, number, Some((200, who)));
        let asked = questions(&mut solo);
        let [(number, _, body)] = &asked[..] else {
            panic!("{asked:?}");
        };
        assert!(
            body.contains(r#""user":"ann""#) && body.contains("asked:a"),
            "{body}"
        );
        assert_eq!(solo.told(), "");
        answer(&mut solo, *number, Some((200, YES)));
        assert_eq!(names(&mut solo), ["asked:b", "asked:a"], "{path}");
    }
}

/// Origin, last event id and gzip of a request are remembered until the answer.
#[test]
fn a_stream_begins_as_it_was_asked_for() {
    for path in ["sse", "stream"] {
        let target = format!("{path}?channel=open:a&last_event_id=open:a@7:3");
        let fields = "Origin: http://localhost\r\nAccept-Encoding: gzip\r\n";
        let mut solo = opens(&target, fields);
        let number = question(&mut solo);
        answer(&mut solo, number, Some((200, ANN)));
        let head = solo.told();
        assert!(head.contains("Content-Encoding: gzip\r\n"), "{head}");
        assert!(
            head.contains("Access-Control-Allow-Origin: http://localhost\r\n"),
            "{head}"
        );
        let channels = solo.subscribes();
        assert!(channels[0].2.is_some(), "{channels:?}");
        solo.subscribed("open:a", Ok(Recovery::NotAsked));
        assert!(!solo.out.is_empty());
    }
}

/// A request may arrive in pieces, with bytes behind it, before the answer.
#[test]
fn a_request_that_waits_may_come_in_pieces() {
    for (path, fields, ..) in PATHS {
        // A ping, masked with zeros: only a WebSocket reads it, and answers it.
        let ping = b"\x89\x82\0\0\0\0ab";
        let mut wire = request(&format!("{path}?channel=open:a"), fields).into_bytes();
        wire.extend(ping);
        let mut expected = None;
        for cut in 0..=wire.len() {
            let mut solo = connect(shared());
            solo.feed(&wire[..cut]);
            solo.feed(&wire[cut..]);
            let number = question(&mut solo);
            assert_eq!(solo.told(), "", "{path} {cut}");
            answer(&mut solo, number, Some((200, ANN)));
            let told = solo.told();
            assert_eq!(
                told.ends_with("\u{fffd}\u{2}ab"),
                path == "ws",
                "{path}: {told:?}"
            );
            assert_eq!(
                *expected.get_or_insert_with(|| told.clone()),
                told,
                "{path} {cut}"
            );
        }
    }
}

#[test]
fn what_a_client_sends_behind_its_request_is_bounded() {
    for (path, fields, ..) in PATHS {
        let mut solo = opens(&format!("{path}?channel=open:a"), fields);
        let bytes_max = solo.shared.limits.head_bytes_max;
        solo.feed(&vec![b'x'; bytes_max]);
        assert_eq!(solo.actions.end, None, "{path}");
        solo.feed(b"x");
        assert_eq!(solo.actions.end, Some(End::Now), "{path}");
    }
}

/// A waiting client is closed with a status, and a later answer changes nothing.
#[test]
fn a_client_that_waits_is_closed_by_a_status() {
    let user = format!("&token={}", token());
    for (path, fields, ..) in PATHS {
        for token in ["", &*user] {
            for (why, expected) in [
                (CloseReason::Drain { reconnect_ms: 1 }, "503"),
                (
                    CloseReason::Custom {
                        code: 4000,
                        reason: "away".into(),
                    },
                    "403",
                ),
            ] {
                let mut solo = opens(&format!("{path}?channel=asked:a{token}"), fields);
                let number = question(&mut solo);
                solo.event(Event::Close(&why));
                assert_eq!(status(&mut solo), expected, "{path}");
                assert_eq!(solo.actions.end, Some(End::Flush), "{path}");
                solo.event(Event::Close(&why));
                answer(&mut solo, number, Some((200, YES)));
                assert_silent(&mut solo, path);
            }
        }
    }
}

/// Each question costs what an SDK's subscribe costs: a client may have all its channels a few
/// times a second.
#[test]
fn questions_are_charged() {
    let mut shared = shared();
    let limits = WorkLimits {
        messages_per_s_max: 1,
        channels_max: 10,
        ..WorkLimits::NONE
    };
    shared.meter = Meter::new(limits, [1, 2]);
    let mut solo = connect(shared);
    let mut target = format!("sse?token={}", token());
    for n in 0..10 {
        write!(target, "&channel=asked:{n}").expect("room");
    }
    for round in 0..6 {
        solo.feed(request(&target, "").as_bytes());
        let asked = questions(&mut solo);
        if asked.is_empty() {
            assert_eq!(status(&mut solo), "429");
            assert!(round > 2, "{round}");
            return;
        }
        answer(
            &mut solo,
            asked[0].0,
            Some((200, r#"{"error":{"code":400}}"#)),
        );
        assert_eq!(status(&mut solo), "403");
    }
    panic!("nothing was charged");
}
