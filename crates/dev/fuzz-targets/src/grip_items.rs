//! Items as publishers post them: what is accepted can be sent, and reads the same on other shards.

use throng_grip::item::{
    HttpResponseItem, HttpStreamItem, Item, WsKind, WsMessageItem, items_of_json,
};
use throng_grip::publish::PublishRequest;

pub(crate) const SEEDS: &[&[u8]] = &[
    concat!(
        r#"{"items":[{"channel":"a","id":"2","prev-id":"1","meta":{"sender":"u"},"#,
        r#""formats":{"http-stream":{"content":"x\n","content-filters":["build-id"]},"#,
        r#""ws-message":{"content-bin":"AP8="},"http-response":{"code":201,"#,
        r#""reason":"Made","headers":{"A":"1"},"body":"b"}}}]}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"items":[{"channel":"a","no-seq":true,"size":5,"#,
        r#""http-stream":{"action":"close"},"ws-message":{"action":"close","code":1001,"#,
        r#""reason":"bye"},"http-response":{"action":"hint"}}]}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"items":[{"channel":"b","ws-message":{"type":"ping"},"#,
        r#""http-response":{"headers":[["A","b"]],"body-patch":[{"op":"add","path":"/a","#,
        r#""value":[1,1.5,null,true,"t",{"k":18446744073709551615}]}]}}]}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"items":[{"channel":"a","ws-message":{"type":"text","content":"t"}},"#,
        r#"{"channel":"a","ws-message":{"action":"refresh"},"#,
        r#""http-stream":{"action":"hint"}}]}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"items":[{"channel":"deep","http-response":{"body-patch":[{"op":"add","#,
        r#""path":"/a","#,
        r#""value":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"#,
        r#"]]]]]]]]]]]}]}}]}"#,
    )
    .as_bytes(),
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_items(input: &[u8]) {
    let request = PublishRequest::read("POST", "/publish/", &[], input);
    match (items_of_json(input), request) {
        (Ok(items), PublishRequest::Publish { items: posted, .. }) => {
            assert_eq!(items, posted);
            items.iter().for_each(check);
        }
        (Err(_), PublishRequest::Answer(answer)) => assert_eq!(answer.code, 400),
        other => panic!("the body and the request differ: {other:?}"),
    }
}

/// Checks what holds for every item, by HTTP or by ZeroMQ.
pub(crate) fn check(item: &Item) {
    for (at, (key, _)) in item.meta.iter().enumerate() {
        assert!(item.meta[..at].iter().all(|(other, _)| other != key));
    }
    if let Some(HttpResponseItem::Send(response)) = &item.http_response {
        assert!(response.code <= 999);
    }
    if let Some(WsMessageItem::Send { kind, content, .. }) = &item.ws_message {
        match kind {
            WsKind::Text => assert!(std::str::from_utf8(content).is_ok()),
            WsKind::Ping | WsKind::Pong => assert!(content.len() <= 125),
            WsKind::Binary => {}
        }
    }
    travels(item);
}

/// Between shards an item is bytes. What means nothing to a transport stays behind.
fn travels(item: &Item) {
    let mut expected = item.clone();
    expected
        .http_response
        .take_if(|part| *part == HttpResponseItem::Nothing);
    expected
        .http_stream
        .take_if(|part| *part == HttpStreamItem::Nothing);
    expected
        .ws_message
        .take_if(|part| *part == WsMessageItem::Nothing);
    let says_anything = expected.http_response.is_some()
        || expected.http_stream.is_some()
        || expected.ws_message.is_some();
    let mut wire = Vec::new();
    assert_eq!(item.encode(&mut wire), says_anything);
    if says_anything {
        assert_eq!(Item::decode(&item.channel, &wire), Some(expected));
    }
}
