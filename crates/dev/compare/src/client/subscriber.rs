//! A connection that is subscribed to one channel: a WebSocket, or an event stream.
//!
//! Owns: its socket, its request, its decoder. Never: waits, sends anything but the request,
//! or keeps more of a line than a payload is long.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail, ensure};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use throng_client::{HeadReader, Lines, WebSocketClient};
use throng_http1::{BodyDecoder, HttpLimits, ResponseBody, encode_request};
use throng_tls::TlsLink;
use throng_ws::{WsEvent, WsLimits};

use super::dialect::Dialect;
use super::payload::{PAYLOAD_BYTES, Tally};
use crate::tls::CLIENT;

/// Any 16 bytes do: they prove that a WebSocket server answers, not which one.
const KEY: [u8; 16] = *b"throng-compare-1";

/// Room for the server's own fields beside our payloads.
const LIMITS: WsLimits = WsLimits::new(64 * PAYLOAD_BYTES);

/// Field name in front of a payload.
const FIELD: &[u8] = b"data: ";
/// A keep-alive is shorter, and nothing longer is published.
const LINE_BYTES_MAX: usize = FIELD.len() + PAYLOAD_BYTES;

#[derive(Debug)]
pub(super) struct Subscriber {
    stream: TcpStream,
    state: State,
    secure: Option<Secure>,
}

/// TLS between the socket and what reads.
struct Secure {
    link: TlsLink,
    request: Vec<u8>,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}

#[derive(Debug)]
enum State {
    /// Waits for the socket to connect; has the request and the reader of its answer.
    Connecting(Vec<u8>, Reader),
    Open(Reader),
}

#[derive(Debug)]
enum Reader {
    Socket(WebSocketClient),
    /// An event stream before its head has arrived.
    Head(HeadReader),
    Events(Events),
}

/// Buffers and counters lent to a call of [`Subscriber::on_ready`].
pub(super) struct ReadContext<'a> {
    pub(super) buffer: &'a mut [u8],
    /// Buffer for the plain text of TLS records.
    pub(super) plain: &'a mut Vec<u8>,
    pub(super) tally: &'a mut Tally,
    /// Reads the client's clock.
    pub(super) now_ns: &'a dyn Fn() -> u64,
}

impl Subscriber {
    /// Begins to connect. `target` is the request's path and query.
    pub(super) fn start(
        dialect: Dialect,
        address: SocketAddr,
        target: &str,
        registry: &Registry,
        token: Token,
    ) -> Result<Self> {
        let fd = throng_sys::socket::connect(None, address).context("cannot connect")?;
        let mut stream = TcpStream::from_std(fd.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let mut request = Vec::new();
        let host = address.to_string();
        let reader = match dialect {
            Dialect::WebSocket | Dialect::Secure => {
                let socket = WebSocketClient::open(&host, target, KEY, &[], LIMITS, &mut request);
                Reader::Socket(socket)
            }
            Dialect::Grip => {
                let headers = [("Accept", "text/event-stream")];
                encode_request("GET", target, &host, &headers, None, &mut request);
                Reader::Head(HeadReader::default())
            }
        };
        let mut secure = None;
        if dialect == Dialect::Secure {
            let mut link = TlsLink::client(&CLIENT)?;
            let mut hello = Vec::new();
            link.start(&mut hello)?;
            let request = std::mem::replace(&mut request, hello);
            secure = Some(Secure { link, request });
        }
        let state = State::Connecting(request, reader);
        Ok(Self {
            stream,
            state,
            secure,
        })
    }

    /// Reads what there is. Answers whether the handshake came to its end in this call.
    ///
    /// # Errors
    /// If the connection is of no use any more.
    pub(super) fn on_ready(&mut self, cx: &mut ReadContext<'_>) -> Result<bool> {
        if let State::Connecting(request, reader) = &mut self.state {
            if !send_request(&mut self.stream, request)? {
                return Ok(false);
            }
            let reader = std::mem::replace(reader, Reader::Head(HeadReader::default()));
            self.state = State::Open(reader);
        }
        let was_open = self.is_open();
        loop {
            let bytes = match self.stream.read(cx.buffer) {
                Ok(0) => bail!("the server closed the connection"),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error).context("the connection broke"),
            };
            self.on_bytes(bytes, cx)?;
            // A read that does not fill the buffer has emptied the socket (epoll(7)).
            if bytes < cx.buffer.len() {
                break;
            }
        }
        Ok(self.is_open() && !was_open)
    }

    fn is_open(&self) -> bool {
        match &self.state {
            State::Open(Reader::Socket(socket)) => socket.is_open(),
            State::Open(Reader::Events(_)) => true,
            State::Open(Reader::Head(_)) | State::Connecting(..) => false,
        }
    }

    fn on_bytes(&mut self, bytes: usize, cx: &mut ReadContext<'_>) -> Result<()> {
        let mut input = &mut cx.buffer[..bytes];
        if let Some(secure) = &mut self.secure {
            cx.plain.clear();
            secure.take(&mut self.stream, input, cx.plain)?;
            input = cx.plain;
        }
        let now_ns = (cx.now_ns)();
        match &mut self.state {
            State::Open(reader) => reader.take(input, cx.tally, now_ns),
            State::Connecting(..) => Ok(()),
        }
    }
}

