//! `/connection/uni_sse` and `/connection/uni_http_stream`: clients that only listen, in
//! Centrifugo's unidirectional protocol.

use throng_broker::{Refusal, Subscribed};
use throng_centrifuge::{
    ConnectResult, Push, encode_connect_push, encode_ping, encode_push, payload_of,
};
use throng_http1::LAST_CHUNK;
use throng_hub::Answer;
use throng_session::encode::{line, sse_data};
use throng_session::{
    CloseReason, Event, Form, Identity, Stream, StreamBeat, Transport, Verdict, Wanted, Wish,
    may_subscribe, note_ends,
};
use throng_types::{ChannelName, Disconnect, Save, Unsubscribe};

use crate::context::Cx;
use crate::forms::{UNI_HTTP, UNI_SSE};
use crate::manner::subscribe;
use crate::pending::Proxied;
use crate::reply::ttl;
use crate::results::{connect_result, subscriptions};
use crate::wish::Told;

/// Framing of a unidirectional stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Framing {
    /// Events, one for each object.
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

/// JSON for the subscriber of channels.
type ChannelData = Vec<(ChannelName, Box<str>)>;

/// One listener: its stream, and how objects are framed in it.
#[derive(Save)]
pub struct UniStream {
    pub(crate) stream: Stream,
    pub(crate) framing: Framing,
    extra: Option<Box<Extra>>,
}

/// State that few listeners have, or for a while.
#[derive(Default, Save)]
struct Extra {
    /// JSON for subscriptions of some channels, until it is sent. Bound: its channels.
    data: ChannelData,
    welcome: Option<Welcome>,
}

/// State of a listener while a backend is asked about it, or after that let it in.
#[derive(Default, Save)]
pub(crate) struct Welcome {
    pub(crate) proxied: Proxied,
    /// JSON for the client, sent with the first words.
    pub(crate) data: Option<Box<str>>,
}

impl UniStream {
    /// Creates a stream whose head was written.
    pub(crate) fn open(
        framing: Framing,
        identity: Option<Box<Identity>>,
        channels: Vec<Wanted>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut this = Self {
            stream: Stream::awaiting(identity, cx),
            framing,
            extra: None,
        };
        this.want(&channels, cx);
        this
    }

    /// Creates a stream whose head was written, and about which a backend is being asked.
    pub(crate) fn waiting(
        framing: Framing,
        identity: Option<Box<Identity>>,
        proxied: Proxied,
        cx: &mut Cx<'_>,
    ) -> Self {
        let welcome = Welcome {
            proxied,
            data: None,
        };
        Self {
            stream: Stream::awaiting(identity, cx),
            framing,
            extra: Some(Box::new(Extra {
                data: Vec::new(),
                welcome: Some(welcome),
            })),
        }
    }

    /// Asks for the channels that it begins with.
    pub(crate) fn want(&mut self, channels: &[Wanted], cx: &mut Cx<'_>) {
        let resuming = channels.iter().any(|wanted| wanted.since.is_some());
        self.stream.await_channels(channels.len(), resuming);
        note_ends(&mut self.stream.identity, channels);
        self.stream.arm(cx);
        for wanted in channels {
            let identity = self.stream.identity.as_deref();
            subscribe(wanted, identity, self.framing.form(), cx);
            self.keep_data(&wanted.channel, wanted.options.data.as_deref());
        }
        if channels.is_empty() {
            self.begin(cx);
        }
    }

    /// Whether another process can go on with it now.
    pub(crate) fn moves(&self) -> bool {
        let welcome = self.extra.as_ref().and_then(|it| it.welcome.as_ref());
        self.stream.moves() && welcome.is_none_or(|it| it.proxied.moves())
    }

    /// Whether a backend has identified the client.
    pub(crate) fn is_backends(&self) -> bool {
        let welcome = self.extra.as_ref().and_then(|it| it.welcome.as_ref());
        welcome.is_some_and(|welcome| welcome.proxied.is_backends)
    }

