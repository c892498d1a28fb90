//! The protocol in Protobuf. The messages are tested with the codec; these tests show that the
//! socket speaks it.

use serde_json::json;
use throng_ws::Opcode;

use crate::scene::{Scene, sign};

/// A number, seven bits to a byte.
fn varint(mut number: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// A message with fields of bytes.
fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
    let fields = fields.iter().map(|(number, value)| field(*number, value));
    fields.flatten().collect()
}

pub(crate) fn field(number: u8, value: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2][..], &varint(value.len()), value].concat()
}

/// A command: its id, the number of its request, and the fields of the request.
pub(crate) fn command(id: u8, request: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let command = [&[8, id][..], &field(request, &message(fields))].concat();
    [varint(command.len()), command].concat()
}

pub(crate) fn connected(target: &str, headers: &str) -> Scene {
    let mut scene = Scene::open(target, headers);
    let token = sign(&json!({ "sub": "ann" }));
    let connect = command(1, 4, &[(1, token.as_bytes())]);
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
