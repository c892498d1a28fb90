//! Conversations: `stories.txt` tells what a peer sends, what is reported and what is answered.
//! Each is played whole, in cuts of several sizes, and saved and loaded after each cut.

mod ends;

use std::collections::VecDeque;
use std::fmt::Write as _;

use throng_dialogue::{AssertingStage, number, play_asserting, word};
use throng_types::{Load as _, Millis, check_saved};

use super::*;
use crate::frame::{ACK, HEAD_BYTES, PADDED};
use crate::hpack::{self, Decoder};
use crate::{Scratch, encode_response};

#[test]
fn stories() {
    let text = include_str!("tests/stories.txt");
    for (cut, saves) in [(usize::MAX, false), (1, false), (7, true)] {
        play_asserting("stories.txt", text, || Room::new(cut, saves));
    }
}

#[test]
fn sizes() {
    assert_eq!(crate::STREAM_BYTES, 28);
    assert!(size_of::<Conn>() <= 384, "{}", size_of::<Conn>());
    let mut room = Room::new(usize::MAX, false);
    room.step("server");
    assert_eq!(room.conn.held_bytes(), 0);
    room.step("> get 1 /");
    assert_eq!(room.conn.held_bytes(), 4 * crate::STREAM_BYTES);
    room.step("> headers 3 more | :method GET");
    assert!(room.conn.held_bytes() < 4 * crate::STREAM_BYTES + 100);
}

/// One connection, and what it has said that the story has not told yet.
struct Room {
    limits: H2Limits,
    conn: Conn,
    scratch: Scratch,
    now: Millis,
    /// Bytes that are fed at once.
    cut: usize,
    saves: bool,
    events: VecDeque<String>,
    out: Vec<u8>,
    decoder: Decoder,
    is_over: bool,
    /// The next stream of a flood.
    next: u32,
}

impl Room {
    fn new(cut: usize, saves: bool) -> Self {
        let limits = H2Limits::default();
        Self {
            limits,
            conn: Conn::server(&limits, &mut Vec::new()),
            scratch: Scratch::default(),
            now: Millis(0),
            cut,
            saves,
            events: VecDeque::new(),
            out: Vec::new(),
            decoder: Decoder::new(),
            is_over: false,
            next: 1,
        }
    }

    /// Begins anew with other limits.
    fn start(&mut self, role: &str, options: &str) {
        for option in options.split_whitespace() {
            let (name, value) = option.split_once('=').expect("an option");
            match name {
                "streams" => self.limits.streams_max = number(value),
                "window" => self.limits.stream_window = number(value),
                "windows" => self.limits.connection_window = number(value),
                "head" => self.limits.http.head_bytes_max = number(value),
                "fields" => self.limits.http.headers_max = number(value),
                "body" => self.limits.http.body_bytes_max = number(value),
                _ => panic!("unknown option {name}"),
            }
        }
        self.conn = match role {
            "server" => Conn::server(&self.limits, &mut self.out),
            _ => Conn::client(&self.limits, &mut self.out),
        };
    }

    fn feed(&mut self, wire: &[u8]) {
        for piece in wire.chunks(self.cut) {
            let mut input = piece;
            while !input.is_empty() {
                let (conn, scratch) = (&mut self.conn, &mut self.scratch);
                match conn.read(&mut input, self.now, &self.limits, scratch, &mut self.out) {
                    Ok(None) => {}
                    Ok(Some(event)) => note(&mut self.events, &event),
                    Err(fault) if self.is_over => assert!(input.is_empty(), "{fault}"),
                    Err(fault) => {
                        self.is_over = true;
                        self.events.push_back(format!("fault {fault:?}"));
                    }
                }
            }
            if self.saves {
                let saved = self.conn.saved();
                self.conn = Conn::load_whole(&saved).expect("what was saved");
                assert_eq!(self.conn.saved(), saved);
            }
        }
    }

