//! Signs of life on both kinds of WebSockets: the ping, the pong that puts it off, and the end
//! without one.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use throng_gateway_plain::Plain;
use throng_session::{Event, Port};
use throng_solo::Solo;
use throng_types::{ConnId, End, Millis, ShardId};
use throng_ws::{Masking, encode_pong, handshake};

const INTERVAL_MS: u64 = 1000;
const PONG_MS: u64 = 300;

fn socket(port: Port, target: &str) -> Solo<Plain> {
    let id = ConnId::new(ShardId(0), 1, 1);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut shared = throng_solo::shared();
    shared.limits.ping_interval_ms = INTERVAL_MS;
    shared.limits.pong_timeout_ms = PONG_MS;
    let mut socket = Solo::new(id, port, peer, Rc::new(shared), Rc::default());
    let mut request = Vec::new();
    handshake::encode_request("localhost", target, [7; 16], &[], &mut request);
    socket.feed(&request);
    assert!(socket.out.starts_with(b"HTTP/1.1 101 "));
    socket.out.clear();
    socket
}

/// Advances the clock to the session's deadline, and returns that time.
fn wait(socket: &mut Solo<Plain>) -> u64 {
    let due = socket.actions.deadline.take().flatten();
    let Millis(at) = due.expect("a deadline");
    socket.now.mono = Millis(at);
    socket.event(Event::Timeout);
    at
}

#[test]
fn a_client_that_answers_stays_and_one_that_does_not_is_ended() {
    for (port, target) in [(Port::Client, "/ws?channel=a"), (Port::Api, "/pub")] {
        let mut socket = socket(port, target);
        let began = socket.now.mono.0;
        let first = wait(&mut socket);
        let within = began + INTERVAL_MS / 2..=began + INTERVAL_MS;
        assert!(within.contains(&first), "{target}: {first}");
        assert_eq!(std::mem::take(&mut socket.out), b"\x89\x00", "{target}");
        let mut pong = Vec::new();
        encode_pong(Masking::Client([1; 4]), b"", &mut pong);
        socket.feed(&pong);
        // The wait for the pong is a part of the interval.
        assert_eq!(wait(&mut socket), first + INTERVAL_MS, "{target}");
        assert_eq!(std::mem::take(&mut socket.out), b"\x89\x00", "{target}");
        assert_eq!(wait(&mut socket), first + INTERVAL_MS + PONG_MS, "{target}");
        let close = String::from_utf8_lossy(&socket.out).into_owned();
        assert!(close.contains("no pong"), "{target}: {close}");
        assert_eq!(socket.actions.end, Some(End::Flush), "{target}");
    }
}
