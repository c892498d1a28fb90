//! Words of dialogues: bytes, frames, events and requests as text.

use throng_grip::ws_events::{EVENTS_TYPE, EventKind, WsHttpEvent, decode_events, encode_event};
use throng_http1::origin::{RequestRest, TargetAddress};
use throng_ws::{CloseFrame, WsDecoder, WsRole, encode_close, encode_ping};

use super::*;
use crate::client_side::{WsInput, read};

/// All of it in one line; what is repeated stands once, with a number.
pub(super) fn summary(told: Vec<String>) -> String {
    let all: Vec<String> = { told.chunk_by(|a, b| a == b) }
        .map(|same| match same.len() {
            1 => same[0].clone(),
            times => format!("{} ({times})", same[0]),
        })
        .collect();
    match all.is_empty() {
        true => "-".to_owned(),
        false => all.join(" / "),
    }
}

/// Bytes as a dialogue writes them.
pub(super) fn bytes_of(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('<') {
        out.extend(before.replace('|', "\r\n").bytes());
        rest = after;
        match after
            .split_once('>')
            .map(|(times, after)| (times.parse::<usize>(), after))
        {
            Some((Ok(times), after)) => {
                out.resize(out.len() + times, b'x');
                rest = after;
            }
            _ => out.push(b'<'),
        }
    }
    out.extend(rest.replace('|', "\r\n").bytes());
    out
}

/// A request of HTTP/1.1 to the host `a`, unless it says otherwise: `LINE | FIELD | FIELD||BODY`.
pub(super) fn request_of(text: &str) -> Vec<u8> {
    let (head, body) = text.split_once("||").unwrap_or((text, ""));
    if head.contains(" HTTP/") {
        return bytes_of(&format!("{head}||{body}"));
    }
    let mut lines = head.split(" | ");
    let line = lines.next().unwrap_or_default();
    let fields: String = lines.map(|field| format!("{field}|")).collect();
    bytes_of(&format!("{line} HTTP/1.1|Host: a|{fields}|{body}"))
}

/// Bytes as an outcome shows them; without the date of now.
pub(super) fn shown(bytes: &[u8]) -> String {
    const DATE: &str = "Date: Thu, 01 Jan 1970 ";
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "|");
    let text = text.replace('\n', "\\n").replace("HTTP/1.1 ", "");
    let mut parts = text.split(DATE);
    let first = parts.next().unwrap_or_default().to_owned();
    let text = parts.fold(first, |text, part| text + &part["00:00:00 GMT|".len()..]);
    let letters: Vec<char> = text.chars().collect();
    let same = letters.chunk_by(|a, b| a == b);
    same.map(|same| match same.len() {
        times @ 100.. if same[0] == 'x' => format!("<{times}>"),
        _ => same.iter().collect(),
    })
    .collect()
}

pub(super) fn frame_of(masking: Masking, text: &str) -> Vec<u8> {
    let (kind, content) = text.split_once(' ').unwrap_or((text, ""));
    let bytes = bytes_of(content);
    let mut out = Vec::new();
    match kind {
        "text" => out = frame(masking, Opcode::Text, &bytes),
        "ping" => encode_ping(masking, &bytes, &mut out),
        "close" => {
            let (code, reason) = content.split_once(' ').unwrap_or((content, ""));
            let code = code.parse().expect("a code");
            encode_close(masking, Some(CloseFrame { code, reason }), &mut out);
        }
        _ => panic!("there is no frame {text}"),
    }
    out
}

impl Client {
    /// Returns bytes for it as text; frames if it is a WebSocket, behind the head that made it one.
    pub(super) fn texts_of(&mut self, bytes: &[u8]) -> Vec<String> {
        let is_websocket = { self.solo.session() }.is_some_and(|session| session.is_websocket());
        let end_of_head = bytes.windows(4).position(|end| end == b"\r\n\r\n");
        let (head, frames) = bytes.split_at(match is_websocket {
            true => end_of_head.map_or(0, |at| at + 4),
            false => bytes.len(),
        });
        let head = (!head.is_empty()).then(|| shown(head));
        head.into_iter()
            .chain(frames_in(WsRole::Client, frames))
            .collect()
    }
}

