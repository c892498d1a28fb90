//! A WebSocket server that says everything back, for suites of others such as Autobahn's.
//!
//! `cargo run -p throng-ws --example echo -- 127.0.0.1:9001`. A thread for each connection, the
//! codec of this crate, and nothing else; with `--deflate` it agrees to compression. Messages may
//! have 64 MiB.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program of its own, with sockets and threads"
)]

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::thread;

use throng_ws::handshake::{accept, encode_response};
use throng_ws::{
    Masking, WsDecoder, WsEvent, WsLimits, WsRole, encode_close, encode_close_answer,
    encode_deflated, encode_message, encode_pong,
};

const MESSAGE_BYTES_MAX: usize = 64 << 20;

fn main() -> io::Result<()> {
    let (options, addresses): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let address = addresses.first().map_or("127.0.0.1:9001", String::as_str);
    let may_deflate = options.iter().any(|option| option == "--deflate");
    let listener = TcpListener::bind(address)?;
    println!("ws://{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || {
            // A client may end as it likes.
            let _ = serve(stream, may_deflate);
        });
    }
    Ok(())
}

/// Shakes hands and echoes until one side ends.
fn serve(mut stream: TcpStream, may_deflate: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut out) = (vec![0; 64 << 10], Vec::new());
    let head = read_head(&mut stream)?;
    let mut lines = head.lines();
    let method = lines.next().and_then(|line| line.split(' ').next());
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name, value.as_bytes()));
    let accepted = accept(method.unwrap_or_default(), fields);
    let accepted = accepted.map_err(|refusal| io::Error::other(refusal.reason()))?;
    let offer = accepted.deflate.filter(|_| may_deflate);
    encode_response(&accepted, None, offer, &mut out);
    let limits = WsLimits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        deflates: offer.is_some(),
    };
    let deflates = offer.is_some_and(|offer| offer.takes_ours());
    let mut decoder = WsDecoder::new(WsRole::Server);
    loop {
        stream.write_all(&out)?;
        out.clear();
        let count = stream.read(&mut input)?;
        if count == 0 {
            return Ok(());
        }
        let mut ends = false;
        let fed = decoder.feed(&mut input[..count], &limits, |event| {
            ends |= matches!(event, WsEvent::Close(_));
            answer(event, deflates, &mut out);
            ControlFlow::Continue(())
        });
        if let Err(fault) = fed {
            let (code, reason) = (fault.close_code(), fault.reason());
            let frame = throng_ws::CloseFrame { code, reason };
            encode_close(Masking::Server, Some(frame), &mut out);
        }
        if ends || fed.is_err() {
            return stream.write_all(&out);
        }
    }
}

fn answer(event: WsEvent<'_>, deflates: bool, out: &mut Vec<u8>) {
    match event {
        WsEvent::Message { opcode, data } if deflates => encode_deflated(opcode, data, out),
        WsEvent::Message { opcode, data } => encode_message(Masking::Server, opcode, data, out),
        WsEvent::Ping(payload) => encode_pong(Masking::Server, payload, out),
        WsEvent::Pong(_) => {}
        WsEvent::Close(came) => encode_close_answer(Masking::Server, came.as_ref(), out),
    }
}

/// A request's head, which comes alone: a client waits for the answer.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    String::from_utf8(head).map_err(io::Error::other)
}
