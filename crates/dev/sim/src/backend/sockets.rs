//! WebSockets over HTTP as the backend has them.
//!
//! A client says `say 0`, `say 1`, …, and is answered `heard 0`, `heard 1`, …. What holds:
//! - each message comes once and in order, also when requests fail and are repeated;
//! - after a failure that leaves open whether the backend heard, nothing more is said;
//! - the backend hears of each end, unless it failed itself.

use std::collections::BTreeMap;

use throng_http1::origin::OriginRequest;

use super::answer::{Answered, answered, field};
use super::talk::subscribe;

/// The backend's side of the conversations over HTTP, by `Connection-Id`.
#[derive(Default)]
pub(crate) struct Sockets(BTreeMap<String, Socket>);

#[derive(Default)]
struct Socket {
    /// The number of the next message.
    next: u64,
    /// One side has closed it, or the client has gone.
    has_ended: bool,
    /// The backend has closed it, and receives no more.
    is_deaf: bool,
    /// The backend failed once.
    has_failed: bool,
    /// The backend may have received what it did not answer.
    is_broken: bool,
}

/// One event of a request.
struct Spoken<'r> {
    kind: &'r str,
    content: &'r [u8],
}

impl Sockets {
    /// The backend failed with a request of this one.
    pub(super) fn fails(&mut self, id: &str, is_sent: bool) {
        let socket = self.0.entry(id.to_owned()).or_default();
        socket.has_failed = true;
        socket.is_broken |= is_sent;
    }

    /// The first socket whose end the backend has not been told.
    pub(crate) fn left(&self) -> Option<&str> {
        let mut all = self.0.iter();
        let left = all.find(|(_, socket)| !socket.has_ended && !socket.has_failed);
        left.map(|(id, _)| id.as_str())
    }

    pub(super) fn answer(&mut self, request: &OriginRequest, chance: usize) -> Answered {
        let id = field(request, "Connection-Id").expect("it says which one it is");
        let mut reply = Vec::new();
        let mut headers = vec![("Content-Type", "application/websocket-events".to_owned())];
        for Spoken { kind, content } in events(&request.body) {
            if kind == "OPEN" {
                let fresh = self.0.insert(id.to_owned(), Socket::default());
                assert!(fresh.is_none(), "{id} is opened twice");
                headers.push(("Sec-WebSocket-Extensions", "grip".to_owned()));
                if chance.is_multiple_of(2) {
                    headers.push(("Keep-Alive-Interval", "25".to_owned()));
                }
                reply.extend_from_slice(b"OPEN\r\n");
                push("TEXT", subscribe().as_bytes(), &mut reply);
                continue;
            }
            let socket = self.0.get_mut(id);
            let socket = socket.unwrap_or_else(|| panic!("{id} says {kind} before it is open"));
            match kind {
                "TEXT" => {
                    assert!(!socket.is_broken, "{id} goes on after a failure");
                    if socket.is_deaf {
                        // It crossed the backend's close.
                        continue;
                    }
                    assert!(!socket.has_ended, "{id} goes on after its end");
                    let said = format!("say {}", socket.next);
                    assert_eq!(content, said.as_bytes(), "{id}, in order and once");
                    push(
                        "TEXT",
                        format!("m:heard {}", socket.next).as_bytes(),
                        &mut reply,
                    );
                    socket.next += 1;
                    if chance.is_multiple_of(50) {
                        socket.has_ended = true;
                        socket.is_deaf = true;
                        push("CLOSE", &[0x03, 0xe8], &mut reply);
                    }
                }
                "CLOSE" if socket.has_ended => {}
                "CLOSE" => {
                    socket.has_ended = true;
                    push("CLOSE", content, &mut reply);
                }
                "DISCONNECT" => socket.has_ended = true,
                _ => panic!("{id}: nobody says {kind}"),
            }
        }
        answered(&headers, reply)
    }
}

fn push(kind: &str, content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{kind} {:x}\r\n", content.len()).as_bytes());
    out.extend_from_slice(content);
    out.extend_from_slice(b"\r\n");
}

fn events(mut body: &[u8]) -> Vec<Spoken<'_>> {
    let mut all = Vec::new();
    while !body.is_empty() {
        let end = body.windows(2).position(|two| two == b"\r\n");
        let (line, rest) = body.split_at(end.expect("a line"));
        let line = std::str::from_utf8(line).expect("text");
        let (kind, length) = line.split_once(' ').unwrap_or((line, ""));
        body = &rest[2..];
        let mut content: &[u8] = b"";
        if !length.is_empty() {
            let length = usize::from_str_radix(length, 16).expect("a length");
            (content, body) = body.split_at(length);
            body = body.strip_prefix(b"\r\n").expect("an end of the content");
        }
        all.push(Spoken { kind, content });
    }
    all
}
