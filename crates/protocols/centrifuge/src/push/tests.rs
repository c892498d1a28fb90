//! Pushes in both of their shapes.

use throng_types::{ChannelName, Disconnect, Epoch, PayloadKind, Position, Told, Unsubscribe};

use super::*;

fn publication(channel: &str, bytes: &[u8], kind: PayloadKind) -> Publication {
    Publication {
        channel: ChannelName::new(channel).unwrap(),
        told: Told::Data,
        position: None,
        payload: payload(bytes, kind),
        publisher: None,
        tags: None,
        time_unix_ms: 0,
    }
}

fn payload(bytes: &[u8], kind: PayloadKind) -> Payload {
    Payload {
        bytes: bytes.into(),
        kind,
    }
}

/// Both shapes carry the same push; only the wrapping differs.
#[track_caller]
fn check(encode: impl Fn(bool, &mut Vec<u8>), push: &str) {
    for (bidirectional, expected) in [
        (true, format!(r#"{{"push":{push}}}"#)),
        (false, push.into()),
    ] {
        let mut out = Vec::new();
        encode(bidirectional, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, expected);
        assert!(!text.contains(['\n', '\r']));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}

#[test]
fn publications_of_every_kind() {
    let check = |publication: Publication, push| {
        check(
            |both, out| encode_publication_push(&publication, both, out),
            push,
        );
    };
    check(
        publication("news", b"{\"a\":\n1}", PayloadKind::Json),
        r#"{"channel":"news","pub":{"data":{"a":1}}}"#,
    );
    check(
        publication("a\"\\é", "line\r\n".as_bytes(), PayloadKind::Text),
        r#"{"channel":"a\"\\é","pub":{"data":"line\r\n"}}"#,
    );
    check(
        publication("bin", &[0, 255], PayloadKind::Binary),
        r#"{"channel":"bin","pub":{"data":"AP8="}}"#,
    );
    let mut full = publication("chat:42", b"1", PayloadKind::Json);
    full.position = Some(Position {
        epoch: Epoch(1),
        offset: 10,
    });
    full.tags = Some("{\"k\":\n\"v\"}".into());
    full.time_unix_ms = 5;
    check(
        full,
        r#"{"channel":"chat:42","pub":{"data":1,"offset":10,"tags":{"k":"v"}}}"#,
    );
}

#[test]
fn ends() {
    let why = Unsubscribe::InsufficientState;
    check(
        |both, out| encode_unsubscribe_push("c", why.code(), why.reason(), both, out),
        r#"{"channel":"c","unsubscribe":{"code":2500,"reason":"insufficient state"}}"#,
    );
    let why = Disconnect::Shutdown;
    check(
        |both, out| encode_disconnect_push(why.code(), why.reason(), both, out),
        r#"{"disconnect":{"code":3001,"reason":"shutdown"}}"#,
    );
    check(
        |both, out| encode_disconnect_push(4500, "go \"away\"", both, out),
        r#"{"disconnect":{"code":4500,"reason":"go \"away\""}}"#,
    );
}

#[test]
fn subscriptions_messages_and_refreshes() {
    check(
        |both, out| encode_subscribe_push("c", &SubscribePush::default(), both, out),
        r#"{"channel":"c","subscribe":{}}"#,
    );
    let position = Some(Position {
        epoch: Epoch(0xab),
        offset: 3,
    });
    let subscribe = SubscribePush {
        recoverable: true,
        positioned: true,
        position,
        data: Some("[\n]"),
    };
    check(
        |both, out| encode_subscribe_push("c", &subscribe, both, out),
        concat!(
            r#"{"channel":"c","subscribe":{"recoverable":true,"epoch":"ab","offset":3,"#,
            r#""positioned":true,"data":[]}}"#,
        ),
    );
    let hello = payload(b"hello", PayloadKind::Text);
    check(
        |both, out| encode_message_push(&hello, both, out),
        r#"{"message":{"data":"hello"}}"#,
    );
    check(
        |both, out| encode_refresh_push(Some(60), both, out),
        r#"{"refresh":{"expires":true,"ttl":60}}"#,
    );
    check(
        |both, out| encode_refresh_push(None, both, out),
        r#"{"refresh":{}}"#,
    );
}

#[test]
fn a_unidirectional_connection_begins_bare() {
    let result = ConnectResult {
        client: "c1",
        ping_s: 25,
        ..ConnectResult::default()
    };
    let mut out = Vec::new();
    encode_connect_push(&result, &mut out);
    assert_eq!(out, br#"{"connect":{"client":"c1","ping":25}}"#);
}
