//! One request and its answer, whose body may never end.
//!
//! Owns: the socket, and what of the body came with the head. Never: retries, follows redirects, or
//! judges a status.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::ops::ControlFlow;
use std::time::Duration;

use rustix::net::sockopt;
use throng_client::{ResponseEvent, ResponseReadError, ResponseReader};
use throng_http1::{HttpLimits, encode_request};
use throng_ws::handshake::UpgradeError;

use super::stream::Stream;
use super::{Endpoint, TrustArgs};

/// Longest time for connecting to one address, and for waiting for the answer's head.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 16 * 1024;

/// Events have no end, and no limit of ours.
const LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 64 * 1024,
    headers_max: 128,
    body_bytes_max: u64::MAX,
};

/// HTTP request to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The name has no address.
    Resolve(io::Error),
    /// The connection was not accepted.
    Connect(io::Error),
    /// No handshake came about.
    Tls(io::Error),
    /// The connection broke while reading or writing.
    Io(io::Error),
    /// The answer is not HTTP as we know it, or it ended in the middle.
    Answer(ResponseReadError),
    /// The answer does not open the WebSocket that was asked for.
    Upgrade(UpgradeError),
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the host name cannot be resolved: {error}"),
            Self::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Connect(error) if is_timeout(error) => f.write_str("the connection timed out"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Tls(error) => write!(f, "TLS failed: {error}"),
            Self::Io(error) if is_timeout(error) => {
                write!(f, "no answer within {} s", ANSWER_TIMEOUT.as_secs())
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Answer(fault) => fault.fmt(f),
            Self::Upgrade(fault) => write!(f, "the answer is not a WebSocket: {fault}"),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An answer whose head has arrived.
pub(crate) struct Exchange {
    /// Status code of the answer.
    pub(crate) status: u16,
    /// The field lines; a value that is not UTF-8 is empty.
    headers: Vec<(String, String)>,
    stream: Stream,
    reader: ResponseReader,
    /// The part of the body that came with the head.
    early: Vec<u8>,
    /// The body is whole.
    done: bool,
}

impl Exchange {
    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// A [`RequestError`].
    pub(crate) fn open(
        endpoint: &Endpoint,
        trust: &TrustArgs,
        request: Request<'_>,
    ) -> Result<Self, RequestError> {
        let mut wire = Vec::new();
        let host = endpoint.authority();
        let Request {
            method,
            target,
            headers,
            body,
        } = request;
        encode_request(method, target, &host, headers, body, &mut wire);
        Self::send(endpoint, trust, &wire)
    }

    /// Sends a request that is encoded already, such as one for an upgrade.
    ///
    /// # Errors
    /// A [`RequestError`].
    pub(crate) fn send(
        endpoint: &Endpoint,
        trust: &TrustArgs,
        wire: &[u8],
    ) -> Result<Self, RequestError> {
        let socket = connect(endpoint)?;
        let within = socket.set_read_timeout(Some(ANSWER_TIMEOUT));
        within.map_err(RequestError::Io)?;
        let mut stream = Stream::over(socket, endpoint, trust).map_err(RequestError::Tls)?;
        // A server that refuses a large body may answer and close before it has read all of it,
        // so the answer counts for more than the error.
        let sent = stream.write_all(wire);
        match (Self::read_head(stream), sent) {
            (
                Err(RequestError::Io(_) | RequestError::Answer(ResponseReadError::Ended)),
                Err(error),
            ) => Err(RequestError::Io(error)),
            (answer, _) => answer,
        }
    }

    fn read_head(mut stream: Stream) -> Result<Self, RequestError> {
        let mut reader = ResponseReader::new(LIMITS);
        let mut head = None;
        let (mut early, mut done) = (Vec::new(), false);
        while head.is_none() {
            let mut bytes = [0; READ_BYTES];
            let count = read(&mut stream, &mut bytes)?;
            if count == 0 {
                return Err(RequestError::Answer(ResponseReadError::Ended));
            }
            let fed = reader.feed(&bytes[..count], |event| {
                match event {
                    ResponseEvent::Head(response) => {
                        let text = |value| std::str::from_utf8(value).unwrap_or_default();
                        let fields = response
                            .headers()
                            .map(|(name, value)| (name.to_owned(), text(value).to_owned()));
                        head = Some((response.status, fields.collect()));
                    }
                    ResponseEvent::Data(data) => early.extend_from_slice(data),
                    ResponseEvent::End => {
                        done = true;
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            fed.map_err(RequestError::Answer)?;
        }
        let (status, headers) = head.unwrap_or_default();
        Ok(Self {
            status,
            headers,
            stream,
            reader,
            early,
            done,
        })
    }

    /// The first value of a field, by its name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// The media type, without parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        let value = self.header("content-type").unwrap_or_default();
        let media_type = value.split(';').next().unwrap_or_default();
        media_type.trim().to_ascii_lowercase()
    }

    /// Sends more, behind an upgrade.
    ///
    /// # Errors
    /// [`RequestError::Io`]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), RequestError> {
        self.stream.write_all(bytes).map_err(RequestError::Io)
    }

    /// Waits for the next bytes however long it takes: events come when they come.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub(crate) fn wait_forever(&self) -> io::Result<()> {
        self.stream.set_read_timeout(None)
    }

    /// Reads once and hands over the data of the body that came; false at its end.
    ///
    /// # Errors
    /// A [`RequestError`]; [`ResponseReadError::Ended`] if the connection ended within the body.
    pub(crate) fn read_some(
        &mut self,
        mut on_data: impl FnMut(&[u8]),
    ) -> Result<bool, RequestError> {
        if !self.early.is_empty() {
            on_data(&std::mem::take(&mut self.early));
            return Ok(!self.done);
        }
        if self.done {
            return Ok(false);
        }
        let mut bytes = [0; READ_BYTES];
        let count = read(&mut self.stream, &mut bytes)?;
        if count == 0 {
            self.done = true;
            return self
                .reader
                .end()
                .map(|_| false)
                .map_err(RequestError::Answer);
        }
        let fed = self.reader.feed(&bytes[..count], |event| {
            match event {
                ResponseEvent::Data(data) => on_data(data),
                ResponseEvent::End => {
                    self.done = true;
                    return ControlFlow::Break(());
                }
                ResponseEvent::Head(_) => {}
            }
            ControlFlow::Continue(())
        });
        fed.map_err(RequestError::Answer)?;
        Ok(!self.done)
    }

    /// The body, or its first `bytes_max` bytes.
    ///
    /// # Errors
    /// A [`RequestError`].
    pub(crate) fn read_all(&mut self, bytes_max: usize) -> Result<Vec<u8>, RequestError> {
        let mut all = Vec::new();
        while all.len() < bytes_max && self.read_some(|data| all.extend_from_slice(data))? {}
        all.truncate(bytes_max);
        Ok(all)
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, RequestError> {
    let addresses = endpoint.host_and_port().to_socket_addrs();
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses.map_err(RequestError::Resolve)? {
        match TcpStream::connect_timeout(&address, ANSWER_TIMEOUT) {
            Ok(stream) => {
                // A request leaves in one piece and waits for nothing; without this the answer is
                // no slower.
                let _ = stream.set_nodelay(true);
                notice_dead_peers(&stream);
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(RequestError::Connect(last))
}

/// A peer that lost its power sends nothing, which looks like a quiet channel. The kernel asks it
/// from time to time, and the read ends with an error if there is no answer.
fn notice_dead_peers(stream: &TcpStream) {
    const IDLE: Duration = Duration::from_secs(30);
    const INTERVAL: Duration = Duration::from_secs(10);
    const PROBES: u32 = 3;
    // Without it everything works as long as nobody loses power.
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, IDLE);
    let _ = sockopt::set_tcp_keepintvl(stream, INTERVAL);
    let _ = sockopt::set_tcp_keepcnt(stream, PROBES);
}

/// Reads once and returns the number of bytes; 0 at the end.
fn read(stream: &mut Stream, bytes: &mut [u8]) -> Result<usize, RequestError> {
    loop {
        match stream.read(bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read.map_err(RequestError::Io),
        }
    }
}
