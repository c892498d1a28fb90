//! The state of a Centrifugo client that may speak, and of a unidirectional WebSocket.
//!
//! Invariant: the one deadline is the earliest of the next ping or awaited pong, the end of the
//! client's tokens, and, before it has connected, the time that it has for that.
//!
//! Never: checks a token, or counts a refused one; `throng_session` does.

use throng_auth::TokenFault;
use throng_broker::Refusal;
use throng_centrifuge::{ErrorCode, Push, Reply, TagFilter, encode_push};
use throng_http1::LAST_CHUNK;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::{
    AuthError, Beat, Event, Form, Heard, Identity, InitialSubscription, OPENING, Opening,
    Overspent, Payer, WebSocket, Work, note_ends,
};
use throng_types::json::payload_of;
use throng_types::{
    ChannelError, ChannelName, Disconnect, Now, Publication, Save, Saved, Unsubscribe,
};
use throng_ws::DeflateOffer;

use crate::Cx;
use crate::asked::{Asked, Subscribing};
use crate::forms::{Mode, deflated};
use crate::subscribing::subscribe_wanted;
use crate::{channels, commands, connect, subscribing, wish};

/// Seconds that a token stays good after its end, for the connection or subscription that it
/// opened. SDKs fetch the next one when the time that they were told is over, not before
/// (Centrifugo waits as long, `expired_close_delay`).
const REFRESH_GRACE_S: u64 = 25;

/// Channels that have answered, and JSON for the subscriber of some of them.
pub(crate) type OpeningWithData = (Box<Opening>, Vec<(ChannelName, Box<str>)>);

/// Progress of a client's connect and pings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
}

throng_types::save_choice!(Phase {
    0: New,
    1: Connected,
    2: Pinged,
});
throng_types::save_fields!(State { mode, phase });

/// Session of one client: its transport, its identity, and the subscriptions that it begins with.
pub struct Socket {
    /// State of the WebSocket. A client of an emulated transport has none; it uses the parts that
    /// every client needs, heartbeat and allowance, and no frames.
    pub(crate) ws: WebSocket<State>,
    identity: Option<Box<Identity>>,
    asked: Option<Box<Asked>>,
}

impl Socket {
    /// Creates a client whose handshake was answered, or whose stream has begun.
    pub(crate) fn new(mode: Mode, cx: &mut Cx<'_>) -> Self {
        let state = State {
            mode,
            phase: Phase::New,
        };
        let socket = Self {
            ws: WebSocket::new(state, cx),
            identity: None,
            asked: None,
        };
        socket.arm(cx);
        socket
    }

    /// Appends it; false if it cannot move: it waits for the hub or a backend.
    pub(crate) fn save(&self, out: &mut Vec<u8>) -> bool {
        self.identity.save(out);
        self.ws.save(out) && self.asked().is_none_or(|asked| asked.save(out))
    }

    /// Reads it back; `has_more` if there was something asked.
    pub(crate) fn load(from: &mut Saved<'_>, has_more: bool) -> Option<Self> {
        let (identity, ws) = (Save::load(from)?, WebSocket::load(from)?);
        let asked = match has_more {
            true => Some(Box::new(Asked::load(from)?)),
            false => None,
        };
        Some(Self {
            identity,
            ws,
            asked,
        })
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

    pub(crate) fn asked(&self) -> Option<&Asked> {
        self.asked.as_deref()
    }

    pub(crate) fn asked_mut(&mut self) -> &mut Asked {
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

    /// Asks for the subscriptions that the connection begins with.
    pub(crate) fn open(
        &mut self,
        channels: Vec<InitialSubscription>,
        command: u32,
        cx: &mut Cx<'_>,
    ) {
        let resuming = channels.iter().any(|wanted| wanted.since.is_some());
        self.asked_mut().opening = Some(Opening::new(channels.len(), command, resuming));
        cx.hold(true);
        for wanted in channels {
            self.want(wanted, cx);
        }
    }

    /// Asks for a subscription that the client did not ask for itself.
    pub(crate) fn want(&mut self, wanted: InitialSubscription, cx: &mut Cx<'_>) {
        let form = self.form(&wanted.channel, cx);
        subscribe_wanted(&wanted, self.identity(), form, cx);
        if let Some(data) = wanted.options.data {
            self.asked_mut().data.push((wanted.channel, data));
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

    /// Ends the connection if its client has token_use too many bad tokens.
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
        if !mode.is_emulated() && is_told {
            return self.ws.close(code, reason, cx);
        }
        if self.is_closing() {
            return;
        }
        if is_told {
            self.push(&Push::Disconnect { code, reason }, cx);
        }
        if mode.is_chunked() {
            cx.out.extend_from_slice(LAST_CHUNK);
        }
        self.ws.cut(cx);
    }
}

impl Socket {
    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => self.timeout(cx),
            Event::Answer { token, answer } => self.answer(token, answer, cx),
            Event::Drained { dropped } => self.tell_dropped(dropped, cx),
            Event::Unsubscribed { channel, why } => self.unsubscribed(channel, why, cx),
            Event::Close(why) => {
                cx.count(why.counter());
                self.close(why.code(), why.reason(), cx);
            }
            Event::Control(wish) => wish::grant(self, wish, cx),
            Event::Surveyed(_) | Event::Reloaded(_) | Event::Publication(_) => {}
        }
    }

    /// Commands that came by a request of their own.
    pub(crate) fn upstream(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if self.is_closing() || !self.mode().is_emulated() {
            return;
        }
        // The client's address has paid for the request; here its own allowance counts.
        cx.shared.meter.pays(Payer::NOBODY);
        self.ws.lend_allowance(cx);
        commands::run_all(self, data, cx);
        self.ws.take_allowance_back(cx);
    }

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if self.mode().is_emulated() {
            // Its stream carries nothing in this direction.
            return;
        }
        let mut decoder = self.ws.take_decoder(cx);
        let fed = decoder.feed(input, &self.ws.limits(cx), |event| {
            match self.ws.hear(&event, cx) {
                Heard::Nothing => {}
                Heard::Alive => self.arm(cx),
                // Text or binary is no difference, as in Centrifugo.
                Heard::Message { data, .. } => self.message(data, cx),
            }
            self.ws.flow()
        });
        self.ws.put_decoder(decoder, fed, cx);
    }

