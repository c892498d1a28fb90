//! How long a WebSocket's message may be, towards the backend and from it: `message_bytes_max`.

use throng_testkit::Wire;

use crate::support::{KEY, open, port, python, server};
use crate::tunnels::{frame, next};

/// The data of the next frames, up to one that ends a message. Pushpin cuts them anew, and so may
/// this server.
fn message(wire: &mut Wire) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let (first, data) = next(wire);
        out.extend(data);
        if first & 0x80 != 0 {
            return out;
        }
    }
}

#[track_caller]
fn check(script: &[&str], route: &str, limit: Option<usize>, (opcode, says): (u8, &str)) {
    let backend = python(script[0], &script[1..]);
    let limits = limit.map(|bytes| format!("\n[limits]\nmessage_bytes_max = {bytes}"));
    let more = format!("{route}\n{}", limits.unwrap_or_default());
    let server = server(&[port(&backend)], &more);
    let opened = || {
        let mut wire = open(&server, "/socket");
        assert_eq!(wire.head().status, 101);
        wire
    };
    let most = limit.unwrap_or(65_536);
    let mut wire = opened();
    // First output of the relay.
    if script[0] == "relay.py" {
        assert_eq!(message(&mut wire), b"welcome");
    }
    let long = vec![b'a'; most];
    wire.send_bytes(&frame(opcode, &long));
    let echo = message(&mut wire);
    assert_eq!(echo.len(), says.len() + most, "{script:?}");
    assert!(echo.starts_with(says.as_bytes()) && echo.ends_with(b"aaa"));
    // One byte more: 1009, "message too big".
    let mut wire = opened();
    wire.send_bytes(&frame(opcode, &vec![b'a'; most + 1]));
    let close = loop {
        let (first, data) = next(&mut wire);
        if first == 0x88 {
            break data;
        }
    };
    assert_eq!(close[..2], [0x03, 0xf1], "{script:?}");
    server.stop();
}

#[test]
fn over_http_messages_follow_the_option() {
    for limit in [None, Some(200_000), Some(1 << 20)] {
        let echo = (1, "you said ");
        check(&["sockets.py", KEY], "over_http = true", limit, echo);
    }
}

/// The prefix that marks a client's message does not count: the longest that a backend may send, of
/// 1 MiB, comes back with its prefix.
#[test]
fn messages_of_a_tunnel_follow_the_option() {
    for limit in [None, Some(200_000), Some(1 << 20)] {
        check(&["relay.py", "grip"], "", limit, (2, ""));
    }
}

/// Pushpin takes 200,000 bytes, so its configuration does here.
#[test]
fn with_pushpins_configuration_its_own_limit_holds() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file in it");
        path
    };
    let backend = python("sockets.py", &[KEY]);
    file("routes", &format!("* {},over_http\n", port(&backend)));
    let conf = file(
        "pushpin.conf",
        &format!("[proxy]\nroutesfile=routes\nsig_key={KEY}\n"),
    );
    let config = format!("[grip]\npushpin_conf = {:?}\n", conf.display().to_string());
    let server = throng_testkit::Setup::new(&config).shards(1).start();
    let mut wire = open(&server, "/socket");
    assert_eq!(wire.head().status, 101);
    wire.send_bytes(&frame(1, &[b'a'; 150_000]));
    assert_eq!(message(&mut wire).len(), "you said ".len() + 150_000);
    server.stop();
}