    /// Takes the next frame that was sent, as text.
    fn frame(&mut self) -> String {
        if self.out.is_empty() {
            return "nothing".into();
        }
        if self.out.starts_with(PREFACE) {
            self.out.drain(..PREFACE.len());
            return "preface".into();
        }
        let head = self.out.first_chunk::<HEAD_BYTES>().expect("a head");
        let head = Head::parse(*head).expect("a frame");
        let bytes = head.length as usize;
        let payload: Vec<u8> = self
            .out
            .drain(..HEAD_BYTES + bytes)
            .skip(HEAD_BYTES)
            .collect();
        let number = |at: usize| u32::from_be_bytes(*payload[at..].first_chunk().expect("four"));
        let (id, ends) = (head.stream, if head.has(END_STREAM) { " end" } else { "" });
        match head.kind {
            Kind::Data => format!("data {id}{ends} {}", show(&payload)),
            Kind::Headers => {
                let mut fields = String::new();
                let decoded = self
                    .decoder
                    .decode(&payload, &mut Vec::new(), |name, value| {
                        let _ = write!(fields, " | {} {}", show(name), show(value));
                    });
                decoded.expect("a block");
                format!("headers {id}{ends}{fields}")
            }
            Kind::Settings if head.has(ACK) => "settings ack".into(),
            Kind::Settings => {
                let entries = payload.chunks(6).map(|entry| {
                    let value = u32::from_be_bytes(*entry[2..].first_chunk().expect("four"));
                    format!(" {}={value}", entry[1])
                });
                format!("settings{}", entries.collect::<String>())
            }
            Kind::RstStream => format!("reset {id} {}", number(0)),
            Kind::WindowUpdate => format!("window {id} {}", number(0)),
            Kind::Ping if head.has(ACK) => format!("ping ack {}", show(&payload)),
            Kind::Ping => "ping".into(),
            Kind::GoAway => format!("goaway {} {}", number(0), number(4)),
            kind => format!("{kind:?} {id} {bytes}"),
        }
    }
}

fn show(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

/// Writes an event down; pieces of a body become one.
fn note(events: &mut VecDeque<String>, event: &H2Event<'_>) {
    let end = |ends: &bool| if *ends { " end" } else { "" };
    let listed = |fields: Headers<'_>| -> String {
        let fields = fields.map(|(name, value)| format!(" | {name} {}", show(value)));
        fields.collect()
    };
    let text = match event {
        H2Event::Request {
            id,
            request,
            connects,
            ends,
            ..
        } => {
            let connects = if *connects { " connects" } else { "" };
            let line = format!("{} {} {:?}", request.method, request.target, request.body);
            let fields = listed(request.headers());
            format!("request {id}{connects}{} {line}{fields}", end(ends))
        }
        H2Event::Response {
            id,
            tag,
            response,
            ends,
        } => {
            let fields = listed(response.headers());
            format!(
                "response {id}/{tag}{} {}{fields}",
                end(ends),
                response.status
            )
        }
        H2Event::Data {
            id,
            tag,
            data,
            ends,
        } => {
            let begin = format!("data {id}/{tag} ");
            match events.back_mut() {
                Some(last) if last.starts_with(&begin) && !last.ends_with(" end") => {
                    last.push_str(&show(data));
                    last.push_str(end(ends));
                    return;
                }
                _ => format!("{begin}{}{}", show(data), end(ends)),
            }
        }
        H2Event::Trailers { id, tag, fields } => format!("trailers {id}/{tag}{}", listed(*fields)),
        H2Event::Reset { id, tag, code } => format!("reset {id}/{tag} {}", code.0),
        H2Event::Writable => "writable".into(),
        H2Event::GoAway { last, code } => format!("goaway {last} {}", code.0),
    };
    events.push_back(text);
}

/// Splits off the first word if it is `flag`.
fn flag<'t>(text: &'t str, flag: &str) -> (bool, &'t str) {
    match word(text) {
        (first, rest) if first == flag => (true, rest),
        _ => (false, text),
    }
}

/// A block of `| name value`, as it stands; `: 2` first is a field of the tables by its number.
fn block_of(text: &str) -> Vec<u8> {
    let mut block = Vec::new();
    for field in text.trim().split(" | ") {
        match field.trim_start_matches("| ").split_once(' ') {
            Some(("index", at)) => block.push(0x80 | number::<u8>(at)),
            Some(("hex", bytes)) => {
                let bytes = bytes
                    .split(' ')
                    .map(|byte| u8::from_str_radix(byte, 16).expect("hex"));
                block.extend(bytes);
            }
            Some((name, value)) => {
                let value = value
                    .replace("\\t", "\t")
                    .replace("\\r", "\r")
                    .replace("_", " ");
                hpack::encode_indexed(name, value.as_bytes(), &mut block);
            }
            None if field.is_empty() => {}
            None => hpack::encode_indexed(field.trim_start_matches("| "), b"", &mut block),
        }
    }
    block
}

