//! The protocol in Protobuf. The messages are tested with the codec; these tests show that the
//! socket speaks it.

use serde_json::json;
use throng_ws::Opcode;

use crate::scene::{Scene, sign};

/// A message behind its length, of which the fields are short.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (field, value) in fields {
        body.push(field << 3 | 2);
        body.push(u8::try_from(value.len()).expect("a short one"));
        body.extend_from_slice(value);
    }
    body
}

/// A command: its id, the number of its request, and the request.
pub(crate) fn command(id: u8, request: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let body = message(fields);
    let mut command = vec![8, id];
    command.push(request << 3 | 2);
    push_length(body.len(), &mut command);
    command.extend_from_slice(&body);
    let mut frame = Vec::new();
    push_length(command.len(), &mut frame);
    frame.extend_from_slice(&command);
    frame
}

fn push_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ ..0x80) => out.push(short),
        _ => out.extend_from_slice(&[length as u8 | 0x80, (length >> 7) as u8]),
    }
}

pub(crate) fn connected(target: &str, headers: &str) -> Scene {
    let mut scene = Scene::open(target, headers);
    let token = sign(&json!({ "sub": "ann" }));
    let connect = {
        // The token's length needs more than one byte.
        let mut request = vec![1 << 3 | 2];
        push_length(token.len(), &mut request);
        request.extend_from_slice(token.as_bytes());
        let mut command = vec![8, 1, 4 << 3 | 2];
        push_length(request.len(), &mut command);
        command.extend_from_slice(&request);
        let mut frame = Vec::new();
        push_length(command.len(), &mut frame);
        frame.extend_from_slice(&command);
        frame
    };
    let told = scene.exchange(Opcode::Binary, &connect);
    let [(2, reply)] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!(&reply[1..4], &[8, 1, 5 << 3 | 2], "the reply to connect");
    scene
}

fn echoed(head: &str) -> Option<&str> {
    let mut lines = head.lines();
    lines.find_map(|line| line.strip_prefix("Sec-WebSocket-Protocol: "))
}

#[test]
fn the_form_is_chosen_by_subprotocol_or_parameter() {
    let socket = "/connection/websocket";
    let offer = |name: &str| format!("Sec-WebSocket-Protocol: {name}\r\n");
    for (target, headers, echo) in [
        (
            socket.to_owned(),
            offer("centrifuge-protobuf"),
            Some("centrifuge-protobuf"),
        ),
        (
            socket.to_owned(),
            offer("x, centrifuge-protobuf"),
            Some("centrifuge-protobuf"),
        ),
        (
            format!("{socket}?cf_protocol=protobuf"),
            String::new(),
            None,
        ),
        (format!("{socket}?format=protobuf"), String::new(), None),
    ] {
        let scene = connected(&target, &headers);
        assert_eq!(echoed(&scene.head), echo, "{target} {headers}");
    }
    let lines = offer("x, y") + &offer("centrifuge-json");
    for target in [socket, "/connection/uni_websocket"] {
        for (headers, chosen) in [
            (offer("centrifuge-json"), Some("centrifuge-json")),
            (lines.clone(), Some("centrifuge-json")),
            (offer("x"), None),
            (String::new(), None),
        ] {
            let head = Scene::open(target, &headers).head;
            assert!(head.starts_with("HTTP/1.1 101 "), "{target}: {head}");
            assert_eq!(echoed(&head), chosen, "{target} {headers}");
        }
    }
    // Of the two sockets only one speaks Protobuf, which is chosen where both are offered.
    let both = offer("centrifuge-json, centrifuge-protobuf");
    assert_eq!(
        echoed(&connected(socket, &both).head),
        Some("centrifuge-protobuf")
    );
    for (query, headers) in [("?format=protobuf", ""), ("", &*both)] {
        let uni = Scene::open(&format!("/connection/uni_websocket{query}"), headers);
        assert!(uni.head.starts_with("HTTP/1.1 400 "), "{}", uni.head);
    }
}

#[test]
fn commands_replies_and_deliveries() {
    let mut scene = connected(
        "/connection/websocket",
        "Sec-WebSocket-Protocol: centrifuge-protobuf\r\n",
    );
    // Two commands in one frame; the opcode of it is ignored.
    let mut frame = command(2, 5, &[(1, b"open:a")]);
    frame.extend_from_slice(&command(3, 11, &[]));
    let told = scene.exchange(Opcode::Text, &frame);
    let ping = vec![4, 8, 3, 12 << 3 | 2, 0];
    let subscribed = vec![4, 8, 2, 6 << 3 | 2, 0];
    assert_eq!(told, [(2, ping), (2, subscribed)]);
    let told = scene.publish("open:a", "{}");
    let publication = message(&[(4, b"{}")]);
    let push = message(&[(2, b"open:a"), (4, &publication)]);
    let reply = message(&[(4, &push)]);
    assert_eq!(told, [(2, message(&[(0, &reply)])[1..].to_vec())]);
    assert_eq!(scene.wait_s(25), ["2 [0]"], "a ping is one byte");
    assert!(scene.exchange(Opcode::Binary, &[0]).is_empty());
    assert_eq!(scene.send(Opcode::Binary, &[0]), ["close 3501"]);
}

#[test]
fn broken_frames_end_the_connection() {
    for frame in [&[][..], &[5, 8], &[0xff; 10], &[2, 8, 2], b"{}"] {
        let mut scene = connected("/connection/websocket?format=protobuf", "");
        assert_eq!(
            scene.send(Opcode::Binary, frame),
            ["close 3501"],
            "{frame:?}"
        );
    }
}
