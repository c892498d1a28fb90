//! Items and commands of GRIP publishers, by HTTP and by ZeroMQ; publications by WebSocket.

use throng_gateway_plain::NewPublication;
use throng_grip::command::{CommandKind, CommandRequest};
use throng_grip::item::{
    HttpResponseItem, HttpStreamItem, Item, WsKind, WsMessageItem, items_of_json, patch_body,
    zmq_pull_item, zmq_sub_item,
};
use throng_grip::publish::PublishRequest;
use throng_grip::{Value, tnet};

use crate::pieces::{is_json, parts};

/// Items as publishers post them: what is accepted can be sent, and reads the same on other shards.
pub(crate) fn grip_items(input: &[u8]) {
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

/// Items and commands as publishers send them by ZeroMQ: in tnetstrings, which read the same again.
///
/// Input: the one part of a message to PULL, the second of one to SUB, or the body of a command.
pub(crate) fn grip_zmq(input: &[u8]) {
    if let Ok(item) = zmq_pull_item(&[input]) {
        check(&item);
    }
    if let Ok(item) = zmq_sub_item(&[&b"topic"[..], input]) {
        assert_eq!(item.channel.as_str(), "topic");
        check(&item);
    }
    if let Ok((value, used)) = tnet::decode(input) {
        // A sender that writes sizes and numbers in another way is read as one that writes ours.
        let wire = encoded(&value);
        let (again, whole) = tnet::decode(&wire).expect("what was read can be written");
        assert_eq!(whole, wire.len());
        assert_eq!(encoded(&again), wire);
        for cut in 0..used {
            assert!(tnet::decode(&input[..cut]).is_err(), "cut at {cut}");
        }
        let _ = value.into_json().to_string();
    }
    if let Some(request) = CommandRequest::parse(input) {
        if let CommandKind::Publish(Ok(items)) = &request.command {
            items.iter().for_each(check);
        }
        for reply in [
            |request: &CommandRequest, out: &mut Vec<u8>| request.reply(Value::Null, out),
            |request: &CommandRequest, out: &mut Vec<u8>| request.reply_error("no", out),
        ] {
            let mut out = Vec::new();
            reply(&request, &mut out);
            assert_eq!(tnet::decode(&out).map(|(_, used)| used), Ok(out.len()));
        }
    }
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    tnet::encode(value, &mut out);
    out
}

/// `body-patch` on a held body: the result is JSON, or the body as it was, and is never larger than
/// a patch of that length can pay for.
///
/// Input: the held body, a NUL byte, the operations.
pub(crate) fn grip_patch(input: &[u8]) {
    let [held, operations] = parts::<2>(input);
    let Ok(operations) = serde_json::from_slice::<Vec<serde_json::Value>>(operations) else {
        return;
    };
    let patched = patch_body(held, &operations);
    assert!(
        patched.len() <= 3_000_000 + 6 * input.len(),
        "{} bytes",
        patched.len()
    );
    if patched != held {
        assert!(is_json(&patched) && is_json(held));
        assert_eq!(patched.ends_with(b"\n"), held.ends_with(b"\n"));
    }
    assert_eq!(patch_body(held, &operations), patched);
}

/// Any bytes as a message of a publisher's WebSocket: it never panics, and what was understood is
/// what stands there.
///
/// Input: the message.
pub(crate) fn plain_publication(input: &[u8]) {
    match NewPublication::parse(input) {
        Ok(wanted) => {
            let mut again = wanted.channel.as_str().to_owned();
            if let Some(key) = wanted.idempotency_key {
                again.push('\t');
                again.push_str(key);
            }
            again.push('\n');
            assert!(!again[..again.len() - 1].contains('\n'));
            assert_eq!([again.as_bytes(), wanted.data].concat(), input);
        }
        Err(fault) => assert!(!fault.sentence().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn seeds_of_grip_zmq_are_what_they_seem() {
        for seed in Target::named("grip_zmq").seeds() {
            let is_item =
                zmq_pull_item(&[&*seed]).is_ok() || zmq_sub_item(&[&b"t"[..], &seed]).is_ok();
            let is_value = tnet::decode(&seed).is_ok_and(|(_, used)| used == seed.len());
            assert!(is_item || is_value, "{}", seed.escape_ascii());
        }
    }
}
