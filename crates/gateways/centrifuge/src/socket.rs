//! The state of a Centrifugo client, whether it may speak or only listens.
//!
//! Invariant: the one deadline is the earliest of the next ping or awaited pong, the end of the
//! client's tokens, and, before it has connected, the time that it has for that.
//!
//! Never: checks a token, or counts a refused one; `throng_session` does.

use throng_auth::TokenFault;
use throng_broker::Refusal;
use throng_centrifuge::{ErrorCode, Push, Reply, TagFilter};
use throng_metrics::Counter;
use throng_session::{
    AuthError, Form, Identity, InitialSubscription, Opening, Overspent, WebSocket, Work, note_ends,
};
use throng_types::{ChannelError, ChannelName, Disconnect, Now, Publication, Save};
use throng_ws::DeflateOffer;

use crate::Cx;
use crate::asked::{PendingState, Subscribing};
use crate::forms::{Mode, deflated};

/// Seconds that a token stays good after its end, for the connection or subscription that it
/// opened. SDKs fetch the next one when the time that they were told is over, not before
/// (Centrifugo waits as long, `expired_close_delay`).
const REFRESH_GRACE_S: u64 = 25;

/// Channels that have answered, and JSON for the subscriber of some of them.
pub(crate) type OpeningWithData = (Box<Opening>, Vec<(ChannelName, Box<str>)>);

/// Progress of a client's connect and pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum Phase {
    /// The client has not connected yet.
    New,
    /// The client is connected, and no ping awaits an answer.
    Connected,
    /// The client is connected, and the last ping of the protocol has no answer in the protocol.
    /// Native pongs do not change this: a client that answers twice is still right.
    Pinged,
}

/// State in the WebSocket's spare bytes; there are two.
#[derive(Save)]
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
}

/// Session of one client: its transport, its identity, and the subscriptions that it begins with.
#[derive(Save)]
pub struct Socket {
    /// State of the WebSocket. A client with a stream has none; it uses the parts that every client
    /// needs, heartbeat and allowance, and no frames.
    pub(crate) ws: WebSocket<State>,
    identity: Option<Box<Identity>>,
    asked: Option<Box<PendingState>>,
}

impl Socket {
    /// Creates a client whose handshake was answered, or whose stream has begun.
    pub(crate) fn new(mode: Mode, cx: &mut Cx<'_>) -> Self {
        let is_listener = mode.is_stream() && !mode.is_bidirectional();
        // The request for a stream is its listener's only message.
        let phase = match is_listener {
            true => Phase::Connected,
            false => Phase::New,
        };
        let state = State { mode, phase };
        let ws = WebSocket::new(state, cx);
        let socket = Self {
            ws: if is_listener { ws.as_stream(cx) } else { ws },
            identity: None,
            asked: None,
        };
        socket.arm(cx);
        socket
    }

    /// Whether another process can go on with it: it does not wait for the hub or a backend.
    pub(crate) fn moves(&self) -> bool {
        self.ws.moves() && self.asked().is_none_or(PendingState::moves)
    }

    /// Enables compression as the handshake agreed on.
    pub(crate) fn with_deflate(self, offer: Option<DeflateOffer>) -> Self {
        Self {
            ws: self.ws.with_deflate(offer),
            ..self
        }
    }