    /// Returns the state for backends, if it has any.
    pub(crate) fn welcome(&mut self) -> Option<&mut Welcome> {
        self.extra.as_mut()?.welcome.as_mut()
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
            Event::Timeout => {
                for channel in self.stream.take_expired(cx) {
                    self.tell_unsubscribed(&channel, Unsubscribe::Expired, cx);
                    cx.unsubscribe(channel);
                }
                self.beat(cx);
            }
            Event::Answer {
                answer: Answer::Subscribed { channel, result },
                ..
            } if self.stream.opening.is_none() => self.subscribed(&channel, &result, cx),
            Event::Answer { token, answer } => {
                if self.stream.answer(token, answer) {
                    self.begin(cx);
                }
            }
            Event::Wished(wish) if !self.stream.is_closing() && self.stream.opening.is_none() => {
                self.grant(wish, cx);
            }
            Event::Drained { dropped } if !self.stream.is_closing() => {
                let data = payload_of(format!("{{\"dropped\":{dropped}}}").as_bytes());
                self.framing
                    .push(cx.out, |out| encode_push(&Push::Message(&data), false, out));
            }
            // The client reconnects with its positions, and learns then which publications are
            // lost.
            Event::Unsubscribed {
                why: Unsubscribe::InsufficientState,
                ..
            } => self.disconnect(Disconnect::InsufficientState, cx),
            Event::Unsubscribed { channel, why } => {
                self.stream.unsubscribed(channel);
                self.tell_unsubscribed(channel, why, cx);
            }
            Event::Close(why) => self.close(why, cx),
            // A listener sends no data, but may send requests, which get no answer.
            Event::Bytes(_) => {}
            Event::Drained { .. }
            | Event::Surveyed(_)
            | Event::Reloaded(_)
            | Event::Wished(_)
            | Event::Publication(_) => {}
        }
    }

    fn push(&self, push: &Push<'_>, cx: &mut Cx<'_>) {
        if !self.stream.is_closing() {
            self.framing
                .push(cx.out, |out| encode_push(push, false, out));
        }
    }

    fn tell_unsubscribed(&self, channel: &ChannelName, why: Unsubscribe, cx: &mut Cx<'_>) {
        let push = Push::Unsubscribe {
            channel: channel.as_str(),
            code: why.code(),
            reason: why.reason(),
        };
        self.push(&push, cx);
    }

    fn beat(&mut self, cx: &mut Cx<'_>) {
        match self.stream.timeout(cx) {
            StreamBeat::Early => {}
            StreamBeat::SignOfLife => self.framing.push(cx.out, encode_ping),
            StreamBeat::Expired if self.ask_to_go_on(cx) => {}
            StreamBeat::Expired => self.disconnect(Disconnect::Expired, cx),
        }
    }

    fn keep_data(&mut self, channel: &ChannelName, data: Option<&str>) {
        if let Some(data) = data {
            let extra = self.extra.get_or_insert_default();
            extra.data.push((channel.clone(), data.into()));
        }
    }

    /// Carries out a backend's request for the client; see [`crate::wish`].
    fn grant(&mut self, wish: &Wish, cx: &mut Cx<'_>) {
        match wish {
            // A listener sends no commands.
            Wish::Hear(_) => {}
            Wish::Refresh { expired: true, .. } => self.disconnect(Disconnect::Expired, cx),
            Wish::Refresh { until_unix_s, .. } => {
                self.stream.set_end(*until_unix_s, cx);
                let ttl_s = until_unix_s.map(|until| ttl(until, cx.now));
                self.push(&Push::Refresh { ttl_s }, cx);
            }
            Wish::Subscribe {
                channel,
                options,
                until_unix_s,
                since,
            } => {
                if may_subscribe(None, channel, true, cx.shared) != Verdict::Yes {
                    return;
                }
                if until_unix_s.is_some() {
                    self.stream.set_subscription_end(channel, *until_unix_s, cx);
                }
                self.keep_data(channel, options.data.as_deref());
                let wanted = Wanted {
                    channel: channel.clone(),
                    since: *since,
                    options: options.clone(),
                    until: None,
                    ask: None,
                };
                let identity = self.stream.identity.as_deref();
                subscribe(&wanted, identity, self.framing.form(), cx);
            }
        }
    }

    /// Handles the hub's answer to a subscribe that a backend requested.
    fn subscribed(
        &mut self,
        channel: &ChannelName,
        result: &Result<Subscribed, Refusal>,
        cx: &mut Cx<'_>,
    ) {
        let data = self.extra.as_mut().and_then(|extra| {
            let at = extra.data.iter().position(|(known, _)| known == channel)?;
            Some(extra.data.swap_remove(at).1)
        });
        if let Ok(subscribed) = result {
            let told = Told::new(channel, subscribed, data.as_deref(), cx);
            told.each(|push| self.push(push, cx));
        }
    }

    /// Writes the first words, once every channel has answered.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        match self.stream.begin(cx) {
            Err(reason) => self.disconnect(reason, cx),
            Ok(None) => {}
            Ok(Some(opening)) => {
                let data = { self.extra.as_mut() }.map(|extra| std::mem::take(&mut extra.data));
                let data = data.unwrap_or_default();
                let welcome = self.welcome().and_then(|welcome| welcome.data.take());
                if !self.is_backends() {
                    self.extra = None;
                }
                let subs = subscriptions(&opening, &data, cx);
                let client = cx.shared.node.client_id(cx.id);
                let mut result = ConnectResult {
                    data: welcome.as_deref(),
                    ..connect_result(self.identity(), client.as_str(), &subs, cx, false)
                };
                if self.is_backends() {
                    // The backend is asked when it expires.
                    (result.expires, result.ttl_s) = (false, 0);
                }
                self.framing
                    .push(cx.out, |out| encode_connect_push(&result, out));
            }
        }
    }

    pub(crate) fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        self.close(&CloseReason::Because(reason), cx);
    }

    pub(crate) fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        if self.stream.close(why, cx) {
            let (code, reason) = (why.code(), why.reason());
            // The end of the connection itself: nothing is sent.
            if code != Disconnect::Closed.code() {
                self.framing.push(cx.out, |out| {
                    encode_push(&Push::Disconnect { code, reason }, false, out);
                });
            }
            if self.framing == Framing::Lines {
                cx.out.extend_from_slice(LAST_CHUNK);
            }
        }
    }
}
