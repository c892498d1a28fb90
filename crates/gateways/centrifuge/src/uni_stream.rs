//! `/connection/uni_sse` and `/connection/uni_http_stream`: clients that only listen, in
//! Centrifugo's unidirectional protocol.
//!
//! The head of the answer leaves at once, and the first words wait for the backend. A refused
//! client gets a `disconnect` push like any other that has to leave: a backend's error cannot be
//! sent there and becomes 3004 (Centrifugo, `client.go`).

use throng_auth::Claims;
use throng_broker::{BackendId, Refusal, Subscribed};
use throng_centrifuge::proxy::{ProxyAnswer, ProxyCall, ProxyKind, ProxyRefusal};
use throng_centrifuge::{
    Codec, Connect, ConnectResult, Push, encode_connect_push, encode_ping, encode_push,
};
use throng_http1::LAST_CHUNK;
use throng_hub::Answer;
use throng_session::encode::{line, sse_data};
use throng_session::{
    Answered, AskingClient, CloseReason, ControlCommand, Event, Form, Identity, Incoming,
    InitialSubscription, Open, Stream, StreamBeat, Transport, Verdict, claims_of, may_subscribe,
    note_ends,
};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Disconnect, Save, Unsubscribe};

use crate::Cx;
use crate::asked::{Hello, Pending, Proxied};
use crate::asking::EXTENSION_S;
use crate::control::push_subscription;
use crate::forms::{UNI_HTTP, UNI_SSE};
use crate::results::{connect_result, end_of, subscriptions, uni_channels};
use crate::socket::ttl;
use crate::subscribing::subscribe_wanted;

