//! HTTP/2: conversations in both roles, and blocks of fields.

use throng_http1::HttpLimits;
use throng_http2::{Conn, FRAME_BYTES_MAX, H2Event, H2Limits, Scratch, encode_request};
use throng_types::{Load as _, Millis, Save as _};

use crate::pieces::chopped;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Small bounds, so that short inputs reach them.
const LIMITS: H2Limits = H2Limits {
    http: HttpLimits {
        head_bytes_max: 500,
        headers_max: 12,
        body_bytes_max: 300,
    },
    streams_max: 4,
    stream_window: 200,
    connection_window: 65_535,
};

/// Events, and what was sent; pieces of a body are one.
type Seen = (Vec<String>, Vec<u8>);

struct Talk {
    conn: Conn,
    scratch: Scratch,
    events: Vec<String>,
    out: Vec<u8>,
    /// Takes bodies, answers, and is saved and loaded after each piece.
    acts: bool,
}

impl Talk {
    fn new(is_client: bool, acts: bool) -> Self {
        let mut out = Vec::new();
        let mut conn = match is_client {
            true => Conn::client(&LIMITS, &mut out),
            false => Conn::server(&LIMITS, &mut out),
        };
        let mut block = Vec::new();
        encode_request("GET", "http", "h", "/", None, [], &mut block);
        for tag in [7, 8] {
            conn.open(tag, &block, tag == 7, &mut out);
        }
        Self {
            conn,
            scratch: Scratch::default(),
            events: Vec::new(),
            out,
            acts,
        }
    }

    /// Reads a piece; false if the connection has ended.
    fn read(&mut self, piece: &[u8], arrived: usize) -> bool {
        let mut input = piece;
        while !input.is_empty() {
            let (scratch, out) = (&mut self.scratch, &mut self.out);
            let event = match self.conn.read(&mut input, Millis(0), &LIMITS, scratch, out) {
                Ok(event) => event,
                Err(fault) => {
                    self.events.push(format!("{fault:?}"));
                    return false;
                }
            };
            let Some(event) = event else {
                continue;
            };
            let (text, act) = described(&event);
            match self.events.last_mut() {
                Some(last)
                    if matches!(event, H2Event::Data { .. }) && last.starts_with(&text.0) =>
                {
                    last.push_str(&text.1);
                }
                _ => self.events.push(text.0 + &text.1),
            }
            if self.acts {
                self.act(act);
            }
        }
        let held_max = 2 * arrived + FRAME_BYTES_MAX;
        assert!(
            self.conn.held_bytes() <= held_max,
            "memory follows what arrived"
        );
        assert!(self.conn.streams() <= LIMITS.streams_max as usize);
        if self.acts {
            let saved = self.conn.saved();
            self.conn = Conn::load_whole(&saved).expect("what was saved");
            assert!(self.conn.saved() == saved);
        }
        true
    }

    fn act(&mut self, (id, bytes): (u32, usize)) {
        self.conn.took(id, bytes, &mut self.out);
        if bytes == 0 {
            self.conn.head(id, b"\x88", false, &mut self.out);
            self.conn.data(id, 100, true, &mut self.out);
        }
        while let Some((id, _)) = self.conn.next_writable() {
            let room = self.conn.room(id);
            assert!(0 < room && self.conn.data(id, 90, true, &mut self.out) == room.min(90));
        }
        if bytes == 3 {
            self.conn.release(id, &mut self.out);
        }
    }
}

/// An event as a begin that pieces of one body share and a rest, and its stream and bytes.
fn described(event: &H2Event<'_>) -> ((String, String), (u32, usize)) {
    let act = match event {
        H2Event::Request { id, .. } | H2Event::Trailers { id, .. } => (*id, 0),
        H2Event::Data { id, data, .. } => (*id, data.len()),
        _ => (0, 0),
    };
    let text = match event {
        H2Event::Data { id, data, ends, .. } => {
            let end = if *ends { " end" } else { "" };
            (
                format!("data {id} "),
                format!("{}{end}", data.escape_ascii()),
            )
        }
        H2Event::Request { request, .. } => {
            assert!(request.path().starts_with(['/', '*']));
            (format!("{event:?}"), String::new())
        }
        _ => (format!("{event:?}"), String::new()),
    };
    (text, act)
}

/// Any frames to a connection: it never panics, what it reports and answers does not depend on how
/// they were cut, and what it holds follows what has arrived.
fn talk(is_client: bool, input: &[u8]) {
    let Some(([], wire)) = chopped::<0>(input) else {
        return;
    };
    let begin = if is_client { &[] } else { PREFACE };
    let read = |pieces: &[&[u8]], acts| -> Seen {
        let mut talk = Talk::new(is_client, acts);
        let mut arrived = begin.len();
        let mut goes_on = talk.read(begin, arrived);
        for piece in pieces {
            arrived += piece.len();
            goes_on = goes_on && talk.read(piece, arrived);
        }
        (talk.events, talk.out)
    };
    wire.read(|pieces| read(pieces, false));
    read(&[wire.bytes], true);
    for half in wire.bytes.chunks(wire.lengths[0]) {
        read(&[half], true);
    }
}

pub(crate) fn http2_server(input: &[u8]) {
    talk(false, input);
}

pub(crate) fn http2_client(input: &[u8]) {
    talk(true, input);
}

/// Any blocks of fields, behind a byte that says the length of each.
pub(crate) fn http2_fields(input: &[u8]) {
    let mut talk = Talk::new(false, true);
    assert!(talk.read(PREFACE, PREFACE.len()));
    let mut goes_on = talk.read(b"\0\0\0\x04\0\0\0\0\0", PREFACE.len() + 9);
    let (mut rest, mut id, mut arrived) = (input, 1_u8, PREFACE.len() + 9);
    while let ([length, bytes @ ..], true) = (rest, goes_on && id < 250) {
        let (block, behind) = bytes.split_at(bytes.len().min(usize::from(*length)));
        let head = [0, 0, block.len() as u8, 1, 5, 0, 0, 0, id];
        let frame = [&head[..], block].concat();
        arrived += 2 * frame.len();
        goes_on = talk.read(&frame, arrived);
        (rest, id) = (behind, id + 2);
    }
}
