//! One connection: its streams and windows, and what we send on it.
//!
//! Whatever is sent names a stream by its id; where that stream is gone, nothing happens. What is
//! read is in [`read`] and [`heads`].

mod heads;
mod read;
#[cfg(test)]
mod tests;

use throng_http1::{Headers, HttpLimits, Request, Response};
use throng_types::Save;

use crate::H2Fault;
use crate::budget::{self, Budget};
use crate::frame::{
    Code, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, HEAD_BYTES, Head, Kind, NUMBER_MAX, setting,
    write_frame, write_goaway, write_head, write_number,
};
use crate::hpack::{Decoder, NO_TABLE};
use crate::streams::{Gone, PEER_ENDED, Stream, Streams, UNKNOWN, WE_ENDED};

/// Begins what a client sends (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The window of streams and connections where nobody has said another one (section 6.9.2).
const WINDOW: u32 = 65_535;

/// Bounds of a connection, and what the peer is told of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct H2Limits {
    /// Bounds of each head and body. A head's bytes are those of its names and values and 32 for
    /// each field, as the RFC counts them.
    pub http: HttpLimits,
    /// Streams of the peer at once; more are refused.
    pub streams_max: u32,
    /// Bytes of a body that a stream's owner has not taken, at most. Below 65,535, bodies of peers
    /// that have not read our settings yet are refused. Queue: `body on a stream`.
    pub stream_window: u32,
    /// Bytes of all bodies that owners have not taken, at most; 65,535 at least.
    pub connection_window: u32,
}

impl H2Limits {
    /// Bounds that suit most servers.
    pub const USUAL: Self = Self {
        http: HttpLimits::USUAL,
        streams_max: 128,
        stream_window: WINDOW,
        connection_window: 4 * WINDOW,
    };
}

impl Default for H2Limits {
    fn default() -> Self {
        Self::USUAL
    }
}

/// H2Event on a connection; it borrows what was read.
#[derive(Debug, PartialEq, Eq)]
pub enum H2Event<'a> {
    /// A stream begins, in the server's role. Its owner says its place by [`Conn::set_tag`].
    Request {
        id: u32,
        /// Its body is none, of a length, or [`throng_http1::Body::Chunked`]: whatever comes until
        /// the stream ends. Its data come without the framing of chunks.
        request: Request<'a>,
        /// Text that the request was read from, which says all that it says.
        head: &'a [u8],
        /// True for a WebSocket by extended CONNECT, which looks like an upgrade of HTTP/1.1; its
        /// answer of 101 becomes 200 in [`crate::encode_response`].
        connects: bool,
        /// True if nothing follows.
        ends: bool,
    },
    /// An answer, in the client's role; of status 1xx, another one follows.
    Response {
        id: u32,
        tag: u32,
        response: Response<'a>,
        /// True if nothing follows.
        ends: bool,
    },
    /// Bytes of a body. Who has taken them says so by [`Conn::took`].
    Data {
        id: u32,
        tag: u32,
        data: &'a [u8],
        /// True if nothing follows.
        ends: bool,
    },
    /// Fields behind a body, which end the stream's other side.
    Trailers {
        id: u32,
        tag: u32,
        fields: Headers<'a>,
    },
    /// The stream is gone: the peer has reset it, or we have, for what came on it.
    Reset { id: u32, tag: u32, code: Code },
    /// Streams may go on, see [`Conn::next_writable`].
    Writable,
    /// The peer opens and takes no more streams; those of ours above `last` were not looked at.
    GoAway { last: u32, code: Code },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
