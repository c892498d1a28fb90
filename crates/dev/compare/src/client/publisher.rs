//! An HTTP connection that publishes, one request after the other.
//!
//! Owns: its socket and the answer that it waits for. Never: sends before the answer to the
//! request before has come, so as many publications are on their way as there are publishers.
//! Where the server ends the connection with each answer, the next publication opens another.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use throng_http1::{BodyDecoder, Limits, parse_response};

use super::dialect::Dialect;

/// One connection at a time.
#[derive(Debug)]
pub(super) struct Publisher {
    dialect: Dialect,
    address: SocketAddr,
    token: Token,
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// What is to be sent waits in `request`; at first that is nothing.
    Connecting,
    Idle,
    Waiting,
    /// The server is done with the connection: the next publication needs another.
    Spent,
}

impl Publisher {
    pub(super) fn start(
        dialect: Dialect,
        address: SocketAddr,
        registry: &Registry,
        token: Token,
    ) -> Result<Self> {
        Ok(Self {
            dialect,
            address,
            token,
            stream: connect(address, registry, token)?,
            request: Vec::new(),
            answer: Vec::new(),
            state: State::Connecting,
        })
    }

    /// Whether it can take a publication.
    pub(super) fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle | State::Spent)
    }

    /// Sends one publication. To be called when it is idle.
    pub(super) fn publish(
        &mut self,
        channel: &str,
        payload: &[u8],
        registry: &Registry,
    ) -> Result<()> {
        debug_assert!(self.is_idle());
        self.request.clear();
        let host = self.address.to_string();
        self.dialect
            .encode_publication(channel, payload, &host, &mut self.request);
        if self.state == State::Spent {
            self.stream = connect(self.address, registry, self.token)?;
            self.state = State::Connecting;
            return Ok(());
        }
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.stream.write(&self.request).context("cannot publish")?;
        // Nothing else waits in the socket, and it holds far more than this.
        ensure!(
            sent == self.request.len(),
            "the kernel took a publication in parts"
        );
        self.state = State::Waiting;
        Ok(())
    }

    /// Reads what there is of the answer.
    pub(super) fn on_ready(&mut self, buffer: &mut [u8]) -> Result<()> {
        if self.state == State::Connecting {
            if let Some(error) = self.stream.take_error()? {
                return Err(error).context("cannot connect to publish");
            }
            if self.stream.peer_addr().is_err() {
                return Ok(());
            }
            if self.request.is_empty() {
                self.state = State::Idle;
            } else {
                self.send()?;
            }
        }
        if self.state == State::Spent {
            return Ok(());
        }
        let mut ended = false;
        loop {
            match self.stream.read(buffer) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(bytes) => self.answer.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("a publishing connection broke"),
            }
        }
        let Some(answer) = Answer::read(&self.answer)? else {
            ensure!(!ended, "the server closed a publishing connection");
            return Ok(());
        };
        ensure!(
            self.state == State::Waiting && answer.bytes == self.answer.len(),
            "the server answered more than it was asked"
        );
        self.answer.clear();
        self.state = if answer.keeps_connection && !ended {
            State::Idle
        } else {
            State::Spent
        };
        Ok(())
    }
}

fn connect(address: SocketAddr, registry: &Registry, token: Token) -> Result<TcpStream> {
    let fd = throng_sys::socket::connect(None, address).context("cannot connect to publish")?;
    let mut stream = TcpStream::from_std(fd.into());
    registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
    Ok(stream)
}

/// What the server said to a publication that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answer {
    bytes: usize,
    keeps_connection: bool,
}

impl Answer {
    /// None until it is whole.
    ///
    /// # Errors
    /// If the publication was refused.
    fn read(answer: &[u8]) -> Result<Option<Self>> {
        let limits = Limits::default();
        let Some((response, head_bytes)) = parse_response(answer, &limits, false)? else {
            return Ok(None);
        };
        ensure!(
            (200..300).contains(&response.status),
            "the server answered {} to a publication",
            response.status
        );
        let keeps_connection = response.keep_alive();
        let mut body = BodyDecoder::for_response(response.body, &limits);
        let mut at = head_bytes;
        while !body.is_done() {
            let step = body.feed(&answer[at..])?;
            if step.consumed == 0 {
                return Ok(None);
            }
            at += step.consumed;
        }
        let answer = Self {
            bytes: at,
            keeps_connection,
        };
        Ok(Some(answer))
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
                assert_eq!(Answer::read(&answer[..cut]).unwrap(), None, "{cut}");
            }
            let whole = Answer {
                bytes: answer.len(),
                keeps_connection,
            };
            assert_eq!(Answer::read(answer).unwrap(), Some(whole));
        }
    }

    #[test]
    fn a_refusal_ends_the_measurement() {
        for answer in ["HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", "SMTP"] {
            assert!(Answer::read(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
