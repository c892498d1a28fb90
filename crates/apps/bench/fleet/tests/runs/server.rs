//! A small server for the load generator to meet: a thread for each connection, and faults on
//! demand.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use throng_http1::{Body, HttpLimits, parse_request, query};
use throng_ws::{Masking, Opcode, WsDecoder, WsEvent, WsRole, handshake};

/// Answers on one publishing connection after which the server ends it, saying so.
const ANSWERS_PER_CONNECTION: usize = 7;

#[derive(Default)]
struct Hub {
    channels: HashMap<String, Channel>,
    peers: Vec<SocketAddr>,
    /// Nothing is delivered: it waits.
    held: bool,
}

#[derive(Default)]
struct Channel {
    history: Vec<Vec<u8>>,
    subscribers: Vec<Subscriber>,
}

/// A connection, and how much of its channel's history it has been sent.
struct Subscriber {
    stream: TcpStream,
    sent: usize,
    is_socket: bool,
}

impl Subscriber {
    fn catch_up(&mut self, history: &[Vec<u8>]) -> std::io::Result<()> {
        for (at, data) in history.iter().enumerate().skip(self.sent) {
            if self.is_socket {
                let mut frame = Vec::new();
                throng_ws::encode_message(Masking::Server, Opcode::Text, data, &mut frame);
                self.stream.write_all(&frame)?;
            } else {
                self.stream.write_all(&event(at + 1, data))?;
            }
        }
        self.sent = history.len();
        Ok(())
    }
}

impl Hub {
    fn deliver(&mut self) {
        if self.held {
            return;
        }
        for channel in self.channels.values_mut() {
            let history = &channel.history;
            channel
                .subscribers
                .retain_mut(|subscriber| subscriber.catch_up(history).is_ok());
        }
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    hub: Arc<Mutex<Hub>>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let hub = Arc::new(Mutex::new(Hub::default()));
        let serving = hub.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, hub) = (stream.unwrap(), serving.clone());
                hub.lock().unwrap().peers.push(stream.peer_addr().unwrap());
                // A client that goes away ends its thread with an error, which is its business.
                std::thread::spawn(move || drop(serve(stream, &hub)));
            }
        });
        Self { address, hub }
    }

    pub(crate) fn ws(&self, path: &str) -> String {
        format!("ws://{}{path}", self.address)
    }

    pub(crate) fn http(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Holds deliveries back, or lets them go.
    pub(crate) fn hold(&self, held: bool) {
        let mut hub = self.hub.lock().unwrap();
        hub.held = held;
        hub.deliver();
    }

    pub(crate) fn peers(&self) -> Vec<SocketAddr> {
        self.hub.lock().unwrap().peers.clone()
    }
}

struct Request {
    method: String,
    path: String,
    channel: String,
    last_id: Option<usize>,
    ws: Option<Vec<u8>>,
    body: Vec<u8>,
}

fn serve(mut stream: TcpStream, hub: &Mutex<Hub>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut kept = Vec::new();
    let mut answers = 0;
    loop {
        let request = read_request(&mut stream, &mut kept)?;
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/pub") => {
                publish(hub, &request);
                answers += 1;
                let closes = answers == ANSWERS_PER_CONNECTION;
                let connection = if closes { "Connection: close\r\n" } else { "" };
                let answer = format!("HTTP/1.1 200 OK\r\n{connection}Content-Length: 2\r\n\r\nok");
                stream.write_all(answer.as_bytes())?;
                if closes {
                    // What came behind is not read: it is the client's to send again.
                    return stream.shutdown(std::net::Shutdown::Write);
                }
            }
            (_, "/refuse") => {
                return answer(stream, "403 Forbidden|Content-Length: 0");
            }
            (_, "/wrong-accept") => {
                let head = "101 Switching Protocols|Upgrade: websocket|Connection: Upgrade|\
                            Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=";
                return answer(stream, head);
            }
            (_, "/wrong-type") => {
                let head = "200 OK|Content-Type: text/plain|Transfer-Encoding: chunked";
                return answer(stream, head);
            }
            (_, "/silent") => {
                let mut rest = [0; 1024];
                while stream.read(&mut rest)? > 0 {}
                return Ok(());
            }
            (_, "/sse" | "/forgetful") => return event_stream(stream, hub, &request),
            _ => return websocket(stream, hub, &request),
        }
    }
}

/// Answers with a head, given with bars between its lines.
fn answer(mut stream: TcpStream, head: &str) -> std::io::Result<()> {
    let head = head.replace('|', "\r\n");
    stream.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes())
}

fn read_request(stream: &mut TcpStream, kept: &mut Vec<u8>) -> std::io::Result<Request> {
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some((request, used)) = parse(kept) {
            kept.drain(..used);
            return Ok(request);
        }
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        kept.extend_from_slice(&buffer[..read]);
    }
}