enum Role {
    Server,
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
enum Phase {
    /// So many bytes of the preface have come.
    Preface(u8),
    /// SETTINGS must come first.
    First,
    Open,
    /// Input is ignored; output may still be leaving.
    Failed(H2Fault),
}

/// Frame of which more is to come.
#[derive(Clone, Copy, Debug, Save)]
enum Partial {
    /// Its payload is collected in [`Conn::held`].
    Whole(Head),
    /// The first byte says the length of the padding.
    Padding(Head),
    Data(Body),
    /// Payload without meaning for us, or that nobody wants.
    Skipped(u32),
}

/// Data of one frame that have not come.
#[derive(Clone, Copy, Debug, Save)]
struct Body {
    id: u32,
    left: u32,
    /// Length of the padding behind them.
    padding: u8,
    /// True if they are the stream's last.
    ends: bool,
}

/// Block of fields of which more is to come.
#[derive(Debug, Save)]
struct Block {
    id: u32,
    ends: bool,
    continuations: u8,
    bytes: Vec<u8>,
}

/// Connection of either role.
#[derive(Debug, Save)]
#[save(check = Self::is_sound)]
pub struct Conn {
    role: Role,
    phase: Phase,
    budget: Budget,
    streams: Streams,
    decoder: Decoder,
    /// Begin of a frame that is not whole: of its head, or of its payload. Queue: `partial frame`.
    held: Vec<u8>,
    partial: Option<Partial>,
    block: Option<Box<Block>>,
    /// The highest stream of the peer.
    last: u32,
    /// The next stream of ours.
    next: u32,
    /// Bytes that all streams may send.
    send: i32,
    /// Bytes that the peer may send on all streams.
    recv: u32,
    /// Bytes that were taken and the peer was not told about.
    taken: u32,
    /// Windows that we have told the peer: of each stream, and of all.
    windows: (u32, u32),
    streams_max: u32,
    /// Window of streams that begin, as the peer said.
    peer_window: u32,
    peer_streams_max: u32,
    /// The peer takes extended CONNECT.
    peer_connects: bool,
    /// The highest stream of the peer that is served, once it was told that.
    served: Option<u32>,
    peer_leaves: bool,
    /// Data have left since the peer's last ping: clients of gRPC measure the way of data by one.
    has_sent: bool,
    /// The peer was told that our blocks use no table.
    told_no_table: bool,
}

impl Conn {
    /// Begins in the server's role, and says our settings.
    #[must_use]
    pub fn server(limits: &H2Limits, out: &mut Vec<u8>) -> Self {
        Self::new(Role::Server, Phase::Preface(0), limits, out)
    }

    /// Begins in the client's role, and says our settings. Requests may follow at once.
    #[must_use]
    pub fn client(limits: &H2Limits, out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(PREFACE);
        Self::new(Role::Client, Phase::First, limits, out)
    }

