//! Replies and pushes in both forms: each has a name here, and its bytes in `written.txt`.

use throng_types::{
    ChannelName, Disconnect, Epoch, Payload, PayloadKind, PublicationKind, Unsubscribe,
};

use super::*;
use crate::Codec;
use crate::json::payload_of;

/// Bytes of a name: JSON, and Protobuf with escapes.
#[track_caller]
fn written(name: &str) -> (&'static str, &'static str) {
    let mut all = throng_types::cases(include_str!("written.txt"));
    let found = all.find_map(|(known, both)| (known == name).then_some(both));
    let both = found.unwrap_or_else(|| panic!("{name} is not in written.txt"));
    both.split_once(" => ").expect("NAME => JSON => PROTOBUF")
}

#[track_caller]
fn check(name: &str, write: impl Fn(Codec, &mut Vec<u8>)) {
    let bytes = |codec| {
        let mut out = b"before".to_vec();
        write(codec, &mut out);
        out.split_off(6)
    };
    let json = String::from_utf8(bytes(Codec::Json)).unwrap();
    assert!(!json.contains(['\n', '\r']), "{name}");
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let protobuf = bytes(Codec::Protobuf).escape_ascii().to_string();
    assert_eq!((json.as_str(), protobuf.as_str()), written(name), "{name}");
}

#[track_caller]
fn check_reply(name: &str, reply: &Reply<'_>) {
    check(name, |codec, out| codec.reply(3, reply, out));
}

/// In JSON both shapes carry the same push; only the wrapping differs.
#[track_caller]
fn check_push(name: &str, push: &Push<'_>) {
    check(name, |codec, out| codec.push(push, out));
    let mut bare = Vec::new();
    encode_push(push, false, &mut bare);
    let wrapped = format!("{{\"push\":{}}}", String::from_utf8(bare).unwrap());
    assert_eq!(wrapped, written(name).0);
}

fn payload(bytes: &[u8], kind: PayloadKind) -> Payload {
    Payload {
        bytes: bytes.into(),
        kind,
    }
}

fn position(offset: u64) -> Position {
    Position {
        epoch: Epoch(0x2f),
        offset,
    }
}

fn bare(channel: &str, data: &[u8], kind: PayloadKind) -> Publication {
    Publication {
        channel: ChannelName::new(channel).unwrap(),
        told: PublicationKind::Data,
        position: None,
        payload: payload(data, kind),
        publisher: None,
        tags: None,
        time_unix_ms: 5,
        trace: None,
    }
}

/// A publication with all that one may have.
fn full(offset: u64, data: &[u8], kind: PayloadKind) -> Arc<Publication> {
    Publication {
        position: Some(position(offset)),
        publisher: Some(Box::new(Publisher {
            client: "c1".into(),
            user: "ann".into(),
            conn_info: Some("{\"name\":\n\"Ada\"}".into()),
            chan_info: None,
        })),
        tags: Some("{\"k\":\n\"v\\n\"}".into()),
        ..bare("chat:42", data, kind)
    }
    .shared()
}

#[test]
fn short_replies() {
    check_reply("unsubscribe", &Reply::Unsubscribe);
    check_reply("publish", &Reply::Publish);
    check("ping of the highest id", |codec, out| {
        codec.reply(u32::MAX, &Reply::Ping, out);
    });
    check("ping of the server", Codec::ping);
    check_reply("error", &Reply::Error(ErrorCode::PermissionDenied));
    check_reply("temporary error", &Reply::Error(ErrorCode::TooManyRequests));
    let failure = Reply::Failure {
        code: 1000,
        message: "no",
        temporary: false,
    };
    check_reply("failure", &failure);
    check_reply("rpc", &Reply::Rpc(Some(&payload_of(b"{\"a\":\r\n1}"))));
    check_reply("rpc without data", &Reply::Rpc(None));
    let stats = Reply::PresenceStats {
        clients: 0,
        users: 2,
    };
    check_reply("presence stats", &stats);
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
    check_reply("presence", &Reply::Presence(&present));
    check_reply("presence of nobody", &Reply::Presence(&[]));
    let refresh = RefreshResult {
        client: "c1",
        version: "1",
        expires: true,
        ttl_s: 300,
    };
    check_reply("refresh", &Reply::Refresh(&refresh));
    let least = SubRefreshResult::default();
    check_reply("sub refresh, least", &Reply::SubRefresh(&least));
    let most = SubRefreshResult {
        expires: true,
        ttl_s: 9,
    };
    check_reply("sub refresh, most", &Reply::SubRefresh(&most));
}

