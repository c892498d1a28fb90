//! Pushpin's target `test`: a backend inside the process, to try a proxy that has no other.
//!
//! HTTP in bytes goes in and out, so that its answers take the way of any backend's. Paths,
//! statuses and held bodies are those of Pushpin, whose shipped routes lead here.

use std::ops::ControlFlow;

use throng_http1::origin::OriginRequest;
use throng_http1::{HttpLimits, Request, encode_response, parse_request, query};
use throng_types::json::append_str;
use throng_ws::{
    Masking, Opcode, WsDecoder, WsEvent, WsLimits, WsRole, encode_close_answer, encode_message,
    encode_pong, handshake,
};

/// The longest message of a WebSocket.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

pub(crate) struct TestTarget {
    /// Part of the path that chose this target, without its last slash.
    prefix: String,
    state: State,
}

enum State {
    /// Bytes of a request whose head is not whole.
    Asked(Vec<u8>),
    /// A WebSocket; true with the GRIP extension.
    Socket(Box<WsDecoder>, bool),
    /// The rest of the body is taken, whatever it says.
    Answered,
}

impl TestTarget {
    pub(crate) fn new(request: &OriginRequest) -> Self {
        let prefix = request.path.get(..request.matched_bytes);
        Self {
            prefix: prefix.unwrap_or_default().trim_end_matches('/').to_owned(),
            state: State::Asked(Vec::new()),
        }
    }

    /// Takes bytes and appends the answer; true when it closes the connection.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        match &mut self.state {
            State::Answered => false,
            State::Socket(decoder, is_grip) => echo(decoder, *is_grip, bytes, out),
            State::Asked(input) => {
                input.extend_from_slice(bytes);
                let limits = HttpLimits {
                    body_bytes_max: u64::MAX,
                    head_bytes_max: 1 << 20,
                    ..HttpLimits::default()
                };
                let socket = match parse_request(input, &limits) {
                    Ok(None) => return false,
                    Err(_) => return true,
                    Ok(Some((request, _))) => answer(&request, &self.prefix, out),
                };
                self.state = match socket {
                    Some(is_grip) => {
                        State::Socket(Box::new(WsDecoder::new(WsRole::Server)), is_grip)
                    }
                    None => State::Answered,
                };
                matches!(self.state, State::Answered)
            }
        }
    }
}

/// Writes the answer; gives whether the extension is on, if this becomes a WebSocket.
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
        let mut control = b"c:{\"type\":\"subscribe\",\"channel\":".to_vec();
        append_str(channel, &mut control);
        control.push(b'}');
        encode_message(Masking::Server, Opcode::Text, &control, out);
    }
    Some(is_grip)
}

/// Sends back what it gets; true at its end.
fn echo(decoder: &mut WsDecoder, is_grip: bool, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let limits = WsLimits::new(MESSAGE_BYTES_MAX);
    let prefix: &[u8] = if is_grip { b"m:" } else { b"" };
    let (mut input, mut is_over) = (bytes.to_vec(), false);
    let fed = decoder.feed(&mut input, &limits, |event| {
        match event {
            WsEvent::Message { opcode, data } => {
                let data = [prefix, data].concat();
                encode_message(Masking::Server, opcode, &data, out);
            }
            WsEvent::Ping(data) => encode_pong(Masking::Server, data, out),
            WsEvent::Pong(_) => {}
            WsEvent::Close(frame) => {
                is_over = true;
                encode_close_answer(Masking::Server, frame.as_ref(), out);
            }
        }
        ControlFlow::Continue(())
    });
    is_over || fed.is_err()
}
