//! A connection that publishes: by HTTP requests, one after the other or pipelined, or by messages
//! of Throng's WebSocket for publishers.
//!
//! Owns: its socket and the answers that it waits for. Never: sends before the answer to the
//! request before has come, unless it pipelines; so as many publications are on their way as there
//! are publishers. Where the server ends the connection with each answer, the next publication
//! opens another.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use anyhow::{Context as _, Result, bail, ensure};
use mio::{Registry, Token};
use throng_client::{ResponseEvent, ResponseReader, WebSocketClient};
use throng_http1::HttpLimits;
use throng_ws::{Masking, Opcode, WsEvent, WsLimits, encode_message};

use super::dialect::Dialect;
use super::link::Link;

/// Any 16 bytes do.
const KEY: [u8; 16] = *b"throng-compare-2";
/// A mask like any other: hiding the payload is for browsers.
const MASK: [u8; 4] = [0x5a, 0xa5, 0x3c, 0xc3];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// A request each, and waits for its answer.
    OneByOne,
    /// A request each, without waiting.
    Pipelined,
    /// A message each of Throng's WebSocket for publishers.
    Socket,
}

#[derive(Debug)]
pub(super) struct Publisher {
    dialect: Dialect,
    address: SocketAddr,
    token: Token,
    link: Link,
    /// True if the server is done with the connection: the next publication needs another.
    is_spent: bool,
    sending: Sending,
    unanswered: u32,
    answer: Answers,
}

impl Publisher {
    pub(super) fn start(
        dialect: Dialect,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
        sending: Sending,
    ) -> Result<Self> {
        let mut link = Link::start(address, registry, token)?;
        let answer = match sending {
            Sending::Socket => Answers::Acks(Acks::open(address, link.out())),
            Sending::OneByOne | Sending::Pipelined => Answers::Requests(Answer::default()),
        };
        Ok(Self {
            dialect,
            address,
            token,
            link,
            is_spent: false,
            sending,
            unanswered: 0,
            answer,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        let connects = !self.is_spent && !self.link.is_connected();
        !connects && self.answer.is_open() && self.unanswered == 0
    }

    pub(super) fn may_publish(&self) -> bool {
        let waits = self.sending == Sending::OneByOne || !self.answer.is_open();
        self.is_idle() || !waits && !self.is_spent && self.link.is_connected()
    }

    /// Takes one publication, which leaves with [`Publisher::send`]. To be called when it may
    /// publish.
    pub(super) fn publish(
        &mut self,
        channel: &str,
        payload: &[u8],
        registry: &Registry,
    ) -> Result<()> {
        debug_assert!(self.may_publish());
        if self.is_spent {
            self.link = Link::start(self.address, registry, self.token)?;
            self.is_spent = false;
        }
        let out = self.link.out();
        if self.sending == Sending::Socket {
            Acks::encode_publication(channel, payload, out);
        } else {
            let host = self.address.to_string();
            self.dialect
                .encode_publication(channel, payload, &host, out);
        }
        self.unanswered += 1;
        Ok(())
    }

    /// Sends what was published, as far as the kernel takes it; the rest follows once there is
    /// room.
    pub(super) fn send(&mut self) -> Result<()> {
        if self.is_spent {
            return Ok(());
        }
        self.link.send().map(drop).context("cannot publish")
    }

    pub(super) fn on_ready(&mut self, buffer: &mut [u8]) -> Result<()> {
        if self.is_spent || !self.link.send().context("cannot publish")? {
            return Ok(());
        }
        let mut ended = false;
        while let Some(bytes) = self.link.read(buffer).context("a publishing connection")? {
            if bytes == 0 {
                ended = true;
                break;
            }
            self.answer.feed(&mut buffer[..bytes])?;
        }
        let whole = self.answer.take_whole();
        ensure!(
            whole <= self.unanswered,
            "the server answered more than it was asked"
        );
        self.unanswered -= whole;
        if let Answers::Requests(answer) = &mut self.answer
            && whole > 0
            && (!answer.keeps_connection || ended)
        {
            ensure!(
                self.unanswered == 0 && answer.is_whole(),
                "the server closed a publishing connection before it had answered everything"
            );
            *answer = Answer::default();
            self.is_spent = true;
            return Ok(());
        }
        ensure!(!ended, "the server closed a publishing connection");
        Ok(())
    }
}

#[derive(Debug)]
enum Answers {
    Requests(Answer),
    Acks(Acks),
}

impl Answers {
    fn is_open(&self) -> bool {
        match self {
            Self::Requests(_) => true,
            Self::Acks(acks) => acks.is_open(),
        }
    }

    fn feed(&mut self, bytes: &mut [u8]) -> Result<()> {
        match self {
            Self::Requests(answer) => answer.feed(bytes),
            Self::Acks(acks) => acks.feed(bytes),
        }
    }

    /// Takes the number of publications answered since the last call.
    fn take_whole(&mut self) -> u32 {
        match self {
            Self::Requests(answer) => std::mem::take(&mut answer.whole),
            Self::Acks(acks) => acks.take(),
        }
    }
}

#[derive(Debug)]
struct Answer {
    reader: ResponseReader,
    whole: u32,
    keeps_connection: bool,
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            reader: ResponseReader::new(HttpLimits::default()),
            whole: 0,
            keeps_connection: false,
        }
    }
}

