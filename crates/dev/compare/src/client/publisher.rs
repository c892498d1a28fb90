//! An HTTP connection that publishes, one request after the other.
//!
//! Owns: its socket and the answer that it waits for. Never: sends before the answer to the
//! request before has come, so as many publications are on their way as there are publishers.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use throng_http1::{BodyDecoder, Limits, encode_request, parse_response};

/// One keep-alive connection.
#[derive(Debug)]
pub(super) struct Publisher {
    stream: TcpStream,
    host: String,
    request: Vec<u8>,
    answer: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Connecting,
    Idle,
    Waiting,
}

impl Publisher {
    pub(super) fn start(address: SocketAddr, registry: &Registry, token: Token) -> Result<Self> {
        let fd = throng_sys::socket::connect(None, address).context("cannot connect to publish")?;
        let mut stream = TcpStream::from_std(fd.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self {
            stream,
            host: address.to_string(),
            request: Vec::new(),
            answer: Vec::new(),
            state: State::Connecting,
        })
    }

    /// Whether it can take a publication.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Sends one publication. To be called when it is idle.
    pub(super) fn publish(&mut self, target: &str, payload: &[u8]) -> Result<()> {
        debug_assert!(self.is_idle());
        self.request.clear();
        let headers = [("Content-Type", "text/plain")];
        encode_request(
            "POST",
            target,
            &self.host,
            &headers,
            Some(payload),
            &mut self.request,
        );
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
            self.state = State::Idle;
        }
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed a publishing connection"),
                Ok(bytes) => self.answer.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("a publishing connection broke"),
            }
        }
        if let Some(bytes) = answer_bytes(&self.answer)? {
            ensure!(
                self.state == State::Waiting && bytes == self.answer.len(),
                "the server answered more than it was asked"
            );
            self.answer.clear();
            self.state = State::Idle;
        }
        Ok(())
    }
}

/// The length of the answer, once it is whole. It must say that the publication was taken.
fn answer_bytes(answer: &[u8]) -> Result<Option<usize>> {
    let limits = Limits::default();
    let Some((response, head_bytes)) = parse_response(answer, &limits, false)? else {
        return Ok(None);
    };
    ensure!(
        (200..300).contains(&response.status),
        "the server answered {} to a publication",
        response.status
    );
    ensure!(
        response.keep_alive(),
        "the server does not keep publishing connections"
    );
    let mut body = BodyDecoder::for_response(response.body, &limits);
    let mut at = head_bytes;
    while !body.is_done() {
        let step = body.feed(&answer[at..])?;
        if step.consumed == 0 {
            return Ok(None);
        }
        at += step.consumed;
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_at_its_end_and_not_before() {
        let answers: [&[u8]; 3] = [
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}\n",
            b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
            b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ];
        for answer in answers {
            for cut in 0..answer.len() {
                assert_eq!(answer_bytes(&answer[..cut]).unwrap(), None, "{cut}");
            }
            assert_eq!(answer_bytes(answer).unwrap(), Some(answer.len()));
        }
    }

    #[test]
    fn a_refusal_ends_the_measurement() {
        for answer in [
            "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "SMTP",
        ] {
            assert!(answer_bytes(answer.as_bytes()).is_err(), "{answer}");
        }
    }
}
