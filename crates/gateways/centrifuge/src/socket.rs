//! The state of a Centrifugo client's WebSocket, bidirectional or not.
//!
//! Invariant: the one deadline is the earliest of the next ping or awaited pong, the end of the
//! client's tokens, and, before it has connected, the time that it has for that.

use throng_centrifuge::Codec;
use throng_metrics::Counter;
use throng_session::{Form, Identity, Opening, WebSocket, subscribe};
use throng_types::{ChannelName, Disconnect, Position};

use crate::asked::{Asked, Subscribing};
use crate::context::Cx;
use crate::forms::{CENTRIFUGE, PROTOBUF, UNI_WS};

/// How long after its end a token is still good for the connection or subscription that it opened,
/// in seconds. SDKs fetch the next one when the time that they were told is over, not before
/// (Centrifugo waits as long, `expired_close_delay`).
const REFRESH_GRACE_S: u64 = 25;

/// Whether the client may send commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `/connection/websocket`, in this form of the protocol.
    Bidirectional(Codec),
    /// `/connection/uni_websocket`: after the first message it only listens.
    Unidirectional,
}

/// How far a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It has not said who it is.
    New,
    /// It has.
    Connected,
    /// It has, and the last ping of the protocol has no answer in the protocol. Native pongs do not
    /// change this: a client that answers twice is still right.
    Pinged,
}

/// What stands in the WebSocket's spare bytes; there are two.
pub(crate) struct State {
    pub(crate) mode: Mode,
    pub(crate) phase: Phase,
}

/// One client: its WebSocket, who it is, and the subscriptions that it begins with.
pub struct Socket {
    pub(crate) ws: WebSocket<State>,
    identity: Option<Box<Identity>>,
    asked: Option<Box<Asked>>,
}

impl Socket {
    /// A WebSocket whose handshake was answered.
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

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    pub(crate) fn identity_mut(&mut self) -> &mut Identity {
        self.identity.get_or_insert_default()
    }

    pub(crate) fn set_identity(&mut self, identity: Option<Identity>) {
        self.identity = identity.map(Box::new);
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.ws.is_closing()
    }

    /// Whether the client has said who it is.
    pub(crate) fn is_connected(&self) -> bool {
        self.ws.state.phase != Phase::New
    }

    pub(crate) const fn is_bidirectional(&self) -> bool {
        matches!(self.ws.state.mode, Mode::Bidirectional(_))
    }

    /// The form of the protocol; unidirectional clients have JSON alone.
    pub(crate) const fn codec(&self) -> Codec {
        match self.ws.state.mode {
            Mode::Bidirectional(codec) => codec,
            Mode::Unidirectional => Codec::Json,
        }
    }

    /// The wire form of deliveries to it.
    pub(crate) const fn form(&self) -> Form {
        match self.ws.state.mode {
            Mode::Bidirectional(Codec::Json) => CENTRIFUGE,
            Mode::Bidirectional(Codec::Protobuf) => PROTOBUF,
            Mode::Unidirectional => UNI_WS,
        }
    }

    /// How long a token's end may be overstayed, in seconds. Without a way to refresh the token the
    /// connection ends with it.
    pub(crate) const fn grace_s(&self) -> u64 {
        match self.ws.state.mode {
            Mode::Bidirectional(_) => REFRESH_GRACE_S,
            Mode::Unidirectional => 0,
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

    pub(crate) fn asked_mut(&mut self) -> &mut Asked {
        self.asked.get_or_insert_default()
    }

    fn forget_asked(&mut self) {
        if self.asked.as_ref().is_some_and(|asked| asked.is_over()) {
            self.asked = None;
        }
    }

    /// What was remembered of a subscribe that is answered now.
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
    pub(crate) fn take_opening(&mut self) -> Option<Box<Opening>> {
        let opening = self.asked.as_mut()?.opening.take();
        self.forget_asked();
        opening
    }

    /// A subscription has ended; its token goes with it.
    pub(crate) fn forget_subscription(&mut self, channel: &ChannelName) {
        if let Some(identity) = self.identity.as_mut() {
            identity.forget_subscription(channel);
        }
    }

    /// Asks for the subscriptions that the connection begins with.
    pub(crate) fn open(
        &mut self,
        channels: Vec<(ChannelName, Option<Position>)>,
        command: u32,
        cx: &mut Cx<'_>,
    ) {
        let resuming = channels.iter().any(|(_, since)| since.is_some());
        self.asked_mut().opening = Some(Opening::new(channels.len(), command, resuming));
        cx.hold(true);
        subscribe(channels, self.form(), cx);
    }

    /// Ends the connection for one of our reasons.
    pub(crate) fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        cx.count(Counter::closed(reason));
        self.ws.close(reason.code(), reason.reason(), cx);
    }
}
