//! Parts of a stream beside deliveries, for each framing.

use throng_http1::LAST_CHUNK;
use throng_session::encode::chunk;
use throng_session::{CloseReason, Opening};
use throng_types::json::append_str;
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
        let mut words = b"{\"recovered\":".to_vec();
        words.extend_from_slice(opening.recovered().to_string().as_bytes());
        words.extend_from_slice(b",\"resuming\":");
        words.extend_from_slice(opening.resuming.to_string().as_bytes());
        words.extend_from_slice(b",\"channels\":[");
        for (n, opened) in opening.opened.iter().enumerate() {
            if n > 0 {
                words.push(b',');
            }
            append_str(opened.channel.as_str(), &mut words);
        }
        words.push(b']');
        if self.is_lines() && !id.is_empty() {
            words.extend_from_slice(b",\"id\":");
            append_str(&id, &mut words);
        }
        words.push(b'}');
        let id = Some(&id).filter(|id| !id.is_empty());
        self.own(out, |out| match self.is_lines() {
            true => line(out, |line| line.append(&mut words)),
            false => event(out, "subscribed", &words, id, Some(RETRY_MS)),
        });
    }

    /// Appends the notice that deliveries were dropped.
    pub(super) fn dropped(self, dropped: u32, out: &mut Vec<u8>) {
        let mut words = format!("{{\"dropped\":{dropped}}}").into_bytes();
        self.own(out, |out| match self.is_lines() {
            false => event(out, "dropped", &words, None, None),
            true => line(out, |line| line.append(&mut words)),
        });
    }

    /// A subscription was ended.
    pub(super) fn unsubscribed(self, channel: &ChannelName, out: &mut Vec<u8>) {
        let mut words = b"{\"unsubscribed\":".to_vec();
        append_str(channel.as_str(), &mut words);
        words.push(b'}');
        self.own(out, |out| match self.is_lines() {
            false => event(out, "unsubscribed", &words, None, None),
            true => line(out, |line| line.append(&mut words)),
        });
    }

    /// Appends the notice that the connection ends, with the milliseconds until a reconnect if the
    /// reason has them.
    pub(super) fn close(self, why: &CloseReason, out: &mut Vec<u8>) {
        let (code, reason) = (why.code(), why.reason());
        let wait_ms = why.reconnect_ms();
        let mut words = format!("{{\"code\":{code},\"reason\":").into_bytes();
        append_str(reason, &mut words);
        self.own(out, |out| match self.is_lines() {
            false => {
                words.push(b'}');
                event(out, "disconnect", &words, None, wait_ms);
            }
            true => {
                if let Some(ms) = wait_ms {
                    words.extend_from_slice(format!(",\"reconnect_ms\":{ms}").as_bytes());
                }
                line(out, |line| {
                    line.extend_from_slice(b"{\"disconnect\":");
                    line.append(&mut words);
                    line.extend_from_slice(b"}}");
                });
            }
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
