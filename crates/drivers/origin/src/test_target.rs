//! Pushpin's target `test`: a backend inside the process, to try a proxy that has no other.
//!
//! It speaks HTTP over a pipe in memory, so that its answers take the way of any backend's. Paths,
//! statuses and held bodies are those of Pushpin, whose shipped routes lead here.

use std::io;
use std::ops::ControlFlow;

use throng_grip::routes::Route;
use throng_http1::{Limits, Request, encode_response, parse_request, query};
use throng_ws::{
    Decoder, Event, Limits as WsLimits, Masking, Opcode, Role, encode_close_answer, encode_message,
    encode_pong, handshake,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, copy, duplex, sink};

/// Bytes that may be on their way in each direction.
const PIPE_BYTES: usize = 64 << 10;
/// The longest message of a WebSocket.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// A connection to it, by a route that has it as its target.
pub(crate) fn connect(route: &Route) -> DuplexStream {
    let (ours, theirs) = duplex(PIPE_BYTES);
    // What the route matched is no part of the path here, but for its last slash.
    let prefix = route.path_prefix.trim_end_matches('/').to_owned();
    tokio::spawn(async move {
        // Who hangs up hears no more.
        let _ = serve(theirs, &prefix).await;
    });
    ours
}

async fn serve(mut stream: DuplexStream, prefix: &str) -> io::Result<()> {
    let limits = Limits {
        body_bytes_max: u64::MAX,
        head_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let mut input = Vec::new();
    let mut out = Vec::new();
    let socket = loop {
        match parse_request(&input, &limits) {
            Ok(Some((request, _))) => break answer(&request, prefix, &mut out),
            Ok(None) => {}
            Err(_) => return Ok(()),
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(&out).await?;
    if let Some(is_grip) = socket {
        return echo(stream, is_grip).await;
    }
    stream.shutdown().await?;
    // A body is taken, whatever it says.
    copy(&mut stream, &mut sink()).await.map(drop)
}

/// Writes the answer. For one that makes this a WebSocket: whether the extension is on.
fn answer(request: &Request<'_>, prefix: &str, out: &mut Vec<u8>) -> Option<bool> {
    let path = request.path();
    let path = path.strip_prefix(prefix).unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let channels = query::pairs(request.query()).filter(|(name, _)| name == "channel");
    let mut channels: Vec<String> = channels.map(|(_, name)| name.into_owned()).collect();
    if channels.is_empty() {
        channels.push("test".to_owned());
    }
    if request.wants_upgrade("websocket") && path == "/ws" {
        return upgrade(request, &channels, out);
    }
    let names = channels.join(", ");
    let hold = |mode| vec![("Grip-Hold", mode), ("Grip-Channel", names.as_str())];
    let (status, fields, body) = match path {
        "" => (200, Vec::new(), "Hello from the test target of Throng!\n"),
        "/response" => (200, hold("response"), "nothing for now\n"),
        "/stream" => (200, hold("stream"), "[stream opened]\n"),
        _ => (404, Vec::new(), "no such test resource\n"),
    };
    let mut fields = fields;
    fields.push(("Content-Type", "text/plain"));
    encode_response(status, "", &fields, body.as_bytes(), false, out);
    None
}

fn upgrade(request: &Request<'_>, channels: &[String], out: &mut Vec<u8>) -> Option<bool> {
    let accepted = handshake::accept(request.method, request.headers());
    let Ok(accepted) = accepted else {
        encode_response(400, "", &[], b"this is no handshake\n", false, out);
        return None;
    };
    let offered = request
        .headers()
        .filter(|(name, _)| name.eq_ignore_ascii_case("Sec-WebSocket-Extensions"));
    let is_grip = offered
        .into_iter()
        .any(|(_, value)| value.starts_with(b"grip"));
    let key = String::from_utf8_lossy(&accepted.key).into_owned();
    let extension = if is_grip {
        "Sec-WebSocket-Extensions: grip\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {key}\r\n{extension}\r\n"
    );
    out.extend_from_slice(head.as_bytes());
    for channel in channels.iter().filter(|_| is_grip) {
        let name = throng_grip::Value::Text(channel.clone()).into_json();
        let control = format!("c:{{\"type\":\"subscribe\",\"channel\":{name}}}");
        encode_message(Masking::Server, Opcode::Text, control.as_bytes(), out);
    }
    Some(is_grip)
}

/// Says what it is told.
async fn echo(mut stream: DuplexStream, is_grip: bool) -> io::Result<()> {
    let mut decoder = Decoder::new(Role::Server);
    let limits = WsLimits::new(MESSAGE_BYTES_MAX);
    let prefix: &[u8] = if is_grip { b"m:" } else { b"" };
    loop {
        let mut input = Vec::new();
        if stream.read_buf(&mut input).await? == 0 {
            return Ok(());
        }
        let (mut out, mut is_over) = (Vec::new(), false);
        let fed = decoder.feed(&mut input, &limits, |event| {
            match event {
                Event::Message { opcode, data } => {
                    let data = [prefix, data].concat();
                    encode_message(Masking::Server, opcode, &data, &mut out);
                }
                Event::Ping(data) => encode_pong(Masking::Server, data, &mut out),
                Event::Pong(_) => {}
                Event::Close(frame) => {
                    is_over = true;
                    encode_close_answer(Masking::Server, frame.as_ref(), &mut out);
                }
            }
            ControlFlow::Continue(())
        });
        let is_broken = fed.is_err();
        stream.write_all(&out).await?;
        if is_over || is_broken {
            return stream.shutdown().await;
        }
    }
}
