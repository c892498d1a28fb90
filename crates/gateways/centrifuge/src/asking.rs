//! Questions to a client's backends, and the effects of their answers.
//!
//! While a backend is asked about the client's identity, further commands wait: they may depend on
//! the answer. Rule for "full": a client whose waiting commands have more bytes than one message
//! may is disconnected. A question that fails is answered with error 100, which lets the client try
//! again; a connection or subscription about which the backend cannot be asked goes on for
//! [`EXTENSION_S`].
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use throng_broker::BackendId;
use throng_centrifuge::proxy::{ProxyAnswer, ProxyCall, ProxyKind, ProxyRefusal};
use throng_centrifuge::{Codec, Connect, ErrorCode, Reply};
use throng_hub::Command;
use throng_session::{
    Answered, AskingClient, CannotAsk, Identity, Incoming, InitialSubscription, Open, Questions,
    claims_of,
};
use throng_types::{ChannelName, Disconnect, Unsubscribe};

use crate::Cx;
use crate::asked::{Hello, Pending, Proxied};
use crate::forms::Mode;
use crate::socket::Socket;
use crate::{commands, connect, subscribing};

impl Socket {
    /// Keeps the fields of the client's request that backends need.
    pub(crate) fn remember(&mut self, incoming: &Incoming<'_, '_>, cx: &Cx<'_>) {
        if !cx.own.backends.is_empty() {
            self.proxied().questions = Questions::new(incoming, cx.own);
        }
    }

    /// Remembers header fields from the `connect` command as if they came with the request.
    pub(crate) fn remember_said(&mut self, connect: &Connect<'_>, cx: &Cx<'_>) {
        if !cx.own.backends.is_empty() {
            let questions = &mut self.proxied().questions;
            questions.emulate(&connect.headers, cx.own);
        }
    }

    pub(crate) fn proxied(&mut self) -> &mut Proxied {
        self.asked_mut().proxied.get_or_insert_default()
    }

    fn open_questions(&self) -> impl Iterator<Item = &Pending> {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_deref());
        proxied
            .into_iter()
            .flat_map(|proxied| proxied.questions.pending())
    }

    /// Whether a backend has yet to answer about the client's identity or its first channels.
    pub(crate) fn awaits_identity(&self) -> bool {
        self.open_questions()
            .any(|pending| matches!(pending, Pending::Connect { .. } | Pending::Begin(_)))
    }

    /// Whether a backend has identified the client.
    pub(crate) fn is_backends(&self) -> bool {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_ref());
        proxied.is_some_and(|proxied| proxied.is_backends)
    }

    /// Keeps commands until the client is identified.
    pub(crate) fn keep_for_later(&mut self, frame: &[u8], cx: &mut Cx<'_>) {
        let bytes_max = cx.shared.limits.message_bytes_max;
        let is_lines = self.mode().codec() == Codec::Json;
        let later = &mut self.proxied().later;
        if later.len() + frame.len() > bytes_max {
            return self.disconnect(Disconnect::TooManyRequests, cx);
        }
        if is_lines && !later.is_empty() {
            later.push(b'\n');
        }
        later.extend_from_slice(frame);
    }

    /// Whether a backend is being asked about a subscribe to this channel.
    pub(crate) fn awaits_subscribe(&self, name: &ChannelName) -> bool {
        self.open_questions()
            .any(|pending| matches!(pending, Pending::Subscribe(wants) if wants.channel == *name))
    }

    /// Cancels a subscribe about which a backend is being asked; it is answered like one that the
    /// hub has cancelled.
    pub(crate) fn cancel_subscribe(&mut self, name: &ChannelName, cx: &mut Cx<'_>) {
        if !self.awaits_subscribe(name) {
            return;
        }
        let is_it =
            |it: &Pending| matches!(it, Pending::Subscribe(wants) if wants.channel == *name);
        for pending in self.proxied().questions.take_back(is_it) {
            if let Pending::Subscribe(wants) = pending {
                self.error(wants.command, ErrorCode::Internal, cx);
            }
        }
    }

    /// Asks a backend. Returns the pending state if there is no room.
    pub(crate) fn ask(
        &mut self,
        to: (BackendId, ProxyCall<'_>),
        pending: Pending,
        cx: &mut Cx<'_>,
    ) -> Result<(), Pending> {
        let user = self.user();
        let asker = self.asker(&user);
        self.proxied().questions.ask(&asker, to, pending, cx)
    }

    fn user(&self) -> Box<str> {
        let identity = self.identity();
        identity.map_or_else(Box::default, |identity| identity.user.clone())
    }

    fn asker<'a>(&self, user: &'a str) -> AskingClient<'a> {
        AskingClient {
            transport: transport(self.mode()),
            protocol: self.mode().codec(),
            user,
        }
    }

    /// Asks about channels that a unidirectional connection begins with: about these, or those
    /// that are left. Gives all of them back when nothing is left to ask.
    pub(crate) fn ask_to_begin(
        &mut self,
        channels: Option<Vec<InitialSubscription>>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<InitialSubscription>>, Disconnect> {
        let user = self.user();
        let asker = self.asker(&user);
        let (questions, about) = (&mut self.proxied().questions, Pending::Begin);
        let asked = match channels {
            Some(channels) => questions.begin_with(channels, &asker, about, cx),
            None => questions.ask_where(&asker, about, cx),
        };
        asked.map_err(|why| match why {
            CannotAsk::NoAnswer => Disconnect::ServerError,
            CannotAsk::Overspent(over) => over.disconnect(),
        })
    }

    /// Asks about the client's identity, with its `connect`.
    pub(crate) fn ask_identity(&mut self, hello: &Hello<'_>, cx: &mut Cx<'_>) {
        let connect = hello.connect;
        let channels: Vec<&str> = connect.subs.iter().map(|sub| &*sub.channel).collect();
        let call = ProxyCall::Connect {
            data: connect.data.as_ref().map(|data| data.bytes()),
            name: &connect.name,
            version: &connect.version,
            channels: &channels,
        };
        let pending = Pending::Connect {
            command: hello.command,
            request: hello.request.into(),
        };
        if self.ask((BackendId::DEFAULT, call), pending, cx).is_err() {
            self.disconnect(Disconnect::TooManyRequests, cx);
        }
    }

    /// Asks whether an expired connection goes on; false if no backend is asked.
    pub(crate) fn ask_to_go_on(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_backends() || !cx.own.has(ProxyKind::Refresh) {
            return false;
        }
        let to = (BackendId::DEFAULT, ProxyCall::Refresh);
        self.ask(to, Pending::Refresh, cx).is_ok()
    }

    /// Asks whether a subscription goes on; false if no backend is asked.
    pub(crate) fn ask_to_keep(&mut self, name: &ChannelName, cx: &mut Cx<'_>) -> bool {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_ref());
        if !proxied.is_some_and(|proxied| proxied.refreshed.contains(name)) {
            return false;
        }
        let options = cx.shared.namespaces.find(name);
        let Some(to) = options.and_then(|options| options.proxies.sub_refresh) else {
            return false;
        };
        let call = ProxyCall::SubRefresh {
            channel: name.as_str(),
        };
        let pending = Pending::SubRefresh(name.clone());
        self.ask((to, call), pending, cx).is_ok()
    }
}

