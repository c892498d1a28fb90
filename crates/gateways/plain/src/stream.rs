//! `/sse` and `/stream`: clients that only listen.
//!
//! With one channel deliveries are shared frames; with several the place in all of them stands in
//! each id, so the session encodes for itself.

use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_session::{CloseReason, Event, Identity, Opening, Stream, StreamBeat, Transport};
use throng_types::{ChannelName, Disconnect, Position, Publication, Save, Unsubscribe};

use crate::Cx;
use crate::cursor::Cursor;
use crate::forms::{sse_event, stream_line};
use crate::framing::Framing;

/// One client of `/sse` or `/stream`.
#[derive(Save)]
pub struct StreamSession {
    stream: Stream,
    /// The place in all channels, if there are several.
    cursor: Option<Box<Cursor>>,
    framing: Framing,
}

impl StreamSession {
    /// Creates a stream whose head was written.
    pub(crate) fn open(
        framing: Framing,
        identity: Option<Box<Identity>>,
        channels: Vec<(ChannelName, Option<Position>)>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let cursor = (channels.len() > 1).then(|| {
            let mut cursor = Cursor::default();
            for (channel, since) in &channels {
                if let Some(since) = since {
                    cursor.set(channel, *since);
                }
            }
            Box::new(cursor)
        });
        let form = framing.form(cursor.is_some());
        framing.begin(cx.out);
        Self {
            stream: Stream::open(identity, channels, form, cx),
            cursor,
            framing,
        }
    }

    /// Whether another process can go on with it now.
    pub(crate) const fn moves(&self) -> bool {
        self.stream.moves()
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self.framing.is_lines() {
            false => Transport::Sse,
            true => Transport::Stream,
        }
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.stream.is_closing()
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.stream.identity.as_deref()
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            Event::Timeout => self.timeout(cx),
            Event::Answer { token, answer } => {
                if self.stream.answer(token, answer) {
                    self.begin(cx);
                }
            }
            Event::Drained { dropped } if !self.stream.is_closing() => {
                self.framing.dropped(dropped, cx.out);
            }
            // The client reconnects with its position, and learns then which publications are lost.
            Event::Unsubscribed {
                why: Unsubscribe::InsufficientState,
                ..
            } => self.disconnect(Disconnect::InsufficientState, cx),
            Event::Unsubscribed { channel, .. } => self.tell_unsubscribed(channel, cx),
            Event::Close(why) => self.close(why, cx),
            // A listener sends no data, but may send requests, which get no answer.
            Event::Bytes(_) => {}
            Event::Drained { .. }
            | Event::Surveyed(_)
            | Event::Reloaded(_)
            | Event::Control(_)
            | Event::Publication(_) => {}
        }
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        for channel in self.stream.take_expired(cx) {
            self.tell_unsubscribed(&channel, cx);
            cx.unsubscribe(channel);
        }
        match self.stream.timeout(cx) {
            StreamBeat::Early => {}
            StreamBeat::SignOfLife => self.framing.sign_of_life(cx.out),
            StreamBeat::Expired => self.disconnect(Disconnect::Expired, cx),
        }
    }

    fn tell_unsubscribed(&mut self, channel: &ChannelName, cx: &mut Cx<'_>) {
        self.stream.unsubscribed(channel);
        if !self.stream.is_closing() {
            self.framing.unsubscribed(channel, cx.out);
        }
    }

    /// Writes the first words once every channel has answered: then missed publications, then all
    /// that waits.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        match self.stream.begin(cx) {
            Err(reason) => self.disconnect(reason, cx),
            Ok(None) => {}
            Ok(Some(mut opening)) => {
                self.first_words(&opening, cx.out);
                for publication in opening.take_held() {
                    self.write(&publication, cx.out);
                }
            }
        }
    }

    /// Writes whether the client was recovered, the positions, and missed publications.
    ///
    /// Until the missed publications have been written, the position is the old one: a client that
    /// is cut off in between recovers the rest.
    fn first_words(&mut self, opening: &Opening, out: &mut Vec<u8>) {
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
                let epoch = position.epoch;
                start.set(&opened.channel, Position { epoch, offset });
            }
        }
        if let Some(cursor) = self.cursor.as_mut() {
            **cursor = start.clone();
        }
        self.framing.first_words(&start, opening, out);
        if recovered {
            for opened in &opening.opened {
                if let Ok(Subscribed {
                    recovery: Recovery::Whole(missed),
                    ..
                }) = &opened.result
                {
                    for publication in missed {
                        self.write(publication, out);
                    }
                }
            }
        }
    }

    /// Writes one publication for this connection alone.
    fn write(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if self.cursor.is_some() {
            self.encode_personal(publication, out);
        } else {
            let framing = self.framing;
            framing.own(out, |out| framing.publication(publication, out));
        }
    }

    pub(crate) fn encode_personal(&mut self, publication: &Arc<Publication>, out: &mut Vec<u8>) {
        if let Some(opening) = self.stream.opening.as_mut() {
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
        let is_lines = self.framing.is_lines();
        self.framing.own(out, |out| match is_lines {
            true => stream_line(publication, &id, out),
            false => sse_event(publication, &id, out),
        });
    }

    fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        self.close(&CloseReason::Because(reason), cx);
    }

    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        if self.stream.close(why, cx) {
            self.framing.close(why, cx.out);
        }
    }
}
