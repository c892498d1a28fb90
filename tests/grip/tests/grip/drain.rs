//! A graceful stop: nothing that a backend has begun to send is lost.

use std::io::Write as _;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

use throng_testkit::{Signal, until};

use crate::support::{Backend, get, open, server, subscribed};

/// Half of an answer's body.
const HALF: usize = 100_000;

/// The backend answers only when the test lets it, and that is after the stop has begun. A fault
/// that the simulator once set here (a drain that loses an answer under way) is caught by this.
#[test]
fn an_answer_under_way_arrives_whole() {
    // One word for each request lets its answer go on.
    let (held, waiting) = channel::<Sender<()>>();
    let held = Mutex::new(held);
    let backend = Backend::start(move |asked, stream| {
        let (go, goes) = channel();
        if asked.line.contains("/half") {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 2 * HALF);
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&[b'1'; HALF]);
        }
        let told = held.lock().unwrap_or_else(PoisonError::into_inner).send(go);
        // Until the test lets it go on, or has failed.
        if told.is_err() || goes.recv().is_err() {
            return false;
        }
        let rest = match asked.line.contains("/half") {
            true => vec![b'2'; HALF],
            false => b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate".to_vec(),
        };
        stream.write_all(&rest).is_ok()
    });
    let server = server(&[backend.address], "\n[drain]\ntimeout = \"60s\"");
    let mut late = get(&server, "/late");
    let mut half = get(&server, "/half");
    half.head();
    half.exactly(HALF);
    let go: Vec<Sender<()>> = (0..2)
        .map(|_| waiting.recv().expect("two requests"))
        .collect();
    server.signal(Signal::TERM);
    until("the stop has begun", || {
        let health = server.ask("GET", "/healthz", "");
        (health.status == 503).then_some(())
    });
    for go in go {
        go.send(()).expect("a backend that waits");
    }
    let answer = late.response("GET");
    assert_eq!((answer.status, answer.body.as_str()), (200, "late"));
    assert_eq!(half.exactly(HALF), [b'2'; HALF]);
    late.until_closed();
    half.until_closed();
}

/// Held clients get what they would get at the end: a long poll the backend's own answer, a stream
/// its last chunk, a WebSocket a close that says that the server comes back.
#[test]
fn who_is_held_gets_an_end_in_order() {
    let backend = Backend::start(|asked, stream| {
        let answer = match asked.line.split(' ').nth(1) {
            Some("/poll") => {
                "HTTP/1.1 200 OK\r\nGrip-Hold: response\r\nGrip-Channel: a\r\nGrip-Timeout: \
                 60\r\nContent-Length: 7\r\n\r\nnothing"
            }
            Some("/stream") => {
                "HTTP/1.1 200 OK\r\nGrip-Hold: stream\r\nGrip-Channel: a\r\nContent-Length: \
                 5\r\n\r\nbegin"
            }
            _ => {
                "HTTP/1.1 200 OK\r\nContent-Type: application/websocket-events\r\n\
                 Sec-WebSocket-Extensions: grip\r\nContent-Length: 6\r\n\r\nOPEN\r\n"
            }
        };
        stream.write_all(answer.as_bytes()).is_ok()
    });
    let server = server(&[backend.address], "over_http = true");
    let mut poll = get(&server, "/poll");
    let mut stream = get(&server, "/stream");
    stream.head();
    assert_eq!(stream.chunk(), "begin");
    let mut socket = open(&server, "/socket");
    assert_eq!(socket.head().status, 101);
    subscribed(&server, 2);
    server.signal(Signal::TERM);
    assert_eq!(poll.response("GET").body, "nothing");
    assert_eq!(stream.chunk(), "");
    // 1012, "service restart".
    assert_eq!(socket.exactly(4), b"\x88\x02\x03\xf4");
    poll.until_closed();
    stream.until_closed();
    socket.until_closed();
}