    /// The wire form of a channel's deliveries.
    pub(crate) fn form(&self, channel: &ChannelName, cx: &Cx<'_>) -> Form {
        let form = self.mode().form();
        match self.ws.takes_deflated(channel, cx) {
            true => deflated(form),
            false => form,
        }
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    pub(crate) fn identity_mut(&mut self) -> &mut Identity {
        self.identity.get_or_insert_default()
    }

    /// Sets the client's identity, and the expiry of subscriptions with tokens of their own.
    pub(crate) fn set_identity(
        &mut self,
        identity: Option<Identity>,
        channels: &[InitialSubscription],
    ) {
        self.identity = identity.map(Box::new);
        self.note_ends(channels);
    }

    pub(crate) fn note_ends(&mut self, channels: &[InitialSubscription]) {
        note_ends(&mut self.identity, channels);
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.ws.is_closing()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.ws.state.phase != Phase::New
    }

    pub(crate) const fn mode(&self) -> Mode {
        self.ws.state.mode
    }

    pub(crate) const fn is_bidirectional(&self) -> bool {
        self.mode().is_bidirectional()
    }

    /// Seconds that a connection may outlive its token. Without a way to refresh the token it ends
    /// with it.
    pub(crate) fn grace_s(&self) -> u64 {
        if self.is_bidirectional() && !self.is_backends() {
            REFRESH_GRACE_S
        } else {
            0
        }
    }

    /// Sets the deadline to the earliest thing that is due.
    pub(crate) fn arm(&self, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        let silence = match self.is_connected() {
            true => self.ws.beat_at(cx),
            false => Some(cx.now.mono + cx.shared.limits.connect_timeout_ms),
        };
        let identity = self.identity();
        let end = identity.and_then(|identity| identity.ends_at(self.grace_s(), cx.now));
        cx.set_deadline([silence, end].into_iter().flatten().min());
    }

    /// The client answers the server's ping. An answer without a ping is a fault of the client's.
    pub(crate) fn pong(&mut self, cx: &mut Cx<'_>) {
        if self.ws.state.phase != Phase::Pinged {
            return self.disconnect(Disconnect::BadRequest, cx);
        }
        self.ws.state.phase = Phase::Connected;
        if self.ws.alive(cx) {
            self.arm(cx);
        }
    }

    // ---- what was asked of the hub ----

    pub(crate) fn asked(&self) -> Option<&PendingState> {
        self.asked.as_deref()
    }

    pub(crate) fn asked_mut(&mut self) -> &mut PendingState {
        self.asked.get_or_insert_default()
    }

    fn forget_asked(&mut self) {
        if self.asked.as_ref().is_some_and(|asked| asked.is_over()) {
            self.asked = None;
        }
    }

    pub(crate) fn take_subscribing(
        &mut self,
        command: u32,
        channel: &ChannelName,
    ) -> Option<Subscribing> {
        let taken = self.asked.as_mut()?.take(command, channel);
        self.forget_asked();
        taken
    }

    /// The channels that the connection begins with, until all of them have answered.
    pub(crate) fn opening_mut(&mut self) -> Option<&mut Opening> {
        self.asked.as_mut()?.opening.as_deref_mut()
    }

    pub(crate) fn take_opening(&mut self) -> Option<OpeningWithData> {
        let asked = self.asked.as_mut()?;
        let opening = asked.opening.take();
        let data = std::mem::take(&mut asked.data);
        self.forget_asked();
        Some((opening?, data))
    }

    /// Takes the JSON for the client, which is sent once.
    pub(crate) fn take_welcome(&mut self) -> Option<Box<str>> {
        let welcome = self.asked.as_mut()?.welcome.take();
        self.forget_asked();
        welcome
    }

    /// JSON for the subscriber of a channel that it did not ask for.
    pub(crate) fn take_data(&mut self, channel: &ChannelName) -> Option<Box<str>> {
        let data = &mut self.asked.as_mut()?.data;
        let at = data.iter().position(|(known, _)| known == channel);
        let (_, taken) = data.swap_remove(at?);
        self.forget_asked();
        Some(taken)
    }

    pub(crate) fn set_filter(&mut self, channel: &ChannelName, filter: TagFilter) {
        let filters = &mut self.asked_mut().filters;
        filters.retain(|(known, _)| known != channel);
        filters.push((channel.clone(), filter));
    }

    /// Whether a publication passes the filter of its subscription.
    pub(crate) fn passes(&self, publication: &Publication) -> bool {
        let filters = self.asked.iter().flat_map(|asked| &asked.filters);
        let mut own = filters.filter(|(channel, _)| *channel == publication.channel);
        own.all(|(_, filter)| filter.passes(publication.tags.as_deref()))
    }

    /// Appends a publication in the form of the client, if its filter lets it pass.
    pub(crate) fn encode_filtered(&self, publication: &Publication, out: &mut Vec<u8>) {
        if self.passes(publication) {
            let push = Push::Publication(publication);
            { self.mode() }.frame(out, |out| self.mode().codec().push(&push, out));
        }
    }

    /// A subscription has ended; its token and its filter go with it.
    pub(crate) fn forget_subscription(&mut self, channel: &ChannelName) {
        if let Some(asked) = self.asked.as_mut() {
            asked.filters.retain(|(known, _)| known != channel);
            if let Some(proxied) = asked.proxied.as_mut() {
                proxied.forget(channel);
            }
            self.forget_asked();
        }
        if let Some(identity) = self.identity.as_mut() {
            identity.forget_subscription(channel);
        }
    }

    // ---- what the client may ----

    /// Charges a piece of work to the client; false if its allowance is used up, and then the
    /// connection is closed with that reason.
    pub(crate) fn may(&mut self, work: Work, cx: &mut Cx<'_>) -> bool {
        match cx.spend(work) {
            Ok(()) => true,
            Err(over) => {
                self.overspent(over, cx);
                false
            }
        }
    }

    /// Ends the connection if its client has brought too many bad tokens.
    pub(crate) fn check_trust(&mut self, cx: &mut Cx<'_>) {
        if cx.shared.meter.has_lost_trust() && !self.is_closing() {
            cx.note_overspent(Overspent::Tokens);
            self.overspent(Overspent::Tokens, cx);
        }
    }

    fn overspent(&mut self, over: Overspent, cx: &mut Cx<'_>) {
        if !self.is_closing() {
            self.disconnect(over.disconnect(), cx);
        }
    }

    // ---- the end ----

    pub(crate) fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        cx.count(Counter::closed(reason));
        self.close(reason.code(), reason.reason(), cx);
    }

