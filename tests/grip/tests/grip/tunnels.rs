//! WebSockets to a backend that speaks WebSocket: PyPI's websockets, with and without the
//! extension.

use std::io::Write as _;
use std::net::SocketAddr;
use std::thread;

use throng_testkit::{Process, Server, Wire};

use crate::support::{item, port, publish, python, server, subscribed};

/// A frame of any length, masked with zeros, which leaves its data readable.
pub(crate) fn frame(opcode: u8, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match data.len() {
        short @ 0..126 => out.push(0x80 | short as u8),
        long => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(long as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(data);
    out
}

/// The next frame: its first byte and its data.
#[track_caller]
pub(crate) fn next(wire: &mut Wire) -> (u8, Vec<u8>) {
    let head = wire.exactly(2);
    let length = match head[1] {
        126 => u64::from_be_bytes([&[0; 6][..], &wire.exactly(2)].concat().try_into().unwrap()),
        127 => u64::from_be_bytes(wire.exactly(8).try_into().unwrap()),
        short => u64::from(short),
    };
    (head[0], wire.exactly(length as usize))
}

#[track_caller]
fn text(wire: &mut Wire) -> String {
    let (first, data) = next(wire);
    assert_eq!(first, 0x81, "{data:?}");
    String::from_utf8(data).expect("text")
}

fn open(to: SocketAddr, path: &str) -> Wire {
    let mut wire = Wire::connect(to);
    wire.send(&format!(
        "GET {path} HTTP/1.1\r\nHost: t\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\nCookie: a=b\r\n\r\n"
    ));
    wire
}

#[track_caller]
fn start(mode: &str, more: &str) -> (Process, Server) {
    let backend = python("relay.py", &[mode]);
    let server = server(&[port(&backend)], more);
    (backend, server)
}

#[track_caller]
fn opened(server: &Server) -> Wire {
    let mut wire = open(server.clients(), "/socket");
    let head = wire.head();
    assert_eq!(head.status, 101, "{head:?}");
    assert_eq!(
        head.header("sec-websocket-accept"),
        Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
    );
    assert_eq!(head.header("sec-websocket-extensions"), None);
    wire
}

#[track_caller]
fn says(backend: &Process, line: &str) {
    backend.out(line, |lines| {
        lines.iter().any(|found| found == line).then_some(())
    });
}

#[test]
fn plain_frames_pass_in_both_directions() {
    let (backend, server) = start("plain", "");
    let mut wire = opened(&server);
    says(&backend, "offered grip");
    says(&backend, "signed True cookie a=b");
    wire.send_bytes(&frame(1, b"c:not for us"));
    assert_eq!(text(&mut wire), "c:not for us");
    wire.send_bytes(&frame(2, &[7; 300_000]));
    assert_eq!(next(&mut wire), (0x82, vec![7; 300_000]));
    wire.send_bytes(&frame(9, b"x"));
    assert_eq!(next(&mut wire), (0x8a, b"x".to_vec()));
    assert_eq!(
        server.metric("throng_connections{transport=\"websocket\"}"),
        1
    );
    wire.send_bytes(&frame(8, b"\x03\xe8bye"));
    assert_eq!(next(&mut wire), (0x88, b"\x03\xe8bye".to_vec()));
    wire.until_closed();
    says(&backend, "closed 1000 bye");
    server.stop();
}

#[test]
fn a_backend_that_is_gone_takes_its_clients_along() {
    let (backend, server) = start("plain", "");
    let mut wire = opened(&server);
    drop(backend);
    wire.until_closed();
    let mut late = open(server.clients(), "/socket");
    assert_eq!(late.head().status, 502);
    server.stop();
}

#[test]
fn a_client_that_vanishes_is_gone_for_the_backend() {
    let (backend, server) = start("plain", "");
    drop(opened(&server));
    says(&backend, "closed 1006 -");
    server.stop();
}

#[test]
fn a_grip_backend_says_what_is_for_the_client() {
    let (backend, server) = start("grip", "");
    let mut wire = opened(&server);
    assert_eq!(text(&mut wire), "welcome");
    subscribed(&server, 1);
    wire.send_bytes(&frame(1, b"hi"));
    assert_eq!(text(&mut wire), "you said hi");
    publish(&server, &item("room", "to all", ""));
    assert_eq!(text(&mut wire), "to all");
    wire.send_bytes(&frame(2, &[1, 2]));
    assert_eq!(next(&mut wire), (0x82, vec![1, 2]));
    wire.send_bytes(&frame(9, b"p"));
    assert_eq!(next(&mut wire), (0x8a, b"p".to_vec()));
    wire.send_bytes(&frame(1, b"unsubscribe"));
    assert_eq!(text(&mut wire), "left");
    subscribed(&server, 0);
    wire.send_bytes(&frame(8, b"\x03\xe8bye"));
    assert_eq!(next(&mut wire), (0x88, b"\x03\xe8bye".to_vec()));
    wire.until_closed();
    says(&backend, "closed 1000 bye");
    server.stop();
}

#[test]
fn a_client_stays_when_its_backend_lets_go() {
    let (backend, server) = start("grip", "");
    let mut wire = opened(&server);
    assert_eq!(text(&mut wire), "welcome");
    subscribed(&server, 1);
    wire.send_bytes(&frame(1, b"detach"));
    says(&backend, "closed 1006 -");
    wire.send_bytes(&frame(1, b"into the void"));
    publish(&server, &item("room", "still here", ""));
    assert_eq!(text(&mut wire), "still here");
    wire.send_bytes(&frame(9, b"p"));
    assert_eq!(next(&mut wire), (0x8a, b"p".to_vec()));
    wire.send_bytes(&frame(8, b"\x03\xe8"));
    assert_eq!(next(&mut wire), (0x88, b"\x03\xe8".to_vec()));
    wire.until_closed();
    server.stop();
}

#[test]
fn nothing_piles_up_between_a_fast_side_and_a_slow_one() {
    const PIECES: usize = 96;
    let (_backend, server) = start("plain", "");
    let mut wire = opened(&server);
    let mut writer = wire.writer();
    // The backend echoes until its output is not taken, and then it reads no more.
    let writing = thread::spawn(move || {
        let piece = frame(2, &[0; 1 << 20]);
        (0..PIECES).all(|_| writer.write_all(&piece).is_ok())
    });
    for piece in 0..PIECES {
        let (first, data) = next(&mut wire);
        assert_eq!((first, data.len()), (0x82, 1 << 20), "{piece}");
    }
    assert!(writing.join().expect("it does not panic"));
    let resident = server.metric("throng_process_resident_bytes");
    assert!(resident < 64 << 20, "{resident} bytes");
    server.stop();
}
