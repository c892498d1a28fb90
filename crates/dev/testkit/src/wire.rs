//! HTTP by hand, so that a test can send what no client would.
//!
//! It shares no code with `throng_http1` and `throng_client` on purpose: a fault in how the server
//! writes a response must not be hidden by the same fault in what reads it.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{DEADLINE, Deadline};

/// Response to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code of the response.
    pub status: u16,
    /// Names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// Without its transfer coding.
    pub body: String,
}

impl Response {
    /// The first header of that name, in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// One request on a connection of its own.
#[track_caller]
pub fn request(
    to: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Response {
    let mut wire = Wire::connect(to);
    let fields: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\n{fields}Content-Length: \
         {length}\r\n\r\n{body}"
    );
    wire.send(&head);
    wire.response(method)
}

/// Header lines that ask for a WebSocket (RFC 6455 section 1.3).
pub const HANDSHAKE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
                             Sec-WebSocket-Version: 13\r\n\
                             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Frame of a client's WebSocket, whole, under a mask that changes nothing.
pub fn frame(opcode: u8, data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    let mut frame = vec![0x80 | opcode];
    match data.len() {
        length @ ..126 => frame.push(0x80 | length as u8),
        length @ ..0x1_0000 => {
            frame.push(0x80 | 126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(0x80 | 127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(data);
    frame
}

/// Text of a request that posts a body.
pub fn post(target: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A connection, with or without TLS.
trait Stream: Read + Write + Send {
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for StreamOwned<ClientConnection, TcpStream> {
    fn tcp(&self) -> &TcpStream {
        &self.sock
    }
}

/// A connection whose bytes the test chooses.
pub struct Wire {
    stream: Box<dyn Stream>,
    read: Vec<u8>,
    ended: bool,
    was_cut: bool,
}

impl Wire {
    /// Connects to a port without TLS.
    #[track_caller]
    pub fn connect(to: SocketAddr) -> Self {
        Self::over(Box::new(Self::tcp(to)))
    }

    /// Connects and asks for a target; the answer is not read.
    #[track_caller]
    pub fn get(to: SocketAddr, target: &str) -> Self {
        let mut wire = Self::connect(to);
        wire.ask(target, "");
        wire
    }

    /// Connects and shakes hands for a WebSocket.
    #[track_caller]
    pub fn websocket(to: SocketAddr, target: &str) -> Self {
        let mut wire = Self::connect(to);
        wire.ask(target, HANDSHAKE);
        assert_eq!(wire.head().status, 101, "{target}");
        wire
    }

    /// Connects; none if the connection is refused.
    pub fn try_connect(to: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&to, DEADLINE).ok()?;
        Some(Self::over(Box::new(Self::patient(stream))))
    }

    /// Connects by TLS; the server is believed if this authority, a PEM text, has signed for it.
    #[track_caller]
    pub fn connect_secure(to: SocketAddr, authority: &str) -> Self {
        Self::connect_secure_behind(to, authority, b"")
    }

    /// Connects with TLS after sending these bytes in the clear, as a proxy does.
    #[track_caller]
    pub fn connect_secure_behind(to: SocketAddr, authority: &str, before: &[u8]) -> Self {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_slice(authority.as_bytes()).expect("a PEM text");
        roots.add(authority).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("its own versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::from(to.ip());
        let client = ClientConnection::new(Arc::new(config), name).expect("randomness");
        let mut tcp = Self::tcp(to);
        tcp.write_all(before).expect("somebody listens");
        Self::over(Box::new(StreamOwned::new(client, tcp)))
    }

    #[track_caller]
    fn tcp(to: SocketAddr) -> TcpStream {
        let stream = TcpStream::connect_timeout(&to, DEADLINE);
        Self::patient(stream.unwrap_or_else(|error| panic!("cannot connect to {to}: {error}")))
    }

    #[track_caller]
    fn patient(stream: TcpStream) -> TcpStream {
        // For the handshake of TLS; other reads have what their whole wait has left.
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        stream
            .set_write_timeout(Some(DEADLINE))
            .expect("a deadline");
        stream.set_nodelay(true).expect("no delay");
        stream
    }

    /// Speaks on a connection that was accepted: the side of a server.
    #[track_caller]
    pub fn accepted(stream: TcpStream) -> Self {
        Self::over(Box::new(Self::patient(stream)))
    }

    fn over(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            read: Vec::new(),
            ended: false,
            was_cut: false,
        }
    }

    /// Sends; a peer that has closed is no fault here, what it sent before counts.
    #[track_caller]
    pub fn send(&mut self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    /// Asks for a target, with these header lines.
    #[track_caller]
    pub fn ask(&mut self, target: &str, fields: &str) {
        self.send(&format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"
        ));
    }

    /// Sends a text by WebSocket.
    #[track_caller]
    pub fn say(&mut self, text: &str) {
        self.send_bytes(&frame(1, text));
    }

    /// Sends bytes as they are.
    #[track_caller]
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        match self.stream.write_all(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("nobody reads"),
            _ => {}
        }
    }

    /// Clones the TCP stream below TLS, for a thread that writes while this one reads.
    #[track_caller]
    pub fn writer(&self) -> TcpStream {
        self.stream.tcp().try_clone().expect("a descriptor")
    }

    /// Shuts the sending side.
    pub fn finish(&self) {
        let _ = self.stream.tcp().shutdown(Shutdown::Write);
    }

    /// Reads a little more; false at the end of the connection.
    #[track_caller]
    fn more(&mut self, deadline: Deadline) -> bool {
        if self.ended {
            return false;
        }
        let mut bytes = [0; 16 * 1024];
        let bound = deadline.bound(self.stream.tcp());
        match bound.and_then(|()| self.stream.read(&mut bytes)) {
            Ok(count @ 1..) => self.read.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!(
                    "in time came only {:?}",
                    String::from_utf8_lossy(&self.read)
                )
            }
            Ok(0) => self.ended = true,
            Err(_) => (self.ended, self.was_cut) = (true, true),
        }
        !self.ended
    }

    /// Takes everything up to and with `mark`.
    #[track_caller]
    pub fn through(&mut self, mark: &str) -> String {
        let deadline = Deadline::default();
        loop {
            let found = find(&self.read, mark.as_bytes());
            if let Some(at) = found {
                let rest = self.read.split_off(at + mark.len());
                let taken = std::mem::replace(&mut self.read, rest);
                return String::from_utf8_lossy(&taken).into_owned();
            }
            let more = self.more(deadline);
            assert!(
                more,
                "{mark:?} did not come: {:?}",
                String::from_utf8_lossy(&self.read)
            );
        }
    }

    /// Takes so many bytes.
    #[track_caller]
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        let deadline = Deadline::default();
        while self.read.len() < count {
            let more = self.more(deadline);
            assert!(
                more,
                "{count} bytes did not come: {:?}",
                String::from_utf8_lossy(&self.read)
            );
        }
        let rest = self.read.split_off(count);
        std::mem::replace(&mut self.read, rest)
    }

    /// Takes a frame of a server: its opcode and its payload.
    #[track_caller]
    pub fn frame(&mut self) -> (u8, Vec<u8>) {
        let (first, payload) = self.whole_frame();
        (first & 15, payload)
    }

    /// Takes a message of a server, in however many frames it comes: its opcode and its payload.
    #[track_caller]
    pub fn message(&mut self) -> (u8, Vec<u8>) {
        let (mut last, mut payload) = self.whole_frame();
        let opcode = last & 15;
        while last & 0x80 == 0 {
            let more;
            (last, more) = self.whole_frame();
            payload.extend(more);
        }
        (opcode, payload)
    }

    /// Takes a frame of a server: its first byte and its payload.
    #[track_caller]
    fn whole_frame(&mut self) -> (u8, Vec<u8>) {
        let [first, short] = self.array();
        let length = match short {
            126 => u16::from_be_bytes(self.array()).into(),
            127 => u64::from_be_bytes(self.array()),
            short => short.into(),
        };
        (first, self.exactly(length as usize))
    }

    #[track_caller]
    fn array<const N: usize>(&mut self) -> [u8; N] {
        self.exactly(N)
            .try_into()
            .expect("as many as were asked for")
    }

    /// Takes everything up to the end of the connection.
    #[track_caller]
    pub fn rest(&mut self) -> String {
        String::from_utf8_lossy(&self.rest_bytes()).into_owned()
    }

    /// Reads until the connection ends and returns the bytes.
    #[track_caller]
    pub fn rest_bytes(&mut self) -> Vec<u8> {
        let deadline = Deadline::default();
        while self.more(deadline) {}
        std::mem::take(&mut self.read)
    }

    /// Whether the connection ended in another way than by TCP's end, and with TLS by TLS's.
    pub const fn was_cut(&self) -> bool {
        self.was_cut
    }

    /// Takes a head; none if the connection ends instead.
    #[track_caller]
    pub fn try_head(&mut self) -> Option<Response> {
        let deadline = Deadline::default();
        while find(&self.read, b"\r\n\r\n").is_none() {
            if !self.more(deadline) {
                return None;
            }
        }
        Some(self.head())
    }

    /// Takes a head: the status and the headers.
    #[track_caller]
    pub fn head(&mut self) -> Response {
        let head = self.through("\r\n\r\n");
        let mut lines = head.trim_end().split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_ascii_lowercase(), value.trim().to_owned())
        });
        Response {
            status: status.unwrap_or_else(|| panic!("not a status line: {head}")),
            headers: headers.collect(),
            body: String::new(),
        }
    }

