//! Deliveries to clients that read compressed messages: equal data in fewer bytes.

use std::ops::ControlFlow;

use serde_json::json;
use throng_ws::{Opcode, WsDecoder, WsEvent, WsLimits, WsRole};

use crate::protobuf::{command, connected};
use crate::scene::{Scene, sign};

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

/// Decodes the one message in the output, and returns whether it was compressed.
fn message(wire: &[u8]) -> (bool, Opcode, Vec<u8>) {
    let limits = WsLimits {
        message_bytes_max: 1 << 20,
        deflates: true,
    };
    let mut messages = Vec::new();
    let mut bytes = wire.to_vec();
    let fed = WsDecoder::new(WsRole::Client).feed(&mut bytes, &limits, |event| {
        match event {
            WsEvent::Message { opcode, data } => messages.push((opcode, data.to_vec())),
            other => panic!("{other:?}"),
        }
        ControlFlow::Continue(())
    });
    assert_eq!((fed, messages.len()), (Ok(wire.len()), 1));
    let (opcode, data) = messages.remove(0);
    (wire[0] & 0x40 != 0, opcode, data)
}

/// A client in JSON, a listener and a client in Protobuf, each in the channel `zipped:a`.
fn clients(headers: &str) -> [Scene; 3] {
    let mut json = Scene::open("/connection/websocket", headers);
    json.connect(&json!({ "sub": "ann" }));
    json.say(r#"{"id":2,"subscribe":{"channel":"zipped:a"}}"#);
    let token = sign(&json!({ "sub": "ann", "channels": ["zipped:a"] }));
    let mut listener = Scene::open("/connection/uni_websocket", headers);
    listener.say(&json!({ "token": token }).to_string());
    let mut protobuf = connected("/connection/websocket?format=protobuf", headers);
    protobuf.exchange(Opcode::Binary, &command(2, 5, &[(1, b"zipped:a")]));
    [json, listener, protobuf]
}

#[test]
fn what_is_compressed_is_the_same_message() {
    let data = format!("{:?}", "again and ".repeat(40));
    for (mut plain, mut zipped) in clients("").into_iter().zip(clients(OFFER)) {
        assert!(!plain.head.contains("permessage-deflate"));
        let head = &zipped.head;
        assert!(head.contains("permessage-deflate"), "{head}");
        let [long, short] = [&mut plain, &mut zipped].map(|scene| {
            scene.publish_text("zipped:a", &data);
            scene.wire()
        });
        assert!(short.len() < long.len() / 4, "{} bytes", short.len());
        let (is_compressed, opcode, said) = message(&short);
        assert!(is_compressed);
        assert_eq!((false, opcode, said), message(&long));
    }
}