    fn new(role: Role, phase: Phase, limits: &H2Limits, out: &mut Vec<u8>) -> Self {
        let stream_window = limits.stream_window.min(NUMBER_MAX);
        let window = limits.connection_window.clamp(WINDOW, NUMBER_MAX);
        let (is_server, head_bytes) = (role == Role::Server, limits.http.head_bytes_max as u32);
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::INITIAL_WINDOW_SIZE, stream_window),
            (setting::MAX_HEADER_LIST_SIZE, head_bytes),
            (setting::MAX_CONCURRENT_STREAMS, limits.streams_max),
            (setting::ENABLE_CONNECT_PROTOCOL, 1),
            (setting::ENABLE_PUSH, 0),
        ];
        let settings = settings.iter().filter(|(name, _)| match *name {
            setting::MAX_CONCURRENT_STREAMS | setting::ENABLE_CONNECT_PROTOCOL => is_server,
            setting::ENABLE_PUSH => !is_server,
            _ => true,
        });
        let settings = settings.flat_map(|(name, value)| {
            let (name, value) = (name.to_be_bytes(), value.to_be_bytes());
            name.into_iter().chain(value)
        });
        write_frame(Kind::Settings, 0, 0, &settings.collect::<Vec<u8>>(), out);
        if window > WINDOW {
            write_number(Kind::WindowUpdate, 0, window - WINDOW, out);
        }
        Self {
            role,
            phase,
            budget: Budget::default(),
            streams: Streams::default(),
            decoder: Decoder::new(),
            held: Vec::new(),
            partial: None,
            block: None,
            last: 0,
            next: 1,
            send: WINDOW as i32,
            recv: window,
            taken: 0,
            windows: (stream_window, window),
            streams_max: limits.streams_max,
            peer_window: WINDOW,
            // Section 6.5.2 has no bound until the peer says one; this is the least it advises.
            peer_streams_max: 100,
            peer_connects: false,
            served: None,
            peer_leaves: false,
            has_sent: false,
            told_no_table: false,
        }
    }

    fn is_sound(&self) -> bool {
        let (stream_window, window) = self.windows;
        // Bytes that owners have; none of a stream whose window would not hold them.
        let held = |stream: &Stream| -> Option<u64> {
            let told = stream.recv.checked_add(stream.taken)?;
            Some(u64::from(stream_window.checked_sub(told)?))
        };
        let held: Option<u64> = self.streams.iter().map(held).sum();
        let told = u64::from(self.recv) + u64::from(self.taken);
        let ids = self.streams.iter().last().map_or(0, |stream| stream.id);
        let bound = match self.role {
            Role::Server => self.last,
            Role::Client => self.next,
        };
        let held_max = match self.partial {
            None => HEAD_BYTES,
            Some(Partial::Whole(head)) => (head.length as usize).min(FRAME_BYTES_MAX),
            Some(Partial::Padding(Head { length: 0, .. })) => return false,
            Some(_) => 1,
        };
        held.is_some_and(|held| told + held <= u64::from(window))
            && ids <= bound
            && window <= NUMBER_MAX
            && self.next <= NUMBER_MAX + 2
            && self.peer_window <= NUMBER_MAX
            && self.held.len() < held_max
            && !matches!(self.phase, Phase::Preface(at) if usize::from(at) >= PREFACE.len())
    }

    /// Tells how many streams live.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Ids and tags of the streams that live, in the order in which they began.
    pub fn tags(&self) -> impl Iterator<Item = (u32, u32)> {
        self.streams.iter().map(|stream| (stream.id, stream.tag))
    }

    /// Tells whether the peer has begun something that is not whole, for which a deadline should
    /// run: the preface, a frame that is no DATA, a block of fields.
    #[must_use]
    pub const fn is_mid_head(&self) -> bool {
        let partial = matches!(
            self.partial,
            Some(Partial::Whole(_) | Partial::Skipped(_) | Partial::Padding(_))
        );
        partial
            || !matches!(self.phase, Phase::Open)
            || self.block.is_some()
            || !self.held.is_empty()
    }

    /// Tells whether one side has said that it leaves, and no stream lives.
    #[must_use]
    pub fn is_done(&self) -> bool {
        (self.served.is_some() || self.peer_leaves) && self.streams.len() == 0
    }

    /// Memory on the heap.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let block =
            { self.block.as_ref() }.map_or(0, |block| size_of::<Block>() + block.bytes.capacity());
        self.held.capacity() + block + self.streams.held_bytes() + self.decoder.held_bytes()
    }

    /// Gives a stream its owner's place, which comes with each event.
    pub fn set_tag(&mut self, id: u32, tag: u32) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.tag = tag;
        }
    }

    /// Sends the head of a response, or trailers if it `ends` a stream that has one. `block` is
    /// what [`crate::encode_response`] has written, perhaps for many streams.
    pub fn head(&mut self, id: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        if self.may_send(id) {
            self.write_block(id, block, ends, out);
            self.note_sent(id, ends, out);
        }
    }

    /// Begins a stream in the client's role, with a block of [`crate::encode_request`]. None if the
    /// peer takes no more now, or will take none.
    pub fn open(&mut self, tag: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) -> Option<u32> {
        if !self.can_open() {
            return None;
        }
        let id = self.next;
        self.next += 2;
        self.begin(id, tag, UNKNOWN);
        self.write_block(id, block, ends, out);
        self.note_sent(id, ends, out);
        Some(id)
    }

    /// Tells whether [`Conn::open`] would open a stream now.
    #[must_use]
    pub fn can_open(&self) -> bool {
        self.role == Role::Client
            && !self.peer_leaves
            && self.next <= NUMBER_MAX
            && self.streams.len() < self.peer_streams_max as usize
            && !matches!(self.phase, Phase::Failed(_))
    }

    /// Streams that the peer takes at once, as it said, in the client's role.
    #[must_use]
    pub const fn peer_streams_max(&self) -> u32 {
        self.peer_streams_max
    }

    /// Tells whether this is the client's role.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.role == Role::Client
    }

    /// Tells whether the peer's settings have come, and the connection has not failed.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    fn begin(&mut self, id: u32, tag: u32, body_left: u32) {
        self.streams.push(Stream {
            id,
            tag,
            send: self.peer_window as i32,
            recv: self.windows.0,
            taken: 0,
            body_left,
            flags: 0,
        });
    }

    fn may_send(&self, id: u32) -> bool {
        self.streams
            .get(id)
            .is_some_and(|stream| !stream.is(WE_ENDED))
    }

    fn write_block(&mut self, id: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) {
        let update: &[u8] = if self.told_no_table { &[] } else { &[NO_TABLE] };
        self.told_no_table = true;
        let first = block.len().min(FRAME_BYTES_MAX - update.len());
        let (first, mut rest) = block.split_at(first);
        let ends = if ends { END_STREAM } else { 0 };
        let whole = if rest.is_empty() { END_HEADERS } else { 0 };
        write_head(
            Kind::Headers,
            ends | whole,
            id,
            update.len() + first.len(),
            out,
        );
        out.extend_from_slice(update);
        out.extend_from_slice(first);
        while !rest.is_empty() {
            let part = &rest[..rest.len().min(FRAME_BYTES_MAX)];
            rest = &rest[part.len()..];
            let whole = if rest.is_empty() { END_HEADERS } else { 0 };
            write_frame(Kind::Continuation, whole, id, part, out);
        }
    }

    /// Tells how many bytes a stream may send now.
    #[must_use]
    pub fn room(&self, id: u32) -> usize {
        let stream = self.streams.get(id).filter(|stream| !stream.is(WE_ENDED));
        stream.map_or(0, |stream| stream.send.min(self.send).max(0) as usize)
    }

    /// Appends the head of one DATA frame for up to `want` bytes and answers for how many: the
    /// caller puts so many bytes behind it. It `ends` our side of the stream only if they are all.
    ///
    /// If they are fewer, the stream waits for its turn, see [`Conn::next_writable`]; if it is none
    /// of some, nothing was appended.
    pub fn data(&mut self, id: u32, want: usize, ends: bool, out: &mut Vec<u8>) -> usize {
        let room = self.room(id);
        let Some(stream) = { self.streams.get_mut(id) }.filter(|stream| !stream.is(WE_ENDED))
        else {
            return 0;
        };
        let bytes = want.min(room).min(FRAME_BYTES_MAX);
        let (all, has_end) = (bytes == want, ends && bytes == want);
        stream.send -= bytes as i32;
        self.send -= bytes as i32;
        if !all {
            self.streams.block(id);
        }
        if bytes > 0 {
            self.has_sent = true;
            self.streams.note_turn(id);
            if all || bytes >= budget::SENT_BYTES {
                self.budget.earn(budget::SENT);
            }
        }
        // What this says comes first: the caller's bytes belong right behind the head.
        self.note_sent(id, has_end, out);
        if bytes > 0 || has_end {
            let flags = if has_end { END_STREAM } else { 0 };
            write_head(Kind::Data, flags, id, bytes, out);
        }
        bytes
    }

    /// Takes the next stream in turn, with its tag, that has more than [`Conn::data`] let through
    /// and may go on. So long as all take one frame each time, they share the window, whether they
    /// are asked for one by one or all at once.
    pub fn next_writable(&mut self) -> Option<(u32, u32)> {
        if self.send <= 0 {
            return None;
        }
        let stream = self.streams.next_writable()?;
        Some((stream.id, stream.tag))
    }

    fn note_sent(&mut self, id: u32, ends: bool, out: &mut Vec<u8>) {
        if ends && let Some(stream) = self.streams.get_mut(id) {
            stream.flags |= WE_ENDED;
            if stream.is(PEER_ENDED) {
                self.remove(id, Gone::Ended, out);
            }
        }
    }

    fn remove(&mut self, id: u32, why: Gone, out: &mut Vec<u8>) -> Option<Stream> {
        let stream = self.streams.remove(id, why)?;
        // What its owner has not taken nobody will.
        self.return_window(self.windows.0 - stream.recv - stream.taken, out);
        if self.served == Some(NUMBER_MAX) && self.streams.len() == 0 {
            self.close(Code::NO_ERROR, "", out);
        }
        Some(stream)
    }

    /// Gives the peer back what it has sent on all streams, once that is half of the window.
    fn return_window(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.taken += bytes;
        if self.taken >= self.windows.1 / 2 {
            self.recv += self.taken;
            write_number(Kind::WindowUpdate, 0, self.taken, out);
            self.taken = 0;
        }
    }

    /// Says that a stream's owner has taken bytes of its body, for which others may come.
    pub fn took(&mut self, id: u32, bytes: usize, out: &mut Vec<u8>) {
        let window = self.windows.0;
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let left = window - stream.recv - stream.taken;
        let bytes = u32::try_from(bytes).unwrap_or(left).min(left);
        stream.taken += bytes;
        if stream.taken >= window.div_ceil(2) && !stream.is(PEER_ENDED) {
            stream.recv += stream.taken;
            write_number(Kind::WindowUpdate, id, stream.taken, out);
            stream.taken = 0;
        }
        self.return_window(bytes, out);
    }

    /// Ends a stream that its owner needs no more: with CANCEL if our side has not ended, without
    /// an error if only the peer's has not (RFC 9113 section 8.1).
    pub fn release(&mut self, id: u32, out: &mut Vec<u8>) {
        let ended = self
            .streams
            .get(id)
            .is_some_and(|stream| stream.is(WE_ENDED));
        self.reset(id, if ended { Code::NO_ERROR } else { Code::CANCEL }, out);
    }

    /// Resets a stream, for a reason that the peer is told.
    pub fn reset(&mut self, id: u32, code: Code, out: &mut Vec<u8>) {
        if self.remove(id, Gone::WeReset, out).is_some() {
            write_number(Kind::RstStream, id, code.0, out);
        }
    }

    /// Asks the peer to open no more streams here; what it opens before it knows is served. Once no
    /// stream lives, the peer is told which was the last, so that it knows what it may send again
    /// (section 6.8).
    pub fn drain(&mut self, out: &mut Vec<u8>) {
        if self.served.is_some() {
            return;
        }
        if self.streams.len() == 0 {
            return self.close(Code::NO_ERROR, "", out);
        }
        self.served = Some(NUMBER_MAX);
        write_goaway(NUMBER_MAX, Code::NO_ERROR, "", out);
    }

    /// Says that no streams are served but those that have begun, and why.
    pub fn close(&mut self, code: Code, reason: &str, out: &mut Vec<u8>) {
        // Once it was said, the number may not grow.
        let last = self
            .served
            .map_or(self.last, |served| served.min(self.last));
        self.served = Some(last);
        write_goaway(last, code, reason, out);
    }
}
