//! Streams of HTTP/2 on a connection of clients, each as a connection of HTTP/1.1 to its client.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Arguments;
use std::ops::Range;

use throng_http1::{Body, HttpLimits, LAST_CHUNK, Response, encode_chunk, parse_request};
use throng_http2::{Code, Conn as H2, H2Event, H2Fault, H2Limits, Scratch};
use throng_http2::{answer_upgrade, encode_asked, write_answer};
use throng_types::Millis;

/// Lanes, and the connections that carry them.
#[derive(Default)]
pub(crate) struct Lanes {
    /// Clients in a hundred that are on lanes.
    pub(super) percent: usize,
    /// From now on none is dropped by another.
    pub(super) is_calm: bool,
    /// By the numbers of their connections.
    pub(super) carriers: BTreeMap<usize, Carrier>,
}

/// Connection that lanes share.
pub(super) struct Carrier {
    pub(super) h2: H2,
    pub(super) limits: H2Limits,
    pub(super) scratch: Scratch,
    /// Kernels that it connected to.
    pub(super) kernels: Range<usize>,
    /// By their numbers, which are the tags of their streams.
    pub(super) lanes: BTreeMap<u32, Lane>,
    pub(super) newest: u32,
    /// The server or we have gone.
    pub(super) is_over: bool,
}

/// Connection of a client, as far as its carrier knows it.
#[derive(Default)]
pub(super) struct Lane {
    /// Stream of the last request; zero is none.
    pub(super) id: u32,
    /// Bytes of a request that is not whole, or behind it, that wait for windows.
    pub(super) outbox: Vec<u8>,
    /// Whether nothing follows those.
    pub(super) is_shut: bool,
    /// Bytes that came and were not read, and how much of it the server's windows count.
    pub(super) inbox: VecDeque<u8>,
    pub(super) untaken: usize,
    /// The request is for a WebSocket.
    pub(super) is_tunnel: bool,
    /// The answer's body is told in chunks.
    pub(super) has_chunks: bool,
    pub(super) has_ended: bool,
    /// The server left before it looked at it.
    pub(super) is_refused: bool,
}

impl Lane {
    /// Begins the stream of a request that is whole, and sends what windows allow.
    pub(super) fn push(&mut self, tag: u32, h2: &mut H2, out: &mut Vec<u8>) {
        if self.is_refused || self.is_tunnel && self.has_ended {
            return self.outbox.clear();
        }
        if self.id == 0 || self.has_ended && !self.outbox.is_empty() {
            self.begin(tag, h2, out);
        }
        while self.id != 0 && !self.outbox.is_empty() {
            let fits = h2.data(self.id, self.outbox.len(), false, out);
            out.extend(self.outbox.drain(..fits));
            if fits == 0 {
                return;
            }
        }
        if self.is_shut {
            h2.data(self.id, 0, true, out);
        }
    }

    fn begin(&mut self, tag: u32, h2: &mut H2, out: &mut Vec<u8>) {
        let request = parse_request(&self.outbox, &HttpLimits::USUAL).expect("a good request");
        let Some((request, head_bytes)) = request else {
            return;
        };
        let body_bytes = match request.body {
            Body::Length(bytes) => bytes as usize,
            _ => 0,
        };
        if self.outbox.len() < head_bytes + body_bytes {
            return;
        }
        let mut block = Vec::new();
        self.is_tunnel = encode_asked(&request, false, &mut block);
        self.is_shut = !self.is_tunnel && body_bytes > 0;
        let ends = !self.is_tunnel && body_bytes == 0;
        self.outbox.drain(..head_bytes);
        let id = h2.open(tag, &block, ends, out);
        self.id = id.unwrap_or(0);
        (self.has_ended, self.is_refused) = (id.is_none(), id.is_none());
    }

    fn head(&mut self, response: &Response<'_>) {
        let mut head = Vec::new();
        write_answer(response, &mut head);
        let is_accepted = self.is_tunnel && response.status == 200;
        let kind = response.header("content-type").unwrap_or_default();
        self.has_chunks = !is_accepted
            && response.status != 204
            && response.header("content-length").is_none()
            && !kind.starts_with("text/event-stream");
        if is_accepted {
            answer_upgrade(&mut head);
        } else if self.has_chunks {
            head.truncate(head.len() - 2);
            head.extend_from_slice(b"transfer-encoding: chunked\r\n\r\n");
        }
        self.inbox.extend(head);
    }

    fn data(&mut self, data: &[u8]) {
        self.untaken += data.len();
        if !self.has_chunks {
            return self.inbox.extend(data);
        }
        let mut chunk = Vec::new();
        encode_chunk(data, &mut chunk);
        self.inbox.extend(chunk);
    }

    fn ends(&mut self) {
        if self.has_chunks {
            self.inbox.extend(LAST_CHUNK);
        }
        self.has_ended = true;
    }
}

impl Carrier {
    /// Takes frames; what it answers is appended to `out`. False if the server has answered the
    /// first bytes, which came too late, by HTTP/1.1.
    pub(super) fn read(
        &mut self,
        mut input: &[u8],
        now: Millis,
        note: &dyn Fn(Arguments<'_>),
        out: &mut Vec<u8>,
    ) -> bool {
        loop {
            let (scratch, limits) = (&mut self.scratch, &self.limits);
            let event = self.h2.read(&mut input, now, limits, scratch, out);
            if event == Err(H2Fault::FrameTooLong) && !self.h2.is_settled() {
                return false;
            }
            let lanes = &mut self.lanes;
            let lane = match event.expect("the server keeps to HTTP/2") {
                None if input.is_empty() => return true,
                Some(H2Event::Response {
                    tag,
                    response,
                    ends,
                    ..
                }) => { lanes.get_mut(&tag) }.map(|lane| {
                    lane.head(&response);
                    (lane, ends)
                }),
                Some(H2Event::Data {
                    tag, data, ends, ..
                }) => { lanes.get_mut(&tag) }.map(|lane| {
                    lane.data(data);
                    (lane, ends)
                }),
                Some(H2Event::Trailers { tag, .. }) => lanes.get_mut(&tag).map(|it| (it, true)),
                Some(H2Event::Reset { tag, code, .. }) => {
                    note(format_args!("stream of {tag} is reset for {code:?}"));
                    if let Some(lane) = lanes.get_mut(&tag) {
                        lane.has_ended = true;
                        lane.is_refused |= code == Code::REFUSED_STREAM;
                    }
                    None
                }
                Some(H2Event::Writable) => {
                    while let Some((_, tag)) = self.h2.next_writable() {
                        if let Some(lane) = lanes.get_mut(&tag) {
                            lane.push(tag, &mut self.h2, out);
                        }
                    }
                    None
                }
                Some(H2Event::GoAway { last, code }) => {
                    note(format_args!("it goes away after {last} for {code:?}"));
                    for lane in lanes.values_mut().filter(|lane| lane.id > last) {
                        (lane.has_ended, lane.is_refused) = (true, true);
                    }
                    None
                }
                _ => None,
            };
            if let Some((lane, true)) = lane {
                lane.ends();
            }
        }
    }
}

impl Lanes {
    /// A carrier is over, and forgotten if it has no lanes; whether it was over before.
    pub(super) fn drops(&mut self, conn: usize, is_empty: bool) -> Option<bool> {
        let carrier = self.carriers.get_mut(&conn)?;
        let was_over = std::mem::replace(&mut carrier.is_over, true);
        if is_empty {
            self.carriers.remove(&conn);
        }
        Some(was_over)
    }
}
