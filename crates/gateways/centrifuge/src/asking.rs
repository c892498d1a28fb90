//! What a client's backends are asked.
//!
//! While it is asked who the client is, what the client says besides waits: it may depend on the
//! answer. Never: what becomes of answers.
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use std::borrow::Cow;

use throng_broker::{BackendId, Recovery, Subscribed};
use throng_centrifuge::proxy::{ProxyCall, ProxyKind, ProxyRequest, encode_cache_empty};
use throng_centrifuge::{Codec, Connect, ErrorCode};
use throng_session::Incoming;
use throng_types::{ChannelName, Disconnect};

use crate::backend::{ProxyOptions, Question};
use crate::context::Cx;
use crate::mode::Mode;
use crate::order::Order;
use crate::pending::{Hello, Open, Passed, Pending, Proxied, QUESTIONS_MAX};
use crate::socket::Socket;

/// On whose behalf a backend is asked.
pub(crate) struct Asker<'a> {
    /// How the client is connected, in the words of the schema.
    pub(crate) transport: &'static str,
    pub(crate) protocol: Codec,
    pub(crate) user: &'a str,
}

impl Proxied {
    /// Keeps what backends are to know of the client's request.
    pub(crate) fn new(incoming: &Incoming<'_, '_>, own: &ProxyOptions) -> Self {
        let passed = |name: &str| {
            Some(Passed {
                name: name.into(),
                value: incoming.request.header(name)?.into(),
                is_emulated: false,
            })
        };
        let names = own.wanted(|backend| &backend.http_headers);
        Self {
            headers: names.filter_map(passed).collect(),
            ..Self::default()
        }
    }

    /// The same for what its `connect` says as if it were in the request.
    pub(crate) fn emulate(&mut self, said: &[(Cow<'_, str>, Cow<'_, str>)], own: &ProxyOptions) {
        if said.is_empty() {
            return;
        }
        for name in own.wanted(|backend| &backend.emulated_headers) {
            let mut all = said.iter();
            let is_it = |(known, value): &&(Cow<'_, str>, Cow<'_, str>)| {
                known.eq_ignore_ascii_case(name) && is_field_value(value)
            };
            self.headers
                .extend(all.find(is_it).map(|(_, value)| Passed {
                    name: name.into(),
                    value: (&**value).into(),
                    is_emulated: true,
                }));
        }
    }

    /// The fields that go to one backend: what stood in the request goes before what did not.
    fn headers_for(&self, to: BackendId, own: &ProxyOptions) -> Vec<(Box<str>, Box<str>)> {
        let Some(backend) = own.backend(to) else {
            return Vec::new();
        };
        let find = |name: &str, is_emulated: bool| {
            let mut all = self.headers.iter();
            all.find(|passed| passed.is_emulated == is_emulated && *passed.name == *name)
        };
        let real = { backend.http_headers.iter() }.filter_map(|name| find(name, false));
        let mut headers: Vec<_> = real
            .map(|passed| (passed.name.clone(), passed.value.clone()))
            .collect();
        for name in &backend.emulated_headers {
            if let Some(passed) = find(name, true)
                && !headers.iter().any(|(known, _)| known == name)
            {
                headers.push((name.clone(), passed.value.clone()));
            }
        }
        headers
    }

    /// Asks a backend. Gives back what was asked about if there is no room.
    pub(crate) fn ask(
        &mut self,
        asker: &Asker<'_>,
        (to, call): (BackendId, ProxyCall<'_>),
        pending: Pending,
        cx: &mut Cx<'_>,
    ) -> Result<(), Pending> {
        let Some(backend) = cx.own.backend(to) else {
            return Err(pending);
        };
        if self.open.len() >= QUESTIONS_MAX {
            return Err(pending);
        }
        let client = cx.shared.node.client_id(cx.id);
        let request = ProxyRequest {
            client: client.as_str(),
            transport: asker.transport,
            protocol: asker.protocol,
            user: { call.kind() != ProxyKind::Connect }.then_some(asker.user),
            meta: { backend.sends_meta }
                .then_some(self.meta.as_deref())
                .flatten(),
            is_binary: backend.is_binary,
            call,
        };
        let mut body = Vec::new();
        request.encode(&mut body);
        self.next = self.next.wrapping_add(1);
        let number = self.next;
        self.open.push(Open {
            number,
            to,
            pending,
        });
        let question = Question {
            to,
            kind: call.kind(),
            headers: self.headers_for(to, cx.own),
            body,
        };
        cx.order(Order::Ask {
            conn: cx.id,
            number,
            question,
        });
        Ok(())
    }

    /// Asks who a client is; its `connect` says what it brings along.
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
        self.ask(asker, (BackendId::DEFAULT, call), pending, cx)
    }

    /// What a question was about; it is answered now.
    pub(crate) fn take(&mut self, number: u32) -> Option<Open> {
        let at = self.open.iter().position(|open| open.number == number)?;
        Some(self.open.remove(at))
    }
}

