//! The state of a Centrifugo client that may speak, and of a unidirectional WebSocket.
//!
//! Invariant: the one deadline is the earliest of the next ping or awaited pong, the end of the
//! client's tokens, and, before it has connected, the time that it has for that.

use throng_centrifuge::{Push, TagFilter};
use throng_http1::LAST_CHUNK;
use throng_metrics::Counter;
use throng_session::{Form, Identity, Opening, Overspent, Wanted, WebSocket, Work, note_ends};
use throng_types::{ChannelName, Disconnect, Publication, Save};
use throng_ws::DeflateOffer;

use crate::asked::{Asked, Subscribing};
use crate::context::Cx;
use crate::forms::deflated;
use crate::manner::subscribe;
use crate::mode::Mode;

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

    /// Whether another process can go on with it: it does not wait for the hub or a backend.
    pub(crate) fn moves(&self) -> bool {
        self.ws.moves() && self.asked().is_none_or(Asked::moves)
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
    pub(crate) fn set_identity(&mut self, identity: Option<Identity>, channels: &[Wanted]) {
        self.identity = identity.map(Box::new);
        self.note_ends(channels);
    }

    /// Notes when these end.
    pub(crate) fn note_ends(&mut self, channels: &[Wanted]) {
        note_ends(&mut self.identity, channels);
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.ws.is_closing()
    }

    /// Whether the client has connected.
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

    /// Removes and returns the subscribe that is answered now.
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

    /// All of them have answered.
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

    /// A subscription has a filter from now on.
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
    pub(crate) fn open(&mut self, channels: Vec<Wanted>, command: u32, cx: &mut Cx<'_>) {
        let resuming = channels.iter().any(|wanted| wanted.since.is_some());
        self.asked_mut().opening = Some(Opening::new(channels.len(), command, resuming));
        cx.hold(true);
        for wanted in channels {
            self.want(wanted, cx);
        }
    }

    /// Asks for a subscription that the client did not ask for itself.
    pub(crate) fn want(&mut self, wanted: Wanted, cx: &mut Cx<'_>) {
        let form = self.form(&wanted.channel, cx);
        subscribe(&wanted, self.identity(), form, cx);
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

    /// Ends the connection for one of our reasons.
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
