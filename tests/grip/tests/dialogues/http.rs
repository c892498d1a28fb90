//! HTTP/1 as it comes: heads, and bodies without their framing. Nothing here is shared with Throng.

use std::io::{ErrorKind, Read as _};
use std::net::TcpStream;
use std::time::Duration;

use throng_testkit::Deadline;

/// Longer than anything that a dialogue waits for: Pushpin's longest wait is the 5 s of a long poll
/// or of an item out of order, and a busy machine doubles it. A peer silent for so long stays
/// silent.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

/// Lines shown when the other side is silent, and when it has closed.
pub(crate) const NOTHING: &str = "(nothing comes)";
pub(crate) const CLOSED: &str = "(closed)";
const LAST_CHUNK: &str = "(last chunk)";

/// Framing of the body that is being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    None,
    Length(usize),
    Chunked,
    Close,
}

/// The receiving side of a connection.
pub(crate) struct Reader {
    stream: TcpStream,
    /// Waits without a deadline.
    is_patient: bool,
    raw: Vec<u8>,
    framing: Framing,
    /// Bytes of the body not yet shown.
    body: Vec<u8>,
    /// Why nothing more comes.
    end: Option<&'static str>,
}

/// Start line and fields, as they came, without the empty line.
pub(crate) type Head = Vec<Vec<u8>>;

impl Reader {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            is_patient: false,
            raw: Vec::new(),
            framing: Framing::None,
            body: Vec::new(),
            end: None,
        }
    }

    /// Waits for ever between messages: an origin's connections idle.
    pub(crate) fn patient(mut self) -> Self {
        self.is_patient = true;
        self
    }

    /// Reads more; false at the end.
    fn more(&mut self, deadline: Deadline) -> bool {
        let mut piece = [0; 16 * 1024];
        let bound = match self.is_patient {
            true => Ok(()),
            false => deadline.bound(&self.stream),
        };
        match bound.and_then(|()| self.stream.read(&mut piece)) {
            Ok(count @ 1..) => {
                self.raw.extend_from_slice(&piece[..count]);
                return true;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.end = Some(NOTHING),
            Ok(0) | Err(_) => self.end = Some(CLOSED),
        }
        false
    }

    /// Takes a head; what came instead if there is none.
    pub(crate) fn head(&mut self, method: &str) -> Result<Head, Vec<u8>> {
        let deadline = Deadline::after(SILENCE);
        let at = loop {
            if let Some(at) = find(&self.raw, b"\r\n\r\n") {
                break at;
            }
            if !self.more(deadline) {
                return Err(std::mem::take(&mut self.raw));
            }
        };
        let rest = self.raw.split_off(at + 4);
        let head = std::mem::replace(&mut self.raw, rest);
        let mut lines: Head = Vec::new();
        for line in head[..at].split(|byte| *byte == b'\n') {
            lines.push(line.strip_suffix(b"\r").unwrap_or(line).to_vec());
        }
        self.framing = framing(&lines, method);
        self.body.clear();
        Ok(lines)
    }

    /// Whether a body follows the head that was taken.
    pub(crate) fn has_body(&self) -> bool {
        self.framing != Framing::None
    }

    /// Why nothing more comes, or came.
    pub(crate) fn end(&self) -> Option<&'static str> {
        self.end
    }

    /// Moves what is there of the body out of its framing. True if the body is whole.
    fn unframe(&mut self) -> Option<&'static str> {
        match self.framing {
            Framing::None => return Some(""),
            Framing::Length(left) => {
                let count = left.min(self.raw.len());
                self.body.extend(self.raw.drain(..count));
                self.framing = Framing::Length(left - count);
                if left == count {
                    self.framing = Framing::None;
                    return Some("");
                }
            }
            Framing::Close => self.body.append(&mut self.raw),
            Framing::Chunked => {
                while let Some(line) = find(&self.raw, b"\r\n") {
                    let text = String::from_utf8_lossy(&self.raw[..line]).into_owned();
                    let size = text.split(';').next().unwrap_or_default();
                    let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
                        // Shown as it is.
                        self.framing = Framing::Close;
                        return self.unframe();
                    };
                    let whole = line + 2 + size + 2;
                    if self.raw.len() < whole {
                        break;
                    }
                    self.body
                        .extend_from_slice(&self.raw[line + 2..line + 2 + size]);
                    self.raw.drain(..whole);
                    if size == 0 {
                        self.framing = Framing::None;
                        return Some(LAST_CHUNK);
                    }
                }
            }
        }
        None
    }

    /// Takes the body through a mark, or what is there of it and why no more comes.
    pub(crate) fn through(&mut self, mark: &[u8]) -> (Vec<u8>, Option<&'static str>) {
        let deadline = Deadline::after(SILENCE);
        loop {
            let end = self.unframe();
            if let Some(at) = find(&self.body, mark) {
                let rest = self.body.split_off(at + mark.len());
                // An end that was seen with it is seen again.
                if end == Some(LAST_CHUNK) {
                    self.raw.splice(0..0, *b"0\r\n\r\n");
                    self.framing = Framing::Chunked;
                }
                return (std::mem::replace(&mut self.body, rest), None);
            }
            if end.is_some() || !self.more(deadline) {
                return (std::mem::take(&mut self.body), end.or(self.end));
            }
        }
    }

    /// Takes the rest of the body, and how it ended; between messages, the end of the connection.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, &'static str) {
        let deadline = Deadline::after(SILENCE);
        if self.framing == Framing::None && self.body.is_empty() {
            while self.more(deadline) {}
            let raw = std::mem::take(&mut self.raw);
            return (raw, self.end.unwrap_or_default());
        }
        loop {
            let end = self.unframe();
            if end.is_some() || !self.more(deadline) {
                let end = end.or(self.end).unwrap_or_default();
                return (std::mem::take(&mut self.body), end);
            }
        }
    }

    /// Takes the bytes that were received and not taken.
    pub(crate) fn unread(&mut self) -> Vec<u8> {
        let mut out = std::mem::take(&mut self.body);
        out.append(&mut self.raw);
        out
    }

    /// Takes so many bytes as they are; fewer at the end.
    pub(crate) fn exactly(&mut self, count: usize) -> Vec<u8> {
        let deadline = Deadline::after(SILENCE);
        while self.raw.len() < count {
            if !self.more(deadline) {
                return std::mem::take(&mut self.raw);
            }
        }
        let rest = self.raw.split_off(count);
        std::mem::replace(&mut self.raw, rest)
    }
}

/// The value of a field.
pub(crate) fn field(head: &Head, name: &str) -> Option<String> {
    head.iter().skip(1).find_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (known, value) = line.split_once(':')?;
        known
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}

/// Framing of a request if `method` is empty, else of the response to it (RFC 9112 section 6.3).
fn framing(head: &Head, method: &str) -> Framing {
    let start = head.first().map(Vec::as_slice).unwrap_or_default();
    let start = String::from_utf8_lossy(start);
    let code = start.split(' ').nth(1).unwrap_or_default();
    let is_bodiless = method == "HEAD" || code.starts_with('1') || code == "204" || code == "304";
    if !method.is_empty() && is_bodiless {
        return Framing::None;
    }
    let is_chunked = field(head, "Transfer-Encoding").is_some_and(|coding| coding == "chunked");
    let length = field(head, "Content-Length").and_then(|text| text.parse().ok());
    match length {
        _ if is_chunked => Framing::Chunked,
        Some(bytes) => Framing::Length(bytes),
        None if method.is_empty() => Framing::None,
        None => Framing::Close,
    }
}

pub(crate) fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}
