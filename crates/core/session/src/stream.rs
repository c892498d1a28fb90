//! Sessions that only listen: event streams and streams of lines.
//!
//! The head leaves at once; the first words wait until every channel has answered,
//! and deliveries wait behind them. With one channel deliveries are shared frames;
//! with several, `/sse` and `/stream` write the place in all of them into each id, so
//! the session encodes for itself.

mod voice;

use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_centrifuge::encode_connect_push;
use throng_hub::{Answer, Format};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Disconnect, Millis, Position, Publication, Unsubscribe};

use crate::effects::{End, Fx};
use crate::format::{
    SSE, SSE_MANY, STREAM, STREAM_MANY, UNI_HTTP, UNI_SSE, chunk, encode, sse_event, stream_line,
};
use crate::opening::{self, OPENING, Opening};
use crate::session::first_beat;
use crate::standing::Farewell;
use crate::{Cursor, Desk, Identity, centrifuge};

pub(crate) use voice::Voice;

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
        opening::subscribe(id, channels, stream.format(), fx);
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
            self.voice.sign_of_life(fx.out);
        }
        self.arm(desk, fx);
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
                self.voice
                    .push(fx.out, |out| encode_connect_push(&result, out));
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
        self.voice.first_words(&start, opening, fx.out);
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
        if !self.closing {
            self.voice.dropped(dropped, fx.out);
        }
    }

    /// The server ended a subscription. First words that are still to come leave it out.
    pub(crate) fn unsubscribed(
        &mut self,
        channel: &ChannelName,
        why: Unsubscribe,
        fx: &mut Fx<'_>,
    ) {
        if let Some(opening) = self.opening.as_mut() {
            opening.forget(channel);
        }
        if !self.closing {
            self.voice.unsubscribed(channel, why, fx.out);
        }
    }

    pub(crate) fn farewell(&mut self, farewell: &Farewell, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        self.closing = true;
        // What is held never leaves: it would follow the last word.
        fx.hold = None;
        desk.board.count(farewell.counter());
        self.voice.farewell(farewell, fx.out);
        fx.end(End::Flush);
    }
}
