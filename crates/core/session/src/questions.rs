//! Open questions of one connection to backends.
//!
//! Owns: the fields of the client's request that go with each question, and the channels that a
//! connection begins with until backends have answered about all of them. Never: handles answers.
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use std::borrow::Cow;

use throng_auth::Claims;
use throng_broker::BackendId;
use throng_centrifuge::Codec;
use throng_centrifuge::proxy::{ProxyCall, ProxyKind, ProxyRequest};
use throng_types::{ChannelName, Save, SpanContext};

use crate::backend::{Ask, ProxyOptions, Question};
use crate::http::Incoming;
use crate::work::{Allowance, Overspent, Work};
use crate::{Context, InitialSubscription};

/// Questions of one connection that may be open at once. Queue: `questions`.
const QUESTIONS_MAX: usize = 16;

/// Client on whose behalf a backend is asked.
#[derive(Clone, Copy, Debug)]
pub struct AskingClient<'a> {
    /// Transport of the client, as the proxy schema names it.
    pub transport: &'static str,
    /// The form of the protocol that it speaks.
    pub protocol: Codec,
    pub user: &'a str,
}

pub struct Open<P> {
    /// The connection's number for it.
    pub number: u32,
    pub to: BackendId,
    /// Subject of the question, for the session to go on with.
    pub pending: P,
}

#[derive(Save)]
pub struct Passed {
    pub name: Box<str>,
    pub value: Box<str>,
    /// The field came in `headers` of the client's `connect`.
    pub is_emulated: bool,
}

/// Open questions of one connection; `P` is the subject of a question.
#[derive(Save)]
pub struct Questions<P> {
    /// Fields of its request that some backend needs. Bound: one of each kind for each name in the
    /// options, and for `traceparent`.
    pub headers: Vec<Passed>,
    /// JSON that backends gave and only they see.
    pub meta: Option<Box<str>>,
    pub next: u32,
    /// Questions without an answer. Bound: `QUESTIONS_MAX`.
    #[save(skip)]
    pub open: Vec<Open<P>>,
    /// Channels that it begins with, while a backend has to answer about one of them. Bound:
    /// `limits.channels_max`.
    #[save(skip)]
    channels: Vec<InitialSubscription>,
    /// Allowance that pays for questions, where the session has none of its own.
    #[save(skip)]
    pub allowance: Option<Allowance>,
}

impl<P> Default for Questions<P> {
    fn default() -> Self {
        Self {
            headers: Vec::new(),
            meta: None,
            next: 0,
            open: Vec::new(),
            channels: Vec::new(),
            allowance: None,
        }
    }
}

/// Reason why a connection cannot begin with the requested channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CannotAsk {
    /// No backend, or no room for the question.
    NoAnswer,
    /// The client asks for more than it may.
    Overspent(Overspent),
}

