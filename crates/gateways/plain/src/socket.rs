//! `/ws`: each publication's data is one frame, and messages of the client are ignored.
//!
//! Data frames are for data alone, so everything else travels in pings and in the close frame.

use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::http::Entry;
use throng_session::{
    Beat, CloseReason, Event, Heard, Identity, InitialSubscription, OPENING, Opening, WebSocket,
    Work,
};
use throng_types::{Disconnect, Save, Unsubscribe};
use throng_ws::{DeflateOffer, Masking, encode_ping};

use crate::Cx;
use crate::forms::{WS, WS_DEFLATED};

/// "Service restart": come back after a random while (RFC 6455, registry of close codes).
pub(crate) const SERVICE_RESTART: u16 = 1012;

/// One client of `/ws`.
#[derive(Save)]
pub struct SocketSession {
    ws: WebSocket,
    identity: Option<Box<Identity>>,
    /// Until every channel has answered.
    #[save(skip)]
    opening: Option<Box<Opening>>,
}

impl SocketSession {
    /// Creates a WebSocket whose handshake was answered.
    pub(crate) fn open(
        Entry { identity, channels }: Entry,
        deflate: Option<DeflateOffer>,
        cx: &mut Cx<'_>,
    ) -> Self {
        let socket = Self {
            ws: WebSocket::new((), cx).with_deflate(deflate),
            identity,
            opening: Some(Opening::new(channels.len(), 0, false)),
        };
        socket.arm(cx);
        for InitialSubscription { channel, .. } in channels {
            let form = match socket.ws.takes_deflated(&channel, cx) {
                true => WS_DEFLATED,
                false => WS,
            };
            cx.subscribe(OPENING, channel, form, None);
        }
        socket
    }

    /// Whether another process can go on with it: every channel has answered.
    pub(crate) const fn moves(&self) -> bool {
        self.ws.moves() && self.opening.is_none()
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.ws.is_closing()
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        self.identity.as_deref()
    }

    /// Sets the deadline to the earliest thing that is due.
    fn arm(&self, cx: &mut Cx<'_>) {
        // Without a way to refresh the token the connection ends with it.
        let end = { self.identity() }.and_then(|identity| identity.ends_at(0, cx.now));
        self.ws.arm(end, cx);
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        if self.ws.is_closing() {
            return;
        }
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => self.timeout(cx),
            Event::Answer { token, answer } => self.answer(token, answer, cx),
            Event::Drained { dropped } => {
                let payload = format!("dropped={dropped}");
                encode_ping(Masking::Server, payload.as_bytes(), cx.out);
            }
            Event::Unsubscribed {
                why: Unsubscribe::InsufficientState,
                ..
            } => disconnect(&mut self.ws, Disconnect::InsufficientState, cx),
            Event::Unsubscribed { channel, .. } => {
                if let Some(opening) = self.opening.as_mut() {
                    opening.forget(channel);
                }
            }
            Event::Close(why) => self.close(why, cx),
            Event::Surveyed(_) | Event::Reloaded(_) | Event::Control(_) | Event::Publication(_) => {
            }
        }
    }

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        let input = (input, &self.ws.limits(cx));
        WebSocket::feed((self, |one| &mut one.ws), input, cx, |one, heard, cx| {
            match heard {
                Heard::Alive => one.arm(cx),
                // This endpoint only delivers; messages are counted and not used.
                Heard::Message { .. } => _ = one.ws.may(Work::Message, cx),
            }
        });
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        // The client could not tell the remaining channels from the ended one, so all end with the
        // first.
        let ends = self.identity().and_then(Identity::next_end_unix_s);
        if ends.is_some_and(|at| at <= cx.now.unix_s()) {
            return disconnect(&mut self.ws, Disconnect::Expired, cx);
        }
        beat(&mut self.ws, cx);
        self.arm(cx);
    }

    fn answer(&mut self, token: u32, answer: Answer, cx: &mut Cx<'_>) {
        let (OPENING, Answer::Subscribed { channel, result }) = (token, answer) else {
            return;
        };
        let opening = self.opening.as_mut();
        if !opening.is_some_and(|opening| opening.take(channel, result)) {
            return;
        }
        // There is no way to name the channel that was refused but to end the connection.
        let opening = self.opening.take().unwrap_or_default();
        if opening.opened.iter().any(|opened| opened.result.is_err()) {
            disconnect(&mut self.ws, Disconnect::ServerError, cx);
        }
    }

    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        cx.count(why.counter());
        let code = match why {
            CloseReason::Drain { .. } => SERVICE_RESTART,
            CloseReason::Because(_) | CloseReason::Custom { .. } => why.code(),
        };
        self.ws.close(code, why.reason(), cx);
    }
}

/// Sends a ping when one is due, or ends a connection that did not answer the last one.
pub(crate) fn beat(ws: &mut WebSocket, cx: &mut Cx<'_>) {
    match ws.beat(cx) {
        Beat::Early => {}
        Beat::NoPong => disconnect(ws, Disconnect::NoPong, cx),
        Beat::Ping => {
            encode_ping(Masking::Server, b"", cx.out);
            ws.pinged(true, cx);
        }
    }
}

fn disconnect(ws: &mut WebSocket, reason: Disconnect, cx: &mut Cx<'_>) {
    cx.count(Counter::closed(reason));
    ws.close(reason.code(), reason.reason(), cx);
}
