//! What each kind of stream writes beside deliveries.

use throng_centrifuge::{append_text, encode_ping};
use throng_http1::LAST_CHUNK;
use throng_session::encode::line;
use throng_session::{CloseReason, Opening};
use throng_types::ChannelName;

use crate::cursor::Cursor;

/// How long an `EventSource` waits before it comes back, in milliseconds.
const RETRY_MS: u64 = 2000;

/// How a stream is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `/sse`.
    Sse,
    /// `/stream`.
    Lines,
}

throng_types::save_choice!(Framing { 0: Sse, 1: Lines });

impl Framing {
    /// Shows that the connection is alive.
    pub(super) fn sign_of_life(self, out: &mut Vec<u8>) {
        match self {
            Self::Sse => throng_sse::encode_comment("", out),
            Self::Lines => line(out, encode_ping),
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
        }
    }

    /// A subscription was ended.
    pub(super) fn unsubscribed(self, channel: &ChannelName, out: &mut Vec<u8>) {
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
    pub(super) fn close(self, why: &CloseReason, out: &mut Vec<u8>) {
        let (code, reason) = (why.code(), why.reason());
        let wait_ms = why.reconnect_ms();
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
        }
        if self == Self::Lines {
            out.extend_from_slice(LAST_CHUNK);
        }
    }
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