impl<P> Questions<P> {
    /// Keeps the fields of the client's request that backends need.
    pub fn new(incoming: &Incoming<'_, '_>, own: &ProxyOptions) -> Self {
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
            allowance: incoming.allowance,
            ..Self::default()
        }
    }

    /// Adds fields from `headers` of the client's `connect`, as if they came with its request.
    pub fn emulate(&mut self, said: &[(Cow<'_, str>, Cow<'_, str>)], own: &ProxyOptions) {
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

    /// Fields for one question: those of the request come before emulated ones. What a client does
    /// is part of its trace, but not what time brings about.
    fn headers_for(
        &self,
        (to, kind): (BackendId, ProxyKind),
        own: &ProxyOptions,
    ) -> Vec<(Box<str>, Box<str>)> {
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
        let field = SpanContext::FIELD;
        let is_known = headers.iter().any(|(known, _)| **known == *field);
        if own.is_traced
            && !is_known
            && !matches!(
                kind,
                ProxyKind::Refresh | ProxyKind::SubRefresh | ProxyKind::CacheEmpty
            )
            && let Some(passed) = find(field, false).or_else(|| find(field, true))
            && SpanContext::sampled(&passed.value).is_some()
        {
            headers.push((field.into(), passed.value.clone()));
        }
        headers
    }

    pub fn pending(&self) -> impl Iterator<Item = &P> {
        self.open.iter().map(|open| &open.pending)
    }

    pub const fn is_quiet(&self) -> bool {
        self.open.is_empty()
    }

    pub fn take(&mut self, number: u32) -> Option<Open<P>> {
        let at = self.open.iter().position(|open| open.number == number)?;
        Some(self.open.remove(at))
    }

    /// Removes open questions; their answers will be ignored.
    pub fn take_back(&mut self, is_it: impl Fn(&P) -> bool) -> Vec<P> {
        let taken = self.open.extract_if(.., |open| is_it(&open.pending));
        taken.map(|open| open.pending).collect()
    }

    /// Asks a backend. Error: what was asked about, if there is no room.
    pub fn ask<O: From<Ask>>(
        &mut self,
        asker: &AskingClient<'_>,
        (to, call): (BackendId, ProxyCall<'_>),
        pending: P,
        cx: &mut Context<'_, ProxyOptions, O>,
    ) -> Result<(), P> {
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
        request.encode(cx.own.codec(to, call.kind()), &mut body);
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
            headers: self.headers_for((to, call.kind()), cx.own),
            body,
        };
        let conn = cx.id;
        let ask = Ask {
            conn,
            number,
            question,
        };
        cx.order(ask.into());
        Ok(())
    }

    // ---- the channels that a connection begins with ----

    /// Begins with these channels: asks about those that backends decide, and gives all of them
    /// back when nothing is left to ask. Each question costs what an SDK's subscribe costs. Error:
    /// why the connection cannot begin.
    pub fn begin_with<O: From<Ask>>(
        &mut self,
        channels: Vec<InitialSubscription>,
        asker: &AskingClient<'_>,
        about: fn(ChannelName) -> P,
        cx: &mut Context<'_, ProxyOptions, O>,
    ) -> Result<Option<Vec<InitialSubscription>>, CannotAsk> {
        for _ in channels.iter().filter(|wanted| wanted.ask.is_some()) {
            cx.spend(Work::Subscribe).map_err(CannotAsk::Overspent)?;
        }
        self.allowance = cx.shared.meter.lent();
        self.channels = channels;
        self.ask_where(asker, about, cx)
    }

    /// Asks about further channels, as many as may be open at once. Error: nobody can be asked
    /// about one of them.
    pub fn ask_where<O: From<Ask>>(
        &mut self,
        asker: &AskingClient<'_>,
        about: fn(ChannelName) -> P,
        cx: &mut Context<'_, ProxyOptions, O>,
    ) -> Result<Option<Vec<InitialSubscription>>, CannotAsk> {
        while self.open.len() < QUESTIONS_MAX {
            let mut channels = self.channels.iter_mut();
            let next = channels.find_map(|wanted| Some((wanted.ask.take()?, &wanted.channel)));
            let Some((to, channel)) = next else {
                break;
            };
            let channel = channel.clone();
            let call = ProxyCall::Subscribe {
                channel: channel.as_str(),
                token: "",
                data: None,
            };
            self.ask(asker, (to, call), about(channel.clone()), cx)
                .map_err(|_| CannotAsk::NoAnswer)?;
        }
        match self.open.is_empty() {
            true => Ok(Some(std::mem::take(&mut self.channels))),
            false => Ok(None),
        }
    }

    /// A backend allows a channel that the connection begins with; its claims are as a token's.
    pub fn allow(&mut self, channel: &ChannelName, claims: Claims) {
        let mut channels = self.channels.iter_mut();
        if let Some(wanted) = channels.find(|wanted| wanted.channel == *channel) {
            wanted.until = claims.ends_at_unix_s().map(Some);
            wanted.options = claims.options;
        }
    }

    /// Lends the allowance that pays for questions, while an answer is served.
    pub fn lend_allowance<O>(&self, cx: &Context<'_, ProxyOptions, O>) {
        if let Some(allowance) = self.allowance {
            cx.shared.meter.lend(allowance);
        }
    }

    /// Takes back the allowance that [`Questions::lend_allowance`] lent.
    pub fn take_allowance_back<O>(&mut self, cx: &Context<'_, ProxyOptions, O>) {
        self.allowance = cx.shared.meter.take_back();
    }
}

/// Whether it can stand in a request's head without ending a line (RFC 9110 section 5.5).
fn is_field_value(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7F)
}
