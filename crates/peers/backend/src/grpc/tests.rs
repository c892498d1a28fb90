//! Calls of gRPC against a played backend, which speaks HTTP/2 by the same crate.

use std::collections::BTreeMap;
use std::sync::Arc;

use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginRequest, OriginTarget};
use throng_http2::{Code, Conn, H2Event, H2Limits, Scratch, encode_field, encode_response};
use throng_peer::{Ended, LinkEvent, LinkId, Peer as _, Want};
use throng_play::Play;
use throng_types::{Millis, cases};

use crate::{AnswerTo, AskLimits, Backend, BackendLimits, Call, Reply, TicketId};

/// The other end of a link.
struct Played {
    conn: Conn,
    /// Bytes that it says once it has `settled`.
    out: Vec<u8>,
    is_settled: bool,
    bodies: BTreeMap<u32, Vec<u8>>,
}

impl Played {
    fn new(streams_max: u32) -> Self {
        let mut out = Vec::new();
        let limits = H2Limits {
            streams_max,
            ..H2Limits::USUAL
        };
        Self {
            conn: Conn::server(&limits, &mut out),
            out,
            is_settled: false,
            bodies: BTreeMap::new(),
        }
    }

    /// Reads what came; gives calls that are whole.
    fn read(&mut self, mut input: &[u8], told: &mut Vec<String>) {
        let mut scratch = Scratch::default();
        while !input.is_empty() {
            let (limits, now) = (H2Limits::USUAL, Millis(0));
            let read = &mut self.conn;
            let event = read.read(&mut input, now, &limits, &mut scratch, &mut self.out);
            match event.expect("it keeps to HTTP/2") {
                Some(H2Event::Request { id, head, .. }) => {
                    let head = String::from_utf8_lossy(head).replace("\r\n", "|");
                    let head = head.replace("|transfer-encoding: chunked||", "");
                    let usual = "POST /s/M HTTP/1.1|host: a|x-a: b|grpc-timeout: ";
                    told.push(format!("asks {id} {}", head.replace(usual, "within ")));
                    self.bodies.insert(id, Vec::new());
                }
                Some(H2Event::Data { id, data, ends, .. }) => {
                    let body = self.bodies.entry(id).or_default();
                    body.extend(data);
                    self.conn.took(id, data.len(), &mut self.out);
                    if ends {
                        told.push(format!("says {id} {}", shown(body)));
                    }
                }
                Some(H2Event::Reset { id, code, .. }) => {
                    told.push(format!("resets {id} {}", code.0))
                }
                Some(H2Event::GoAway { .. }) => told.push("leaves".to_owned()),
                Some(other) => panic!("{other:?}"),
                None => {}
            }
        }
    }

    fn answer(&mut self, id: u32, status: u16, fields: &[(&str, &str)], ends: bool) {
        let fields = fields.iter();
        let fields = fields.map(|(name, value)| (*name, value.as_bytes()));
        let mut block = Vec::new();
        encode_response(status, fields, &mut block);
        self.conn.head(id, &block, ends, &mut self.out);
    }

    fn says(&mut self, id: u32, bytes: &[u8], ends: bool) {
        let sent = self.conn.data(id, bytes.len(), ends, &mut self.out);
        self.out.extend(&bytes[..sent]);
    }

    fn trailers(&mut self, id: u32, fields: &[(&str, &str)]) {
        let mut block = Vec::new();
        for (name, value) in fields {
            encode_field(name, value.as_bytes(), &mut block);
        }
        self.conn.head(id, &block, true, &mut self.out);
    }
}

/// A message behind its length, or bytes, with runs of `x` as their number.
fn shown(bytes: &[u8]) -> String {
    let text = match bytes.split_first_chunk::<5>() {
        Some((prefix, [])) if prefix == &[0; 5] => b"nothing",
        Some((prefix, rest)) if prefix[1..] == (rest.len() as u32).to_be_bytes() => rest,
        _ => return bytes.escape_ascii().to_string(),
    };
    match text.len() > 100 && text.iter().all(|byte| *byte == b'x') {
        true => format!("<{}>", text.len()),
        false => text.escape_ascii().to_string(),
    }
}

