//! A server that answers every request with its own method, target and body, for clients and suites
//! of others such as h2spec.
//!
//! `cargo run -p throng-http2 --example answer -- 127.0.0.1:9002`. A thread for each connection,
//! the state machine of this crate with prior knowledge, and nothing else.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, with sockets and threads"
)]

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use throng_http2::{Conn, H2Event, H2Limits, Scratch, encode_response};
use throng_types::Millis;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let listener = TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:9002"))?;
    println!("http://{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            // A client may end as it likes.
            let _ = serve(stream);
        });
    }
    Ok(())
}

/// Bodies that wait for the end of their request, or for windows.
#[derive(Default)]
struct Answers {
    bodies: BTreeMap<u32, Vec<u8>>,
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    let (limits, start) = (H2Limits::default(), Instant::now());
    let (mut scratch, mut out, mut answers) = (Scratch::default(), Vec::new(), Answers::default());
    let mut conn = Conn::server(&limits, &mut out);
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        stream.write_all(&out)?;
        out.clear();
        let count = stream.read(&mut buffer)?;
        let now = Millis(start.elapsed().as_millis() as u64);
        let mut input = &buffer[..count];
        if count == 0 {
            return Ok(());
        }
        while !input.is_empty() {
            match conn.read(&mut input, now, &limits, &mut scratch, &mut out) {
                Ok(None) => {}
                Ok(Some(event)) => answers.take(event, &mut conn, &mut out),
                Err(fault) => {
                    eprintln!("{fault}");
                    return stream.write_all(&out);
                }
            }
        }
        while let Some((id, _)) = conn.next_writable() {
            answers.write(id, &mut conn, &mut out);
        }
    }
}

impl Answers {
    fn take(&mut self, event: H2Event<'_>, conn: &mut Conn, out: &mut Vec<u8>) {
        match event {
            H2Event::Request {
                id, request, ends, ..
            } => {
                let body = format!("{} {}\n", request.method, request.target);
                self.bodies.insert(id, body.into());
                if ends {
                    self.answer(id, conn, out);
                }
            }
            H2Event::Data { id, data, ends, .. } => {
                if let Some(body) = self.bodies.get_mut(&id) {
                    body.extend_from_slice(data);
                }
                conn.took(id, data.len(), out);
                if ends {
                    self.answer(id, conn, out);
                }
            }
            H2Event::Trailers { id, .. } => self.answer(id, conn, out),
            H2Event::Reset { id, .. } => {
                self.bodies.remove(&id);
            }
            _ => {}
        }
    }

    fn answer(&mut self, id: u32, conn: &mut Conn, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encode_response(200, [("content-type", &b"text/plain"[..])], &mut block);
        conn.head(id, &block, false, out);
        self.write(id, conn, out);
    }

    fn write(&mut self, id: u32, conn: &mut Conn, out: &mut Vec<u8>) {
        if let Some(body) = self.bodies.get_mut(&id) {
            let bytes = conn.data(id, body.len(), true, out);
            out.extend(body.drain(..bytes));
            if body.is_empty() {
                self.bodies.remove(&id);
            }
        }
    }
}