/// Frame of the peer, as bytes.
fn wire_of(text: &str) -> Vec<u8> {
    let (kind, rest) = word(text);
    let mut out = Vec::new();
    match kind {
        "preface" => out.extend_from_slice(PREFACE),
        "bytes" => out = throng_dialogue::unescaped(rest),
        "hello" => {
            out.extend_from_slice(PREFACE);
            write_frame(Kind::Settings, 0, 0, &[], &mut out);
        }
        "settings" if rest == "ack" => write_frame(Kind::Settings, ACK, 0, &[], &mut out),
        "settings" => {
            let entries = rest.split_whitespace().flat_map(|entry| {
                let (name, value) = entry.split_once('=').expect("a setting");
                let (name, value): (u16, u32) = (number(name), number(value));
                name.to_be_bytes().into_iter().chain(value.to_be_bytes())
            });
            write_frame(
                Kind::Settings,
                0,
                0,
                &entries.collect::<Vec<u8>>(),
                &mut out,
            );
        }
        "ping" => {
            let (ack, payload) = flag(rest, "ack");
            let payload = format!("{payload:8}");
            write_frame(Kind::Ping, u8::from(ack), 0, payload.as_bytes(), &mut out);
        }
        "goaway" => {
            let (last, code) = word(rest);
            write_goaway(number(last), Code(number(code)), "bye", &mut out);
        }
        _ => {
            let (id, rest) = word(rest);
            write_of_stream(kind, number(id), rest, &mut out);
        }
    }
    out
}

fn write_of_stream(kind: &str, id: u32, rest: &str, out: &mut Vec<u8>) {
    match kind {
        "get" | "post" => {
            let (path, rest) = word(rest);
            let (ends, rest) = flag(rest, "end");
            let method = kind.to_uppercase();
            let pseudo =
                format!("| :method {method} | :scheme http | :path {path} | :authority h ");
            let block = block_of(&format!("{pseudo}{rest}"));
            write_frame(Kind::Headers, u8::from(ends) | END_HEADERS, id, &block, out);
        }
        "headers" | "continuation" => {
            let (ends, rest) = flag(rest, "end");
            let (more, rest) = flag(rest, "more");
            let (priority, rest) = flag(rest, "after");
            let (dependency, rest) = if priority { word(rest) } else { ("0", rest) };
            let mut payload = block_of(rest);
            let mut flags = u8::from(ends) | if more { 0 } else { END_HEADERS };
            if priority {
                let dependency: u32 = number(dependency);
                payload.splice(..0, [&dependency.to_be_bytes()[..], &[16]].concat());
                flags |= crate::frame::PRIORITY;
            }
            let kind = if kind == "headers" {
                Kind::Headers
            } else {
                Kind::Continuation
            };
            write_frame(kind, flags, id, &payload, out);
        }
        "large-continuation" => {
            write_frame(Kind::Continuation, 0, id, &vec![b'x'; number(rest)], out);
        }
        "data" => {
            let (ends, rest) = flag(rest, "end");
            let (padded, rest) = flag(rest, "padded");
            let mut payload = match rest.strip_prefix("x ") {
                Some(count) => vec![b'x'; number(count)],
                None => rest.as_bytes().to_vec(),
            };
            if padded {
                payload.insert(0, 3);
                payload.extend([0; 3]);
            }
            let flags = u8::from(ends) | if padded { PADDED } else { 0 };
            write_frame(Kind::Data, flags, id, &payload, out);
        }
        "reset" => write_number(Kind::RstStream, id, number(rest), out),
        "window" => write_number(Kind::WindowUpdate, id, number(rest), out),
        "priority" => {
            let dependency: u32 = number(rest);
            let payload = [&dependency.to_be_bytes()[..], &[16]].concat();
            write_frame(Kind::Priority, 0, id, &payload, out);
        }
        "push" => write_frame(Kind::PushPromise, END_HEADERS, id, &[0, 0, 0, 2], out),
        _ => panic!("unknown frame {kind}"),
    }
}

