//! The words of each kind of stream, other than deliveries.

use throng_centrifuge::{
    append_text, encode_disconnect_push, encode_message_push, encode_ping, encode_unsubscribe_push,
    payload_of,
};
use throng_http1::LAST_CHUNK;
use throng_types::{ChannelName, Unsubscribe};

use crate::Cursor;
use crate::format::{chunk, sse_data};
use crate::opening::Opening;
use crate::standing::Farewell;

/// How long an `EventSource` waits before it comes back, in milliseconds.
const RETRY_MS: u64 = 2000;

/// Whose words it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voice {
    /// `/sse`.
    Sse,
    /// `/stream`.
    Lines,
    /// `/connection/uni_sse`.
    UniSse,
    /// `/connection/uni_http_stream`.
    UniHttp,
}

impl Voice {
    /// Writes one object of the unidirectional protocol.
    pub(super) fn push(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        if self == Self::UniSse {
            sse_data(out, write);
        } else {
            line(out, write);
        }
    }

    /// Shows that the connection is alive.
    pub(super) fn sign_of_life(self, out: &mut Vec<u8>) {
        match self {
            Self::Sse => throng_sse::encode_comment("", out),
            Self::Lines | Self::UniSse | Self::UniHttp => self.push(out, encode_ping),
        }
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
            append_text(opened.channel.as_str(), &mut words);
        }
        words.push(b']');
        if self == Self::Lines {
            if !id.is_empty() {
                words.extend_from_slice(b",\"id\":");
                append_text(&id, &mut words);
            }
            words.push(b'}');
            line(out, |line| line.append(&mut words));
        } else {
            words.push(b'}');
            event(
                out,
                "subscribed",
                &words,
                Some(&id).filter(|id| !id.is_empty()),
                Some(RETRY_MS),
            );
        }
    }

    /// Deliveries were shed.
    pub(super) fn dropped(self, dropped: u32, out: &mut Vec<u8>) {
        let mut words = format!("{{\"dropped\":{dropped}}}").into_bytes();
        match self {
            Self::Sse => event(out, "dropped", &words, None, None),
            Self::Lines => line(out, |line| line.append(&mut words)),
            Self::UniSse | Self::UniHttp => {
                let data = payload_of(words);
                self.push(out, |out| encode_message_push(&data, false, out));
            }
        }
    }

    /// A subscription was ended.
    pub(super) fn unsubscribed(self, channel: &ChannelName, why: Unsubscribe, out: &mut Vec<u8>) {
        if matches!(self, Self::UniSse | Self::UniHttp) {
            return self.push(out, |out| {
                let (code, reason) = (why.code(), why.reason());
                encode_unsubscribe_push(channel.as_str(), code, reason, false, out);
            });
        }
        let mut words = b"{\"unsubscribed\":".to_vec();
        append_text(channel.as_str(), &mut words);
        words.push(b'}');
        if self == Self::Sse {
            event(out, "unsubscribed", &words, None, None);
        } else {
            line(out, |line| line.append(&mut words));
        }
    }

    /// The connection ends.
    pub(super) fn farewell(self, farewell: &Farewell, out: &mut Vec<u8>) {
        let (code, reason) = (farewell.code(), farewell.reason());
        let wait_ms = farewell.reconnect_ms();
        let mut words = format!("{{\"code\":{code},\"reason\":").into_bytes();
        append_text(reason, &mut words);
        match self {
            Self::Sse => {
                words.push(b'}');
                event(out, "disconnect", &words, None, wait_ms);
            }
            Self::Lines => {
                if let Some(ms) = wait_ms {
                    words.extend_from_slice(format!(",\"reconnect_ms\":{ms}").as_bytes());
                }
                line(out, |line| {
                    line.extend_from_slice(b"{\"disconnect\":");
                    line.append(&mut words);
                    line.extend_from_slice(b"}}");
                });
            }
            Self::UniSse | Self::UniHttp => {
                self.push(out, |out| encode_disconnect_push(code, reason, false, out));
            }
        }
        if matches!(self, Self::Lines | Self::UniHttp) {
            out.extend_from_slice(LAST_CHUNK);
        }
    }
}

/// Appends one line in a chunk.
fn line(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    chunk(out, |line| {
        write(line);
        line.push(b'\n');
    });
}

/// Appends one named event.
fn event(out: &mut Vec<u8>, name: &str, data: &[u8], id: Option<&String>, retry_ms: Option<u64>) {
    let id = id.map(String::as_str);
    let event = throng_sse::Event {
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
