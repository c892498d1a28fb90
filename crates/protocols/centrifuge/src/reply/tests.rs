//! Replies as bytes, and as the parser of an SDK would see them.

use throng_types::{ChannelName, Epoch, Payload, PayloadKind, PublicationKind};

use super::*;
use crate::json::payload_of;
use crate::{ClientRequest, Codec};

fn publication(offset: u64, data: &str) -> Arc<Publication> {
    Publication {
        channel: ChannelName::new("chat:42").unwrap(),
        told: PublicationKind::Data,
        position: Some(position(offset)),
        payload: Payload {
            bytes: data.as_bytes().into(),
            kind: PayloadKind::Json,
        },
        publisher: None,
        tags: None,
        time_unix_ms: 0,
    }
    .shared()
}

fn position(offset: u64) -> Position {
    Position {
        epoch: Epoch(0x2f),
        offset,
    }
}

#[track_caller]
fn check(encode: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let mut out = b"before ".to_vec();
    encode(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        format!("before {expected}")
    );
    assert!(serde_json::from_str::<serde_json::Value>(expected).is_ok());
}

#[test]
fn empty_results_and_pings() {
    check(encode_ping, "{}");
    check(
        |out| encode_reply(3, &Reply::Unsubscribe, out),
        r#"{"id":3,"unsubscribe":{}}"#,
    );
    check(
        |out| encode_reply(4, &Reply::Publish, out),
        r#"{"id":4,"publish":{}}"#,
    );
    check(
        |out| encode_reply(u32::MAX, &Reply::Ping, out),
        r#"{"id":4294967295,"ping":{}}"#,
    );
}

#[test]
fn errors() {
    check(
        |out| encode_reply(3, &Reply::Error(ErrorCode::PermissionDenied), out),
        r#"{"id":3,"error":{"code":103,"message":"permission denied"}}"#,
    );
    check(
        |out| encode_reply(4, &Reply::Error(ErrorCode::TooManyRequests), out),
        r#"{"id":4,"error":{"code":111,"message":"too many requests","temporary":true}}"#,
    );
}

#[test]
fn connect_results() {
    let least = ConnectResult {
        client: "c1",
        ..ConnectResult::default()
    };
    check(
        |out| encode_reply(1, &Reply::Connect(&least), out),
        r#"{"id":1,"connect":{"client":"c1"}}"#,
    );
    let subs = [
        ("a\"b", SubscribeResult::default()),
        (
            "user:42",
            SubscribeResult {
                recoverable: true,
                positioned: true,
                position: Some(position(12)),
                ..SubscribeResult::default()
            },
        ),
    ];
    let most = ConnectResult {
        version: "0.1.0",
        expires: true,
        ttl_s: 60,
        data: Some("{\n\"a\":1}"),
        subs: &subs,
        ping_s: 25,
        pong: true,
        session: "s1",
        node: "n1",
        time_unix_ms: 1_790_000_000_123,
        ..least
    };
    check(
        |out| encode_reply(1, &Reply::Connect(&most), out),
        concat!(
            r#"{"id":1,"connect":{"client":"c1","version":"0.1.0","expires":true,"#,
            r#""ttl":60,"data":{"a":1},"#,
            r#""subs":{"a\"b":{},"user:42":{"recoverable":true,"epoch":"2f","#,
            r#""offset":12,"positioned":true}},"#,
            r#""ping":25,"pong":true,"session":"s1","node":"n1","time":1790000000123}}"#,
        ),
    );
}

#[test]
fn subscribe_results() {
    check(
        |out| encode_reply(2, &Reply::Subscribe(&SubscribeResult::default()), out),
        r#"{"id":2,"subscribe":{}}"#,
    );
    let publications = [publication(8, r#"{"n":8}"#), publication(9, "9")];
    let recovered = SubscribeResult {
        expires: true,
        ttl_s: 30,
        recoverable: true,
        positioned: true,
        position: Some(position(9)),
        publications: &publications,
        recovered: true,
        was_recovering: true,
        data: Some("[1]"),
        delta: false,
    };
    check(
        |out| encode_reply(2, &Reply::Subscribe(&recovered), out),
        concat!(
            r#"{"id":2,"subscribe":{"expires":true,"ttl":30,"recoverable":true,"#,
            r#""epoch":"2f","offset":9,"#,
            r#""publications":[{"data":{"n":8},"offset":8},{"data":9,"offset":9}],"#,
            r#""recovered":true,"positioned":true,"data":[1],"was_recovering":true}}"#,
        ),
    );
    let lost = SubscribeResult {
        recoverable: true,
        position: Some(position(0)),
        was_recovering: true,
        ..SubscribeResult::default()
    };
    check(
        |out| encode_reply(2, &Reply::Subscribe(&lost), out),
        r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"2f","was_recovering":true}}"#,
    );
}

