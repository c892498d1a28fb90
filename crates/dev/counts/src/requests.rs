//! What clients and publishers send, byte by byte.

use throng_http1::encode_request;
use throng_ws::{Masking, Opcode, encode_message, encode_ping, handshake};

pub(crate) const PAYLOAD: &[u8] = &[b'x'; 512];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ws,
    Sse,
    Lines,
    Centrifuge,
    Protobuf,
    UniWs,
    UniSse,
    UniStream,
}

impl Kind {
    pub(crate) const ALL: [Self; 8] = [
        Self::Ws,
        Self::Sse,
        Self::Lines,
        Self::Centrifuge,
        Self::Protobuf,
        Self::UniWs,
        Self::UniSse,
        Self::UniStream,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ws => "ws",
            Self::Sse => "sse",
            Self::Lines => "stream",
            Self::Centrifuge => "centrifugo",
            Self::Protobuf => "centrifugo protobuf",
            Self::UniWs => "centrifugo uni_websocket",
            Self::UniSse => "centrifugo uni_sse",
            Self::UniStream => "centrifugo uni_http_stream",
        }
    }

    /// Request that connects a client, and subscribes it where that is one request.
    pub(crate) fn opening(self, channel: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut get =
            |target: &str| encode_request("GET", target, "localhost", &[], None, &mut out);
        let connect = format!("{{\"subs\":{{\"{channel}\":{{}}}}}}");
        match self {
            Self::Ws => upgrade(&format!("/ws?channel={channel}"), &mut out),
            Self::Sse => get(&format!("/sse?channel={channel}")),
            Self::Lines => get(&format!("/stream?channel={channel}")),
            Self::Centrifuge => {
                upgrade("/connection/websocket", &mut out);
                text("{\"id\":1,\"connect\":{}}", &mut out);
            }
            Self::Protobuf => {
                upgrade("/connection/websocket?cf_protocol=protobuf", &mut out);
                // `id` 1 and an empty `connect`.
                binary(&[4, 8, 1, 34, 0], &mut out);
            }
            Self::UniWs => {
                upgrade("/connection/uni_websocket", &mut out);
                text(&connect, &mut out);
            }
            Self::UniSse => {
                let query = connect.replace('"', "%22");
                get(&format!("/connection/uni_sse?cf_connect={query}"));
            }
            Self::UniStream => {
                let body = Some(connect.as_bytes());
                let target = "/connection/uni_http_stream";
                encode_request("POST", target, "localhost", &[], body, &mut out);
            }
        }
        out
    }

    /// Command that subscribes a connected client.
    pub(crate) fn subscribe(self, channel: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Centrifuge => {
                let of = format!("{{\"channel\":\"{channel}\"}}");
                text(&format!("{{\"id\":2,\"subscribe\":{of}}}"), &mut out);
            }
            Self::Protobuf => {
                // `id` 2 and `subscribe` with a `channel`.
                let length = channel.len() as u8;
                let mut command = vec![length + 6, 8, 2, 42, length + 2, 10, length];
                command.extend_from_slice(channel.as_bytes());
                binary(&command, &mut out);
            }
            _ => return None,
        }
        Some(out)
    }
}

fn upgrade(target: &str, out: &mut Vec<u8>) {
    handshake::encode_request("localhost", target, [7; 16], &[], out);
}

const MASK: Masking = Masking::Client([1, 2, 3, 4]);

pub(crate) fn text(text: &str, out: &mut Vec<u8>) {
    encode_message(MASK, Opcode::Text, text.as_bytes(), out);
}

fn binary(data: &[u8], out: &mut Vec<u8>) {
    encode_message(MASK, Opcode::Binary, data, out);
}

pub(crate) fn native_ping() -> Vec<u8> {
    let mut out = Vec::new();
    encode_ping(MASK, b"", &mut out);
    out
}

pub(crate) fn publisher() -> Vec<u8> {
    let mut out = Vec::new();
    upgrade("/pub", &mut out);
    out
}

pub(crate) fn message(channel: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let message = [channel.as_bytes(), b"\n", PAYLOAD].concat();
    encode_message(MASK, Opcode::Text, &message, &mut out);
    out
}

/// A request that publishes, by each way to do so.
pub(crate) fn publication(way: &str, channel: &str) -> Vec<u8> {
    let mut out = Vec::new();
    if way == "pub" {
        let target = format!("/pub?channel={channel}");
        encode_request("POST", &target, "localhost", &[], Some(PAYLOAD), &mut out);
    } else {
        let data = String::from_utf8_lossy(PAYLOAD);
        let body = format!("{{\"channel\":\"{channel}\",\"data\":\"{data}\"}}");
        let body = Some(body.as_bytes());
        encode_request("POST", "/api/publish", "localhost", &[], body, &mut out);
    }
    out
}
