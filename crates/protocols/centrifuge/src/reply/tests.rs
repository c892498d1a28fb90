//! Replies as bytes, and as the parser of an SDK would see them.

use throng_types::{ChannelName, Epoch, Payload, PayloadKind, Told};

use super::*;
use crate::Request;
use crate::command::commands;
use crate::json::payload_of;

fn publication(offset: u64, data: &str) -> Arc<Publication> {
    Publication {
        channel: ChannelName::new("chat:42").unwrap(),
        told: Told::Data,
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
        |out| encode_unsubscribe_result(3, out),
        r#"{"id":3,"unsubscribe":{}}"#,
    );
    check(
        |out| encode_publish_result(4, out),
        r#"{"id":4,"publish":{}}"#,
    );
    check(
        |out| encode_ping_result(u32::MAX, out),
        r#"{"id":4294967295,"ping":{}}"#,
    );
}

#[test]
fn errors() {
    check(
        |out| encode_error(3, ErrorCode::PermissionDenied, out),
        r#"{"id":3,"error":{"code":103,"message":"permission denied"}}"#,
    );
    check(
        |out| encode_error(4, ErrorCode::TooManyRequests, out),
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
        |out| encode_connect_result(1, &least, out),
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
        |out| encode_connect_result(1, &most, out),
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
        |out| encode_subscribe_result(2, &SubscribeResult::default(), out),
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
        |out| encode_subscribe_result(2, &recovered, out),
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
        |out| encode_subscribe_result(2, &lost, out),
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
        |out| encode_history_result(5, &empty, out),
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
        |out| encode_history_result(5, &one, out),
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
        |out| encode_presence_result(6, present, out),
        concat!(
            r#"{"id":6,"presence":{"presence":{"c1":{"user":"42","client":"c1","chan_info":{}},"#,
            r#""c2":{"user":"","client":"c2"}}}}"#,
        ),
    );
    check(
        |out| encode_presence_result(6, [], out),
        r#"{"id":6,"presence":{"presence":{}}}"#,
    );
    check(
        |out| encode_presence_stats_result(7, 0, 2, out),
        r#"{"id":7,"presence_stats":{"num_clients":0,"num_users":2}}"#,
    );
    check(
        |out| encode_rpc_result(8, Some(&payload_of(b"{\"a\":\r\n1}")), out),
        r#"{"id":8,"rpc":{"data":{"a":1}}}"#,
    );
    let refresh = RefreshResult {
        client: "c1",
        version: "1",
        expires: true,
        ttl_s: 9,
    };
    check(
        |out| encode_refresh_result(9, &refresh, out),
        r#"{"id":9,"refresh":{"client":"c1","version":"1","expires":true,"ttl":9}}"#,
    );
    check(
        |out| encode_sub_refresh_result(9, &SubRefreshResult::default(), out),
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
    for command in commands(heard).map(Result::unwrap) {
        if !said.is_empty() {
            said.push(b'\n');
        }
        match command.request {
            Request::Connect(_) => {
                let result = ConnectResult {
                    client: "c1",
                    ping_s: 25,
                    pong: true,
                    ..ConnectResult::default()
                };
                encode_connect_result(command.id, &result, &mut said);
            }
            Request::Subscribe(subscribe) => {
                assert_eq!(Epoch::parse(&subscribe.epoch), Some(Epoch(0x2f)));
                let result = SubscribeResult {
                    recoverable: true,
                    position: Some(position(9)),
                    publications: &[publication(9, "{\n}")],
                    recovered: true,
                    was_recovering: true,
                    ..SubscribeResult::default()
                };
                encode_subscribe_result(command.id, &result, &mut said);
            }
            _ => encode_error(command.id, ErrorCode::NotAvailable, &mut said),
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