fn parse(bytes: &[u8]) -> Option<(Request, usize)> {
    let (head, length) = parse_request(bytes, &HttpLimits::default()).unwrap()?;
    let body_bytes = match head.body {
        Body::Length(bytes) => bytes as usize,
        _ => 0,
    };
    let body = bytes.get(length..length + body_bytes)?.to_vec();
    let (path, search) = head.target.split_once('?').unwrap_or((head.target, ""));
    let channel = query::pairs(search)
        .find(|(name, _)| name == "channel")
        .map_or_else(String::new, |(_, value)| value.into_owned());
    let accepted = handshake::accept(head.method, head.headers()).ok();
    let request = Request {
        method: head.method.to_owned(),
        path: path.to_owned(),
        channel,
        last_id: head.header("last-event-id").and_then(|id| id.parse().ok()),
        ws: accepted.map(|accept| {
            let mut out = Vec::new();
            handshake::encode_response(&accept, None, None, &mut out);
            out
        }),
        body,
    };
    Some((request, length + body_bytes))
}

fn event(id: usize, data: &[u8]) -> Vec<u8> {
    let text = format!("id: {id}\ndata: {}\n\n", String::from_utf8_lossy(data));
    let mut chunk = format!("{:x}\r\n", text.len()).into_bytes();
    chunk.extend_from_slice(text.as_bytes());
    chunk.extend_from_slice(b"\r\n");
    chunk
}

fn publish(hub: &Mutex<Hub>, request: &Request) {
    let mut hub = hub.lock().unwrap();
    let channel = hub.channels.entry(request.channel.clone()).or_default();
    channel.history.push(request.body.clone());
    hub.deliver();
}

fn event_stream(mut stream: TcpStream, hub: &Mutex<Hub>, request: &Request) -> std::io::Result<()> {
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
                       Transfer-Encoding: chunked\r\n\r\n",
    )?;
    let mut reading = stream.try_clone()?;
    {
        let mut hub = hub.lock().unwrap();
        let channel = hub.channels.entry(request.channel.clone()).or_default();
        let known = request.last_id.filter(|_| request.path != "/forgetful");
        let seen = known.unwrap_or(channel.history.len());
        // A place to come back to, before the first event.
        let place = format!("id: {seen}\n\n");
        write!(stream, "{:x}\r\n{place}\r\n", place.len())?;
        channel.subscribers.push(Subscriber {
            stream,
            sent: seen,
            is_socket: false,
        });
        hub.deliver();
    }
    let mut rest = [0; 64];
    while reading.read(&mut rest)? > 0 {}
    Ok(())
}

fn websocket(mut stream: TcpStream, hub: &Mutex<Hub>, request: &Request) -> std::io::Result<()> {
    let answer = request.ws.as_ref().ok_or(std::io::ErrorKind::InvalidData)?;
    stream.write_all(answer)?;
    match request.path.as_str() {
        "/bye" => {
            let mut frame = Vec::new();
            let bye = throng_ws::CloseFrame {
                code: 1001,
                reason: "off",
            };
            throng_ws::encode_close(Masking::Server, Some(bye), &mut frame);
            return stream.write_all(&frame);
        }
        "/gone" => return Ok(()),
        _ => {}
    }
    let sending = stream.try_clone()?;
    if request.path == "/ws" {
        let mut hub = hub.lock().unwrap();
        let channel = hub.channels.entry(request.channel.clone()).or_default();
        channel.subscribers.push(Subscriber {
            stream: sending.try_clone()?,
            sent: channel.history.len(),
            is_socket: true,
        });
    }
    let echoes = request.path == "/echo";
    converse(stream, sending, echoes)
}

/// Answers pings, and messages if it echoes, until the client leaves.
fn converse(mut reading: TcpStream, mut sending: TcpStream, echoes: bool) -> std::io::Result<()> {
    let mut decoder = WsDecoder::new(WsRole::Server);
    let limits = throng_ws::WsLimits::new(1 << 20);
    let mut buffer = [0; 16 << 10];
    loop {
        let read = reading.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        let mut out = Vec::new();
        let mut over = false;
        decoder
            .feed(&mut buffer[..read], &limits, |event| {
                match event {
                    WsEvent::Message { opcode, data } if echoes => {
                        throng_ws::encode_message(Masking::Server, opcode, data, &mut out);
                    }
                    WsEvent::Ping(payload) => {
                        throng_ws::encode_pong(Masking::Server, payload, &mut out)
                    }
                    WsEvent::Close(_) => over = true,
                    _ => {}
                }
                ControlFlow::Continue(())
            })
            .unwrap();
        sending.write_all(&out)?;
        if over {
            return sending.shutdown(std::net::Shutdown::Both);
        }
    }
}
