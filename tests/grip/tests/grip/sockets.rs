//! WebSockets over HTTP, with a backend of gripcontrol's.

use crate::support::{KEY, item, open, port, publish, python, server, subscribed};

/// A text frame or another one, masked with zeros, which leaves the text readable.
fn frame(opcode: u8, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode, 0x80 | data.len() as u8, 0, 0, 0, 0];
    out.extend_from_slice(data);
    out
}

#[test]
fn a_conversation_from_open_to_close() {
    let backend = python("sockets.py", &[KEY]);
    let server = server(&[port(&backend)], "over_http = true");
    let mut wire = open(&server, "/socket");
    let head = wire.head();
    assert_eq!(head.status, 101);
    // The key and its answer are RFC 6455's own example.
    assert_eq!(
        head.header("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(head.header("set-meta-user"), None);
    subscribed(&server, 1);
    wire.send_bytes(&frame(1, b"hi"));
    wire.through("you said hi");
    publish(&server, &item("room", "to all", ""));
    wire.through("to all");
    wire.send_bytes(&frame(9, b"x"));
    wire.send_bytes(&frame(8, b"\x03\xe8bye"));
    wire.through("bye");
    wire.until_closed();
    let events = backend.out("CLOSE", |lines| {
        lines
            .iter()
            .any(|line| line.starts_with("CLOSE"))
            .then(|| lines.to_vec())
    });
    // Signed, and with the meta that the first answer set.
    for expected in [
        "OPEN - True",
        "TEXT jo True",
        "PING jo True",
        "CLOSE jo True",
    ] {
        assert!(
            events.iter().any(|line| line == expected),
            "{expected}: {events:?}"
        );
    }
    server.stop();
}
