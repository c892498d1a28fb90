//! A WebSocket by hand, for what no SDK would send.

use std::net::SocketAddr;

use serde_json::Value;
use throng_testkit::{Deadline, Wire};

/// A connection after its handshake.
pub(crate) struct Socket {
    wire: Wire,
}

impl Socket {
    /// Opens `/v1/realtime?QUERY` with these headers.
    #[track_caller]
    pub(crate) fn open(to: SocketAddr, query: &str, headers: &[(&str, &str)]) -> Self {
        let mut wire = Wire::connect(to);
        let more: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        wire.send(&format!(
            "GET /v1/realtime?{query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        ));
        assert_eq!(wire.head().status, 101);
        Self { wire }
    }

    /// Sends a text frame, masked with zeros.
    #[track_caller]
    pub(crate) fn say(&mut self, text: &str) {
        let mut frame = vec![0x81];
        match u8::try_from(text.len()) {
            Ok(length @ ..126) => frame.push(0x80 | length),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            }
        }
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.wire.send_bytes(&frame);
    }

    /// The next frame's opcode and payload, after any pings.
    #[track_caller]
    fn next(&mut self) -> (u8, Vec<u8>) {
        let deadline = Deadline::default();
        loop {
            deadline.check("a frame that is no ping");
            let head = self.wire.exactly(2);
            let length = match head[1] {
                126 => {
                    let more = self.wire.exactly(2);
                    usize::from(u16::from_be_bytes([more[0], more[1]]))
                }
                127 => {
                    let more: [u8; 8] = self.wire.exactly(8).try_into().unwrap();
                    u64::from_be_bytes(more) as usize
                }
                length => usize::from(length),
            };
            let payload = self.wire.exactly(length);
            if head[0] != 0x89 {
                return (head[0] & 0x0f, payload);
            }
        }
    }

    /// Returns the next message, which must be text.
    #[track_caller]
    pub(crate) fn frame(&mut self) -> Value {
        let (opcode, payload) = self.next();
        assert_eq!(
            opcode,
            1,
            "not a text: {}",
            String::from_utf8_lossy(&payload)
        );
        serde_json::from_slice(&payload).unwrap()
    }

    /// The id of the next event.
    #[track_caller]
    pub(crate) fn event(&mut self) -> String {
        let frame = self.frame();
        assert_eq!(frame["type"], "event", "{frame}");
        frame["data"]["payload"]["$id"].as_str().unwrap().to_owned()
    }

    /// The code of the close frame that must come next.
    #[track_caller]
    pub(crate) fn closed(&mut self) -> u16 {
        let (opcode, payload) = self.next();
        assert_eq!(
            opcode,
            8,
            "not a close: {}",
            String::from_utf8_lossy(&payload)
        );
        u16::from_be_bytes([payload[0], payload[1]])
    }

    /// The id of the next event, or the code of the close frame.
    #[track_caller]
    pub(crate) fn event_or_close(&mut self) -> Result<String, u16> {
        let (opcode, payload) = self.next();
        if opcode == 8 {
            return Err(u16::from_be_bytes([payload[0], payload[1]]));
        }
        let frame: Value = serde_json::from_slice(&payload).unwrap();
        Ok(frame["data"]["payload"]["$id"].as_str().unwrap().to_owned())
    }

    /// Whether the connection ends without another frame.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> bool {
        self.wire.rest().is_empty()
    }
}
