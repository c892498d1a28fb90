//! GRIP black box: backends and publishers of others against the `throng` binary, all in `tests/`.
//!
//! Python and npm packages are pinned here and installed once below `target/`.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use throng_testkit::Deadline;

/// Longest wait before it counts as silence.
const SILENCE: Duration = Duration::from_secs(15);

/// One side of a ZeroMQ connection (ZMTP 3.0, RFC 23), with nothing of Throng's.
pub struct Peer {
    stream: TcpStream,
}

impl Peer {
    /// Connects as a socket of that type.
    ///
    /// # Panics
    /// If nobody listens there, or what listens speaks no ZeroMQ.
    #[must_use]
    pub fn connect(to: SocketAddr, kind: &str) -> Self {
        let stream = TcpStream::connect_timeout(&to, SILENCE).expect("a socket that listens");
        stream.set_nodelay(true).expect("no delay");
        let mut peer = Self { stream };
        let mut greeting = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
        greeting.extend_from_slice(b"NULL");
        greeting.resize(64, 0);
        peer.write(&greeting);
        let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
        ready.extend_from_slice(&(kind.len() as u32).to_be_bytes());
        ready.extend_from_slice(kind.as_bytes());
        peer.frame(4, &ready);
        let mut theirs = [0; 64];
        let deadline = Deadline::after(SILENCE);
        let greeting = deadline.over(&peer.stream).read_exact(&mut theirs);
        greeting.expect("a greeting");
        let ready = peer.read(deadline).map(|(flags, _)| flags);
        assert_eq!(ready, Some(4), "READY");
        peer
    }

    fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("a peer that listens");
    }

    fn frame(&mut self, flags: u8, body: &[u8]) {
        let mut frame = vec![flags | 2];
        frame.extend_from_slice(&(body.len() as u64).to_be_bytes());
        if let (Ok(count), true) = (u8::try_from(body.len()), flags & 4 == 0) {
            frame = vec![flags, count];
        } else if let Ok(count) = u8::try_from(body.len()) {
            frame = vec![flags, count];
        }
        frame.extend_from_slice(body);
        self.write(&frame);
    }

    /// Sends the parts of a message.
    pub fn send(&mut self, parts: &[Vec<u8>]) {
        for (at, part) in parts.iter().enumerate() {
            self.frame(u8::from(at + 1 < parts.len()), part);
        }
    }

    fn read(&mut self, deadline: Deadline) -> Option<(u8, Vec<u8>)> {
        let mut stream = deadline.over(&self.stream);
        let mut head = [0; 2];
        stream.read_exact(&mut head).ok()?;
        let mut count = u64::from(head[1]);
        if head[0] & 2 != 0 {
            let mut rest = [0; 7];
            stream.read_exact(&mut rest).ok()?;
            let [a, b, c, d, e, f, g] = rest;
            count = u64::from_be_bytes([head[1], a, b, c, d, e, f, g]);
        }
        let mut body = vec![
            0;
            usize::try_from(count)
                .ok()
                .filter(|count| *count < 1 << 20)?
        ];
        stream.read_exact(&mut body).ok()?;
        Some((head[0] & !2, body))
    }

    /// The last part of the next message; none if nothing comes.
    pub fn message(&mut self) -> Option<Vec<u8>> {
        self.find(Deadline::after(SILENCE), |_| true)
    }

    /// The last part of the first message that is meant; none if it does not come in time, whatever
    /// else comes.
    pub fn find(
        &mut self,
        deadline: Deadline,
        mut is_meant: impl FnMut(&[u8]) -> bool,
    ) -> Option<Vec<u8>> {
        loop {
            let (flags, body) = self.read(deadline)?;
            if flags == 0 && is_meant(&body) {
                return Some(body);
            }
        }
    }

    /// Whether anything comes within a moment; it is kept for [`Peer::message`].
    pub fn is_there(&mut self) -> bool {
        let moment = Deadline::after(Duration::from_millis(200));
        moment.bound(&self.stream).is_ok() && matches!(self.stream.peek(&mut [0]), Ok(1..))
    }

    /// Waits for a subscription; false if nothing comes. A SUB socket repeats all of them on each
    /// new connection.
    pub fn wait(&mut self, channel: &str) -> bool {
        let wanted = [b"\x01", channel.as_bytes()].concat();
        let found = self.find(Deadline::after(SILENCE), |topic| topic == wanted);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// Pushpin reports every two seconds, for ever.
    #[test]
    fn other_messages_do_not_keep_a_wait_alive() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let to = listener.local_addr().expect("its address");
        thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a reader");
            let mut peer = Peer { stream };
            let mut greeting = vec![0; 64];
            greeting.extend(b"\x04\x06\x05READY");
            peer.write(&greeting);
            let report = b"\x00\x06report";
            // Long enough that a wait whose deadline they move would find what comes last.
            for _ in 0..500 {
                if peer.stream.write_all(report).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            let _ = peer.stream.write_all(b"\x00\x08activity");
        });
        let mut peer = Peer::connect(to, "SUB");
        assert_eq!(peer.message().as_deref(), Some(&b"report"[..]));
        let deadline = Deadline::after(Duration::from_millis(200));
        assert_eq!(peer.find(deadline, |body| body == b"activity"), None);
    }
}
