//! The backend behind a proxy: it lets event streams be held, and counts how often each asked again
//! for what it missed.
//!
//! Owns: its listener, and the time of every link that was followed. It runs in this process, so
//! that its CPU time is not the server's.
//!
//! - `/events?channel=C` is held as a stream of the channel C, with a keep-alive as in Pushpin's
//!   own example of a million.
//! - `/reliable?channel=C&id=N&timeout=S` is held with a link of its own, to be followed after S
//!   quiet seconds at the latest.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use throng_http1::{HttpLimits, Request, parse_request, query};
use throng_types::lock;

/// Stack of the thread that serves one connection.
const STACK_BYTES: usize = 128 << 10;

/// More than a proxy opens at once.
const BACKLOG: i32 = 4096;

/// A backend. It serves as long as the process lives.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    address: SocketAddr,
    asked: Arc<Mutex<HashMap<usize, Vec<Instant>>>>,
}

impl Origin {
    pub(crate) fn start() -> Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener =
            throng_sys::socket::listen(any, BACKLOG).context("no port for the origin")?;
        let listener = TcpListener::from(listener);
        listener.set_nonblocking(false)?;
        let origin = Self {
            address: listener.local_addr()?,
            asked: Arc::default(),
        };
        let serving = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = serving.clone();
                let thread = thread::Builder::new().stack_size(STACK_BYTES);
                // A stream that is not served sees the connection end, and the measurement fails.
                let _ = thread.spawn(move || origin.serve(stream));
            }
        });
        Ok(origin)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn forget(&self) {
        lock(&self.asked).clear();
    }

    /// Counts the streams 0 to `streams` that asked at least once every `gap`, from their first
    /// time until now.
    pub(crate) fn punctual(&self, streams: usize, gap: Duration) -> usize {
        let now = Instant::now();
        let asked = lock(&self.asked);
        let mut punctual = 0;
        for stream in 0..streams {
            let Some(times) = asked.get(&stream) else {
                continue;
            };
            let ends = times.iter().skip(1).chain([&now]);
            let longest = times.iter().zip(ends).map(|(from, to)| *to - *from).max();
            punctual += usize::from(longest.is_some_and(|longest| longest <= gap));
        }
        punctual
    }

    /// Answers one request after the other, until the proxy closes or sends something unexpected.
    fn serve(&self, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let (mut input, mut piece) = (Vec::new(), [0; 4096]);
        let mut answer = String::new();
        loop {
            let limits = HttpLimits::default();
            while let Some((request, bytes)) =
                parse_request(&input, &limits).context("a request")?
            {
                self.answer(&request, &mut answer)?;
                stream.write_all(answer.as_bytes())?;
                input.drain(..bytes);
            }
            let count = stream.read(&mut piece)?;
            ensure!(count != 0, "the proxy hung up");
            input.extend_from_slice(&piece[..count]);
        }
    }

    fn answer(&self, request: &Request<'_>, out: &mut String) -> Result<()> {
        let mut said: HashMap<_, _> = query::pairs(request.query()).collect();
        let channel = said.remove("channel").unwrap_or_default();
        out.clear();
        write!(
            out,
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 0\r\n\
             Grip-Hold: stream\r\nGrip-Channel: {channel}\r\n\
             Grip-Keep-Alive: :\\n\\n; format=cstring; timeout=55\r\n"
        )?;
        if let (Some(id), Some(timeout)) = (said.get("id"), said.get("timeout")) {
            let stream: usize = id.parse().context("the id of a stream")?;
            lock(&self.asked)
                .entry(stream)
                .or_default()
                .push(Instant::now());
            write!(
                out,
                "Grip-Link: </reliable?channel={channel}&id={id}&timeout={timeout}>; rel=next; \
                 timeout={timeout}\r\n"
            )?;
        }
        out.push_str("\r\n");
        Ok(())
    }
}
