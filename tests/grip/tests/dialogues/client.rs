//! A client's connection: HTTP, and frames after an upgrade (RFC 6455).

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};

use throng_testkit::{frame, unescaped};

use crate::http::{CLOSED, NOTHING, Reader, SILENCE};
use crate::normal::Names;

/// Kinds of frames by their opcodes (RFC 6455 section 5.2).
const KINDS: [(u8, &str); 5] = [
    (1, "text"),
    (2, "binary"),
    (8, "close"),
    (9, "ping"),
    (10, "pong"),
];

/// A client of a dialogue: a socket, and what was read from it.
pub(crate) struct Client {
    stream: TcpStream,
    reader: Reader,
    /// Method of the last request.
    method: String,
    names: Names,
}

impl Client {
    pub(crate) fn connect(to: SocketAddr, names: &Names) -> Self {
        let stream = TcpStream::connect_timeout(&to, SILENCE).expect("a server that listens");
        stream.set_nodelay(true).expect("no delay");
        let reader = Reader::new(stream.try_clone().expect("a second handle"));
        Self {
            stream,
            reader,
            method: "GET".to_owned(),
            names: names.clone(),
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let start = bytes.split(|byte| *byte == b' ').next();
        let start = start.unwrap_or_default();
        if !start.is_empty() && start.iter().all(u8::is_ascii_uppercase) {
            self.method = String::from_utf8_lossy(start).into_owned();
        }
        // A closed connection gets nothing; what it sent before is looked at.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn head(&mut self) -> Vec<String> {
        match self.reader.head(&self.method) {
            Ok(head) => self.names.head(&head),
            Err(bytes) => {
                let mut lines = self.names.body(&bytes);
                lines.push(self.reader.end().unwrap_or(NOTHING).to_owned());
                lines
            }
        }
    }

    pub(crate) fn response(&mut self) -> Vec<String> {
        let mut lines = self.head();
        if self.reader.end().is_none() {
            let (body, end) = match self.reader.has_body() {
                true => self.reader.rest(),
                false => Default::default(),
            };
            self.show(&body, end, &mut lines);
        }
        lines
    }

    pub(crate) fn through(&mut self, mark: &str) -> Vec<String> {
        let (body, end) = self.reader.through(&unescaped(mark));
        let mut lines = Vec::new();
        self.show(&body, end.unwrap_or_default(), &mut lines);
        lines
    }

    pub(crate) fn end(&mut self) -> Vec<String> {
        let (body, end) = self.reader.rest();
        let mut lines = Vec::new();
        self.show(&body, end, &mut lines);
        lines
    }

    pub(crate) fn unread(&mut self) -> Vec<String> {
        let bytes = self.reader.unread();
        self.names.body(&bytes)
    }

    fn show(&self, body: &[u8], end: &str, lines: &mut Vec<String>) {
        lines.extend(self.names.body(body));
        if !end.is_empty() {
            lines.push(end.to_owned());
        }
    }

    /// Sends a frame: masked, as a client's must be, with zeros, which leave it readable.
    pub(crate) fn say(&mut self, what: &str) {
        let (kind, rest) = what.split_once(' ').unwrap_or((what, ""));
        let mut data = Vec::new();
        let opcode = KINDS.iter().find(|(_, known)| *known == kind);
        let (opcode, _) = *opcode.unwrap_or_else(|| panic!("no kind of frame: {kind}"));
        if opcode == 8 && !rest.is_empty() {
            let (code, reason) = rest.split_once(' ').unwrap_or((rest, ""));
            let code: u16 = code.parse().expect("a close code");
            data.extend_from_slice(&code.to_be_bytes());
            data.extend(unescaped(reason));
        } else {
            data = unescaped(rest);
        }
        let _ = self.stream.write_all(&frame(opcode, data));
    }

    /// Takes one frame and formats it.
    pub(crate) fn hear(&mut self) -> Vec<String> {
        let Some((first, data)) = self.frame() else {
            let mut lines = self.unread();
            lines.push(self.reader.end().unwrap_or(CLOSED).to_owned());
            return lines;
        };
        let kind = KINDS.iter().find(|(opcode, _)| 0x80 | opcode == first);
        let Some((_, kind)) = kind else {
            return vec![format!("(a frame that begins with {first:#x})")];
        };
        let (code, data) = match data.first_chunk::<2>().filter(|_| first == 0x88) {
            Some(code) => (format!(" {}", u16::from_be_bytes(*code)), &data[2..]),
            None => (String::new(), &data[..]),
        };
        let text = self.names.body(data).join("\\r\\n");
        let text = text.strip_suffix('\\').unwrap_or(&text);
        let space = if text.is_empty() { "" } else { " " };
        vec![format!("{kind}{code}{space}{text}")]
    }

    fn frame(&mut self) -> Option<(u8, Vec<u8>)> {
        let head = self.reader.exactly(2);
        let (&first, &second) = (head.first()?, head.get(1)?);
        let count = match second {
            126 => {
                let length = self.reader.exactly(2);
                usize::from(u16::from_be_bytes(*length.first_chunk()?))
            }
            127 => {
                let length = self.reader.exactly(8);
                u64::from_be_bytes(*length.first_chunk()?) as usize
            }
            count => usize::from(count),
        };
        let data = self.reader.exactly(count);
        (data.len() == count).then_some((first, data))
    }
}

/// Publishes items, one a line; what is answered unless all is well.
pub(crate) fn publish(to: SocketAddr, items: &[String], names: &Names) -> Vec<String> {
    let body = format!("{{\"items\": [{}]}}", items.join(", "));
    let mut client = Client::connect(to, names);
    client.send(
        format!(
            "POST /publish/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .as_bytes(),
    );
    let answer = client.response();
    let is_fine = answer.first().is_some_and(|line| line.contains(" 200 "));
    if is_fine { Vec::new() } else { answer }
}