#[test]
fn histories() {
    let empty = HistoryResult {
        publications: &[],
        position: position(0),
    };
    check(
        |out| encode_reply(5, &Reply::History(&empty), out),
        r#"{"id":5,"history":{"publications":[],"epoch":"2f","offset":0}}"#,
    );
    let mut told = (*publication(1, r#""x""#)).clone();
    told.publisher = Some(Box::new(Publisher {
        client: "c1".into(),
        user: "".into(),
        conn_info: Some("{\"name\":\n\"Ada\"}".into()),
        chan_info: None,
    }));
    told.tags = Some(r#"{"k":"v"}"#.into());
    told.time_unix_ms = 1_790_000_000_000;
    let publications = [told.shared()];
    let one = HistoryResult {
        publications: &publications,
        position: position(1),
    };
    check(
        |out| encode_reply(5, &Reply::History(&one), out),
        concat!(
            r#"{"id":5,"history":{"publications":[{"data":"x","#,
            r#""info":{"user":"","client":"c1","conn_info":{"name":"Ada"}},"#,
            r#""offset":1,"tags":{"k":"v"}}],"epoch":"2f","offset":1}}"#,
        ),
    );
}

#[test]
fn presences_and_the_rest() {
    let present = [
        ClientInfo {
            user: "42",
            client: "c1",
            conn_info: None,
            chan_info: Some("{}"),
        },
        ClientInfo {
            client: "c2",
            ..ClientInfo::default()
        },
    ];
    check(
        |out| encode_reply(6, &Reply::Presence(&present), out),
        concat!(
            r#"{"id":6,"presence":{"presence":{"c1":{"user":"42","client":"c1","chan_info":{}},"#,
            r#""c2":{"user":"","client":"c2"}}}}"#,
        ),
    );
    check(
        |out| encode_reply(6, &Reply::Presence(&[]), out),
        r#"{"id":6,"presence":{"presence":{}}}"#,
    );
    check(
        |out| {
            encode_reply(
                7,
                &Reply::PresenceStats {
                    clients: 0,
                    users: 2,
                },
                out,
            )
        },
        r#"{"id":7,"presence_stats":{"num_clients":0,"num_users":2}}"#,
    );
    check(
        |out| encode_reply(8, &Reply::Rpc(Some(&payload_of(b"{\"a\":\r\n1}"))), out),
        r#"{"id":8,"rpc":{"data":{"a":1}}}"#,
    );
    let refresh = RefreshResult {
        client: "c1",
        version: "1",
        expires: true,
        ttl_s: 9,
    };
    check(
        |out| encode_reply(9, &Reply::Refresh(&refresh), out),
        r#"{"id":9,"refresh":{"client":"c1","version":"1","expires":true,"ttl":9}}"#,
    );
    check(
        |out| encode_reply(9, &Reply::SubRefresh(&SubRefreshResult::default()), out),
        r#"{"id":9,"sub_refresh":{}}"#,
    );
}

/// A whole conversation: what the SDK writes, what it must get back, joined as one frame would be.
#[test]
fn a_dialogue() {
    let heard = b"{\"connect\":{\"name\":\"js\"},\"id\":1}\n\
                  {\"subscribe\":{\"channel\":\"chat:42\",\"recover\":true,\"offset\":8,\
                  \"epoch\":\"2f\"},\"id\":2}\n\
                  {\"rpc\":{\"method\":\"x\",\"data\":{}},\"id\":3}";
    let mut said = Vec::new();
    for command in Codec::Json.commands(heard).map(Result::unwrap) {
        if !said.is_empty() {
            said.push(b'\n');
        }
        match command.request {
            ClientRequest::Connect(_) => {
                let result = ConnectResult {
                    client: "c1",
                    ping_s: 25,
                    pong: true,
                    ..ConnectResult::default()
                };
                encode_reply(command.id, &Reply::Connect(&result), &mut said);
            }
            ClientRequest::Subscribe(subscribe) => {
                assert_eq!(Epoch::parse(&subscribe.epoch), Some(Epoch(0x2f)));
                let result = SubscribeResult {
                    recoverable: true,
                    position: Some(position(9)),
                    publications: &[publication(9, "{\n}")],
                    recovered: true,
                    was_recovering: true,
                    ..SubscribeResult::default()
                };
                encode_reply(command.id, &Reply::Subscribe(&result), &mut said);
            }
            _ => encode_reply(
                command.id,
                &Reply::Error(ErrorCode::NotAvailable),
                &mut said,
            ),
        }
    }
    let expected = concat!(
        r#"{"id":1,"connect":{"client":"c1","ping":25,"pong":true}}"#,
        "\n",
        r#"{"id":2,"subscribe":{"recoverable":true,"epoch":"2f","offset":9,"#,
        r#""publications":[{"data":{},"offset":9}],"recovered":true,"#,
        r#""was_recovering":true}}"#,
        "\n",
        r#"{"id":3,"error":{"code":108,"message":"not available"}}"#,
    );
    assert_eq!(String::from_utf8(said).unwrap(), expected);
}
