//! What a client's backends are asked.
//!
//! While it is asked who the client is, what the client says besides waits: it may depend on the
//! answer. Never: what becomes of answers.
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use throng_centrifuge::proxy::{ProxyCall, ProxyKind, ProxyRequest};
use throng_centrifuge::{Codec, ErrorCode};
use throng_session::Incoming;
use throng_types::{ChannelName, Disconnect};

use crate::backend::Question;
use crate::context::Cx;
use crate::mode::Mode;
use crate::order::Order;
use crate::pending::{Hello, Pending, Proxied, QUESTIONS_MAX};
use crate::socket::Socket;

impl Socket {
    /// Keeps what backends are to know of the client's request.
    pub(crate) fn remember(&mut self, incoming: &Incoming<'_, '_>, cx: &Cx<'_>) {
        if cx.own.kinds.is_empty() {
            return;
        }
        let names = cx.own.http_headers.iter();
        let headers = names.filter_map(|name| {
            let value = incoming.request.header(&name.to_ascii_lowercase())?;
            Some((name.clone(), value.into()))
        });
        let headers = headers.collect();
        self.asked_mut().proxied = Some(Box::new(Proxied {
            headers,
            ..Proxied::default()
        }));
    }

    pub(crate) fn proxied(&mut self) -> &mut Proxied {
        self.asked_mut().proxied.get_or_insert_default()
    }

    fn open_questions(&self) -> impl Iterator<Item = &Pending> {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_deref());
        proxied
            .into_iter()
            .flat_map(|proxied| &proxied.open)
            .map(|(_, pending)| pending)
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
        let is_it = |(_, pending): &mut (u32, Pending)| match pending {
            Pending::Subscribe(wants) => wants.channel == *name,
            _ => false,
        };
        let taken: Vec<_> = self.proxied().open.extract_if(.., is_it).collect();
        for (_, pending) in taken {
            if let Pending::Subscribe(wants) = pending {
                self.error(wants.command, ErrorCode::Internal, cx);
            }
        }
    }

    /// Asks a backend. Gives back what was asked about if there is no room.
    pub(crate) fn ask(
        &mut self,
        call: ProxyCall<'_>,
        pending: Pending,
        cx: &mut Cx<'_>,
    ) -> Result<(), Pending> {
        if self.proxied().open.len() >= QUESTIONS_MAX {
            return Err(pending);
        }
        let client = cx.shared.node.client_id(cx.id);
        let user = self.identity().map(|identity| identity.user.clone());
        let user = user.unwrap_or_default();
        let mode = self.mode();
        let proxied = self.proxied();
        let request = ProxyRequest {
            client: client.as_str(),
            transport: transport(mode),
            protocol: mode.codec(),
            user: { call.kind() != ProxyKind::Connect }.then_some(&*user),
            meta: { cx.own.sends_meta }
                .then_some(proxied.meta.as_deref())
                .flatten(),
            is_binary: cx.own.is_binary,
            call,
        };
        let mut body = Vec::new();
        request.encode(&mut body);
        proxied.next = proxied.next.wrapping_add(1);
        let number = proxied.next;
        proxied.open.push((number, pending));
        let question = Question {
            kind: call.kind(),
            headers: proxied.headers.clone(),
            body,
        };
        cx.order(Order::Ask {
            conn: cx.id,
            number,
            question,
        });
        Ok(())
    }

    /// Asks who the client is.
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
        if self.ask(call, pending, cx).is_err() {
            self.disconnect(Disconnect::TooManyRequests, cx);
        }
    }

    /// A connection's time is over: true if a backend is asked whether it goes on.
    pub(crate) fn ask_to_go_on(&mut self, cx: &mut Cx<'_>) -> bool {
        if !self.is_backends() || !cx.own.has(ProxyKind::Refresh) {
            return false;
        }
        self.ask(ProxyCall::Refresh, Pending::Refresh, cx).is_ok()
    }

    /// The same for a subscription.
    pub(crate) fn ask_to_keep(&mut self, name: &ChannelName, cx: &mut Cx<'_>) -> bool {
        let proxied = self.asked().and_then(|asked| asked.proxied.as_ref());
        if !proxied.is_some_and(|proxied| proxied.refreshed.contains(name)) {
            return false;
        }
        let call = ProxyCall::SubRefresh {
            channel: name.as_str(),
        };
        let pending = Pending::SubRefresh(name.clone());
        self.ask(call, pending, cx).is_ok()
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
