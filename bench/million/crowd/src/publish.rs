//! Publishing over HTTP: kept-alive connections, each with one request under way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::plan;

/// A server in emulation may be busy with a million deliveries before it answers.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Api {
    stream: BufReader<TcpStream>,
}

impl Api {
    pub(crate) fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// The body that the server answers a request with, if it answers 200.
    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<String> {
        self.send(method, path, body)?;
        self.answer()
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> io::Result<()> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())
    }

    fn answer(&mut self) -> io::Result<String> {
        let mut status = String::new();
        self.stream.read_line(&mut status)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        let body = String::from_utf8_lossy(&body).into_owned();
        if status.starts_with("HTTP/1.1 200 ") {
            Ok(body)
        } else {
            Err(io::Error::other(format!("{}: {body}", status.trim_end())))
        }
    }

    pub(crate) fn publish(&mut self, channel: &str, message: &str) -> io::Result<()> {
        self.ask("POST", &format!("/pub?channel={channel}"), message)
            .map(drop)
    }
}

/// Publishes to every connection's own channel; `done` counts up as it goes.
///
/// One request is under way on each of `lines` connections: the server then finds many at once,
/// which is far cheaper in emulation than waking both sides for each.
pub(crate) fn to_each(
    port: u16,
    connections: u32,
    lines: usize,
    done: &AtomicU64,
) -> io::Result<()> {
    let mut lines: Vec<Api> = (0..lines)
        .map(|_| Api::connect(port))
        .collect::<io::Result<_>>()?;
    let mut numbers = 0..connections;
    while !numbers.is_empty() {
        let mut asked = 0;
        for (line, n) in lines.iter_mut().zip(&mut numbers) {
            let (channel, message) = plan::own(n);
            line.send("POST", &format!("/pub?channel={channel}"), &message)?;
            asked += 1;
        }
        for line in &mut lines[..asked] {
            line.answer()?;
            done.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