impl Answer {
    /// Takes what came.
    ///
    /// # Errors
    /// If the publication was refused.
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut refused = None;
        self.reader.feed(bytes, |event| {
            match event {
                ResponseEvent::Head(response) => {
                    self.keeps_connection = response.keep_alive();
                    if !matches!(response.status, 200..=299) {
                        refused = Some(response.status);
                    }
                }
                ResponseEvent::Data(_) => {}
                ResponseEvent::End => self.whole += 1,
            }
            ControlFlow::Continue(())
        })?;
        match refused {
            Some(status) => bail!("the server answered {status} to a publication"),
            None => Ok(()),
        }
    }

    /// Whether nothing came behind the last response.
    fn is_whole(&mut self) -> bool {
        self.reader.end() == Ok(false)
    }
}

/// Throng's WebSocket for publishers: messages out, acknowledgements in.
#[derive(Debug)]
struct Acks {
    socket: WebSocketClient,
    acknowledged: u64,
    taken: u64,
}

impl Acks {
    /// Appends the handshake's request.
    fn open(address: SocketAddr, out: &mut Vec<u8>) -> Self {
        let limits = WsLimits::new(4096);
        let host = address.to_string();
        let protocol = ("Sec-WebSocket-Protocol", "throng-publish");
        Self {
            socket: WebSocketClient::open(&host, "/pub", KEY, &[protocol], limits, out),
            acknowledged: 0,
            taken: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.socket.is_open()
    }

    fn encode_publication(channel: &str, payload: &[u8], out: &mut Vec<u8>) {
        let message = [channel.as_bytes(), b"\n", payload].concat();
        encode_message(Masking::Client(MASK), Opcode::Binary, &message, out);
    }

    /// Takes what came.
    ///
    /// # Errors
    /// If a publication was refused, or the connection is of no use any more.
    fn feed(&mut self, bytes: &mut [u8]) -> Result<()> {
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
    fn take(&mut self) -> u32 {
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
    fn an_answer_is_whole_at_its_end_and_not_before() {
        let answers: [(&[u8], bool); 4] = [
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\n", true),
            (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", true),
            (
                b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
                true,
            ),
            (
                b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                false,
            ),
        ];
        for (answer, keeps_connection) in answers {
            for cut in 0..answer.len() {
                let (head, tail) = answer.split_at(cut);
                let mut read = Answer::default();
                read.feed(head).unwrap();
                assert_eq!(read.whole, 0, "{cut}");
                read.feed(tail).unwrap();
                assert_eq!(read.keeps_connection, keeps_connection, "{cut}");
                assert!(read.whole == 1 && read.is_whole(), "{cut}");
            }
            let mut more = Answer::default();
            more.feed(answer).unwrap();
            more.feed(b"HTTP").unwrap();
            assert!(more.whole == 1 && !more.is_whole());
        }
    }

    #[test]
    fn a_refusal_ends_the_measurement() {
        for answer in ["HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "SMTP"] {
            assert!(
                Answer::default().feed(answer.as_bytes()).is_err(),
                "{answer}"
            );
        }
    }

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
