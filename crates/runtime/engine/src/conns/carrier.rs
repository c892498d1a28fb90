//! State of HTTP/2 of a shard's connections: of carriers, and of the streams that they carry.
//!
//! Owns the way from a session's answer, in the words of HTTP/1.1, to frames. Never: queues, sends
//! or closes; `streams.rs` does.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use throng_http1::{Body, BodyDecoder, HttpLimits, ResponseBody, parse_response};
use throng_http2::{
    Conn, FRAME_BYTES_MAX, H2Event, Scratch, encode_field, encode_response, write_answer,
};
use throng_types::{Millis, Save};

use super::flag;
use super::links::Sparse;
use crate::outbound::Outbound;

/// Bytes that may wait in a carrier's queue before its streams have to. Queue: `carrier's queue`.
pub(super) const CARRIER_BYTES: usize = 128 << 10;
/// Number of a stream that has not begun.
pub(super) const NOT_BEGUN: u32 = 0;

/// Bounds of what sessions answer and ask: there are none.
pub(super) const ANSWER: HttpLimits = HttpLimits {
    head_bytes_max: usize::MAX,
    headers_max: throng_http1::HEADERS_CAP,
    body_bytes_max: u64::MAX,
};

pub(super) mod is {
    /// The body of the request has no length: for the session it is sent in chunks.
    pub(in crate::conns) const CHUNKED: u8 = 1;
    /// A tunnel (extended CONNECT): both sides go on until they end.
    pub(in crate::conns) const TUNNEL: u8 = 2;
    /// The answer to HEAD has no body.
    pub(in crate::conns) const HEAD: u8 = 4;
    /// In the carrier's list of streams that wait.
    pub(in crate::conns) const WAITING: u8 = 8;
    /// The peer has said all.
    pub(in crate::conns) const HEARD: u8 = 16;
    /// Our side has begun it, as a client.
    pub(in crate::conns) const OURS: u8 = 32;
    /// Too slow, and its session had no word that says so: the peer is to see that bytes are
    /// missing.
    pub(in crate::conns) const CUT: u8 = 64;
}

/// Part of a stream's answer that comes next.
#[derive(Save)]
pub(super) enum Part {
    Head,
    Body(BodyDecoder),
    /// Everything was said, with END_STREAM.
    Ended,
    /// The head of a request of ours.
    Ask,
}

/// Place of a stream in its carrier.
#[derive(Save)]
pub(super) struct Ride {
    pub(super) carrier: u32,
    pub(super) id: u32,
    pub(super) part: Part,
    pub(super) flags: u8,
}

impl Ride {
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A socket's state of HTTP/2.
#[derive(Save)]
pub(super) struct Carrier {
    pub(super) conn: Conn,
    /// Address of the client, whatever proxy is between.
    pub(super) peer: IpAddr,
    /// Streams whose queues have more, in their order. Bound: the streams.
    #[save(skip)]
    pub(super) waiting: VecDeque<u32>,
    /// Time until which what has begun must be whole.
    #[save(skip)]
    pub(super) whole_at: Option<Millis>,
}

/// Bytes of a request that its session does not take now.
#[derive(Default, Save)]
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    /// Bytes of the windows that they have taken.
    pub(super) came: usize,
}

/// State of HTTP/2 of a connection that moves.
#[derive(Save)]
pub(super) enum Moved {
    Neither,
    Carrier(Box<Carrier>),
    Stream {
        is_over_tls: bool,
        ride: Ride,
        held: Option<Held>,
    },
}

impl Moved {
    /// The flags of its slot.
    pub(super) fn flags(&self) -> u32 {
        match self {
            Self::Neither => 0,
            Self::Carrier(_) => flag::CARRIER,
            Self::Stream { is_over_tls, .. } => {
                flag::STREAM | if *is_over_tls { flag::OVER_TLS } else { 0 }
            }
        }
    }
}

#[derive(Default)]
pub(super) struct Streams {
    pub(super) carriers: Sparse<Box<Carrier>>,
    pub(super) rides: Sparse<Ride>,
    /// Bytes of requests that their sessions do not take now. Bound: the windows of carriers.
    /// Queue: `held bytes of a stream`.
    pub(super) held: BTreeMap<u32, Held>,
    pub(super) scratch: Scratch,
    /// Bytes that HTTP/2 has just begun with, until they are read. Bound: what one read gives.
    pub(super) first: Vec<u8>,
    pub(super) out: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

/// Reason for which no more of a stream's queue leaves now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// One frame has left, and there may be more.
    Turn,
    /// Nothing is left that may leave.
    Empty,
    /// The window is shut; HTTP/2 tells when it opens.
    Window,
    /// The answer is whole.
    Ended,
    /// The session's answer is none of HTTP/1.1, which would be a bug.
    Broken,
}

