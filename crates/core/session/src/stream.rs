//! Sessions that only listen: event streams and streams of lines.
//!
//! The head leaves at once; the first words wait until every channel has answered,
//! and deliveries wait behind them. With one channel deliveries are shared frames;
//! with several, `/sse` and `/stream` write the place in all of them into each id, so
//! the session encodes for itself.

use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_centrifuge::{
    append_text, encode_connect_push, encode_disconnect_push, encode_message_push, encode_ping,
    encode_unsubscribe_push, payload_of,
};
use throng_http1::LAST_CHUNK;
use throng_hub::{Answer, Asker, Command, Format};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Disconnect, Millis, Position, Publication, Unsubscribe};

use crate::effects::{End, Fx};
use crate::format::{
    SSE, SSE_MANY, STREAM, STREAM_MANY, UNI_HTTP, UNI_SSE, chunk, encode, sse_data, sse_event,
    stream_line,
};
use crate::opening::{OPENING, Opening};
use crate::session::{Farewell, first_beat};
use crate::{Cursor, Desk, Identity, centrifuge};

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

/// See the module's head.
pub(crate) struct Stream {
    identity: Option<Box<Identity>>,
    opening: Option<Box<Opening>>,
    /// The place in all channels, if there are several and their voice has ids.
    cursor: Option<Box<Cursor>>,
    beat_at: Millis,
    voice: Voice,
    closing: bool,
}

impl Stream {
    /// A stream whose head was written; asks for its channels.
    pub(crate) fn open(
        id: ConnId,
        voice: Voice,
        identity: Option<Box<Identity>>,
        channels: Vec<(ChannelName, Option<Position>)>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let has_ids = matches!(voice, Voice::Sse | Voice::Lines);
        let cursor = (has_ids && channels.len() > 1).then(|| {
            let mut cursor = Cursor::default();
            for (channel, since) in &channels {
                if let Some(since) = since {
                    cursor.set(channel, *since);
                }
            }
            Box::new(cursor)
        });
        let resuming = channels.iter().any(|(_, since)| since.is_some());
        let mut stream = Self {
            identity,
            opening: Some(Opening::new(channels.len(), 0, resuming)),
            cursor,
            beat_at: first_beat(id, desk.limits.stream_keepalive_ms, fx.now),
            voice,
            closing: false,
        };
        fx.hold = Some(true);
        stream.arm(desk, fx);
        if channels.is_empty() {
            stream.opened(id, desk, fx);
        }
        for (channel, since) in channels {
            let asker = Asker {
                conn: id,
                token: OPENING,
            };
            fx.hub(Command::Subscribe {
                asker,
                channel,
                format: stream.format(),
                since,
            });
        }
        stream
    }

