//! The state of a Centrifugo client's WebSocket, bidirectional or not.
//!
//! Invariant: the one deadline is the earliest of the next ping or awaited pong, the end of the
//! client's tokens, and, before it has connected, the time that it has for that.

use throng_metrics::Counter;
use throng_session::{Form, Identity, Opening, WebSocket, subscribe};
use throng_types::{ChannelName, Disconnect, Position};

use crate::context::Cx;
use crate::forms::{CENTRIFUGE, UNI_WS};

/// How long after its end a token is still good for the connection or subscription that it opened,
/// in seconds. SDKs fetch the next one when the time that they were told is over, not before
/// (Centrifugo waits as long, `expired_close_delay`).
const REFRESH_GRACE_S: u64 = 25;

/// Whether the client may send commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `/connection/websocket`.
    Bidirectional,
    /// `/connection/uni_websocket`: after the first message it only listens.
    Unidirectional,
}

/// What stands in the WebSocket's spare bytes.
pub(crate) struct State {
    pub(crate) mode: Mode,
    /// The client has said who it is.
    pub(crate) connected: bool,
}

/// One client: its WebSocket, who it is, and the subscriptions that it begins with.
pub struct Socket {
    pub(crate) ws: WebSocket<State>,
    identity: Option<Box<Identity>>,
    pub(crate) opening: Option<Box<Opening>>,
}

impl Socket {
    /// A WebSocket whose handshake was answered.
    pub(crate) fn new(mode: Mode, cx: &mut Cx<'_>) -> Self {
        let state = State {
            mode,
            connected: false,
        };
        let socket = Self {
            ws: WebSocket::new(state, cx),
            identity: None,
            opening: None,
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

    pub(crate) const fn is_bidirectional(&self) -> bool {
        matches!(self.ws.state.mode, Mode::Bidirectional)
    }

    /// The wire form of deliveries to it.
    pub(crate) const fn form(&self) -> Form {
        match self.ws.state.mode {
            Mode::Bidirectional => CENTRIFUGE,
            Mode::Unidirectional => UNI_WS,
        }
    }

    /// How long a token's end may be overstayed, in seconds. Without a way to refresh the token the
    /// connection ends with it.
    pub(crate) const fn grace_s(&self) -> u64 {
        match self.ws.state.mode {
            Mode::Bidirectional => REFRESH_GRACE_S,
            Mode::Unidirectional => 0,
        }
    }

    /// Sets the deadline to the earliest thing that is due.
    pub(crate) fn arm(&self, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        let silence = match self.ws.state.connected {
            true => self.ws.beat_at(cx),
            false => Some(cx.now.mono + cx.shared.limits.connect_timeout_ms),
        };
        let identity = self.identity();
        let end = identity.and_then(|identity| identity.ends_at(self.grace_s(), cx.now));
        cx.set_deadline([silence, end].into_iter().flatten().min());
    }

    /// The client has shown that it is there.
    pub(crate) fn alive(&mut self, cx: &mut Cx<'_>) {
        if self.ws.alive(cx) {
            self.arm(cx);
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
        self.opening = Some(Opening::new(channels.len(), command, resuming));
        cx.hold(true);
        subscribe(channels, self.form(), cx);
    }

    /// Ends the connection for one of our reasons.
    pub(crate) fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        cx.count(Counter::closed(reason));
        self.ws.close(reason.code(), reason.reason(), cx);
    }
}
