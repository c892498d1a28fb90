//! One stream of HTTP/2 over a connection that blocks: a request of HTTP/1.1 is written, and its
//! answer read.
//!
//! Requests have no body; behind a WebSocket's upgrade both sides go on.

use std::io::{self, ErrorKind, Read, Write};

use throng_http1::{Body, HttpLimits, parse_request};
use throng_http2::{Code, Conn, H2Event, H2Limits, Scratch};
use throng_http2::{answer_upgrade, encode_asked, write_answer};
use throng_types::Millis;

const READ_BYTES: usize = 16 * 1024;

const LIMITS: H2Limits = H2Limits {
    http: HttpLimits {
        head_bytes_max: 64 * 1024,
        headers_max: 128,
        body_bytes_max: u64::MAX,
    },
    streams_max: 0,
    stream_window: 1 << 20,
    connection_window: 1 << 20,
};

/// Stream of HTTP/2 in the place of a connection.
pub struct Http2Stream<S, C> {
    inner: S,
    clock: C,
    is_secure: bool,
    conn: Conn,
    scratch: Scratch,
    /// Its number, once the request has left, and whether it is a WebSocket's.
    stream: Option<(u32, bool)>,
    /// Bytes that were written and have not left: no whole request, or more than a window.
    asked: Vec<u8>,
    /// Bytes that came and were not read. Bound: one read, and the answer's head.
    answer: Vec<u8>,
    out: Vec<u8>,
    has_ended: bool,
}

impl<S: Read + Write, C: FnMut() -> Millis> Http2Stream<S, C> {
    /// Begins HTTP/2 on a connection; `clock` counts from anywhere.
    pub fn new(inner: S, is_secure: bool, clock: C) -> Self {
        let mut out = Vec::new();
        Self {
            inner,
            clock,
            is_secure,
            conn: Conn::client(&LIMITS, &mut out),
            scratch: Scratch::default(),
            stream: None,
            asked: Vec::new(),
            answer: Vec::new(),
            out,
            has_ended: false,
        }
    }

    fn push(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            let parsed = parse_request(&self.asked, &LIMITS.http);
            let parsed = parsed.map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
            let Some((request, length)) = parsed else {
                return Ok(());
            };
            if request.body != Body::None {
                return Err(ErrorKind::Unsupported.into());
            }
            let mut block = Vec::new();
            let connects = encode_asked(&request, self.is_secure, &mut block);
            // Whether WebSockets are taken is known once the settings have come (RFC 8441).
            while connects && !self.conn.is_settled() {
                self.fill()?;
            }
            let id = self.conn.open(0, &block, !connects, &mut self.out);
            let id = id.ok_or(ErrorKind::ConnectionRefused)?;
            self.stream = Some((id, connects));
            self.asked.drain(..length);
        }
        if let Some((id, _)) = self.stream {
            while !self.asked.is_empty() {
                let fits = self.conn.data(id, self.asked.len(), false, &mut self.out);
                self.out.extend(self.asked.drain(..fits));
                if fits == 0 {
                    break;
                }
            }
        }
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        self.inner.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Reads once, and answers what HTTP/2 wants answered.
    fn fill(&mut self) -> io::Result<()> {
        self.send()?;
        let mut bytes = [0; READ_BYTES];
        let count = self.inner.read(&mut bytes)?;
        self.has_ended |= count == 0;
        if count == 0 && !self.conn.is_settled() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let (mut input, mut writable, now) = (&bytes[..count], false, (self.clock)());
        let (answer, out) = (&mut self.answer, &mut self.out);
        loop {
            let step = { &mut self.conn }.read(&mut input, now, &LIMITS, &mut self.scratch, out);
            let event = step.map_err(|fault| io::Error::new(ErrorKind::InvalidData, fault))?;
            match event {
                None if input.is_empty() => break,
                Some(H2Event::Response { response, ends, .. }) => {
                    let mut head = Vec::new();
                    write_answer(&response, &mut head);
                    if self.stream.is_some_and(|(_, connects)| connects) {
                        answer_upgrade(&mut head);
                    }
                    answer.extend_from_slice(&head);
                    self.has_ended |= ends;
                }
                Some(H2Event::Data { id, data, ends, .. }) => {
                    answer.extend_from_slice(data);
                    self.conn.took(id, data.len(), out);
                    self.has_ended |= ends;
                }
                Some(H2Event::Trailers { .. }) => self.has_ended = true,
                Some(H2Event::Reset { code, .. }) => {
                    self.has_ended = true;
                    if code != Code::NO_ERROR {
                        return Err(ErrorKind::ConnectionReset.into());
                    }
                }
                Some(H2Event::Writable) => writable = true,
                Some(H2Event::Request { .. } | H2Event::GoAway { .. }) | None => {}
            }
        }
        match writable {
            true => self.push(),
            false => self.send(),
        }
    }
}

impl<S: Read + Write, C: FnMut() -> Millis> Read for Http2Stream<S, C> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.answer.is_empty() && !self.has_ended {
            self.fill()?;
        }
        let count = self.answer.len().min(into.len());
        into[..count].copy_from_slice(&self.answer[..count]);
        self.answer.drain(..count);
        Ok(count)
    }
}

impl<S: Read + Write, C: FnMut() -> Millis> Write for Http2Stream<S, C> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.asked.extend_from_slice(bytes);
        self.push()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
