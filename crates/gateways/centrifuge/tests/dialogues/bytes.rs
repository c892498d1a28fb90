//! Deliveries whose bytes matter: compressed ones, and differences in Protobuf.

use std::ops::ControlFlow;

use throng_ws::{Opcode, WsDecoder, WsEvent, WsLimits, WsRole};

use crate::stage::Story;

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate";
const LONG: &str = r#"{"symbol":"ABC","price":101.25,"volume":120000,"day":"2026-11-22","n":"é"}"#;
const NEXT: &str = r#"{"symbol":"ABC","price":101.75,"volume":120000,"day":"2026-11-22","n":"é"}"#;

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

/// Bytes of a publication to a client that took these steps.
fn published(story: &mut Story, channel: &str, data: &str) -> Vec<u8> {
    story.take(&format!("publish {channel} {data}"));
    std::mem::take(story.heard())
}

/// A client in JSON, a listener and a client in Protobuf, each in the channel `zipped:a`.
#[test]
fn what_is_compressed_is_the_same_message() {
    let data = format!("{:?}", "again and ".repeat(40));
    for steps in [
        "opens websocket | FIELD\nconnect {\"sub\":\"ann\"}\n\
         < {\"id\":2,\"subscribe\":{\"channel\":\"zipped:a\"}}\n",
        "let TOKEN = token {\"sub\":\"ann\",\"channels\":[\"zipped:a\"]}\n\
         opens uni_websocket | FIELD\n< {\"token\":\"<TOKEN>\"}\n",
        "let TOKEN = token {\"sub\":\"ann\"}\nopens websocket?format=protobuf | FIELD\n\
         protobuf 1:4 1=<TOKEN> + 2:5 1=zipped:a\n",
    ] {
        let [long, short] = ["A: b", OFFER].map(|field| {
            let mut story = Story::default();
            story.take(&format!("{}skips\n", steps.replace("FIELD", field)));
            let head = &story.client().head;
            assert_eq!(
                head.contains("permessage-deflate"),
                field == OFFER,
                "{head}"
            );
            published(&mut story, "zipped:a", &data)
        });
        assert!(short.len() < long.len() / 4, "{} bytes", short.len());
        let (is_compressed, opcode, said) = message(&short);
        assert!(is_compressed);
        assert_eq!((false, opcode, said), message(&long));
    }
}

#[test]
fn protobuf_has_differences_as_they_are() {
    let mut story = Story::default();
    story.take(
        "let TOKEN = token {\"sub\":\"ann\"}\nopens websocket?cf_protocol=protobuf\n\
         protobuf 1:4 1=<TOKEN> + 2:5 1=changed:a 12=fossil\nskips\n",
    );
    let has = |frame: &[u8], part: &[u8]| frame.windows(part.len()).any(|window| window == part);
    let first = published(&mut story, "changed:a", LONG);
    assert!(has(&first, LONG.as_bytes()));
    let second = published(&mut story, "changed:a", NEXT);
    let [long, next] = [LONG, NEXT].map(str::as_bytes);
    let delta = throng_fossil::encode(long, next, throng_fossil::DeltaUnit::Char);
    assert!(has(&second, &delta.expect("a delta")));
    assert!(second.ends_with(&[8 << 3, 1]), "field 8 says so");
}