/// News of a carrier, with bytes for a session beside it.
pub(crate) enum StreamNews {
    Nothing,
    Begins(NewStream),
    /// So many bytes came for the stream in a slot, which may be framed by now.
    Bytes {
        stream: u32,
        came: usize,
    },
    /// The stream in a slot has gone.
    Gone(u32),
    /// The server's settings have come: streams may begin on this carrier of ours.
    Settled,
    /// The peer does not keep to HTTP/2; what it sent is lost.
    Broken,
}

/// A stream that has no place in the table.
pub(crate) struct NewStream {
    pub(super) id: u32,
    pub(super) flags: u8,
}

impl Ride {
    /// Makes the next frames of what waits: HEADERS, or one of DATA. `whose` is its slot, and
    /// whether its carrier speaks TLS.
    pub(super) fn pull(
        &mut self,
        whose: (u32, bool),
        queue: &mut Outbound,
        conn: &mut Conn,
        payload: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Stop {
        if !queue.may_leave() {
            return Stop::Empty;
        }
        payload.clear();
        let is_ours = self.has(is::OURS);
        match &mut self.part {
            // A session that has asked has nothing more to say.
            Part::Ended if is_ours => Stop::Broken,
            Part::Ended => Stop::Ended,
            Part::Ask => self.ask(whose, queue, conn, payload, out),
            Part::Head => {
                gather(queue, payload);
                match parse_response(payload, &ANSWER, self.flags & is::HEAD != 0) {
                    Err(_) => Stop::Broken,
                    Ok(None) => Stop::Empty,
                    Ok(Some((response, length))) => {
                        let status = response.status;
                        let fields = response.headers();
                        let mut block = Vec::new();
                        encode_response(status, fields, &mut block);
                        if matches!(status, 101 | 200..) {
                            let body = match status {
                                101 => ResponseBody::UntilClose,
                                _ => response.body,
                            };
                            self.part = Part::Body(BodyDecoder::for_response(body, &ANSWER));
                        }
                        let ends = matches!(&self.part, Part::Body(body) if body.is_done());
                        conn.head(self.id, &block, ends, out);
                        queue.sent(length);
                        if ends {
                            self.part = Part::Ended;
                            return Stop::Ended;
                        }
                        Stop::Turn
                    }
                }
            }
            Part::Body(body) if body.is_at_trailers() => {
                gather(queue, payload);
                let Some((block, length)) = trailers(payload) else {
                    return Stop::Empty;
                };
                match block.is_empty() {
                    true => {
                        conn.data(self.id, 0, true, out);
                    }
                    false => conn.head(self.id, &block, true, out),
                }
                queue.sent(length);
                self.part = Part::Ended;
                Stop::Ended
            }
            Part::Body(body) => {
                let want = conn.room(self.id).min(FRAME_BYTES_MAX);
                let taken = queue.with_slices(|slices| {
                    let mut taken = 0;
                    for slice in slices {
                        let fits = &slice[..slice.len().min(want - payload.len())];
                        let read = unframe(body, fits, payload)?;
                        taken += read;
                        if read < slice.len() || body.is_done() {
                            break;
                        }
                    }
                    Some(taken)
                });
                let Some(taken) = taken else {
                    return Stop::Broken;
                };
                let ends = body.is_done();
                queue.sent(taken);
                if body.is_at_trailers() && payload.is_empty() {
                    return Stop::Turn;
                }
                if taken == 0 {
                    // Notes that the stream waits.
                    conn.data(self.id, 1, false, out);
                    return Stop::Window;
                }
                conn.data(self.id, payload.len(), ends, out);
                out.extend_from_slice(payload);
                if ends {
                    self.part = Part::Ended;
                    return if is_ours { Stop::Empty } else { Stop::Ended };
                }
                Stop::Turn
            }
        }
    }
}

/// Appends the head of a queue to `text`, as much as one write takes.
pub(super) fn gather(queue: &Outbound, text: &mut Vec<u8>) {
    queue.with_slices(|slices| {
        slices.iter().for_each(|it| text.extend_from_slice(it));
    });
}

/// Encodes the trailer fields behind a last chunk as a block, empty if there are none, and tells
/// how long they were; nothing until they are whole.
fn trailers(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut block, mut at) = (Vec::new(), 0);
    loop {
        let line = text[at..].windows(2).position(|end| end == b"\r\n")?;
        let field = &text[at..at + line];
        at += line + 2;
        if field.is_empty() {
            return Some((block, at));
        }
        let colon = field.iter().position(|&byte| byte == b':');
        let (name, value) = field.split_at(colon.unwrap_or(field.len()));
        let name = String::from_utf8_lossy(name);
        encode_field(&name, value.get(1..).unwrap_or_default(), &mut block);
    }
}