impl Secure {
    /// Opens received records into `plain`, and sends what TLS has to answer.
    fn take(
        &mut self,
        stream: &mut TcpStream,
        input: &mut [u8],
        plain: &mut Vec<u8>,
    ) -> Result<()> {
        let mut wire = Vec::new();
        let has_ended = self.link.receive(input, plain, &mut wire)?;
        ensure!(!has_ended, "the server ended TLS");
        if !self.request.is_empty() && self.link.shaken().is_some() {
            self.link.seal(&self.request, &mut wire)?;
            self.request = Vec::new();
        }
        // The kernel has room for a handshake and a request.
        stream.write_all(&wire).context("cannot send")
    }
}

impl Reader {
    fn take(&mut self, input: &mut [u8], tally: &mut Tally, now_ns: u64) -> Result<()> {
        match self {
            Self::Socket(socket) => take_frames(socket, input, tally, now_ns),
            Self::Events(events) => events.feed(input, |data| tally.on_message(data, now_ns)),
            Self::Head(head) => {
                let limits = HttpLimits::default();
                let found = head.feed(input, &limits, |head| (head.status, head.body))?;
                let Some(((status, body), mut rest)) = found else {
                    return Ok(());
                };
                ensure!(status == 200, "the stream was answered with {status}");
                let mut events = Events::new(body);
                events.feed(rest.bytes(), |data| tally.on_message(data, now_ns))?;
                *self = Self::Events(events);
                Ok(())
            }
        }
    }
}

/// Sends the handshake's request; false while the socket is not connected.
fn send_request(stream: &mut TcpStream, request: &[u8]) -> Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error).context("cannot connect");
    }
    match stream.write(request) {
        Ok(bytes) if bytes == request.len() => Ok(true),
        Ok(_) => bail!("the kernel took the handshake in parts"),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::NotConnected
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error).context("cannot send the handshake"),
    }
}

fn take_frames(
    socket: &mut WebSocketClient,
    input: &mut [u8],
    tally: &mut Tally,
    now_ns: u64,
) -> Result<()> {
    let mut closed = None;
    // Servers are configured to ping so rarely that no answer is needed.
    let mut answers = Vec::new();
    socket.feed(
        input,
        || [0; 4],
        &mut answers,
        |event| match event {
            WsEvent::Message { data, .. } => tally.on_message(data, now_ns),
            WsEvent::Close(frame) => closed = Some(frame.map(|frame| frame.code)),
            WsEvent::Ping(_) | WsEvent::Pong(_) => {}
        },
    )?;
    match closed {
        None => Ok(()),
        Some(Some(code)) => bail!("the server closed the WebSocket with code {code}"),
        Some(None) => bail!("the server closed the WebSocket"),
    }
}

/// Event stream, from the first byte behind its head. Stricter than one has to be: whatever is
/// longer than what was published is a fault.
#[derive(Debug)]
struct Events {
    body: BodyDecoder,
    lines: Lines,
}

impl Events {
    fn new(body: ResponseBody) -> Self {
        let endless = HttpLimits {
            body_bytes_max: u64::MAX,
            ..HttpLimits::default()
        };
        Self {
            body: BodyDecoder::for_response(body, &endless),
            lines: Lines::default(),
        }
    }

    /// Takes bytes as they came, and hands out whole payloads.
    ///
    /// # Errors
    /// If the stream ends, or has a line that was not published.
    fn feed(&mut self, input: &[u8], mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut at = 0;
        while at < input.len() {
            let step = self.body.feed(&input[at..])?;
            at += step.consumed;
            self.lines.feed(step.data, LINE_BYTES_MAX, |line| {
                if let Some(payload) = line.strip_prefix(FIELD) {
                    take(payload);
                }
            })?;
            ensure!(!self.body.is_done(), "the server ended the stream");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use throng_http1::encode_chunk;

    use super::*;

    #[test]
    fn payloads_come_out_wherever_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        for piece in ["data: one\n\n", ":\n\ndata: t", "wo\n\n"] {
            encode_chunk(piece.as_bytes(), &mut bytes);
        }
        for cut in 0..=bytes.len() {
            let mut events = Events::new(ResponseBody::Chunked);
            let mut found = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                let taken = events.feed(part, |payload| found.push(payload.to_vec()));
                taken.unwrap();
            }
            assert_eq!(found, [&b"one"[..], b"two"], "{cut}");
        }
    }

    #[test]
    fn an_end_or_a_strange_line_fails() {
        let long = "x".repeat(LINE_BYTES_MAX + 1);
        let mut strange = Vec::new();
        encode_chunk(long.as_bytes(), &mut strange);
        for bytes in [&b"0\r\n\r\n"[..], b"no chunk", &strange] {
            let mut events = Events::new(ResponseBody::Chunked);
            assert!(events.feed(bytes, |_| {}).is_err());
        }
    }
}