/// Bytes of a text in which `<9>` is nine times `x`.
fn unshown(text: &str) -> Vec<u8> {
    let times = text
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix('>'));
    match times {
        Some(times) => vec![b'x'; times.parse().expect("a number")],
        None => text.as_bytes().to_vec(),
    }
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u32).to_be_bytes();
    [&[0], &length[..], message].concat()
}

struct Run {
    play: Play<Backend<u32>>,
    played: BTreeMap<u64, Played>,
    calls: u32,
}

impl Run {
    fn new() -> Self {
        Self {
            play: Play::new(Backend::new(BackendLimits::default())),
            played: BTreeMap::new(),
            calls: 0,
        }
    }

    fn step(&mut self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let number = |at: usize| -> u64 {
            let word = words.get(at).expect("a number");
            word.parse().expect("a number")
        };
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let (link, id) = (
            word(1).parse().unwrap_or(0),
            word(2).parse().unwrap_or_default(),
        );
        let rest = words.get(3..).unwrap_or_default().join(" ");
        let mut told = Vec::new();
        let mut wants = Vec::new();
        match words[0] {
            "begin" => *self = Self::new(),
            "at" => self.play.now.mono = Millis(number(1)),
            // ask HOST TIMEOUT MESSAGE
            "ask" => wants = self.ask(word(1), number(2), &rest),
            "connected" => {
                self.played.insert(link, Played::new(100));
                wants = self.event(link, LinkEvent::Connected);
            }
            "connected-to" => {
                self.played.insert(link, Played::new(id));
                wants = self.event(link, LinkEvent::Connected);
            }
            "settles" => self.at(link).is_settled = true,
            "answers" => {
                let played = self.at(link);
                played.answer(id, 200, &[("content-type", "application/grpc")], false);
                played.says(id, &framed(&unshown(&rest)), false);
                played.trailers(id, &[("grpc-status", "0")]);
            }
            "begins" => {
                let played = self.at(link);
                played.answer(id, 200, &[], false);
                played.says(id, &framed(&unshown(&rest))[..6], false);
            }
            "goes-on" => self.at(link).says(id, &unshown(&rest), false),
            "ends" => {
                let (status, text) = rest.split_once(' ').expect("a status");
                let fields = [("grpc-status", status), ("grpc-message", text)];
                self.at(link).trailers(id, &fields);
            }
            "refuses" => {
                let (status, text) = rest.split_once(' ').expect("a status");
                let fields = [("grpc-status", status), ("grpc-message", text)];
                self.at(link).answer(id, 200, &fields, true);
            }
            "status" => self
                .at(link)
                .answer(id, rest.parse().expect("a status"), &[], true),
            "compressed" => {
                let played = self.at(link);
                played.answer(id, 200, &[], false);
                played.says(id, b"\x01\0\0\0\x01x", false);
                played.trailers(id, &[("grpc-status", "0")]);
            }
            "twice" => {
                let played = self.at(link);
                played.answer(id, 200, &[], false);
                played.says(id, &[framed(b"a"), framed(b"b")].concat(), false);
                played.trailers(id, &[("grpc-status", "0")]);
            }
            "no-status" => {
                let played = self.at(link);
                played.answer(id, 200, &[], false);
                played.says(id, &framed(b"a"), true);
            }
            "resets" => {
                let code = Code(rest.parse().expect("a code"));
                let played = self.at(link);
                played.conn.reset(id, code, &mut played.out);
            }
            // GOAWAY with the last stream that is served.
            "leaves" => {
                let frame = [b"\0\0\x08\x07\0\0\0\0\0", &id.to_be_bytes()[..], &[0; 4]].concat();
                self.at(link).out.extend(frame);
            }
            "says" => wants = self.event(link, LinkEvent::Bytes(b"HTTP/1.1 400 Bad\r\n\r\n")),
            "closed" => wants = self.event(link, LinkEvent::Ended(Ended::ByPeer)),
            "refused" => {
                let why = Ended::Unreachable("refused".to_owned());
                wants = self.event(link, LinkEvent::Ended(why));
            }
            "timeout" => wants = self.event(link, LinkEvent::Timeout(None)),
            _ => panic!("there is no step {step}"),
        }
        let mut deadlines = BTreeMap::new();
        loop {
            for want in std::mem::take(&mut wants) {
                match want {
                    Want::Dial(link, dial) => {
                        let secure = if dial.tls.is_some() { " by TLS" } else { "" };
                        assert!(dial.tls.is_none_or(|tls| tls.http2));
                        told.push(format!(
                            "dial {} {}:{}{secure}",
                            link.0, dial.host, dial.port
                        ));
                    }
                    Want::Write(link, bytes) => {
                        let mut heard = Vec::new();
                        self.at(link.0).read(&bytes, &mut heard);
                        told.extend(heard.iter().map(|text| format!("{} {text}", link.0)));
                    }
                    Want::Finish(link) => told.push(format!("finish {}", link.0)),
                    Want::End(link) => told.push(format!("end {}", link.0)),
                    Want::Deadline(link, at) => drop(deadlines.insert(link.0, at)),
                    other => panic!("{other:?}"),
                }
            }
            let settled = self.played.iter_mut().filter(|(_, it)| it.is_settled);
            let says = settled.map(|(link, it)| (*link, std::mem::take(&mut it.out)));
            let says: Vec<(u64, Vec<u8>)> = says.filter(|(_, out)| !out.is_empty()).collect();
            for (link, out) in &says {
                // Whatever way it is cut.
                for piece in out.chunks(1_000) {
                    wants.extend(self.event(*link, LinkEvent::Bytes(piece)));
                }
            }
            if wants.is_empty() {
                break;
            }
        }
        for (link, at) in deadlines {
            let at = at.map_or_else(|| "none".to_owned(), |at| at.0.to_string());
            told.push(format!("{link} by {at}"));
        }
        for reply in self.play.replies() {
            let Reply::Whole(token, answer) = reply else {
                panic!("{reply:?}");
            };
            told.push(match answer {
                Ok((status, body)) => format!("{token}: {status} {}", shown(&framed(&body))),
                Err(failure) => format!("{token}: {:?} {}", failure.fault, failure.detail),
            });
        }
        if told.is_empty() {
            return "-".to_owned();
        }
        told.join(" / ")
    }