    pub(crate) const fn is_sse(&self) -> bool {
        matches!(self.voice, Voice::Sse | Voice::UniSse)
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    const fn format(&self) -> Format {
        match (self.voice, self.cursor.is_some()) {
            (Voice::Sse, false) => SSE,
            (Voice::Sse, true) => SSE_MANY,
            (Voice::Lines, false) => STREAM,
            (Voice::Lines, true) => STREAM_MANY,
            (Voice::UniSse, _) => UNI_SSE,
            (Voice::UniHttp, _) => UNI_HTTP,
        }
    }

    fn arm(&self, desk: &Desk, fx: &mut Fx<'_>) {
        let beat = (desk.limits.stream_keepalive_ms > 0).then_some(self.beat_at);
        let end = self
            .identity()
            .and_then(|identity| identity.expires_at_unix_s);
        let end = end.map(|end_s| fx.now.mono + (end_s * 1000).saturating_sub(fx.now.unix_ms));
        fx.deadline = Some([beat, end].into_iter().flatten().min());
    }

    pub(crate) fn timeout(&mut self, _: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let expires = self
            .identity()
            .and_then(|identity| identity.expires_at_unix_s);
        if expires.is_some_and(|at| at <= fx.now.unix_s()) {
            return self.farewell(&Farewell::Because(Disconnect::Expired), desk, fx);
        }
        if fx.now.mono >= self.beat_at && desk.limits.stream_keepalive_ms > 0 {
            desk.board.count(Counter::Pings);
            self.beat_at = fx.now.mono + desk.limits.stream_keepalive_ms;
            match self.voice {
                Voice::Sse => throng_sse::encode_comment("", fx.out),
                Voice::Lines => chunk(fx.out, |line| line.extend_from_slice(b"{}\n")),
                Voice::UniSse | Voice::UniHttp => self.uni(fx.out, encode_ping),
            }
        }
        self.arm(desk, fx);
    }

    /// Writes one object of the unidirectional protocol.
    fn uni(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        if self.voice == Voice::UniSse {
            sse_data(out, write);
        } else {
            chunk(out, |line| {
                write(line);
                line.push(b'\n');
            });
        }
    }

    pub(crate) fn answer(
        &mut self,
        id: ConnId,
        token: u32,
        answer: Answer,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let (OPENING, Answer::Subscribed { channel, result }) = (token, answer) else {
            return;
        };
        let all_in = self
            .opening
            .as_mut()
            .is_some_and(|opening| opening.take(channel, result));
        if all_in && !self.closing {
            self.opened(id, desk, fx);
        }
    }

    /// Every channel has answered: the first words, then what was missed, then all that waits.
    fn opened(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        fx.hold = Some(false);
        let Some(mut opening) = self.opening.take() else {
            return;
        };
        if opening.overflowed {
            return self.farewell(&Farewell::Because(Disconnect::Slow), desk, fx);
        }
        if opening.opened.iter().any(|opened| opened.result.is_err()) {
            return self.farewell(&Farewell::Because(Disconnect::ServerError), desk, fx);
        }
        if opening.resuming {
            desk.board.count(if opening.recovered() {
                Counter::RecoveredComplete
            } else {
                Counter::RecoveredFailed
            });
        }
        match self.voice {
            Voice::UniSse | Voice::UniHttp => {
                let subs = centrifuge::subscriptions(&opening, desk);
                let client = desk.node.client_id(id);
                let (identity, now) = (self.identity(), fx.now);
                let result =
                    centrifuge::connect_result(identity, client.as_str(), &subs, desk, now, false);
                self.uni(fx.out, |out| encode_connect_push(&result, out));
            }
            Voice::Sse | Voice::Lines => {
                self.first_words(&opening, fx);
                for publication in opening.take_held() {
                    self.write(&publication, fx.out);
                }
            }
        }
    }

    /// `recovered`, where the stream stands, and what was missed.
    ///
    /// Until what was missed has been written, the place is the old one: a client that is
    /// cut off in between comes back for the rest.
    fn first_words(&mut self, opening: &Opening, fx: &mut Fx<'_>) {
        let recovered = opening.recovered();
        let mut start = Cursor::default();
        for opened in &opening.opened {
            if let Ok(Subscribed {
                position: Some(position),
                recovery,
            }) = &opened.result
            {
                let missed = match recovery {
                    Recovery::Whole(missed) if recovered => missed.len() as u64,
                    _ => 0,
                };
                let offset = position.offset - missed.min(position.offset);
                start.set(
                    &opened.channel,
                    Position {
                        offset,
                        ..*position
                    },
                );
            }
        }
        if let Some(cursor) = self.cursor.as_mut() {
            cursor.clone_from(&Box::new(start.clone()));
        }
        let mut id = String::new();
        start.write(&mut id);
        let mut words = format!(
            "{{\"recovered\":{recovered},\"resuming\":{}",
            opening.resuming
        );
        words.push_str(",\"channels\":[");
        let mut names = Vec::new();
        for opened in &opening.opened {
            if !names.is_empty() {
                names.push(b',');
            }
            append_text(opened.channel.as_str(), &mut names);
        }
        words.push_str(&String::from_utf8_lossy(&names));
        words.push(']');
        match self.voice {
            Voice::Lines => {
                if !id.is_empty() {
                    words.push_str(",\"id\":\"");
                    words.push_str(&id);
                    words.push('"');
                }
                words.push_str("}\n");
                chunk(fx.out, |line| line.extend_from_slice(words.as_bytes()));
            }
            _ => {
                words.push('}');
                let event = throng_sse::Event {
                    id: Some(id.as_str()).filter(|id| !id.is_empty()),
                    event: Some("subscribed"),
                    data: words.as_bytes(),
                    retry_ms: Some(RETRY_MS),
                };
                // The id is made of digits, dots and commas.
                let encoded = throng_sse::encode_event(&event, fx.out);
                debug_assert!(encoded.is_ok(), "a cursor is a valid id");
            }
        }
        if recovered {
            for opened in &opening.opened {
                if let Ok(Subscribed {
                    recovery: Recovery::Whole(missed),
                    ..
                }) = &opened.result
                {
                    for publication in missed {
                        self.write(publication, fx.out);
                    }
                }
            }
        }
    }

    /// Writes one publication for this connection alone.
    fn write(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        let format = self.format();
        if format.personal() {
            self.encode_personal(publication, out);
        } else {
            encode(format, publication, out);
        }
    }

    pub(crate) fn encode_personal(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Some(opening) = self.opening.as_mut() {
            return opening.hold(publication);
        }
        let Some(cursor) = self.cursor.as_mut() else {
            return;
        };
        if let Some(position) = publication.position {
            cursor.set(&publication.channel, position);
        }
        let mut id = String::new();
        cursor.write(&mut id);
        if self.voice == Voice::Lines {
            chunk(out, |line| stream_line(publication, &id, line));
        } else {
            sse_event(publication, &id, out);
        }
    }

    pub(crate) fn tell_dropped(&self, dropped: u32, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let words = format!("{{\"dropped\":{dropped}}}");
        match self.voice {
            Voice::Sse => {
                let event = throng_sse::Event {
                    event: Some("dropped"),
                    data: words.as_bytes(),
                    ..throng_sse::Event::default()
                };
                let encoded = throng_sse::encode_event(&event, fx.out);
                debug_assert!(encoded.is_ok(), "there is no id");
            }
            Voice::Lines => chunk(fx.out, |line| {
                line.extend_from_slice(words.as_bytes());
                line.push(b'\n');
            }),
            Voice::UniSse | Voice::UniHttp => {
                let data = payload_of(words.into_bytes());
                self.uni(fx.out, |out| encode_message_push(&data, false, out));
            }
        }
    }

    pub(crate) fn tell_unsubscribed(
        &self,
        channel: &ChannelName,
        why: Unsubscribe,
        fx: &mut Fx<'_>,
    ) {
        if self.closing {
            return;
        }
        match self.voice {
            Voice::UniSse | Voice::UniHttp => self.uni(fx.out, |out| {
                let (code, reason) = (why.code(), why.reason());
                encode_unsubscribe_push(channel.as_str(), code, reason, false, out);
            }),
            Voice::Sse | Voice::Lines => {
                let mut words = b"{\"unsubscribed\":".to_vec();
                append_text(channel.as_str(), &mut words);
                words.push(b'}');
                if self.voice == Voice::Lines {
                    words.push(b'\n');
                    chunk(fx.out, |line| line.extend_from_slice(&words));
                } else {
                    fx.out.extend_from_slice(b"event: unsubscribed\n");
                    sse_data(fx.out, |data| data.extend_from_slice(&words));
                }
            }
        }
    }

    pub(crate) fn farewell(&mut self, farewell: &Farewell, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        self.closing = true;
        fx.hold = Some(false);
        desk.board.count(match farewell {
            Farewell::Because(reason) => Counter::closed(*reason),
            Farewell::Custom { .. } => Counter::closed(Disconnect::ForceNoReconnect),
            Farewell::Drain { .. } => Counter::closed(Disconnect::Shutdown),
        });
        let (code, reason) = (farewell.code(), farewell.reason());
        let reconnect_ms = match farewell {
            Farewell::Drain { reconnect_ms } => Some(*reconnect_ms),
            _ => None,
        };
        match self.voice {
            Voice::Sse => {
                let words = format!("{{\"code\":{code},\"reason\":\"{reason}\"}}");
                let event = throng_sse::Event {
                    event: Some("disconnect"),
                    data: words.as_bytes(),
                    retry_ms: reconnect_ms,
                    id: None,
                };
                let encoded = throng_sse::encode_event(&event, fx.out);
                debug_assert!(encoded.is_ok(), "there is no id");
            }
            Voice::Lines => chunk(fx.out, |line| {
                line.extend_from_slice(b"{\"disconnect\":{\"code\":");
                line.extend_from_slice(code.to_string().as_bytes());
                line.extend_from_slice(b",\"reason\":");
                append_text(reason, line);
                if let Some(ms) = reconnect_ms {
                    line.extend_from_slice(format!(",\"reconnect_ms\":{ms}").as_bytes());
                }
                line.extend_from_slice(b"}}\n");
            }),
            Voice::UniSse | Voice::UniHttp => {
                self.uni(fx.out, |out| {
                    encode_disconnect_push(code, reason, false, out)
                });
            }
        }
        if matches!(self.voice, Voice::Lines | Voice::UniHttp) {
            fx.out.extend_from_slice(LAST_CHUNK);
        }
        fx.end(End::Flush);
    }
}
