//! Backends that are slow, die, or answer garbage hurt their own requests and no others.

use std::io::Write as _;

use throng_testkit::{Wire, request};

use crate::support::{Backend, get, reply, server};

#[test]
fn each_fault_has_its_status() {
    let backend = Backend::start(|asked, stream| {
        let target = asked.line.split(' ').nth(1).unwrap_or_default();
        match target {
            "/dies" => false,
            "/garbage" => stream.write_all(b"SSH-2.0-OpenSSH\r\n").is_err(),
            "/huge-head" => {
                let line = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(200_000));
                stream.write_all(line.as_bytes()).is_err()
            }
            "/bad-hold" => reply(stream, &[("Grip-Hold", "forever")], ""),
            "/huge-instruct" => {
                let headers = [("Content-Type", "application/grip-instruct")];
                reply(stream, &headers, &"x".repeat(200_000))
            }
            // Nothing is sent until the client side gives up.
            "/silent" => super::support::silent(stream),
            _ => reply(stream, &[], "fine"),
        }
    });
    let server = server(&[backend.address], "response_timeout = \"5s\"");
    for (target, status) in [
        ("/dies", 502),
        ("/garbage", 502),
        ("/huge-head", 502),
        ("/bad-hold", 502),
        ("/huge-instruct", 502),
        ("/silent", 504),
        ("/fine", 200),
    ] {
        let answer = request(server.clients(), "GET", target, &[], "");
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        assert!(!answer.body.is_empty(), "{target} says nothing");
    }
    server.stop();
}

#[test]
fn a_body_that_breaks_off_is_seen_to_be_broken() {
    let backend = Backend::start(|_, stream| {
        let _ =
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        false
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    assert_eq!(wire.chunk(), "half");
    assert_eq!(wire.rest(), "", "no end of the chunks was written");
    server.stop();
}

#[test]
fn an_endless_body_waits_for_its_client() {
    let backend = Backend::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 65_536]).is_ok() {}
        false
    });
    let server = server(&[backend.address], "");
    let mut wires: Vec<Wire> = (0..3).map(|_| get(&server, "/endless")).collect();
    for wire in &mut wires {
        wire.head();
        wire.chunk();
    }
    // A client that reads goes on, and others are served.
    for _ in 0..100 {
        assert!(!wires[0].chunk().is_empty());
    }
    let resident = server.metric("throng_process_resident_bytes");
    assert!(resident < 200 << 20, "{resident} bytes");
    // A client that has read nothing for a while goes on too, beyond all that sockets hold.
    let mut bytes = 0;
    while bytes < 32 << 20 {
        let chunk = wires[1].chunk();
        assert!(!chunk.is_empty(), "the body ends after {bytes} bytes");
        bytes += chunk.len();
    }
    drop(wires);
    server.stop();
}