/// Names the client's transport as in the schema of the proxy.
const fn transport(mode: Mode) -> &'static str {
    match mode {
        Mode::Json | Mode::Protobuf => "websocket",
        Mode::Unidirectional => "uni_websocket",
        Mode::Events => "sse",
        Mode::Lines | Mode::Messages => "http_stream",
        Mode::UniEvents => "uni_sse",
        Mode::UniLines => "uni_http_stream",
        Mode::UniMessages => "uni_grpc",
    }
}

/// Seconds that a connection goes on whose backend cannot be asked.
const EXTENSION_S: u64 = 60;

impl Socket {
    /// A backend has answered, or failed to.
    pub(crate) fn answered(&mut self, number: u32, answer: Answered, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        let Some(Open { to, pending, .. }) = self.proxied().questions.take(number) else {
            return;
        };
        // Work that follows from the answer is charged to the client.
        self.ws.lend_allowance(cx);
        match (cx.own.read(answer, to), pending) {
            (Some(Err(refusal)), pending) => self.refused(refusal, pending, cx),
            (Some(Ok(answer)), pending) => self.allowed(answer, pending, cx),
            (None, pending) => self.failed(pending, cx),
        }
        self.ws.take_allowance_back(cx);
    }

    fn refused(&mut self, refusal: ProxyRefusal, pending: Pending, cx: &mut Cx<'_>) {
        let (what, channel) = pending.about();
        let user = self.identity().map_or("", |identity| &identity.user);
        let notices = &cx.shared.notices;
        notices.refused(what, channel, user, format_args!("backend: {refusal}"));
        let (code, message, temporary) = match refusal {
            ProxyRefusal::Disconnect { code, reason } => {
                return self.close(code, &reason, cx);
            }
            ProxyRefusal::Error {
                code,
                message,
                temporary,
            } => (code, message, temporary),
        };
        let command = match pending {
            Pending::Connect { command, .. } if self.is_bidirectional() => command,
            // The protocol has no error for this case.
            Pending::Connect { .. } => return self.disconnect(Disconnect::ServerError, cx),
            Pending::Begin(_) => return self.disconnect(Disconnect::PermissionDenied, cx),
            Pending::Subscribe(wants) => wants.command,
            Pending::Publish { command, .. } | Pending::Rpc { command } => command,
            // An error counts as no answer.
            Pending::Refresh | Pending::SubRefresh(_) => return self.failed(pending, cx),
        };
        let message = &message;
        let failure = Reply::Failure {
            code,
            message,
            temporary,
        };
        self.reply(command, &failure, cx);
        self.go_on(cx);
    }