    fn message(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        if self.is_bidirectional() {
            return commands::run_all(self, data, cx);
        }
        // Once connected it only listens; its further messages are counted and ignored.
        let is_first = !self.is_connected() && !self.awaits_identity();
        if self.may(Work::Message, cx) && is_first {
            connect::uni_connect(self, data, cx);
        }
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        if !self.is_connected() {
            return self.disconnect(Disconnect::Stale, cx);
        }
        self.end_what_expired(cx);
        if self.is_closing() {
            return;
        }
        match self.ws.beat(cx) {
            Beat::Early => {}
            Beat::NoPong => return self.disconnect(Disconnect::NoPong, cx),
            Beat::Ping => {
                let mode = self.mode();
                mode.frame(cx.out, |out| mode.codec().ping(out));
                // Unidirectional clients do not answer in their protocol.
                if self.is_bidirectional() {
                    self.ws.state.phase = Phase::Pinged;
                }
                self.ws.pinged(self.is_bidirectional(), cx);
            }
        }
        self.arm(cx);
    }

    fn end_what_expired(&mut self, cx: &mut Cx<'_>) {
        let (now_s, grace_s) = (cx.now.unix_s(), self.grace_s());
        let over = |until: u64| until.saturating_add(grace_s) <= now_s;
        let is_over = |until: Option<u64>| until.is_some_and(over);
        if self.identity().is_none() {
            return;
        }
        if is_over(self.identity_mut().expires_at_unix_s) {
            if !self.ask_to_go_on(cx) {
                return self.disconnect(Disconnect::Expired, cx);
            }
            // The answer sets the next end.
            self.identity_mut().expires_at_unix_s = None;
        }
        let until = &mut self.identity_mut().subscriptions_until;
        let ended = until.extract_if(.., |(_, until)| is_over(*until));
        let ended: Vec<ChannelName> = ended.map(|(channel, _)| channel).collect();
        for channel in ended {
            if !self.ask_to_keep(&channel, cx) {
                self.end_subscription(&channel, Unsubscribe::Expired, cx);
            }
        }
    }

    pub(crate) fn end_subscription(
        &mut self,
        channel: &ChannelName,
        why: Unsubscribe,
        cx: &mut Cx<'_>,
    ) {
        self.forget_subscription(channel);
        self.tell_unsubscribed(channel, why, cx);
        cx.unsubscribe(channel.clone());
    }

    fn answer(&mut self, token: u32, answer: Answer, cx: &mut Cx<'_>) {
        let (items, from) = (answer.items(), cx.out.len());
        self.told(token, answer, cx);
        self.ws.charge_answer(items, from, cx);
    }

    fn told(&mut self, token: u32, answer: Answer, cx: &mut Cx<'_>) {
        let Answer::Subscribed { channel, result } = answer else {
            return channels::answer(self, token, &answer, cx);
        };
        if token != OPENING {
            return subscribing::subscribed(self, token, &channel, &result, cx);
        }
        if self.opening_mut().is_none() {
            return wish::subscribed(self, &channel, &result, cx);
        }
        let opening = self.opening_mut();
        if opening.is_some_and(|opening| opening.take(channel, result))
            && let Some((opening, data)) = self.take_opening()
        {
            connect::opened(self, &opening, &data, cx);
        }
    }

    fn tell_dropped(&self, dropped: u32, cx: &mut Cx<'_>) {
        let data = payload_of(format!("{{\"dropped\":{dropped}}}").as_bytes());
        self.push(&Push::Message(&data), cx);
    }

    /// Handles the end of a subscription by the server. First words that are still to come leave it
    /// out.
    ///
    /// A client with an identity may have server-side subscriptions, which no SDK asks for again:
    /// it reconnects with all of them.
    fn unsubscribed(&mut self, channel: &ChannelName, why: Unsubscribe, cx: &mut Cx<'_>) {
        let may_have_more = self.identity().is_some() || !self.is_bidirectional();
        if why == Unsubscribe::InsufficientState && may_have_more {
            return self.disconnect(Disconnect::InsufficientState, cx);
        }
        if let Some(opening) = self.opening_mut() {
            opening.forget(channel);
        }
        self.forget_subscription(channel);
        self.tell_unsubscribed(channel, why, cx);
    }

    fn tell_unsubscribed(&self, channel: &ChannelName, why: Unsubscribe, cx: &mut Cx<'_>) {
        let (channel, code, reason) = (channel.as_str(), why.code(), why.reason());
        let push = Push::Unsubscribe {
            channel,
            code,
            reason,
        };
        self.push(&push, cx);
    }
}

impl Socket {
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
            false => encode_push(push, false, out),
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

impl Socket {
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
