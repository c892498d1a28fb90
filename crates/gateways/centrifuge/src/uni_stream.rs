//! `/connection/uni_sse` and `/connection/uni_http_stream`: clients that only listen, in the words
//! of Centrifugo's unidirectional protocol.

use throng_centrifuge::{
    encode_connect_push, encode_disconnect_push, encode_message_push, encode_ping,
    encode_unsubscribe_push, payload_of,
};
use throng_http1::LAST_CHUNK;
use throng_session::encode::{line, sse_data};
use throng_session::{CloseReason, Event, Form, Identity, Stream, StreamBeat, Transport};
use throng_types::{Disconnect, Unsubscribe};

use crate::context::Cx;
use crate::forms::{UNI_HTTP, UNI_SSE};
use crate::manner::Wanted;
use crate::results::{connect_result, subscriptions};

/// How objects are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// An event each.
    Sse,
    /// A line each, in chunks.
    Lines,
}

impl Framing {
    const fn form(self) -> Form {
        match self {
            Self::Sse => UNI_SSE,
            Self::Lines => UNI_HTTP,
        }
    }

    fn push(self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        match self {
            Self::Sse => sse_data(out, write),
            Self::Lines => line(out, write),
        }
    }
}

/// One listener: its stream, and how objects are framed in it.
pub struct UniStream {
    stream: Stream,
    framing: Framing,
}

impl UniStream {
    /// A stream whose head was written.
    pub(crate) fn open(
        framing: Framing,
        identity: Option<Box<Identity>>,
        channels: &[Wanted],
        cx: &mut Cx<'_>,
    ) -> Self {
        let is_empty = channels.is_empty();
        let resuming = channels.iter().any(|wanted| wanted.since.is_some());
        let mut this = Self {
            stream: Stream::awaiting(identity, channels.len(), resuming, cx),
            framing,
        };
        for wanted in channels {
            wanted.subscribe(this.stream.identity.as_deref(), framing.form(), cx);
        }
        if is_empty {
            this.begin(cx);
        }
        this
    }

    pub(crate) const fn transport(&self) -> Transport {
        match self.framing {
            Framing::Sse => Transport::Sse,
            Framing::Lines => Transport::Stream,
        }
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.stream.identity.as_deref()
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            Event::Timeout => match self.stream.timeout(cx) {
                StreamBeat::Early => {}
                StreamBeat::SignOfLife => self.framing.push(cx.out, encode_ping),
                StreamBeat::Expired => self.disconnect(Disconnect::Expired, cx),
            },
            Event::Answer { token, answer } => {
                if self.stream.answer(token, answer) {
                    self.begin(cx);
                }
            }
            Event::Drained { dropped } if !self.stream.is_closing() => {
                let data = payload_of(format!("{{\"dropped\":{dropped}}}").as_bytes());
                self.framing
                    .push(cx.out, |out| encode_message_push(&data, false, out));
            }
            // It comes again with the positions that it has, and hears then what is lost.
            Event::Unsubscribed {
                why: Unsubscribe::InsufficientState,
                ..
            } => self.disconnect(Disconnect::InsufficientState, cx),
            Event::Unsubscribed { channel, why } => {
                self.stream.unsubscribed(channel);
                if !self.stream.is_closing() {
                    self.framing.push(cx.out, |out| {
                        let (code, reason) = (why.code(), why.reason());
                        encode_unsubscribe_push(channel.as_str(), code, reason, false, out);
                    });
                }
            }
            Event::Close(why) => self.close(why, cx),
            // Such a client has nothing to say, but may send requests that nobody answers.
            Event::Bytes(_) => {}
            Event::Drained { .. }
            | Event::Surveyed(_)
            | Event::Wished(_)
            | Event::Publication(_) => {}
        }
    }

    /// Every channel has answered: the first words.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        match self.stream.begin(cx) {
            Err(reason) => self.disconnect(reason, cx),
            Ok(None) => {}
            Ok(Some(opening)) => {
                let subs = subscriptions(&opening, &[], cx);
                let client = cx.shared.node.client_id(cx.id);
                let result = connect_result(self.identity(), client.as_str(), &subs, cx, false);
                self.framing
                    .push(cx.out, |out| encode_connect_push(&result, out));
            }
        }
    }

    fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        self.close(&CloseReason::Because(reason), cx);
    }

    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        if self.stream.close(why, cx) {
            let (code, reason) = (why.code(), why.reason());
            self.framing.push(cx.out, |out| {
                encode_disconnect_push(code, reason, false, out);
            });
            if self.framing == Framing::Lines {
                cx.out.extend_from_slice(LAST_CHUNK);
            }
        }
    }
}
