//! The client's side of Throng's WebSocket for publishers: messages out, acknowledgements in.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use throng_client::WebSocket;
use throng_ws::{Masking, Opcode, WsEvent, WsLimits, encode_message};

/// Any 16 bytes do.
const KEY: [u8; 16] = *b"throng-compare-2";
/// A mask like any other: hiding the payload is for browsers.
const MASK: [u8; 4] = [0x5a, 0xa5, 0x3c, 0xc3];

/// The WebSocket, and what was acknowledged.
#[derive(Debug)]
pub(super) struct Acks {
    socket: WebSocket,
    acknowledged: u64,
    taken: u64,
}

impl Acks {
    /// Appends the handshake's request.
    pub(super) fn open(address: SocketAddr, out: &mut Vec<u8>) -> Self {
        let limits = WsLimits::new(4096);
        let host = address.to_string();
        let protocol = ("Sec-WebSocket-Protocol", "throng-publish");
        Self {
            socket: WebSocket::open(&host, "/pub", KEY, &[protocol], limits, out),
            acknowledged: 0,
            taken: 0,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    pub(super) fn encode_publication(channel: &str, payload: &[u8], out: &mut Vec<u8>) {
        let message = [channel.as_bytes(), b"\n", payload].concat();
        encode_message(Masking::Client(MASK), Opcode::Binary, &message, out);
    }

    /// Takes what came.
    ///
    /// # Errors
    /// If a publication was refused, or the connection is of no use any more.
    pub(super) fn feed(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut heard = Ok(());
        // The server is configured to ping so rarely that no answer is needed.
        let mut answers = Vec::new();
        self.socket.feed(
            bytes,
            || MASK,
            &mut answers,
            |event| match event {
                WsEvent::Message { data, .. } => match acknowledged(data) {
                    Ok(number) => self.acknowledged = number,
                    Err(error) => heard = Err(error),
                },
                WsEvent::Close(_) => {
                    heard = Err(anyhow::anyhow!("the server closed the WebSocket"))
                }
                WsEvent::Ping(_) | WsEvent::Pong(_) => {}
            },
        )?;
        heard
    }

    /// Takes the number of acknowledgements since the last call.
    pub(super) fn take(&mut self) -> u32 {
        let new = self.acknowledged - self.taken;
        self.taken = self.acknowledged;
        new as u32
    }
}

fn acknowledged(data: &[u8]) -> Result<u64> {
    let text = String::from_utf8_lossy(data);
    let number = text
        .strip_prefix("{\"ack\":")
        .and_then(|rest| rest.strip_suffix('}'));
    match number {
        Some(number) => number
            .parse()
            .context("an acknowledgement without a number"),
        None => bail!("the server answered {text} to a publication"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_has_a_number_and_anything_else_is_a_refusal() {
        assert_eq!(acknowledged(b"{\"ack\":17}").unwrap(), 17);
        for other in [
            "{}",
            "{\"ack\":x}",
            "{\"n\":1,\"status\":503,\"error\":\"full\"}",
        ] {
            assert!(acknowledged(other.as_bytes()).is_err(), "{other}");
        }
    }
}