/// A client wants the newest publication of a channel: tells the channel's backend if there is
/// none. The client has its subscription already, so it gets what the backend publishes then, and
/// does not wait for an answer.
pub(crate) fn tell_if_empty(channel: &ChannelName, subscribed: &Subscribed, cx: &mut Cx<'_>) {
    let options = cx.shared.namespaces.find(channel);
    let to = options
        .filter(|options| options.cache)
        .and_then(|options| options.proxies.cache_empty);
    let is_empty = match &subscribed.recovery {
        Recovery::NotAsked => false,
        Recovery::Lost => true,
        // Who was nowhere has missed nothing of a stream without publications.
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

/// Whether it can stand in a request's head without ending a line (RFC 9110 section 5.5).
fn is_field_value(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7F)
}

/// Whether a backend says who a client is: it brings no token.
pub(crate) fn is_backends(connect: &Connect<'_>, cx: &Cx<'_>) -> bool {
    connect.token.is_empty() && cx.own.has(ProxyKind::Connect)
}

impl Socket {
    /// Keeps what backends are to know of the client's request.
    pub(crate) fn remember(&mut self, incoming: &Incoming<'_, '_>, cx: &Cx<'_>) {
        if !cx.own.backends.is_empty() {
            let proxied = Proxied::new(incoming, cx.own);
            self.asked_mut().proxied = Some(Box::new(proxied));
        }
    }

    /// The same for what its `connect` says as if it were in the request.
    pub(crate) fn remember_said(&mut self, connect: &Connect<'_>, cx: &Cx<'_>) {
        if !cx.own.backends.is_empty() {
            self.proxied().emulate(&connect.headers, cx.own);
        }
    }

    pub(crate) fn proxied(&mut self) -> &mut Proxied {
        self.asked_mut().proxied.get_or_insert_default()
    }

    fn open_questions(&self) -> impl Iterator<Item = &Pending> {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_deref());
        proxied
            .into_iter()
            .flat_map(|proxied| &proxied.open)
            .map(|open| &open.pending)
    }

    /// Whether a backend has yet to say who the client is.
    pub(crate) fn awaits_identity(&self) -> bool {
        self.open_questions()
            .any(|pending| matches!(pending, Pending::Connect { .. }))
    }

    /// Whether a backend has said who the client is.
    pub(crate) fn is_backends(&self) -> bool {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_ref());
        proxied.is_some_and(|proxied| proxied.is_backends)
    }

    /// Keeps commands until the client may be asked what it wants.
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

    /// Whether a backend is asked about a subscribe to this channel.
    pub(crate) fn awaits_subscribe(&self, name: &ChannelName) -> bool {
        self.open_questions()
            .any(|pending| matches!(pending, Pending::Subscribe(wants) if wants.channel == *name))
    }

    /// Takes a subscribe back about which a backend is asked; it is answered like one that the hub
    /// was asked for.
    pub(crate) fn cancel_subscribe(&mut self, name: &ChannelName, cx: &mut Cx<'_>) {
        if !self.awaits_subscribe(name) {
            return;
        }
        let is_it = |open: &mut Open| match &open.pending {
            Pending::Subscribe(wants) => wants.channel == *name,
            _ => false,
        };
        let taken: Vec<_> = self.proxied().open.extract_if(.., is_it).collect();
        for open in taken {
            if let Pending::Subscribe(wants) = open.pending {
                self.error(wants.command, ErrorCode::Internal, cx);
            }
        }
    }

    /// Asks a backend. Gives back what was asked about if there is no room.
    pub(crate) fn ask(
        &mut self,
        to: (BackendId, ProxyCall<'_>),
        pending: Pending,
        cx: &mut Cx<'_>,
    ) -> Result<(), Pending> {
        let user = self.identity().map(|identity| identity.user.clone());
        let asker = Asker {
            transport: transport(self.mode()),
            protocol: self.mode().codec(),
            user: user.as_deref().unwrap_or_default(),
        };
        self.proxied().ask(&asker, to, pending, cx)
    }

    /// Asks who the client is.
    pub(crate) fn ask_identity(&mut self, hello: &Hello<'_>, cx: &mut Cx<'_>) {
        let asker = Asker {
            transport: transport(self.mode()),
            protocol: self.mode().codec(),
            user: "",
        };
        if self.proxied().ask_identity(&asker, hello, cx).is_err() {
            self.disconnect(Disconnect::TooManyRequests, cx);
        }
    }

    /// A connection's time is over: true if a backend is asked whether it goes on.
    pub(crate) fn ask_to_go_on(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_backends() || !cx.own.has(ProxyKind::Refresh) {
            return false;
        }
        let to = (BackendId::DEFAULT, ProxyCall::Refresh);
        self.ask(to, Pending::Refresh, cx).is_ok()
    }

    /// The same for a subscription.
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

/// How a client is connected, in the words of the schema.
const fn transport(mode: Mode) -> &'static str {
    match mode {
        Mode::Json | Mode::Protobuf => "websocket",
        Mode::Unidirectional => "uni_websocket",
        Mode::Events => "sse",
        Mode::Lines | Mode::Messages => "http_stream",
    }
}