    /// Takes a whole answer to a request with that method.
    #[track_caller]
    pub fn response(&mut self, method: &str) -> Response {
        let mut response = self.head();
        let bodiless = method == "HEAD" || matches!(response.status, 100..=199 | 204 | 304);
        if !bodiless {
            let length = response
                .header("content-length")
                .map(|length| length.parse().expect("a length"));
            response.body = match length {
                Some(length) => String::from_utf8_lossy(&self.exactly(length)).into_owned(),
                None if response.header("transfer-encoding") == Some("chunked") => self.chunks(),
                None => self.rest(),
            };
        }
        response
    }

    #[track_caller]
    fn chunks(&mut self) -> String {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk();
            if chunk.is_empty() {
                return String::from_utf8_lossy(&body).into_owned();
            }
            body.extend_from_slice(chunk.as_bytes());
        }
    }

    /// Takes the data of one chunk; nothing for the last one.
    #[track_caller]
    pub fn chunk(&mut self) -> String {
        let head = self.through("\r\n");
        let length = usize::from_str_radix(head.trim_end(), 16);
        let length = length.unwrap_or_else(|_| panic!("not a chunk's length: {head:?}"));
        let data = self.exactly(length);
        self.through("\r\n");
        String::from_utf8_lossy(&data).into_owned()
    }

    /// Whether the peer has closed by now; what it sent before is kept.
    pub fn has_ended(&mut self) -> bool {
        self.stream.tcp().set_nonblocking(true).expect("a mode");
        let mut bytes = [0; 16 * 1024];
        while !self.ended {
            match self.stream.read(&mut bytes) {
                Ok(count @ 1..) => self.read.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => self.ended = true,
            }
        }
        self.stream.tcp().set_nonblocking(false).expect("a mode");
        self.ended
    }

    /// Waits until the peer has closed; what it sends before is kept.
    #[track_caller]
    pub fn until_closed(&mut self) {
        let deadline = Deadline::default();
        while self.more(deadline) {}
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}