/// Framing of a unidirectional stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Framing {
    /// Events, one for each object.
    Sse,
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
        channels: Vec<InitialSubscription>,
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

    pub(crate) fn want(&mut self, channels: &[InitialSubscription], cx: &mut Cx<'_>) {
        let resuming = channels.iter().any(|wanted| wanted.since.is_some());
        self.stream.await_channels(channels.len(), resuming);
        note_ends(&mut self.stream.identity, channels);
        self.stream.arm(cx);
        for wanted in channels {
            let identity = self.stream.identity.as_deref();
            subscribe_wanted(wanted, identity, self.framing.form(), cx);
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
            Event::Control(command)
                if !self.stream.is_closing() && self.stream.opening.is_none() =>
            {
                self.carry_out(command, cx);
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
            | Event::Control(_)
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

    /// Carries out a backend's request for the client; see [`crate::control`].
    fn carry_out(&mut self, command: &ControlCommand, cx: &mut Cx<'_>) {
        match command {
            // A listener sends no commands.
            ControlCommand::Execute(_) => {}
            ControlCommand::Refresh { expired: true, .. } => {
                self.disconnect(Disconnect::Expired, cx)
            }
            ControlCommand::Refresh { until_unix_s, .. } => {
                self.stream.set_end(*until_unix_s, cx);
                let ttl_s = until_unix_s.map(|until| ttl(until, cx.now));
                self.push(&Push::Refresh { ttl_s }, cx);
            }
            ControlCommand::Subscribe {
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
                let wanted = InitialSubscription {
                    since: *since,
                    ..InitialSubscription::new(channel.clone(), options.clone())
                };
                let identity = self.stream.identity.as_deref();
                subscribe_wanted(&wanted, identity, self.framing.form(), cx);
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
            push_subscription(channel, subscribed, data.as_deref(), cx, |push, cx| {
                self.push(push, cx);
            });
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

const fn asker(framing: Framing, user: &str) -> AskingClient<'_> {
    AskingClient {
        transport: match framing {
            Framing::Sse => "uni_sse",
            Framing::Lines => "uni_http_stream",
        },
        protocol: Codec::Json,
        user,
    }
}

impl UniStream {
    /// Creates a stream whose head was written, and asks a backend about its client.
    pub(crate) fn ask(
        framing: Framing,
        incoming: &Incoming<'_, '_>,
        hello: &Hello<'_>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut this = Self::asking(framing, incoming, hello, None, cx);
        let asker = asker(framing, "");
        let asked = { this.welcome() }.map(|it| it.proxied.ask_identity(&asker, hello, cx));
        if asked.is_none_or(|asked| asked.is_err()) {
            this.disconnect(Disconnect::ServerError, cx);
        }
        this
    }

    /// Asks about the channels of a client that is known.
    pub(crate) fn ask_to_begin(
        framing: Framing,
        incoming: &Incoming<'_, '_>,
        hello: &Hello<'_>,
        (identity, channels): (Option<Box<Identity>>, Vec<InitialSubscription>),
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut this = Self::asking(framing, incoming, hello, identity, cx);
        this.begin_with(Some(channels), cx);
        this
    }

    /// Creates a stream whose head was written, and about which a backend is being asked.
    fn asking(
        framing: Framing,
        incoming: &Incoming<'_, '_>,
        hello: &Hello<'_>,
        identity: Option<Box<Identity>>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut proxied = Proxied::new(incoming, cx.own);
        let said = &hello.connect.headers;
        proxied.questions.emulate(said, cx.own);
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

    /// Asks about the channels that it begins with, and begins when nothing is left to ask.
    fn begin_with(&mut self, channels: Option<Vec<InitialSubscription>>, cx: &mut Cx<'_>) {
        let user = self.identity().map(|identity| identity.user.clone());
        let asker = asker(self.framing, user.as_deref().unwrap_or_default());
        let Some(welcome) = self.welcome() else {
            return;
        };
        match welcome.proxied.begin(channels, &asker, cx) {
            Ok(Some(channels)) => self.want(&channels, cx),
            Ok(None) => {}
            Err(why) => self.disconnect(why, cx),
        }
    }

    /// Asks whether an expired connection goes on; false if no backend is asked.
    pub(crate) fn ask_to_go_on(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_backends() || !cx.own.has(ProxyKind::Refresh) {
            return false;
        }
        let user = self.identity().map(|identity| identity.user.clone());
        let asker = asker(self.framing, user.as_deref().unwrap_or_default());
        let Some(welcome) = self.welcome() else {
            return false;
        };
        let to = (BackendId::DEFAULT, ProxyCall::Refresh);
        let questions = &mut welcome.proxied.questions;
        let asked = questions.ask(&asker, to, Pending::Refresh, cx);
        if asked.is_ok() {
            // The answer sets the next end.
            self.stream.set_end(None, cx);
        }
        asked.is_ok()
    }

    /// A backend has answered, or failed to.
    pub(crate) fn answered(&mut self, number: u32, answer: Answered, cx: &mut Cx<'_>) {
        if self.stream.is_closing() {
            return;
        }
        let open = self
            .welcome()
            .and_then(|welcome| welcome.proxied.questions.take(number));
        let Some(Open { to, pending, .. }) = open else {
            return;
        };
        if let Some(welcome) = self.welcome() {
            welcome.proxied.questions.lend_allowance(cx);
        }
        match (cx.own.read(answer, to), pending) {
            (Some(Err(ProxyRefusal::Disconnect { code, reason })), _) => {
                self.close(&CloseReason::Custom { code, reason }, cx);
            }
            (Some(Ok(answer)), Pending::Connect { request, .. }) => {
                self.welcomed(&answer, &request, cx);
            }
            (Some(Ok(answer)), Pending::Begin(channel)) => self.allowed(&answer, &channel, cx),
            (Some(Err(_)), Pending::Begin(_)) => self.disconnect(Disconnect::PermissionDenied, cx),
            (_, Pending::Connect { .. } | Pending::Begin(_)) => {
                self.disconnect(Disconnect::ServerError, cx);
            }
            (Some(Ok(answer)), _) => self.goes_on(&answer, cx),
            // The backend cannot be asked, or answered with an error.
            _ => self.stream.set_end(Some(cx.now.unix_s() + EXTENSION_S), cx),
        }
        if let Some(welcome) = self.welcome() {
            welcome.proxied.questions.take_allowance_back(cx);
        }
    }

    fn allowed(&mut self, answer: &ProxyAnswer, channel: &ChannelName, cx: &mut Cx<'_>) {
        let (Some(claims), Some(welcome)) = (claims_of(answer), self.welcome()) else {
            return self.disconnect(Disconnect::ServerError, cx);
        };
        welcome.proxied.questions.allow(channel, claims);
        self.begin_with(None, cx);
    }

    /// Handles the backend's answer about the client's identity. `request` is the client's
    /// `connect`.
    fn welcomed(&mut self, answer: &ProxyAnswer, request: &[u8], cx: &mut Cx<'_>) {
        // Without a result it does not know the client.
        if answer.result.is_none() {
            return self.disconnect(Disconnect::BadRequest, cx);
        }
        match (claims_of(answer), Connect::parse(request)) {
            (Some(claims), Ok(connect)) => self.enter(claims, &connect, cx),
            _ => self.disconnect(Disconnect::ServerError, cx),
        }
    }

    fn enter(&mut self, mut claims: Claims, connect: &Connect<'_>, cx: &mut Cx<'_>) {
        let identity = Identity::from_claims(&claims);
        let channels = match uni_channels(connect, Some(&claims), Some(&identity), cx) {
            Ok(channels) => channels,
            Err(fault) => return self.disconnect(end_of(&fault), cx),
        };
        if let Some(welcome) = self.welcome() {
            welcome.proxied.questions.meta = claims.meta.take();
            welcome.proxied.is_backends = true;
            welcome.data = claims.options.data.take();
        }
        self.stream.identity = Some(Box::new(identity));
        self.begin_with(Some(channels), cx);
    }

    /// Extends the connection as the backend's answer allows.
    fn goes_on(&mut self, answer: &ProxyAnswer, cx: &mut Cx<'_>) {
        let claims = claims_of(answer).filter(|_| answer.result.is_some() && !answer.expired);
        let Some(claims) = claims else {
            return self.disconnect(Disconnect::Expired, cx);
        };
        if let Some(welcome) = self.welcome()
            && claims.meta.is_some()
        {
            welcome.proxied.questions.meta.clone_from(&claims.meta);
        }
        self.stream.set_end(claims.ends_at_unix_s(), cx);
    }
}