/// The frames in these bytes, or the bytes if they are no frames.
pub(super) fn frames_in(role: WsRole, bytes: &[u8]) -> Vec<String> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let (frames, fed) = read(&mut WsDecoder::new(role), &mut bytes.to_vec(), usize::MAX);
    if fed.is_err() || frames.is_empty() {
        return vec![shown(bytes)];
    }
    let text = |frame: WsInput| match frame {
        WsInput::Message(kind, data) => format!("{} {}", kind.name(), shown(&data)),
        WsInput::Close(code, reason) => format!("close {} {}", code.unwrap_or(0), shown(&reason)),
    };
    let texts = frames.into_iter().map(text);
    texts.map(|text| text.trim_end().to_owned()).collect()
}

/// Events of WebSocket over HTTP: `KIND content`, with ` + ` between them.
pub(super) fn events_of(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for event in text.split(" + ").filter(|event| !event.is_empty()) {
        let (name, content) = event.split_once(' ').unzip();
        let is_it = |kind: &EventKind| kind.name() == name.unwrap_or(event);
        let kind = { EventKind::ALL.into_iter() }.find(is_it).expect("a kind");
        let content = content.map(|content| match kind {
            EventKind::Close => {
                let (code, reason) = content.split_once(' ').unwrap_or((content, ""));
                let code: u16 = code.parse().expect("a code");
                [&code.to_be_bytes()[..], reason.as_bytes()].concat()
            }
            _ => bytes_of(content),
        });
        let content = content.as_deref();
        encode_event(WsHttpEvent { kind, content }, &mut out);
    }
    out
}

pub(super) fn events_as_text(body: &[u8]) -> String {
    let events = decode_events(body).expect("events");
    let text = |event: &WsHttpEvent<'_>| {
        let content = match event.close_code() {
            Some((code, reason)) if event.kind == EventKind::Close => {
                format!("{code} {}", shown(reason))
            }
            _ => shown(event.bytes()),
        };
        let text = format!("{} {content}", event.kind.name());
        text.trim_end().to_owned()
    };
    let events: Vec<String> = events.iter().map(text).collect();
    let same = { events.chunk_by(|a, b| a == b) }.map(|same| summary(same.to_vec()));
    same.collect::<Vec<_>>().join(" + ")
}

/// A request to a backend, with the fields that are of interest.
pub(super) fn request_as_text(request: &OriginRequest) -> String {
    let target = &request.to.targets[0];
    let scheme = if target.tls { "https" } else { "http" };
    let mut words = vec![match &target.address {
        TargetAddress::Origin { host, port } if (host.as_str(), *port) != ("localhost", 7999) => {
            format!(
                "{} {scheme}://{host}:{port}{}",
                request.method, request.path
            )
        }
        _ => format!("{} {}", request.method, request.path),
    }];
    let is_shown = |header: &&Header| {
        let is_host = header.is("Host") && header.value != b"a";
        header.name.starts_with("X-") || header.is("Grip-Last") || is_host
    };
    let fields = { request.headers.iter() }.filter(is_shown);
    words.extend(fields.map(|header| format!("[{}: {}]", header.name, shown(&header.value))));
    match request.rest {
        RequestRest::Nothing => {}
        RequestRest::Upgrade => words.push("upgrade".to_owned()),
        RequestRest::Body(_) => words.push("more follows".to_owned()),
    }
    let is_events = |header: &Header| header.value == EVENTS_TYPE.as_bytes();
    let body = match request.headers.iter().any(is_events) {
        true => events_as_text(&request.body),
        false => shown(&request.body),
    };
    words.extend((!body.is_empty()).then(|| format!("|| {body}")));
    words.join(" ")
}

pub(super) fn failure_named(name: &str) -> OriginEvent {
    let fault = match name {
        "unreachable" => OriginFailureKind::Unreachable,
        "busy" => OriginFailureKind::Busy,
        "unsent" => OriginFailureKind::Unsent,
        "timeout" => OriginFailureKind::Timeout,
        "cut" => OriginFailureKind::Cut,
        _ => panic!("there is no failure {name}"),
    };
    let detail = "inside".to_owned();
    OriginEvent::Failed(OriginFailure { fault, detail })
}
