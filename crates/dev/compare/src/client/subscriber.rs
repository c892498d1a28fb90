//! A connection that is subscribed to one channel: a WebSocket, or an event stream.
//!
//! Owns: its socket, its request, its decoder. Never: waits, sends anything but the request,
//! or keeps more of a line than a payload is long.

use std::fmt;
use std::net::SocketAddr;

use anyhow::{Result, bail, ensure};
use mio::{Registry, Token};
use throng_client::{HeadReader, Lines, WebSocketClient};
use throng_http1::{BodyDecoder, HttpLimits, ResponseBody, encode_request};
use throng_tls::TlsLink;
use throng_ws::{Masking, Opcode, WsEvent, WsLimits, encode_message};

use super::dialect::Dialect;
use super::link::Link;
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
    link: Link,
    reader: Reader,
    secure: Option<Secure>,
}

/// TLS between the socket and what reads.
struct Secure {
    tls: TlsLink,
    request: Vec<u8>,
}

impl fmt::Debug for Secure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secure")
    }
}

#[derive(Debug)]
enum Reader {
    Socket(WebSocketClient),
    Pusher(Pusher),
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
        let mut link = Link::start(address, registry, token)?;
        let request = link.out();
        let host = address.to_string();
        let reader = match dialect {
            Dialect::WebSocket | Dialect::Secure => {
                let socket = WebSocketClient::open(&host, target, KEY, &[], LIMITS, request);
                Reader::Socket(socket)
            }
            Dialect::Pusher => Reader::Pusher(Pusher {
                socket: WebSocketClient::open(&host, target, KEY, &[], LIMITS, request),
                channel: target.rsplit('=').next().unwrap_or_default().to_owned(),
                is_subscribed: false,
            }),
            Dialect::Grip => {
                let headers = [("Accept", "text/event-stream")];
                encode_request("GET", target, &host, &headers, None, request);
                Reader::Head(HeadReader::default())
            }
        };
        let mut secure = None;
        if dialect == Dialect::Secure {
            let mut tls = TlsLink::client(&CLIENT)?;
            let request = std::mem::take(link.out());
            tls.start(link.out())?;
            secure = Some(Secure { tls, request });
        }
        Ok(Self {
            link,
            reader,
            secure,
        })
    }

    /// Reads what there is. Answers whether the handshake came to its end in this call.
    ///
    /// # Errors
    /// If the connection is of no use any more.
    pub(super) fn on_ready(&mut self, cx: &mut ReadContext<'_>) -> Result<bool> {
        if !self.link.send()? {
            return Ok(false);
        }
        let was_open = self.is_open();
        while let Some(bytes) = self.link.read(cx.buffer)? {
            ensure!(bytes > 0, "the server closed the connection");
            self.on_bytes(bytes, cx)?;
            // A read that does not fill the buffer has emptied the socket (epoll(7)).
            if bytes < cx.buffer.len() {
                break;
            }
        }
        Ok(self.is_open() && !was_open)
    }

    fn is_open(&self) -> bool {
        match &self.reader {
            Reader::Socket(socket) => socket.is_open(),
            Reader::Pusher(pusher) => pusher.is_subscribed,
            Reader::Events(_) => true,
            Reader::Head(_) => false,
        }
    }

    fn on_bytes(&mut self, bytes: usize, cx: &mut ReadContext<'_>) -> Result<()> {
        let mut input = &mut cx.buffer[..bytes];
        if let Some(secure) = &mut self.secure {
            cx.plain.clear();
            secure.take(&mut self.link, input, cx.plain)?;
            input = cx.plain;
        }
        if let Reader::Pusher(pusher) = &mut self.reader {
            pusher.take(input, self.link.out(), cx.tally, (cx.now_ns)())?;
            return self.link.send().map(drop);
        }
        self.reader.take(input, cx.tally, (cx.now_ns)())
    }
}

impl Secure {
    /// Opens received records into `plain`, and sends what TLS has to answer.
    fn take(&mut self, link: &mut Link, input: &mut [u8], plain: &mut Vec<u8>) -> Result<()> {
        let has_ended = self.tls.receive(input, plain, link.out())?;
        ensure!(!has_ended, "the server ended TLS");
        if !self.request.is_empty() && self.tls.shaken().is_some() {
            self.tls.seal(&self.request, link.out())?;
            self.request = Vec::new();
        }
        link.send().map(drop)
    }
}

impl Reader {
    fn take(&mut self, input: &mut [u8], tally: &mut Tally, now_ns: u64) -> Result<()> {
        match self {
            Self::Socket(socket) => take_frames(socket, input, |data| {
                tally.on_message(data, now_ns);
                Ok(())
            }),
            // Taken before, with the room for its answer.
            Self::Pusher(_) => Ok(()),
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

fn take_frames(
    socket: &mut WebSocketClient,
    input: &mut [u8],
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let (mut closed, mut taken) = (None, Ok(()));
    // Servers are configured to ping so rarely that no answer is needed.
    let mut answers = Vec::new();
    socket.feed(
        input,
        || [0; 4],
        &mut answers,
        |event| match event {
            WsEvent::Message { data, .. } if taken.is_ok() => taken = take(data),
            WsEvent::Message { .. } => {}
            WsEvent::Close(frame) => closed = Some(frame.map(|frame| frame.code)),
            WsEvent::Ping(_) | WsEvent::Pong(_) => {}
        },
    )?;
    match closed {
        None => taken,
        Some(Some(code)) => bail!("the server closed the WebSocket with code {code}"),
        Some(None) => bail!("the server closed the WebSocket"),
    }
}

/// Client of Pusher's protocol: it subscribes once it is greeted.
#[derive(Debug)]
struct Pusher {
    socket: WebSocketClient,
    channel: String,
    is_subscribed: bool,
}

impl Pusher {
    /// Takes what came, and appends what it has to say.
    ///
    /// # Errors
    /// If the server refuses the channel or ends the connection.
    fn take(
        &mut self,
        input: &mut [u8],
        out: &mut Vec<u8>,
        tally: &mut Tally,
        now_ns: u64,
    ) -> Result<()> {
        let (channel, is_subscribed) = (&self.channel, &mut self.is_subscribed);
        take_frames(&mut self.socket, input, |message| {
            let name = event_name(message);
            match name {
                b"pusher:connection_established" => {
                    let subscribe = format!(
                        r#"{{"event":"pusher:subscribe","data":{{"channel":"{channel}"}}}}"#
                    );
                    let masking = Masking::Client([0; 4]);
                    encode_message(masking, Opcode::Text, subscribe.as_bytes(), out);
                }
                b"pusher_internal:subscription_succeeded" => *is_subscribed = true,
                b"e" => tally.on_message(text_of(message, b"\"data\":\""), now_ns),
                _ => bail!("the server said {}", String::from_utf8_lossy(message)),
            }
            Ok(())
        })
    }
}

/// Name of an event, wherever it stands in the object.
fn event_name(message: &[u8]) -> &[u8] {
    text_of(message, b"\"event\":\"")
}

/// Text behind a field's name, up to the next quote; empty if the field is missing.
fn text_of<'a>(message: &'a [u8], field: &[u8]) -> &'a [u8] {
    let at = message.windows(field.len()).position(|at| at == field);
    let text = at.map_or(&[][..], |at| &message[at + field.len()..]);
    text.split(|&byte| byte == b'"').next().unwrap_or_default()
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