#[test]
fn connections_and_subscriptions() {
    let publications = [
        full(8, b"{\"n\":\n8}", PayloadKind::Json),
        bare("chat:42", b"\x00\xff", PayloadKind::Binary).shared(),
    ];
    let least = SubscribeResult::default();
    check_reply("subscribe, least", &Reply::Subscribe(&least));
    let lost = SubscribeResult {
        recoverable: true,
        position: Some(position(0)),
        was_recovering: true,
        ..least
    };
    check_reply("subscribe, lost", &Reply::Subscribe(&lost));
    let recovered = SubscribeResult {
        expires: true,
        ttl_s: 30,
        recoverable: true,
        positioned: true,
        position: Some(position(9)),
        publications: &publications,
        recovered: true,
        was_recovering: true,
        data: Some("[\n1]"),
        delta: false,
    };
    check_reply("subscribe, recovered", &Reply::Subscribe(&recovered));
    let with_deltas = SubscribeResult {
        delta: true,
        ..recovered
    };
    check_reply("subscribe, with deltas", &Reply::Subscribe(&with_deltas));
    let least = ConnectResult {
        client: "c1",
        ..ConnectResult::default()
    };
    check_reply("connect, least", &Reply::Connect(&least));
    let subs = [("a\"b", SubscribeResult::default()), ("user:42", lost)];
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
    check_reply("connect, most", &Reply::Connect(&most));
    // A unidirectional connection begins bare.
    let mut out = Vec::new();
    Codec::Json.connect_push(&least, &mut out);
    assert_eq!(out, br#"{"connect":{"client":"c1"}}"#);
    // In Protobuf its numbers are others than those of a reply.
    let begun = ConnectResult {
        expires: true,
        ttl_s: 60,
        data: Some("1"),
        subs: &[("a", SubscribeResult::default())],
        ..least
    };
    let mut out = Vec::new();
    Codec::Protobuf.connect_push(&begun, &mut out);
    let expected = b"R\x12\n\x02c1(\x010<\x1a\x011\"\x05\n\x01a\x12\x00";
    assert_eq!(
        out.escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    let none = HistoryResult {
        publications: &[],
        position: position(0),
    };
    check_reply("history of nothing", &Reply::History(&none));
    let some = HistoryResult {
        publications: &publications,
        position: position(9),
    };
    check_reply("history", &Reply::History(&some));
}

#[test]
fn pushes() {
    let publication = |name, channel, data: &[u8], kind| {
        check_push(name, &Push::Publication(&bare(channel, data, kind)));
    };
    publication("json", "news", b"{\"a\":\n1}", PayloadKind::Json);
    publication("text", "a\"\\\u{e9}", b"line\r\n", PayloadKind::Text);
    publication("binary", "bin", &[0, 255], PayloadKind::Binary);
    let publication = full(10, b"{\"n\":10}", PayloadKind::Json);
    check_push("publication, most", &Push::Publication(&publication));
    for (name, patch) in [("delta, whole", None), ("delta, patch", Some(&b"8\n"[..]))] {
        let publication = &publication;
        check_push(name, &Push::Delta { publication, patch });
    }
    let channel = "c";
    let info = ClientInfo {
        user: "ann",
        client: "c1",
        ..ClientInfo::default()
    };
    check_push("join", &Push::Join { channel, info });
    check_push("leave", &Push::Leave { channel, info });
    let why = Unsubscribe::InsufficientState;
    let end = Push::Unsubscribe {
        channel,
        code: why.code(),
        reason: why.reason(),
    };
    check_push("end of a subscription", &end);
    let why = Disconnect::Shutdown;
    for (name, code, reason) in [
        ("disconnect", why.code(), why.reason()),
        ("disconnect of the application's", 4500, "go \"away\""),
    ] {
        check_push(name, &Push::Disconnect { code, reason });
    }
    let most = SubscribePush {
        recoverable: true,
        positioned: true,
        position: Some(position(3)),
        data: Some("[\n]"),
    };
    for (name, subscribe) in [
        ("subscription, least", &SubscribePush::default()),
        ("subscription, most", &most),
    ] {
        check_push(name, &Push::Subscribe { channel, subscribe });
    }
    let hello = payload(b"hello", PayloadKind::Text);
    check_push("message", &Push::Message(&hello));
    check_push("expiry", &Push::Refresh { ttl_s: Some(60) });
    check_push("no expiry", &Push::Refresh { ttl_s: None });
}

/// Field of Protobuf with bytes, of any length.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

/// Lengths of one byte and more, on every level.
#[test]
fn lengths_have_as_many_bytes_as_they_need() {
    for count in [1, 127, 128, 16_384, 20_000, 3_000_000] {
        let data = vec![b'x'; count];
        let mut out = Vec::new();
        let publication = bare("chat:42", &data, PayloadKind::Binary);
        Codec::Protobuf.push(&Push::Publication(&publication), &mut out);
        let push = [field(2, b"chat:42"), field(4, &field(4, &data))].concat();
        assert_eq!(out, field(0, &field(4, &push))[1..], "{count}");
    }
}
