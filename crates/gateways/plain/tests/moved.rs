//! Sessions moved to another process keep the state of clients and publishers.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_gateway_plain::{Plain, Session};
use throng_hub::{Answer, Command};
use throng_session::{Event, Gateway as _, OPENING, Port};
use throng_solo::{Order, Solo};
use throng_types::{
    ChannelName, ConnId, End, Epoch, Load as _, Millis, Payload, PayloadKind, Position,
    Publication, PublicationKind, Save as _, ShardId, check_saved,
};

const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn opens(port: Port, target: &str, fields: &str) -> Solo<Plain> {
    let id = ConnId::new(ShardId(0), 1, 1);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut solo = Solo::new(
        id,
        port,
        peer,
        Rc::new(throng_solo::shared()),
        Rc::default(),
    );
    solo.feed(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
    solo.out.clear();
    solo
}

/// The session goes to another process, if it can.
fn moves(solo: &mut Solo<Plain>) -> bool {
    let session = solo.session().expect("a session");
    let moves = Plain::moves(session);
    if moves {
        check_saved(session);
        *session = Session::load_whole(&session.saved()).expect("what was saved");
    }
    moves
}

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

fn position(offset: u64) -> Position {
    Position {
        epoch: Epoch(7),
        offset,
    }
}

fn subscribed(solo: &mut Solo<Plain>, channel: &str) {
    let answer = Answer::Subscribed {
        channel: name(channel),
        result: Ok(Subscribed {
            position: Some(position(3)),
            recovery: Recovery::NotAsked,
        }),
    };
    let token = OPENING;
    solo.event(Event::Answer { token, answer });
}

/// Takes the output as text.
fn told(solo: &mut Solo<Plain>) -> String {
    String::from_utf8_lossy(&std::mem::take(&mut solo.out)).into_owned()
}

/// Listeners move once their subscriptions are answered, and go on in their own form.
#[test]
fn listeners_go_on_listening() {
    for (target, fields, dropped) in [
        ("/ws?channel=a", HANDSHAKE, "dropped=5"),
        (
            "/sse?channel=a",
            "",
            "event: dropped\ndata: {\"dropped\":5}",
        ),
        ("/stream?channel=a", "", "{\"dropped\":5}"),
    ] {
        let mut solo = opens(Port::Client, target, fields);
        assert!(!moves(&mut solo), "{target}");
        subscribed(&mut solo, "a");
        told(&mut solo);
        let before = { solo.session() }.map(|session| Plain::class(session).transport);
        assert!(moves(&mut solo), "{target}");
        let after = { solo.session() }.map(|session| Plain::class(session).transport);
        assert_eq!(before, after, "{target}");
        solo.event(Event::Drained { dropped: 5 });
        let heard = told(&mut solo);
        assert!(heard.contains(dropped), "{target}: {heard}");
        // The next sign of life keeps its time.
        solo.now.mono = Millis(60_000);
        solo.event(Event::Timeout);
        assert_ne!(told(&mut solo), "", "{target}");
        // One that ends is not another process's business.
        let drain = throng_session::CloseReason::Drain { reconnect_ms: 1 };
        solo.event(Event::Close(&drain));
        assert_eq!(solo.actions.end, Some(End::Flush));
        assert!(!moves(&mut solo), "{target}");
    }
}

/// A listener to several channels still knows its place in all of them.
#[test]
fn a_place_in_several_channels_moves() {
    let after = |moves_on: bool| {
        let mut solo = opens(Port::Client, "/sse?channel=a&channel=b", "");
        subscribed(&mut solo, "a");
        subscribed(&mut solo, "b");
        told(&mut solo);
        if moves_on {
            assert!(moves(&mut solo));
        }
        let publication = Arc::new(Publication {
            channel: name("b"),
            told: PublicationKind::Data,
            position: Some(position(4)),
            payload: Payload {
                bytes: b"1".as_slice().into(),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: None,
            time_unix_ms: 0,
        });
        let mut out = Vec::new();
        Plain::encode_personal(solo.session().expect("a session"), &publication, &mut out);
        String::from_utf8(out).expect("text")
    };
    let told = after(true);
    assert_eq!(told, after(false));
    // Both channels stand in the id: one at 3, the other one at 4.
    assert!(told.contains(".7.3") && told.contains(".7.4"), "{told}");
}

/// A publisher stays while it waits for an answer; then its numbers go on where they were.
#[test]
fn a_publisher_goes_on_counting() {
    let mut solo = opens(Port::Api, "/pub", HANDSHAKE);
    let message = b"\x81\x83\0\0\0\0a\n1";
    let ordered = |solo: &mut Solo<Plain>| {
        let orders = std::mem::take(&mut solo.orders).into_iter();
        let tokens = orders.map(|order| match order {
            Order::Hub(
                Command::Publish { reply_to, .. } | Command::PublishAll { reply_to, .. },
            ) => reply_to.token,
            other => panic!("{other:?}"),
        });
        tokens.collect::<Vec<u32>>()
    };
    assert!(moves(&mut solo));
    for number in 1..4 {
        solo.feed(message);
        assert_eq!(ordered(&mut solo), [number]);
        assert!(!moves(&mut solo), "its message is without an answer");
        let answer = Answer::Published { result: Ok(None) };
        let token = number;
        solo.event(Event::Answer { token, answer });
        assert!(told(&mut solo).ends_with(&format!("{{\"ack\":{number}}}")));
        assert!(moves(&mut solo));
    }
    let is_client = { solo.session() }.map(|session| Plain::class(session).is_client);
    assert_eq!(is_client, Some(false));
}