/// Appends the data of a piece of a body to `payload`; returns how many bytes of it were taken, all
/// but those behind the end, and trailer fields.
pub(super) fn unframe(
    body: &mut BodyDecoder,
    bytes: &[u8],
    payload: &mut Vec<u8>,
) -> Option<usize> {
    let mut taken = 0;
    while taken < bytes.len() && !body.is_done() {
        if body.is_at_trailers() && bytes[taken] != b'\r' {
            break;
        }
        let step = body.feed(&bytes[taken..]).ok()?;
        payload.extend_from_slice(step.data);
        taken += step.consumed;
    }
    Some(taken)
}

/// Part of an event that is of interest here.
pub(super) enum Heard {
    Nothing,
    Settled,
    Begins(NewStream),
    Answer { tag: u32, ends: bool },
    Bytes { tag: u32, ends: bool },
    Gone(u32),
    Writable,
    GoAway { last: u32 },
}

/// Copies what a session gets of an event to `bytes`: they change under its hands.
pub(super) fn hear(event: H2Event<'_>, bytes: &mut Vec<u8>) -> Heard {
    bytes.clear();
    match event {
        H2Event::Request {
            id,
            request,
            head,
            connects,
            ends,
        } => {
            bytes.extend_from_slice(head);
            let flag = |holds, flag| if holds { flag } else { 0 };
            let flags = flag(request.body == Body::Chunked, is::CHUNKED)
                | flag(connects, is::TUNNEL)
                | flag(request.method == "HEAD", is::HEAD)
                | flag(ends, is::HEARD);
            Heard::Begins(NewStream { id, flags })
        }
        H2Event::Data {
            tag, data, ends, ..
        } => {
            bytes.extend_from_slice(data);
            Heard::Bytes { tag, ends }
        }
        H2Event::Trailers { tag, .. } => Heard::Bytes { tag, ends: true },
        H2Event::Reset { tag, .. } => Heard::Gone(tag),
        H2Event::Writable => Heard::Writable,
        H2Event::GoAway { last, .. } => Heard::GoAway { last },
        H2Event::Response {
            tag,
            response,
            ends,
            ..
        } => {
            write_answer(&response, bytes);
            Heard::Answer { tag, ends }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{alone, at};
    use super::*;

    #[test]
    fn a_peer_that_goes_on_is_not_slow_wherever_its_pieces_end() {
        let (mut conns, _peer, id) = alone();
        conns.set_now(at(1000));
        conns.begin_carrier(id.index(), std::net::Ipv4Addr::LOCALHOST.into());
        let mut is_ended = |ms, mut wire: &[u8]| {
            conns.set_now(at(ms));
            while !wire.is_empty() {
                conns.read_frames(id.index(), &mut wire, &mut Vec::new());
            }
            conns.set_carrier_deadline(id.index());
            conns.expired();
            conns.is_ending(id.index())
        };
        let ping = b"\0\0\x08\x06\0\0\0\0\0payload.";
        let (end, begin) = (&ping[5..], &ping[..5]);
        let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
        assert!(!is_ended(2000, &[hello, begin].concat()));
        for ms in [11_000, 20_000, 29_000] {
            assert!(!is_ended(ms, &[end, begin].concat()));
        }
        assert!(!is_ended(38_000, &end[..4]));
        assert!(is_ended(40_000, &end[4..5]));
    }

    #[test]
    fn trailer_fields_become_a_block_once_they_are_whole() {
        let text = b"grpc-status: 0\r\nName:value\r\n\r\nbehind";
        let whole = text.len() - b"behind".len();
        let mut block = Vec::new();
        encode_field("grpc-status", b"0", &mut block);
        encode_field("name", b"value", &mut block);
        for cut in 0..=text.len() {
            let found = trailers(&text[..cut]);
            let expected = (cut >= whole).then(|| (block.clone(), whole));
            assert_eq!(found, expected, "{cut}");
        }
        assert_eq!(trailers(b"\r\n"), Some((Vec::new(), 2)));
    }
}