    fn at(&mut self, link: u64) -> &mut Played {
        self.played.get_mut(&link).expect("a link")
    }

    fn event(&mut self, link: u64, event: LinkEvent<'_>) -> Vec<Want> {
        self.play.event(LinkId(link), event).1
    }

    fn ask(&mut self, host: &str, timeout_ms: u64, message: &str) -> Vec<Want> {
        let (host, tls) = match host.strip_prefix("tls://") {
            Some(host) => (host, "s"),
            None => (host, ""),
        };
        let target = OriginTarget::from_url(&format!("http{tls}://{host}"));
        let to = Destination {
            connect_timeout_ms: timeout_ms,
            response_timeout_ms: timeout_ms,
            targets: vec![target.expect("a target")],
        };
        let headers = vec![Header::new("Host", host), Header::new("X-A", "b")];
        let mut request = OriginRequest::new(Arc::new(to), "POST", "/s/M".to_owned(), headers);
        request.body = unshown(message);
        let limits = AskLimits {
            bytes_max: 60_000,
            timeout_ms,
        };
        self.calls += 1;
        let call = Call::Begin {
            ticket: TicketId(self.calls.into()),
            to: AnswerTo::Message(limits),
            request,
            token: self.calls,
        };
        self.play.act(|peer, cx| peer.call(call, cx)).1
    }
}

/// Plays the backend's side of each story: what it hears, and all wishes and replies.
#[test]
fn dialogues() {
    let mut run = Run::new();
    for (step, expected) in cases(include_str!("dialogues.txt")) {
        let found = run.step(step);
        assert_eq!(found, expected, "{step}");
    }
}
