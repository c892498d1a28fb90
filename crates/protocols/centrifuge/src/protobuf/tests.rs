//! Compares both directions with `prost` and the same schema.

mod schema;

use proptest::prelude::*;
use prost::Message as _;
use throng_types::{
    ChannelName, Epoch, Payload, PayloadKind, Position, Publication, PublicationKind, Publisher,
    Unsubscribe,
};

use self::schema as pb;
use crate::json::payload_of;
use crate::reply::{Push, Reply, SubscribePush};
use crate::{
    ClientInfo, Codec, ConnectResult, ErrorCode, HistoryResult, RefreshResult, SubRefreshResult,
    SubscribeResult,
};

fn read(codec: Codec, frame: &[u8]) -> Vec<String> {
    let told = codec.commands(frame).map(|command| match command {
        Ok(command) => format!("{} {:?}", command.id, command.request),
        Err(fault) => format!("{fault:?}"),
    });
    told.collect()
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// A command in both forms: they are read alike.
fn commands_in_both_forms() -> Vec<(&'static str, pb::Command)> {
    let channel = |channel: &str| {
        Some(pb::OfChannel {
            channel: text(channel),
        })
    };
    let id = |id| pb::Command {
        id,
        ..pb::Command::default()
    };
    vec![
        ("{}", pb::Command::default()),
        (
            concat!(
                r#"{"id":1,"connect":{"token":"h.p.s","data":{"a":1},"name":"js","version":"1","#,
                r#""headers":{"x":"y"},"flag":1,"#,
                r#""subs":{"$42":{"recover":true,"offset":7,"epoch":"ab"}}}}"#,
            ),
            pb::Command {
                connect: Some(pb::ConnectRequest {
                    token: text("h.p.s"),
                    data: br#"{"a":1}"#.to_vec(),
                    subs: [(
                        text("$42"),
                        pb::SubscribeRequest {
                            recover: true,
                            offset: 7,
                            epoch: text("ab"),
                            ..pb::SubscribeRequest::default()
                        },
                    )]
                    .into(),
                    name: text("js"),
                    version: text("1"),
                    headers: [(text("x"), text("y"))].into(),
                    flag: 1,
                }),
                ..id(1)
            },
        ),
        (
            concat!(
                r#"{"id":4294967295,"subscribe":{"channel":"чат:42","token":"t","data":[1],"#,
                r#""positioned":true,"recoverable":true,"join_leave":true,"flag":3,"#,
                r#""recover":true,"offset":18446744073709551615,"epoch":"2f","#,
                r#""delta":"fossil","tf":{"op":"not","nodes":[{"key":"a","cmp":"in","#,
                r#""val":"b","vals":["c","d"]}]}}}"#,
            ),
            pb::Command {
                subscribe: Some(pb::SubscribeRequest {
                    channel: text("чат:42"),
                    token: text("t"),
                    recover: true,
                    epoch: text("2f"),
                    offset: u64::MAX,
                    data: b"[1]".to_vec(),
                    positioned: true,
                    recoverable: true,
                    join_leave: true,
                    delta: text("fossil"),
                    tf: Some(pb::FilterNode {
                        op: text("not"),
                        nodes: vec![pb::FilterNode {
                            key: text("a"),
                            cmp: text("in"),
                            val: text("b"),
                            vals: vec![text("c"), text("d")],
                            ..pb::FilterNode::default()
                        }],
                        ..pb::FilterNode::default()
                    }),
                    flag: 3,
                    kind: 0,
                    cursor: text("unknown here"),
                }),
                ..id(u32::MAX)
            },
        ),
        (
            r#"{"id":2,"subscribe":{"channel":"c","type":2}}"#,
            pb::Command {
                subscribe: Some(pb::SubscribeRequest {
                    channel: text("c"),
                    kind: 2,
                    ..pb::SubscribeRequest::default()
                }),
                ..id(2)
            },
        ),
        (
            r#"{"id":3,"unsubscribe":{"channel":"c"}}"#,
            pb::Command {
                unsubscribe: channel("c"),
                ..id(3)
            },
        ),
        (
            r#"{"id":4,"publish":{"channel":"c","data":{"k": [1]}}}"#,
            pb::Command {
                publish: Some(pb::PublishRequest {
                    channel: text("c"),
                    data: br#"{"k": [1]}"#.to_vec(),
                    kind: 0,
                }),
                ..id(4)
            },
        ),
        (
            r#"{"id":4,"publish":{"channel":"c"}}"#,
            pb::Command {
                publish: Some(pb::PublishRequest {
                    channel: text("c"),
                    ..pb::PublishRequest::default()
                }),
                ..id(4)
            },
        ),
        (
            r#"{"id":5,"presence":{"channel":"c"}}"#,
            pb::Command {
                presence: channel("c"),
                ..id(5)
            },
        ),
        (
            r#"{"id":6,"presence_stats":{}}"#,
            pb::Command {
                presence_stats: channel(""),
                ..id(6)
            },
        ),
        (
            concat!(
                r#"{"id":7,"history":{"channel":"c","limit":-1,"#,
                r#""since":{"offset":1,"epoch":"e"},"reverse":true}}"#,
            ),
            pb::Command {
                history: Some(pb::HistoryRequest {
                    channel: text("c"),
                    limit: -1,
                    since: Some(pb::StreamPosition {
                        offset: 1,
                        epoch: text("e"),
                    }),
                    reverse: true,
                }),
                ..id(7)
            },
        ),
        (
            r#"{"id":8,"ping":{}}"#,
            pb::Command {
                ping: Some(pb::Nothing {}),
                ..id(8)
            },
        ),
        (
            r#"{"send":{"data":"x"}}"#,
            pb::Command {
                send: Some(pb::SendRequest {
                    data: br#""x""#.to_vec(),
                }),
                ..id(0)
            },
        ),
        (
            r#"{"id":9,"rpc":{"method":"m","data":1}}"#,
            pb::Command {
                rpc: Some(pb::RpcRequest {
                    data: b"1".to_vec(),
                    method: text("m"),
                }),
                ..id(9)
            },
        ),
        (
            r#"{"id":10,"refresh":{"token":"t"}}"#,
            pb::Command {
                refresh: Some(pb::RefreshRequest { token: text("t") }),
                ..id(10)
            },
        ),
        (
            r#"{"id":11,"sub_refresh":{"channel":"c","token":"t"}}"#,
            pb::Command {
                sub_refresh: Some(pb::SubRefreshRequest {
                    channel: text("c"),
                    token: text("t"),
                    kind: 0,
                }),
                ..id(11)
            },
        ),
        // Two requests: the first in the protocol's order.
        (
            r#"{"id":12,"rpc":{},"unsubscribe":{"channel":"c"}}"#,
            pb::Command {
                unsubscribe: channel("c"),
                rpc: Some(pb::RpcRequest::default()),
                ..id(12)
            },
        ),
        (r#"{"id":13}"#, id(13)),
    ]
}

#[test]
fn both_forms_of_a_command_are_read_alike() {
    let all = commands_in_both_forms();
    for (json, command) in &all {
        let frame = command.encode_length_delimited_to_vec();
        let expected = read(Codec::Json, json.as_bytes());
        assert_eq!(read(Codec::Protobuf, &frame), expected, "{json}");
    }
    // Several in one frame, with a fault as the last.
    let frame: Vec<u8> = { all.iter() }
        .flat_map(|(_, command)| command.encode_length_delimited_to_vec())
        .collect();
    let lines: Vec<&str> = all.iter().map(|(json, _)| *json).collect();
    let expected = read(Codec::Json, lines.join("\n").as_bytes());
    assert_eq!(expected.last().map(String::as_str), Some("NoRequest"));
    assert_eq!(read(Codec::Protobuf, &frame), expected);
}

/// A frame is read to the same command or not at all, wherever it is cut.
#[test]
fn a_cut_frame_is_a_fault() {
    for (json, command) in commands_in_both_forms() {
        let frame = command.encode_length_delimited_to_vec();
        for cut in 0..frame.len() {
            let told = read(Codec::Protobuf, &frame[..cut]);
            let fault = if cut == 0 { "Empty" } else { "NotProtobuf" };
            assert_eq!(told, [fault], "{json} cut at {cut}");
        }
    }
}

#[test]
fn broken_frames_are_refused() {
    for (frame, fault) in [
        (&[][..], "Empty"),
        // A length without end, too long, and longer than what is there by far.
        (&[0x80], "NotProtobuf"),
        (&[0xff; 11], "NotProtobuf"),
        (
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            "NotProtobuf",
        ),
        (&[0xff, 0xff, 0xff, 0xff, 7, 8], "NotProtobuf"),
        // Field 0, a group, a wire type that does not exist.
        (&[2, 0, 0], "NotProtobuf"),
        (&[1, 0x1b], "NotProtobuf"),
        // A field number of more than 29 bits.
        (&[6, 0x80, 0x80, 0x80, 0x80, 0x10, 0], "NotProtobuf"),
        (&[1, 0x0e], "NotProtobuf"),
        // The id as bytes, a message as a number, text that is not UTF-8.
        (&[2, 0x0a, 0], "NotProtobuf"),
        (&[2, 0x20, 1], "NotProtobuf"),
        (&[7, 8, 1, 0x32, 3, 0x0a, 1, 0xff], "NotUtf8"),
    ] {
        assert_eq!(read(Codec::Protobuf, frame), [fault], "{frame:x?}");
    }
    // Fields that nobody knows, of every wire type.
    let strange = [
        23, 8, 7, 0x5a, 0, 0xf8, 1, 1, 0xf9, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0xfd, 1, 1, 2, 3, 4,
    ];
    assert_eq!(read(Codec::Protobuf, &strange), ["7 Ping"]);
}

fn position(offset: u64) -> Position {
    Position {
        epoch: Epoch(0x2f),
        offset,
    }
}

fn publication(offset: u64, data: &[u8], kind: PayloadKind) -> std::sync::Arc<Publication> {
    Publication {
        channel: ChannelName::new("chat:42").unwrap(),
        told: PublicationKind::Data,
        position: (offset > 0).then(|| position(offset)),
        payload: Payload {
            bytes: data.into(),
            kind,
        },
        publisher: Some(Box::new(Publisher {
            client: "c1".into(),
            user: "ann".into(),
            conn_info: Some("{}".into()),
            chan_info: None,
        })),
        tags: Some(r#"{"k":"v\n"}"#.into()),
        time_unix_ms: 5,
    }
    .shared()
}

fn pb_publication(offset: u64, data: &[u8]) -> pb::Publication {
    pb::Publication {
        data: data.to_vec(),
        info: Some(pb::ClientInfo {
            user: text("ann"),
            client: text("c1"),
            conn_info: b"{}".to_vec(),
            chan_info: Vec::new(),
        }),
        offset,
        tags: [(text("k"), text("v\n"))].into(),
    }
}

#[track_caller]
fn check_reply(reply: &Reply<'_>, expected: pb::Reply) {
    let mut out = b"before".to_vec();
    Codec::Protobuf.reply(3, reply, &mut out);
    let expected = pb::Reply { id: 3, ..expected };
    assert_eq!(
        pb::Reply::decode_length_delimited(&out[6..]).as_ref(),
        Ok(&expected)
    );
    assert_eq!(out[6..], expected.encode_length_delimited_to_vec());
}

#[test]
fn replies_are_what_prost_writes() {
    let reply = pb::Reply::default;
    let nothing = || Some(pb::Nothing {});
    check_reply(
        &Reply::Error(ErrorCode::TooManyRequests),
        pb::Reply {
            error: Some(pb::Error {
                code: 111,
                message: text("too many requests"),
                temporary: true,
            }),
            ..reply()
        },
    );
    check_reply(
        &Reply::Unsubscribe,
        pb::Reply {
            unsubscribe: nothing(),
            ..reply()
        },
    );
    check_reply(
        &Reply::Publish,
        pb::Reply {
            publish: nothing(),
            ..reply()
        },
    );
    check_reply(
        &Reply::Ping,
        pb::Reply {
            ping: nothing(),
            ..reply()
        },
    );
    check_reply(
        &Reply::Rpc(Some(&payload_of(b"[1]"))),
        pb::Reply {
            rpc: Some(pb::SendRequest {
                data: b"[1]".to_vec(),
            }),
            ..reply()
        },
    );
    check_reply(
        &Reply::PresenceStats {
            clients: 3,
            users: 0,
        },
        pb::Reply {
            presence_stats: Some(pb::PresenceStats {
                num_clients: 3,
                num_users: 0,
            }),
            ..reply()
        },
    );
    let info = ClientInfo {
        user: "ann",
        client: "c1",
        conn_info: None,
        chan_info: Some("{}"),
    };
    check_reply(
        &Reply::Presence(&[info]),
        pb::Reply {
            presence: Some(pb::Presence {
                presence: [(
                    text("c1"),
                    pb::ClientInfo {
                        user: text("ann"),
                        client: text("c1"),
                        conn_info: Vec::new(),
                        chan_info: b"{}".to_vec(),
                    },
                )]
                .into(),
            }),
            ..reply()
        },
    );
    let refreshed = RefreshResult {
        client: "c1",
        version: "1",
        expires: true,
        ttl_s: 300,
    };
    check_reply(
        &Reply::Refresh(&refreshed),
        pb::Reply {
            refresh: Some(pb::RefreshResult {
                client: text("c1"),
                version: text("1"),
                expires: true,
                ttl: 300,
            }),
            ..reply()
        },
    );
    check_reply(
        &Reply::SubRefresh(&SubRefreshResult {
            expires: true,
            ttl_s: 9,
        }),
        pb::Reply {
            sub_refresh: Some(pb::Refresh {
                expires: true,
                ttl: 9,
            }),
            ..reply()
        },
    );
}

/// The data of one is long enough for lengths of more than one byte on every level.
#[test]
fn replies_with_publications_are_what_prost_writes() {
    let long = vec![b'x'; 20_000];
    let publications = [
        publication(8, br#"{"n":8}"#, PayloadKind::Json),
        publication(9, &long, PayloadKind::Binary),
        publication(0, b"", PayloadKind::Text),
    ];
    let expected = [
        pb_publication(8, br#"{"n":8}"#),
        pb_publication(9, &long),
        pb_publication(0, b""),
    ];
    check_reply(
        &Reply::History(&HistoryResult {
            publications: &publications,
            position: position(9),
        }),
        pb::Reply {
            history: Some(pb::HistoryResult {
                publications: expected.to_vec(),
                epoch: text("2f"),
                offset: 9,
            }),
            ..pb::Reply::default()
        },
    );
    let subscribed = SubscribeResult {
        expires: true,
        ttl_s: 30,
        recoverable: true,
        positioned: true,
        position: Some(position(9)),
        publications: &publications,
        recovered: true,
        was_recovering: true,
        data: Some("[1]"),
        delta: true,
    };
    let expected = pb::SubscribeResult {
        expires: true,
        ttl: 30,
        recoverable: true,
        epoch: text("2f"),
        publications: expected.to_vec(),
        recovered: true,
        offset: 9,
        positioned: true,
        data: b"[1]".to_vec(),
        was_recovering: true,
        delta: true,
    };
    check_reply(
        &Reply::Subscribe(&subscribed),
        pb::Reply {
            subscribe: Some(expected.clone()),
            ..pb::Reply::default()
        },
    );
    let subs = [("chat:42", subscribed)];
    check_reply(
        &Reply::Connect(&ConnectResult {
            client: "c1",
            version: "0.1.0",
            expires: true,
            ttl_s: 60,
            data: Some("{}"),
            subs: &subs,
            ping_s: 25,
            pong: true,
            session: "s",
            node: "n",
            time_unix_ms: 1_790_000_000_123,
        }),
        pb::Reply {
            connect: Some(pb::ConnectResult {
                client: text("c1"),
                version: text("0.1.0"),
                expires: true,
                ttl: 60,
                data: b"{}".to_vec(),
                subs: [(text("chat:42"), expected)].into(),
                ping: 25,
                pong: true,
                session: text("s"),
                node: text("n"),
                time: 1_790_000_000_123,
            }),
            ..pb::Reply::default()
        },
    );
}

#[track_caller]
fn check_push(push: &Push<'_>, expected: pb::Push) {
    let mut out = Vec::new();
    Codec::Protobuf.push(push, &mut out);
    let expected = pb::Reply {
        push: Some(expected),
        ..pb::Reply::default()
    };
    assert_eq!(
        pb::Reply::decode_length_delimited(&out[..]).as_ref(),
        Ok(&expected)
    );
    assert_eq!(out, expected.encode_length_delimited_to_vec());
}

#[test]
fn pushes_are_what_prost_writes() {
    let to = |channel: &str| pb::Push {
        channel: text(channel),
        ..pb::Push::default()
    };
    for data in [&b"1"[..], &[0; 127], &[0; 128], &[0xff; 16_384]] {
        check_push(
            &Push::Publication(&publication(7, data, PayloadKind::Binary)),
            pb::Push {
                publication: Some(pb_publication(7, data)),
                ..to("chat:42")
            },
        );
    }
    let info = ClientInfo {
        user: "ann",
        client: "c1",
        conn_info: None,
        chan_info: None,
    };
    let member = Some(pb::Member {
        info: Some(pb::ClientInfo {
            user: text("ann"),
            client: text("c1"),
            ..pb::ClientInfo::default()
        }),
    });
    let channel = "c";
    check_push(
        &Push::Join { channel, info },
        pb::Push {
            join: member.clone(),
            ..to("c")
        },
    );
    check_push(
        &Push::Leave { channel, info },
        pb::Push {
            leave: member,
            ..to("c")
        },
    );
    let why = Unsubscribe::InsufficientState;
    check_push(
        &Push::Unsubscribe {
            channel,
            code: why.code(),
            reason: why.reason(),
        },
        pb::Push {
            unsubscribe: Some(pb::Unsubscribed {
                code: 2500,
                reason: text("insufficient state"),
            }),
            ..to("c")
        },
    );
    let message = Payload {
        bytes: b"[]"[..].into(),
        kind: PayloadKind::Json,
    };
    check_push(
        &Push::Message(&message),
        pb::Push {
            message: Some(pb::SendRequest {
                data: b"[]".to_vec(),
            }),
            ..to("")
        },
    );
    let subscribe = SubscribePush {
        recoverable: true,
        positioned: true,
        position: Some(position(4)),
        data: Some("1"),
    };
    check_push(
        &Push::Subscribe {
            channel,
            subscribe: &subscribe,
        },
        pb::Push {
            subscribe: Some(pb::Subscribed {
                recoverable: true,
                epoch: text("2f"),
                offset: 4,
                positioned: true,
                data: b"1".to_vec(),
            }),
            ..to("c")
        },
    );
    check_push(
        &Push::Refresh { ttl_s: Some(7) },
        pb::Push {
            refresh: Some(pb::Refresh {
                expires: true,
                ttl: 7,
            }),
            ..to("")
        },
    );
    let mut ping = Vec::new();
    Codec::Protobuf.ping(&mut ping);
    assert_eq!(ping, pb::Reply::default().encode_length_delimited_to_vec());
    assert_eq!(read(Codec::Protobuf, &ping), ["0 Pong"]);
}

proptest! {
    #[test]
    fn no_bytes_panic(frame: Vec<u8>) {
        prop_assert!(Codec::Protobuf.commands(&frame).count() >= 1);
    }

    #[test]
    fn data_comes_through_untouched(data: Vec<u8>, channel: String, id in 1..u32::MAX) {
        prop_assume!(!data.is_empty());
        let publish = pb::PublishRequest {
            channel: channel.clone(),
            data: data.clone(),
            kind: 0,
        };
        let command = pb::Command {
            id,
            publish: Some(publish),
            ..pb::Command::default()
        };
        let frame = command.encode_length_delimited_to_vec();
        let command = Codec::Protobuf.commands(&frame).next().unwrap().unwrap();
        prop_assert_eq!(command.id, id);
        let crate::ClientRequest::Publish { channel: read, data: bytes } = command.request else {
            panic!()
        };
        prop_assert_eq!(&*read, channel);
        prop_assert_eq!(bytes.bytes(), &data[..]);
        prop_assert_eq!(&*bytes.payload().bytes, &data[..]);
    }
}
