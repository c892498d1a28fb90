//! One request and its answer, whose body may never end.
//!
//! Owns: the socket and the bytes between it and the decoder. Never: retries, follows redirects, or
//! judges a status.

use std::fmt;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use rustix::net::sockopt;
use throng_http1::{
    BadBody, BadResponse, BodyDecoder, Limits, ResponseBody, encode_request, parse_response,
};
use throng_ws::handshake::ResponseFault;

use super::Endpoint;

/// How long connecting to one address, and waiting for the answer's head, may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const READ_BYTES: usize = 16 * 1024;

/// Events have no end, and no limit of ours.
const LIMITS: Limits = Limits {
    head_bytes_max: 64 * 1024,
    headers_max: 128,
    body_bytes_max: u64::MAX,
};

/// What to ask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The name has no address.
    Resolve(io::Error),
    /// Nobody took the connection.
    Connect(io::Error),
    /// The connection broke.
    Io(io::Error),
    /// It ended in the middle.
    Ended,
    /// The answer is not HTTP as we know it.
    Response(BadResponse),
    /// The answer's body is not.
    Body(BadBody),
    /// It does not open the WebSocket that was asked for.
    Upgrade(ResponseFault),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resolve(error) => write!(f, "the host name cannot be resolved: {error}"),
            Self::Connect(error) if error.kind() == ErrorKind::ConnectionRefused => {
                f.write_str("connection refused")
            }
            Self::Connect(error) if is_timeout(error) => f.write_str("the connection timed out"),
            Self::Connect(error) => write!(f, "cannot connect: {error}"),
            Self::Io(error) if is_timeout(error) => {
                write!(f, "no answer within {} s", ANSWER_TIMEOUT.as_secs())
            }
            Self::Io(error) => write!(f, "the connection broke: {error}"),
            Self::Ended => f.write_str("the server closed the connection"),
            Self::Response(fault) => write!(f, "the answer is not HTTP as expected: {fault}"),
            Self::Upgrade(fault) => write!(f, "this is no WebSocket: {fault}"),
            Self::Body(fault) => write!(f, "the answer's body is damaged: {fault}"),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// An answer whose head has come.
pub(crate) struct Exchange {
    /// The status code.
    pub(crate) status: u16,
    /// The field lines; a value that is not UTF-8 is empty.
    headers: Vec<(String, String)>,
    stream: TcpStream,
    input: Vec<u8>,
    body: BodyDecoder,
}

impl Exchange {
    /// Sends a request and waits for the head of the answer.
    ///
    /// # Errors
    /// A [`Fault`].
    pub(crate) fn open(endpoint: &Endpoint, request: Request<'_>) -> Result<Self, Fault> {
        let mut wire = Vec::new();
        let Request {
            method,
            target,
            headers,
            body,
        } = request;
        encode_request(
            method,
            target,
            &endpoint.authority(),
            headers,
            body,
            &mut wire,
        );
        Self::send(endpoint, &wire)
    }

    /// Sends a request that is encoded already, such as one for an upgrade.
    ///
    /// # Errors
    /// A [`Fault`].
    pub(crate) fn send(endpoint: &Endpoint, wire: &[u8]) -> Result<Self, Fault> {
        let mut stream = connect(endpoint)?;
        // A server that refuses a large body may answer and close before it has read all of it,
        // so the answer counts for more than the error.
        let sent = stream.write_all(wire);
        match Self::read_head(stream) {
            Err(Fault::Io(_) | Fault::Ended) if sent.is_err() => Err(Fault::Io(
                sent.err().unwrap_or_else(|| ErrorKind::Other.into()),
            )),
            answer => answer,
        }
    }

    fn read_head(mut stream: TcpStream) -> Result<Self, Fault> {
        stream
            .set_read_timeout(Some(ANSWER_TIMEOUT))
            .map_err(Fault::Io)?;
        let mut input = Vec::new();
        loop {
            if let Some((response, end)) =
                parse_response(&input, &LIMITS, false).map_err(Fault::Response)?
            {
                let status = response.status;
                // The real answer follows (RFC 9110 section 15.2).
                if (100..200).contains(&status) && status != 101 {
                    input.drain(..end);
                    continue;
                }
                let text = |value| std::str::from_utf8(value).unwrap_or_default().to_owned();
                let headers = response
                    .headers()
                    .map(|(name, value)| (name.to_owned(), text(value)));
                let headers = headers.collect();
                // What follows an upgrade is no body, but bytes until the end all the same.
                let framing = if status == 101 {
                    ResponseBody::UntilClose
                } else {
                    response.body
                };
                let body = BodyDecoder::for_response(framing, &LIMITS);
                input.drain(..end);
                return Ok(Self {
                    status,
                    headers,
                    stream,
                    input,
                    body,
                });
            }
            if read_more(&mut stream, &mut input)? == 0 {
                return Err(Fault::Ended);
            }
        }
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
    /// [`Fault::Io`]
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.stream.write_all(bytes).map_err(Fault::Io)
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
    /// A [`Fault`]; [`Fault::Ended`] if the connection ended before the body did.
    pub(crate) fn read_some(&mut self, mut on_data: impl FnMut(&[u8])) -> Result<bool, Fault> {
        if self.input.is_empty()
            && !self.body.is_done()
            && read_more(&mut self.stream, &mut self.input)? == 0
        {
            return if self.body.may_end_here() {
                Ok(false)
            } else {
                Err(Fault::Ended)
            };
        }
        let mut at = 0;
        while at < self.input.len() && !self.body.is_done() {
            let step = self.body.feed(&self.input[at..]).map_err(Fault::Body)?;
            on_data(step.data);
            at += step.consumed;
        }
        self.input.clear();
        Ok(!self.body.is_done())
    }

    /// The body, or its first `bytes_max` bytes.
    ///
    /// # Errors
    /// A [`Fault`].
    pub(crate) fn read_all(&mut self, bytes_max: usize) -> Result<Vec<u8>, Fault> {
        let mut all = Vec::new();
        while all.len() < bytes_max && self.read_some(|data| all.extend_from_slice(data))? {}
        all.truncate(bytes_max);
        Ok(all)
    }
}

fn connect(endpoint: &Endpoint) -> Result<TcpStream, Fault> {
    let addresses = (endpoint.host.as_str(), endpoint.port).to_socket_addrs();
    let mut last = io::Error::from(ErrorKind::NotFound);
    for address in addresses.map_err(Fault::Resolve)? {
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
    Err(Fault::Connect(last))
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

/// How many bytes came; 0 at the end.
fn read_more(stream: &mut TcpStream, input: &mut Vec<u8>) -> Result<usize, Fault> {
    let mut bytes = [0; READ_BYTES];
    loop {
        match stream.read(&mut bytes) {
            Ok(count) => {
                input.extend_from_slice(bytes.get(..count).unwrap_or_default());
                return Ok(count);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Fault::Io(error)),
        }
    }
}
