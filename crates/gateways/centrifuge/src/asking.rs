//! Questions to a client's backends.
//!
//! While a backend is asked about the client's identity, further commands wait: they may depend on
//! the answer. Never: handles answers.
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use throng_broker::{BackendId, Recovery, Subscribed};
use throng_centrifuge::proxy::{ProxyCall, ProxyKind, encode_cache_empty};
use throng_centrifuge::{Codec, Connect, ErrorCode};
use throng_session::{Asker, CannotAsk, Incoming, ProxyOptions, Question, Questions, Wanted};
use throng_types::{ChannelName, Disconnect};

use crate::context::Cx;
use crate::mode::Mode;
use crate::order::Order;
use crate::pending::{Hello, Pending, Proxied};
use crate::socket::Socket;

impl Proxied {
    /// Keeps the fields of the client's request that backends need.
    pub(crate) fn new(incoming: &Incoming<'_, '_>, own: &ProxyOptions) -> Self {
        Self {
            questions: Questions::new(incoming, own),
            ..Self::default()
        }
    }

    /// Asks about the client's identity, with its `connect`.
    pub(crate) fn ask_identity(
        &mut self,
        asker: &Asker<'_>,
        hello: &Hello<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Pending> {
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
        let to = (BackendId::DEFAULT, call);
        self.questions.ask(asker, to, pending, cx)
    }

    /// Asks about channels that a unidirectional connection begins with: about these, or those
    /// that are left. Gives all of them back when nothing is left to ask.
    pub(crate) fn begin(
        &mut self,
        channels: Option<Vec<Wanted>>,
        asker: &Asker<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<Wanted>>, Disconnect> {
        let (questions, about) = (&mut self.questions, Pending::Begin);
        let asked = match channels {
            Some(channels) => questions.begin_with(channels, asker, about, cx),
            None => questions.ask_where(asker, about, cx),
        };
        asked.map_err(|why| match why {
            CannotAsk::NoAnswer => Disconnect::ServerError,
            CannotAsk::Overspent(over) => over.disconnect(),
        })
    }
}

/// Tells the channel's backend that there is no newest publication, for a client that asked for it.
/// The client has its subscription already, so it gets the backend's next publication, and does not
/// wait for an answer.
pub(crate) fn tell_if_empty(channel: &ChannelName, subscribed: &Subscribed, cx: &mut Cx<'_>) {
    let options = cx.shared.namespaces.find(channel);
    let to = options
        .filter(|options| options.cache)
        .and_then(|options| options.proxies.cache_empty);
    let is_empty = match &subscribed.recovery {
        Recovery::NotAsked => false,
        Recovery::Lost => true,
        // A client without a position has missed nothing of a stream without publications.
        Recovery::Whole(missed) => {
            let offset = subscribed.position.map_or(0, |position| position.offset);
            missed.is_empty() && offset == 0
        }
    };
    let Some(to) = to.filter(|_| is_empty) else {
        return;
    };
    let mut body = Vec::new();
    encode_cache_empty(channel.as_str(), &mut body);
    cx.order(Order::CacheEmpty {
        conn: cx.id,
        channel: channel.clone(),
        question: Question {
            to,
            kind: ProxyKind::CacheEmpty,
            headers: Vec::new(),
            body,
        },
    });
}

impl Socket {
    /// Keeps the fields of the client's request that backends need.
    pub(crate) fn remember(&mut self, incoming: &Incoming<'_, '_>, cx: &Cx<'_>) {
        if !cx.own.backends.is_empty() {
            let proxied = Proxied::new(incoming, cx.own);
            self.asked_mut().proxied = Some(Box::new(proxied));
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

    fn asker<'a>(&self, user: &'a str) -> Asker<'a> {
        Asker {
            transport: transport(self.mode()),
            protocol: self.mode().codec(),
            user,
        }
    }

    /// Asks about the channels that a unidirectional connection begins with; see
    /// [`Proxied::begin`].
    pub(crate) fn ask_to_begin(
        &mut self,
        channels: Option<Vec<Wanted>>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<Wanted>>, Disconnect> {
        let user = self.user();
        let asker = self.asker(&user);
        self.proxied().begin(channels, &asker, cx)
    }

    /// Asks about the client's identity.
    pub(crate) fn ask_identity(&mut self, hello: &Hello<'_>, cx: &mut Cx<'_>) {
        let asker = self.asker("");
        if self.proxied().ask_identity(&asker, hello, cx).is_err() {
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
    }
}
