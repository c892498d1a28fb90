//! Values that steps give to the gateway: options, requests, results; and deliveries by themselves.

use std::sync::Arc;

use throng_auth::{ApiKeys, KeyConfig, Verifier};
use throng_broker::{BackendId, ChannelOptions, NamespaceOptions, ProxySwitches, Refusal};
use throng_dialogue::{unescaped, word};
use throng_gateway_plain::Plain;
use throng_session::{
    BackendOptions, Gateway as _, Meter, ProxyKind, ProxyOptions, ProxyRefusal, PublishOutcome,
    Shared, StatusMeaning, WorkLimits,
};
use throng_solo::{name, position};
use throng_types::{Epoch, Payload, PayloadKind, Position, Publication};
use throng_ws::{Masking, Opcode, encode_message};

pub(crate) const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// Rights by namespace: `asked:` is a backend's to decide, `open:` is open to users.
fn namespaces() -> NamespaceOptions {
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
    NamespaceOptions::new(closed, vec![("asked".into(), asked), ("open".into(), open)])
}

/// Channels that are open to all, compressed or not.
fn open(compression: bool) -> NamespaceOptions {
    let options = ChannelOptions {
        anonymous_subscribe: true,
        compression,
        ..ChannelOptions::default()
    };
    NamespaceOptions::new(options, Vec::new())
}

pub(crate) fn proxies() -> ProxyOptions {
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
        is_traced: true,
        ..ProxyOptions::default()
    }
}

pub(crate) fn set(shared: &mut Shared, option: &str) {
    let charged = WorkLimits {
        messages_per_s_max: 1,
        channels_max: 10,
        ..WorkLimits::NONE
    };
    match option {
        "" | "backends" => {}
        "keys" => {
            let keys = KeyConfig {
                hmac_secret: Some(SECRET.into()),
                ..KeyConfig::default()
            };
            shared.verifier = Some(Arc::new(Verifier::new(keys).expect("a key")));
            shared.anonymous = false;
        }
        "namespaces" => shared.namespaces = Arc::new(namespaces()),
        "key" => shared.api_keys = Arc::new(ApiKeys::new(["sesame"]).expect("a key")),
        "open" => shared.namespaces = Arc::new(open(false)),
        "compressed" => shared.namespaces = Arc::new(open(true)),
        "draining" => shared.draining = true,
        "pings" => {
            shared.limits.ping_interval_ms = 1000;
            shared.limits.pong_timeout_ms = 300;
        }
        "charged" => shared.meter = Meter::new(charged, [1, 2]),
        "long-heads" => shared.limits.head_bytes_max = 1 << 20,
        "short-bodies" => shared.limits.publish_bytes_max = 100,
        _ => panic!("no option"),
    }
}

pub(crate) fn result(text: &str) -> PublishOutcome {
    let (kind, offset) = word(text);
    Err(match kind {
        "done" => return Ok(None),
        "at" => {
            let (epoch, offset) = (Epoch(11), offset.parse().expect("an offset"));
            return Ok(Some(Position { epoch, offset }));
        }
        "busy" => Refusal::Busy,
        "unavailable" => Refusal::Unavailable,
        "unknown" => Refusal::Unknown,
        "unknown-channel" => Refusal::UnknownChannel,
        "too-long" => Refusal::TooLong,
        _ => panic!("no result"),
    })
}

/// Head of a request, with its fields behind bars.
pub(crate) fn head(method: &str, target: &str, more: &str) -> String {
    let target = target.replace(" + ", " | ");
    let (target, fields) = target.split_once(" | ").unwrap_or((&target, ""));
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{more}");
    for field in fields.split(" | ").filter(|field| !field.is_empty()) {
        head.extend([field, "\r\n"]);
    }
    head + "\r\n"
}

/// Bytes of a request in a line.
pub(crate) fn request(line: &str) -> Vec<u8> {
    match word(line) {
        ("POST", target) => (head("POST", target, "Content-Length: 1\r\n") + "1").into_bytes(),
        ("LONG", target) => (head("POST", target, "Content-Length: 3\r\n") + "123").into_bytes(),
        ("GET", target) => head("GET", target, "").into_bytes(),
        ("raw", escapes) => unescaped(escapes),
        _ => panic!("no request"),
    }
}

pub(crate) fn message(text: &str) -> Vec<u8> {
    let (mut out, masking) = (Vec::new(), Masking::Client([1, 2, 3, 4]));
    encode_message(masking, Opcode::Text, &unescaped(text), &mut out);
    out
}

/// The bytes of a delivery in the channel `news`, with tags where it has a position.
pub(crate) fn encoded(text: &str) -> String {
    let (form, text) = word(text);
    let (kind, bytes) = word(text);
    let (kind, position) = match kind {
        "json" => (PayloadKind::Json, Some(position(4))),
        "text" => (PayloadKind::Text, Some(position(4))),
        "binary" => (PayloadKind::Binary, Some(position(4))),
        _ => (PayloadKind::Json, None),
    };
    let payload = Payload {
        bytes: unescaped(bytes).into(),
        kind,
    };
    let publication = Publication {
        tags: position.map(|_| "{\"a\":1}".into()),
        ..Publication::new(name("news"), position, payload)
    };
    let (form, mut out) = (form.parse().expect("a number"), Vec::new());
    Plain::encode(&ProxyOptions::default(), form, &publication, None, &mut out);
    out.escape_ascii().to_string().replace("\\\"", "\"")
}