impl AssertingStage for Room {
    fn step(&mut self, text: &str) {
        let (verb, rest) = word(text);
        let ids = |rest: &str| -> (u32, u32) {
            let (id, value) = word(rest);
            (number(id), number(value))
        };
        match verb {
            "start" => {
                let (role, options) = word(rest);
                self.start(role, options);
            }
            "server" => {
                self.start(verb, rest);
                self.feed(&wire_of("hello"));
                self.out.clear();
            }
            "client" => {
                self.start(verb, rest);
                self.feed(&wire_of("settings 3=2"));
                self.out.clear();
            }
            ">" => {
                self.feed(&wire_of(rest));
            }
            "repeat" => {
                let (count, step) = word(rest);
                for _ in 0..number(count) {
                    if !self.is_over {
                        self.step(step);
                    }
                }
            }
            "=" if rest == "nothing" => assert_eq!(self.events, [""; 0]),
            "=" => assert_eq!(self.events.pop_front().unwrap_or_default(), rest),
            "<" => assert_eq!(self.frame(), rest),
            // Steps over and over, each time for a new stream `ID`; a fault alone is looked at.
            "flood" => {
                let (count, steps) = word(rest);
                let saves = std::mem::take(&mut self.saves);
                for _ in 0..number(count) {
                    for step in steps.split(" ; ") {
                        if !self.is_over {
                            self.events.clear();
                            self.out.clear();
                            self.step(&step.replace("ID", &self.next.to_string()));
                        }
                    }
                    self.next += 2;
                }
                self.saves = saves;
                self.events.retain(|event| event.starts_with("fault"));
                while let Some(goaway) = self.is_over.then(|| self.out.clone()) {
                    self.frame();
                    if self.out.is_empty() {
                        self.out = goaway;
                        break;
                    }
                }
                if !self.is_over {
                    self.out.clear();
                }
            }
            "drop" => {
                self.out.clear();
                self.events.clear();
            }
            "after" => self.now = self.now + number(rest),
            "tag" => {
                let (id, tag) = ids(rest);
                self.conn.set_tag(id, tag);
            }
            "head" => {
                let (id, rest) = word(rest);
                let (ends, rest) = flag(rest, "end");
                let (status, fields) = word(rest);
                let fields = fields
                    .split("| ")
                    .filter_map(|field| field.trim().split_once(' '));
                let fields = fields.map(|(name, value)| (name, value.as_bytes()));
                let mut block = Vec::new();
                encode_response(number(status), fields, &mut block);
                self.conn.head(number(id), &block, ends, &mut self.out);
            }
            // A large one, so that it takes several frames.
            "large-head" => {
                let mut block = Vec::new();
                encode_response(200, [("x", &[b'"'; 40_000][..])], &mut block);
                self.conn.head(number(rest), &block, true, &mut self.out);
            }
            "open" => {
                let (tag, rest) = word(rest);
                let (ends, path) = flag(rest, "end");
                let mut block = Vec::new();
                crate::encode_request("GET", "http", "h", path, None, [], &mut block);
                let id = self.conn.open(number(tag), &block, ends, &mut self.out);
                self.events.push_back(format!("opened {id:?}"));
            }
            "connect" => {
                let (tag, path) = word(rest);
                assert!(self.conn.peer_connects);
                let (protocol, mut block) = (Some("websocket"), Vec::new());
                crate::encode_request("GET", "http", "h", path, protocol, [], &mut block);
                let id = self.conn.open(number(tag), &block, false, &mut self.out);
                self.events.push_back(format!("opened {id:?}"));
            }
            // So many bytes of data, or as many as there is room for.
            "send" => {
                let (id, rest) = word(rest);
                let (ends, want) = flag(rest, "end");
                let want = number(want);
                let bytes = self.conn.data(number(id), want, ends, &mut self.out);
                self.out.extend(vec![b'x'; bytes]);
                self.events.push_back(format!("sent {bytes} of {want}"));
            }
            "next" => {
                let next = self.conn.next_writable();
                self.events.push_back(format!("next {next:?}"));
            }
            "room" => {
                let (id, bytes) = ids(rest);
                assert_eq!(self.conn.room(id), bytes as usize);
            }
            "took" => {
                let (id, bytes) = ids(rest);
                self.conn.took(id, bytes as usize, &mut self.out);
            }
            "release" => self.conn.release(number(rest), &mut self.out),
            "reset" => {
                let (id, code) = ids(rest);
                self.conn.reset(id, Code(code), &mut self.out);
            }
            "drain" => self.conn.drain(&mut self.out),
            "close" => self.conn.close(Code::NO_ERROR, "", &mut self.out),
            "streams" => assert_eq!(self.conn.streams(), number::<usize>(rest)),
            "done" => assert_eq!(self.conn.is_done(), rest == "yes"),
            "mid-head" => assert_eq!(self.conn.is_mid_head(), rest == "yes"),
            "saved" => check_saved(&self.conn),
            _ => panic!("unknown step {verb}"),
        }
    }

    fn end(&mut self) {
        assert_eq!(self.events, [""; 0], "events that the story does not tell");
        assert_eq!(
            self.frame(),
            "nothing",
            "frames that the story does not tell"
        );
    }
}
