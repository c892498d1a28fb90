//! Effects of the answers of a client's backends.
//!
//! A question that fails is answered with error 100, which lets the client try again; a connection
//! or subscription about which the backend cannot be asked goes on for [`EXTENSION_S`].
//!
//! Source: Centrifugo, page "Proxy events to the backend".

use throng_centrifuge::proxy::{ProxyAnswer, ProxyRefusal};
use throng_centrifuge::{ErrorCode, Reply};
use throng_hub::Command;
use throng_session::{Answered, Identity, Open, claims_of};
use throng_types::{ChannelName, Disconnect, Unsubscribe};

use crate::context::Cx;
use crate::pending::Pending;
use crate::socket::Socket;
use crate::{commands, connect, subscribing};

/// Seconds that a connection goes on whose backend cannot be asked.
pub(crate) const EXTENSION_S: u64 = 60;

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

    /// Handles a failed question.
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
            return self.failed_connect(command, cx);
        };
        let proxied = self.proxied();
        proxied.questions.meta.clone_from(&claims.meta);
        proxied.is_backends = true;
        connect::welcome(self, command, request, claims, cx);
    }

    fn failed_connect(&mut self, command: u32, cx: &mut Cx<'_>) {
        match self.is_bidirectional() {
            true => self.error(command, ErrorCode::Internal, cx),
            false => self.disconnect(Disconnect::ServerError, cx),
        }
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
