//! Bodies of requests on their way to a backend while they still come.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use throng_testkit::Wire;

use crate::support::{Backend, reply, server};

/// A backend that serves one connection as it likes.
fn one(serve: impl FnOnce(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            serve(stream);
        }
    });
    address
}

#[track_caller]
fn through(stream: &mut TcpStream, mark: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while !bytes.windows(mark.len()).any(|window| window == mark) {
        let count = stream.read(&mut piece).expect("more");
        assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    }
    bytes
}

#[test]
fn a_client_that_sends_a_byte_now_and_then_is_given_up() {
    let backend = Backend::start(|_, stream| reply(stream, &[], "done"));
    let server = server(&[backend.address], "[limits]\nhead_timeout = \"3s\"");
    let mut wire = Wire::connect(server.clients());
    wire.send("POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n");
    let mut writer = wire.writer();
    // Each byte comes well in time, and none is enough.
    thread::spawn(move || {
        while writer.write_all(b"x").is_ok() {
            thread::sleep(std::time::Duration::from_millis(20));
        }
    });
    assert_eq!(wire.response("POST").status, 408);
    server.stop();
}

#[test]
fn a_backend_hears_of_a_body_before_its_end() {
    let (heard, hears) = std::sync::mpsc::channel();
    let backend = one(move |mut stream| {
        let head = through(&mut stream, b"first");
        heard.send(head).expect("the test waits");
        through(&mut stream, b"second");
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
    });
    let server = server(&[backend], "");
    let mut wire = Wire::connect(server.clients());
    wire.send("POST /up HTTP/1.1\r\nHost: t\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(wire.head().status, 100);
    wire.send("first");
    let head = hears.recv().expect("the backend has it");
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert!(head.contains("content-length: 11\r\n"), "{head}");
    wire.send("second");
    assert_eq!(wire.response("POST").body, "done");
    // The connection goes on behind it.
    wire.send("GET /pushpin-is-not-here HTTP/1.1\r\nHost: t\r\n\r\n");
    assert_eq!(wire.head().status, 502, "the backend served one connection");
    server.stop();
}

#[test]
fn a_body_of_any_size_costs_no_memory() {
    const BYTES: usize = 256 << 20;
    let backend = one(|mut stream| {
        // The head, and maybe a little more.
        through(&mut stream, b"\r\n\r\n");
        let mut left = BYTES;
        let mut piece = vec![0; 1 << 20];
        while left > 1 << 20 {
            match stream.read(&mut piece) {
                Ok(count @ 1..) => left = left.saturating_sub(count),
                _ => return,
            }
        }
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone");
        while matches!(stream.read(&mut piece), Ok(1..)) {}
    });
    let server = server(&[backend], "");
    let mut wire = Wire::connect(server.clients());
    wire.send(&format!(
        "POST /up HTTP/1.1\r\nHost: t\r\nContent-Length: {BYTES}\r\n\r\n"
    ));
    let mut writer = wire.writer();
    let writing = thread::spawn(move || {
        let piece = vec![7; 1 << 20];
        for _ in 0..BYTES >> 20 {
            if writer.write_all(&piece).is_err() {
                return;
            }
        }
    });
    assert_eq!(wire.response("POST").body, "done");
    let resident = server.metric("throng_process_resident_bytes");
    assert!(resident < 64 << 20, "{resident} bytes");
    writing.join().expect("it does not panic");
    server.stop();
}

#[test]
fn a_backend_may_answer_before_the_end() {
    let backend = one(|mut stream| {
        through(&mut stream, b"\r\n\r\n");
        let _ = stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 3\r\n\r\nno\n");
        let mut piece = [0; 4096];
        while matches!(stream.read(&mut piece), Ok(1..)) {}
    });
    let server = server(&[backend], "");
    let mut wire = Wire::connect(server.clients());
    wire.send("POST /up HTTP/1.1\r\nHost: t\r\nContent-Length: 1000000\r\n\r\nabc");
    let answer = wire.head();
    assert_eq!(
        (answer.status, answer.header("connection")),
        (403, Some("close"))
    );
    assert_eq!(wire.rest(), "no\n");
    server.stop();
}

#[test]
fn a_body_that_is_too_much_for_others_is_refused() {
    let backend = Backend::start(|_, stream| reply(stream, &[], "fine"));
    let server = server(&[backend.address], "");
    let mut wire = Wire::connect(server.api_address());
    wire.send(
        "POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
    );
    assert_eq!(wire.head().status, 413);
    // A broken chunk ends it.
    let mut wire = Wire::connect(server.clients());
    wire.send("POST /up HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n");
    assert_eq!(wire.head().status, 400);
    wire.until_closed();
    server.stop();
}
