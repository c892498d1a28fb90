//! Answers of played servers, what became of them, and what explains that a call fails.

use throng_http1::{LAST_CHUNK, encode_chunk};

use crate::net::Net;

/// Things that explain why a call fails, counted.
#[derive(Clone, Copy, Default)]
pub(super) struct Troubles {
    pub(super) unreachable: u64,
    pub(super) stalls: u64,
    /// Connections that ended in the midst of an answer, or before they carried any.
    pub(super) cuts: u64,
    /// Connections that had carried an answer and ended without a byte of another.
    pub(super) quiet_cuts: u64,
    pub(super) garbage: u64,
}

/// One time that a request reached a server.
#[derive(Default)]
pub(super) struct Attempt {
    /// The connection had carried another request before.
    pub(super) is_kept: bool,
    /// The connection has died, and the other side had read no byte of the answer.
    pub(super) died_unanswered: bool,
    /// Bytes of the answer's body, if it comes whole.
    pub(super) body_bytes: usize,
    /// Bytes of the body that were sent before the connection ended, where its end is the body's.
    pub(super) ended_at: Option<usize>,
}

/// An answer on the wire.
#[derive(Default)]
pub(super) struct Answer {
    pub(super) wire: Vec<u8>,
    pub(super) head_bytes: usize,
    pub(super) body_bytes: usize,
    /// The connection ends behind it.
    pub(super) closes: bool,
    /// Its end is that of the connection.
    pub(super) is_until_close: bool,
    pub(super) is_upgrade: bool,
}

/// A byte of the body that answers a request.
pub(super) const fn answered_byte(n: usize, at: usize) -> u8 {
    (n * 17 + at * 7 + at / 251) as u8
}

impl Answer {
    /// Draws one answer at random.
    pub(super) fn draw(n: usize, is_head: bool, may_upgrade: bool, net: &Net) -> Self {
        if may_upgrade && net.percent(80) {
            let wire = b"HTTP/1.1 101 Go\r\nUpgrade: echo\r\n\r\n".to_vec();
            return Self {
                head_bytes: wire.len(),
                wire,
                is_upgrade: true,
                ..Self::default()
            };
        }
        let mut wire = match net.percent(10) {
            true => b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
            false => Vec::new(),
        };
        let framing = net.below(4);
        let bytes = match is_head || framing == 3 {
            true => 0,
            false => net.pick(&[0, 1, 300, 5_000, 70_000, 200_000]),
        };
        let body: Vec<u8> = (0..bytes).map(|at| answered_byte(n, at)).collect();
        let is_until_close = framing == 2 && !is_head;
        let closes = is_until_close || net.percent(15);
        let head = match framing {
            0 => format!("200 OK\r\nContent-Length: {bytes}\r\n"),
            1 => "200 OK\r\nTransfer-Encoding: chunked\r\n".to_owned(),
            3 if !is_head => "204 No\r\n".to_owned(),
            _ => "200 OK\r\n".to_owned(),
        };
        let close = if closes { "Connection: close\r\n" } else { "" };
        wire.extend_from_slice(format!("HTTP/1.1 {head}{close}\r\n").as_bytes());
        let head_bytes = wire.len();
        if framing == 1 && !is_head {
            for piece in body.chunks(net.pick(&[1 << 20, 4_000, 300])) {
                encode_chunk(piece, &mut wire);
            }
            wire.extend_from_slice(LAST_CHUNK);
        } else {
            wire.extend_from_slice(&body);
        }
        Self {
            wire,
            head_bytes,
            body_bytes: bytes,
            closes,
            is_until_close,
            is_upgrade: false,
        }
    }
}
