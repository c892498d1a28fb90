//! Unidirectional streams whose clients are identified by a backend.
//!
//! The head of the answer leaves at once, and the first words wait for the backend. A refused
//! client gets a `disconnect` push like any other that has to leave: a backend's error cannot be
//! sent there and becomes 3004 (Centrifugo, `client.go`).

use throng_auth::Claims;
use throng_broker::BackendId;
use throng_centrifuge::proxy::{ProxyAnswer, ProxyCall, ProxyKind, ProxyRefusal};
use throng_centrifuge::{Codec, Connect};
use throng_session::{Answered, Asker, CloseReason, Identity, Incoming, Open, Wanted, claims_of};
use throng_types::{ChannelName, Disconnect};

use crate::answered::EXTENSION_S;
use crate::context::Cx;
use crate::pending::{Hello, Pending, Proxied};
use crate::results::{end_of, uni_channels};
use crate::uni_stream::{Framing, UniStream};

const fn asker(framing: Framing, user: &str) -> Asker<'_> {
    Asker {
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
        (identity, channels): (Option<Box<Identity>>, Vec<Wanted>),
        cx: &mut Cx<'_>,
    ) -> Self {
        let mut this = Self::asking(framing, incoming, hello, identity, cx);
        this.begin_with(Some(channels), cx);
        this
    }

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
        Self::waiting(framing, identity, proxied, cx)
    }

    /// Asks about the channels that it begins with, and begins when nothing is left to ask.
    fn begin_with(&mut self, channels: Option<Vec<Wanted>>, cx: &mut Cx<'_>) {
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