    fn failed(&mut self, pending: Pending, cx: &mut Cx<'_>) {
        let until = Some(cx.now.unix_s() + EXTENSION_S);
        let command = match pending {
            Pending::Connect { command, .. } if self.is_bidirectional() => command,
            Pending::Connect { .. } | Pending::Begin(_) => {
                return self.disconnect(Disconnect::ServerError, cx);
            }
            Pending::Subscribe(wants) => wants.command,
            Pending::Publish { command, .. } | Pending::Rpc { command } => command,
            Pending::Refresh => {
                self.identity_mut().expires_at_unix_s = until;
                return self.arm(cx);
            }
            Pending::SubRefresh(channel) => {
                self.identity_mut().set_subscription_until(&channel, until);
                return self.arm(cx);
            }
        };
        self.error(command, ErrorCode::Internal, cx);
        self.go_on(cx);
    }

    fn allowed(&mut self, answer: ProxyAnswer, pending: Pending, cx: &mut Cx<'_>) {
        match pending {
            Pending::Connect { command, request } => {
                self.welcomed(&answer, command, &request, cx);
                self.go_on(cx);
            }
            Pending::Refresh => self.goes_on(&answer, cx),
            Pending::SubRefresh(channel) => self.keeps(&channel, &answer, cx),
            Pending::Begin(channel) => {
                let Some(claims) = claims_of(&answer) else {
                    return self.disconnect(Disconnect::ServerError, cx);
                };
                self.proxied().questions.allow(&channel, claims);
                let channels = self.ask_to_begin(None, cx);
                connect::uni_begin(self, channels, cx);
            }
            Pending::Subscribe(wants) => {
                let Some(claims) = claims_of(&answer) else {
                    return self.error(wants.command, ErrorCode::Internal, cx);
                };
                let until = claims.ends_at_unix_s();
                let options = cx.shared.namespaces.find(&wants.channel);
                let is_refreshed =
                    options.is_some_and(|options| options.proxies.sub_refresh.is_some());
                if until.is_some() && is_refreshed {
                    self.proxied().refreshed.push(wants.channel.clone());
                }
                subscribing::granted(self, *wants, until.map(Some), claims.options, cx);
            }
            Pending::Publish { command, mut draft } => {
                if let Some(data) = answer.data {
                    draft.payload = data;
                }
                draft.tags = answer.tags;
                draft.skip_history = answer.skip_history;
                draft.idempotency_key = answer.idempotency_key;
                let (reply_to, draft) = (cx.reply_to(command), *draft);
                cx.hub(Command::Publish { reply_to, draft });
            }
            Pending::Rpc { command } => {
                let data = answer.data.as_ref();
                self.reply(command, &Reply::Rpc(data), cx);
            }
        }
    }

    /// Handles the backend's answer about the client's identity.
    fn welcomed(&mut self, answer: &ProxyAnswer, command: u32, request: &[u8], cx: &mut Cx<'_>) {
        // Without a result it does not know the client.
        if answer.result.is_none() {
            return self.disconnect(Disconnect::BadRequest, cx);
        }
        let Some(claims) = claims_of(answer) else {
            return match self.is_bidirectional() {
                true => self.error(command, ErrorCode::Internal, cx),
                false => self.disconnect(Disconnect::ServerError, cx),
            };
        };
        let proxied = self.proxied();
        proxied.questions.meta.clone_from(&claims.meta);
        proxied.is_backends = true;
        connect::welcome(self, command, request, claims, cx);
    }

    /// Carries out the commands that waited for the answer to `connect`.
    fn go_on(&mut self, cx: &mut Cx<'_>) {
        let later = std::mem::take(&mut self.proxied().later);
        if !later.is_empty() && !self.is_closing() {
            commands::run_all(self, &later, cx);
        }
    }

    /// Extends the connection as the backend's answer allows.
    fn goes_on(&mut self, answer: &ProxyAnswer, cx: &mut Cx<'_>) {
        let claims = claims_of(answer).filter(|_| answer.result.is_some() && !answer.expired);
        let Some(claims) = claims else {
            return self.disconnect(Disconnect::Expired, cx);
        };
        if claims.meta.is_some() {
            self.proxied().questions.meta.clone_from(&claims.meta);
        }
        let identity: &mut Identity = self.identity_mut();
        identity.expires_at_unix_s = claims.ends_at_unix_s();
        if claims.info.is_some() {
            identity.info = claims.info;
        }
        self.arm(cx);
    }

    /// Extends a subscription as the backend's answer allows.
    fn keeps(&mut self, channel: &ChannelName, answer: &ProxyAnswer, cx: &mut Cx<'_>) {
        let claims = claims_of(answer).filter(|_| answer.result.is_some() && !answer.expired);
        if let Some(claims) = claims {
            let until = claims.ends_at_unix_s();
            self.identity_mut().set_subscription_until(channel, until);
            return self.arm(cx);
        }
        self.end_subscription(channel, Unsubscribe::Expired, cx);
    }
}