    /// Ends the connection, with the reason in the form of its transport. Code 3000 is the end of
    /// the connection itself, as if the network had cut it: nothing is sent (Centrifugo's
    /// `DisconnectConnectionClosed`).
    pub(crate) fn close(&mut self, code: u16, reason: &str, cx: &mut Cx<'_>) {
        let mode = self.mode();
        let is_told = code != Disconnect::Closed.code();
        if !mode.is_stream() && is_told {
            return self.ws.close(code, reason, cx);
        }
        if self.is_closing() {
            return;
        }
        cx.note_end(code, reason);
        if is_told {
            self.push(&Push::Disconnect { code, reason }, cx);
        }
        mode.end(cx.out);
        self.ws.cut(cx);
    }

    pub(crate) fn reply(&self, command: u32, reply: &Reply<'_>, cx: &mut Cx<'_>) {
        let mode = self.mode();
        mode.frame(cx.out, |out| mode.codec().reply(command, reply, out));
    }

    pub(crate) fn error(&self, command: u32, code: ErrorCode, cx: &mut Cx<'_>) {
        cx.count(Counter::error(code.code()));
        self.reply(command, &Reply::Error(code), cx);
    }

    /// Writes a push, which answers no command.
    pub(crate) fn push(&self, push: &Push<'_>, cx: &mut Cx<'_>) {
        let mode = self.mode();
        mode.frame(cx.out, |out| match mode.is_bidirectional() {
            true => mode.codec().push(push, out),
            false => mode.codec().bare_push(push, out),
        });
    }

    /// The channel that a command names. An empty name ends the connection, as in Centrifugo;
    /// another that is no name is an error.
    pub(crate) fn channel(
        &mut self,
        command: u32,
        name: &str,
        cx: &mut Cx<'_>,
    ) -> Option<ChannelName> {
        match ChannelName::new(name) {
            Ok(channel) => return Some(channel),
            Err(ChannelError::Empty) => self.disconnect(Disconnect::BadRequest, cx),
            Err(_) => self.error(command, ErrorCode::BadRequest, cx),
        }
        None
    }

    /// Answers a command whose token is invalid, as the table says. `command` is the command's id.
    pub(crate) fn refuse_token(
        &mut self,
        command: u32,
        token_use: TokenUse,
        why: AuthError,
        cx: &mut Cx<'_>,
    ) {
        match refused(token_use, why) {
            Refused::Error(code) => self.error(command, code, cx),
            Refused::End(reason) => self.disconnect(reason, cx),
        }
    }
}

/// Seconds from now to a moment.
pub(crate) fn ttl(at_unix_s: u64, now: Now) -> u32 {
    u32::try_from(at_unix_s.saturating_sub(now.unix_s())).unwrap_or(u32::MAX)
}

/// Maps the hub's refusal to an error code.
pub(crate) const fn code_of(refusal: Refusal) -> ErrorCode {
    match refusal {
        Refusal::Busy => ErrorCode::TooManyRequests,
        // A temporary code: a client that still needs the subscription asks again.
        Refusal::Cancelled
        | Refusal::Unavailable
        | Refusal::Unknown
        | Refusal::NotWritten
        | Refusal::NotOnDisk => ErrorCode::Internal,
        Refusal::UnknownChannel => ErrorCode::UnknownChannel,
        Refusal::AlreadySubscribed => ErrorCode::AlreadySubscribed,
        Refusal::ChannelLimit | Refusal::TooLong => ErrorCode::LimitExceeded,
        Refusal::NotAvailable => ErrorCode::NotAvailable,
        Refusal::UnrecoverablePosition => ErrorCode::UnrecoverablePosition,
    }
}

/// Command that carried a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenUse {
    Connect,
    /// The first message of a unidirectional WebSocket, which has no error replies, only a close.
    UniConnect,
    Refresh,
    Subscribe,
    SubRefresh,
}

enum Refused {
    Error(ErrorCode),
    End(Disconnect),
}

/// The codes are Centrifugo's, so that SDKs fetch another token, come again or give up as they do
/// there.
const fn refused(token_use: TokenUse, why: AuthError) -> Refused {
    let AuthError::Token(fault) = why else {
        return Refused::End(Disconnect::BadRequest);
    };
    match (fault, token_use) {
        // Codes that SDKs try again after.
        (TokenFault::UnknownKey, TokenUse::UniConnect) => Refused::End(Disconnect::ServerError),
        (TokenFault::UnknownKey, _) => Refused::Error(ErrorCode::Internal),
        (TokenFault::Expired, TokenUse::Connect | TokenUse::Subscribe) => {
            Refused::Error(ErrorCode::TokenExpired)
        }
        (TokenFault::Expired, TokenUse::SubRefresh) => Refused::Error(ErrorCode::Expired),
        // An SDK that got an error would stay away; after this close it comes back with a token.
        (TokenFault::Expired, TokenUse::UniConnect | TokenUse::Refresh) => {
            Refused::End(Disconnect::Expired)
        }
        // For another user or channel: a lasting mistake.
        (TokenFault::Purpose, TokenUse::Subscribe) => Refused::End(Disconnect::InvalidToken),
        (_, TokenUse::Subscribe) => Refused::Error(ErrorCode::PermissionDenied),
        _ => Refused::End(Disconnect::InvalidToken),
    }
}
