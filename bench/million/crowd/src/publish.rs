//! Publishing over HTTP: kept-alive connections, each with one request under way.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::plan;

/// A server in emulation may be busy with a million deliveries before it answers.
const PATIENCE: Duration = Duration::from_secs(600);

/// A kept-alive connection to the server API.
pub(crate) struct Api {
    stream: BufReader<TcpStream>,
}

impl Api {
    /// Connects.
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
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
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

    /// Publishes one message.
    pub(crate) fn publish(&mut self, channel: &str, message: &str) -> io::Result<()> {
        self.ask("POST", &format!("/pub?channel={channel}"), message)
            .map(drop)
    }
}

/// Publishes to every connection's own channel from several threads; `done` counts up as it goes.
pub(crate) fn to_each(
    port: u16,
    connections: u32,
    threads: u32,
    done: &AtomicU64,
) -> io::Result<()> {
    let next = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut api = Api::connect(port)?;
                    loop {
                        let n = next.fetch_add(1, Ordering::Relaxed);
                        if n >= connections {
                            return Ok(());
                        }
                        let (channel, message) = plan::own(n);
                        api.publish(&channel, &message)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| {
            worker
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a publisher panicked")))
        })
    })
}
