//! Parts of a stream beside deliveries, for each framing.

use throng_http1::LAST_CHUNK;
use throng_session::encode::chunk;
use throng_session::{CloseReason, Opening};
use throng_types::json::Object;
use throng_types::{ChannelName, Save};

use crate::cursor::Cursor;
use crate::gzip;

/// Milliseconds until an `EventSource` reconnects.
const RETRY_MS: u64 = 2000;

/// Framing and coding of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Framing {
    /// Events of `/sse`, uncompressed.
    Sse,
    /// Lines of `/stream`, uncompressed.
    Lines,
    /// Events of `/sse`, with gzip.
    SseGzip,
    /// Lines of `/stream`, with gzip.
    LinesGzip,
}

impl Framing {
    pub(crate) const ALL: [Self; 4] = [Self::Sse, Self::Lines, Self::SseGzip, Self::LinesGzip];

    /// Lines of JSON in chunks, rather than events.
    pub(crate) const fn is_lines(self) -> bool {
        matches!(self, Self::Lines | Self::LinesGzip)
    }

    /// Whether the stream has gzip's coding.
    pub(crate) const fn is_gzip(self) -> bool {
        matches!(self, Self::SseGzip | Self::LinesGzip)
    }

    /// Returns this framing with gzip's coding.
    pub(crate) const fn with_gzip(self) -> Self {
        match self.is_lines() {
            true => Self::LinesGzip,
            false => Self::SseGzip,
        }
    }

    /// Appends the start of the body: gzip's header, if the stream is compressed.
    pub(crate) fn begin(self, out: &mut Vec<u8>) {
        if self.is_gzip() {
            self.enclose(out, |out| out.extend_from_slice(&gzip::HEAD));
        }
    }

    /// Appends events or lines that many get.
    pub(crate) fn shared(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.put(gzip::compressed, out, write);
    }

    /// Appends events or lines of this connection alone.
    pub(crate) fn own(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        self.put(gzip::stored, out, write);
    }

    fn put(
        self,
        coding: fn(&[u8], &mut Vec<u8>),
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.enclose(out, |out| match self.is_gzip() {
            false => write(out),
            true => {
                let mut plain = Vec::new();
                write(&mut plain);
                coding(&plain, out);
            }
        });
    }

    fn enclose(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self.is_lines() {
            true => chunk(out, write),
            false => write(out),
        }
    }

    /// Shows that the connection is alive.
    pub(super) fn sign_of_life(self, out: &mut Vec<u8>) {
        self.own(out, |out| match self.is_lines() {
            false => throng_sse::encode_comment("", out),
            true => line(out, |line| line.extend_from_slice(b"{}")),
        });
    }

    /// Whether the client was recovered, and where it stands.
    pub(super) fn first_words(self, start: &Cursor, opening: &Opening, out: &mut Vec<u8>) {
        let mut id = String::new();
        start.write(&mut id);
        let mut words = Vec::new();
        Object::append(&mut words, |words| {
            words.flag("recovered", opening.recovered());
            words.flag("resuming", opening.resuming);
            let channels = opening.opened.iter().map(|opened| opened.channel.as_str());
            words.texts("channels", channels);
            if self.is_lines() {
                words.text_if_any("id", &id);
            }
        });
        let id = Some(&id).filter(|id| !id.is_empty());
        self.own(out, |out| match self.is_lines() {
            true => line(out, |line| line.append(&mut words)),
            false => event(out, "subscribed", &words, id, Some(RETRY_MS)),
        });
    }

    /// Appends the notice that deliveries were dropped.
    pub(super) fn dropped(self, dropped: u32, out: &mut Vec<u8>) {
        self.notice("dropped", out, |words| words.number("dropped", dropped));
    }

    /// A subscription was ended.
    pub(super) fn unsubscribed(self, channel: &ChannelName, out: &mut Vec<u8>) {
        let name = "unsubscribed";
        self.notice(name, out, |words| words.text(name, channel.as_str()));
    }

    fn notice(self, name: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Object<'_>)) {
        let mut words = Vec::new();
        Object::append(&mut words, write);
        self.own(out, |out| match self.is_lines() {
            false => event(out, name, &words, None, None),
            true => line(out, |line| line.append(&mut words)),
        });
    }

    /// Appends the notice that the connection ends, with the milliseconds until a reconnect if the
    /// reason has them.
    pub(super) fn close(self, why: &CloseReason, out: &mut Vec<u8>) {
        let (code, reason) = (why.code(), why.reason());
        let wait_ms = why.reconnect_ms();
        let write = |words: &mut Object<'_>| {
            words.number("code", code);
            words.text("reason", reason);
            if self.is_lines()
                && let Some(ms) = wait_ms
            {
                words.number("reconnect_ms", ms);
            }
        };
        self.own(out, |out| match self.is_lines() {
            false => {
                let mut words = Vec::new();
                Object::append(&mut words, write);
                event(out, "disconnect", &words, None, wait_ms);
            }
            true => line(out, |line| {
                Object::append(line, |line| Object::append(line.value("disconnect"), write));
            }),
        });
        if self.is_lines() {
            out.extend_from_slice(LAST_CHUNK);
        }
    }
}

fn line(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    write(out);
    out.push(b'\n');
}

fn event(out: &mut Vec<u8>, name: &str, data: &[u8], id: Option<&String>, retry_ms: Option<u64>) {
    let id = id.map(String::as_str);
    let event = throng_sse::SseEvent {
        id,
        event: Some(name),
        data,
        retry_ms,
    };
    let encoded = throng_sse::encode_event(&event, out);
    debug_assert!(
        encoded.is_ok(),
        "cursors are made of digits, dots and commas"
    );
}
