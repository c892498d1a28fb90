//! A session over a WebSocket: frames, pings, and whose protocol the messages are.
//!
//! Invariants
//! - After a close frame was written, nothing else is.
//! - The one deadline is the earliest of: the next ping or the pong awaited, and the
//!   end of the identity.

use std::ops::ControlFlow;

use throng_centrifuge::{encode_message_push, encode_unsubscribe_push, payload_of};
use throng_hub::{Answer, Command, Format};
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Disconnect, Millis, Now, Position, Unsubscribe};
use throng_ws::{
    CloseFrame, Decoder, Event, Limits, Masking, Opcode, Role, encode_close, encode_close_answer,
    encode_ping, encode_pong,
};

use crate::effects::{End, Fx};
use crate::format::{CENTRIFUGE, PLAIN_WS, UNI_WS, ws_text};
use crate::opening::{self, OPENING, Opening};
use crate::session::first_beat;
use crate::standing::Farewell;
use crate::{Desk, Identity, centrifuge};

/// How long after its end a token is still good for the connection or subscription that it opened,
/// in seconds. SDKs fetch the next one when the time that they were told is over, not before
/// (Centrifugo waits as long, `expired_close_delay`).
const REFRESH_GRACE_S: u64 = 25;

/// Whose protocol the messages are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// `/ws`: data alone.
    Plain,
    /// `/connection/websocket`.
    Centrifuge,
    /// `/connection/uni_websocket`.
    Uni,
}

/// How many messages a client may send: a bucket that fills with time.
#[derive(Clone, Copy, Default)]
struct Allowance {
    milli: u32,
    at_ms: u32,
}

impl Allowance {
    /// Takes one message out; false if there is none left.
    fn take(&mut self, per_s_max: u32, now: Now) -> bool {
        if per_s_max == 0 {
            return true;
        }
        let now_ms = now.mono.0 as u32;
        let elapsed_ms = u64::from(now_ms.wrapping_sub(self.at_ms));
        let full = u64::from(per_s_max) * 1000;
        let filled = u64::from(self.milli) + elapsed_ms * u64::from(per_s_max);
        self.at_ms = now_ms;
        self.milli = u32::try_from(filled.min(full)).unwrap_or(u32::MAX);
        let enough = self.milli >= 1000;
        self.milli -= if enough { 1000 } else { 0 };
        enough
    }
}

/// See the module's head.
pub(crate) struct Ws {
    decoder: Decoder,
    identity: Option<Box<Identity>>,
    pub(crate) opening: Option<Box<Opening>>,
    /// When the next ping is due.
    beat_at: Millis,
    allowance: Allowance,
    mode: Mode,
    /// The client has said who it is.
    pub(crate) connected: bool,
    awaits_pong: bool,
    closing: bool,
}

impl Ws {
    /// A WebSocket whose handshake was answered.
    pub(crate) fn new(
        id: ConnId,
        mode: Mode,
        identity: Option<Box<Identity>>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let mut ws = Self {
            decoder: Decoder::new(Role::Server),
            identity,
            opening: None,
            beat_at: first_beat(id, desk.limits.ping_interval_ms, fx.now),
            allowance: Allowance {
                milli: u32::MAX,
                at_ms: fx.now.mono.0 as u32,
            },
            mode,
            connected: mode == Mode::Plain,
            awaits_pong: false,
            closing: false,
        };
        ws.arm(desk, fx);
        ws
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

    pub(crate) const fn mode(&self) -> Mode {
        self.mode
    }

    pub(crate) const fn is_closing(&self) -> bool {
        self.closing
    }

    /// The wire form of deliveries to it.
    pub(crate) const fn format(&self) -> Format {
        match self.mode {
            Mode::Plain => PLAIN_WS,
            Mode::Centrifuge => CENTRIFUGE,
            Mode::Uni => UNI_WS,
        }
    }

    /// How long a token's end may be overstayed, in seconds. Who cannot refresh has nothing to wait
    /// for.
    const fn grace_s(&self) -> u64 {
        match self.mode {
            Mode::Centrifuge => REFRESH_GRACE_S,
            Mode::Plain | Mode::Uni => 0,
        }
    }

    /// Sets the deadline to the earliest thing that is due.
    pub(crate) fn arm(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let silence = if !self.connected {
            Some(fx.now.mono + desk.limits.connect_timeout_ms)
        } else if self.awaits_pong {
            Some(self.beat_at)
        } else {
            (desk.limits.ping_interval_ms > 0).then_some(self.beat_at)
        };
        let end = self.identity().and_then(Identity::next_end_unix_s);
        let end = end.map(|end_s| {
            let end_ms = end_s.saturating_add(self.grace_s()).saturating_mul(1000);
            fx.now.mono + end_ms.saturating_sub(fx.now.unix_ms)
        });
        fx.deadline = Some([silence, end].into_iter().flatten().min());
    }

    pub(crate) fn bytes(&mut self, id: ConnId, input: &mut [u8], desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let limits = Limits {
            message_bytes_max: desk.limits.message_bytes_max,
        };
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(Role::Server));
        let result = decoder.feed(input, &limits, |event| {
            self.event(id, &event, desk, fx);
            if self.closing {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        self.decoder = decoder;
        if let Err(fault) = result {
            desk.board.count(Counter::BadRequests);
            self.close(fault.close_code(), fault.reason(), fx);
        }
    }

    fn event(&mut self, id: ConnId, event: &Event<'_>, desk: &Desk, fx: &mut Fx<'_>) {
        match event {
            Event::Ping(payload) => encode_pong(Masking::Server, payload, fx.out),
            Event::Pong(_) => self.alive(desk, fx),
            Event::Close(frame) => {
                self.closing = true;
                encode_close_answer(Masking::Server, frame.as_ref(), fx.out);
                fx.end(End::Flush);
            }
            Event::Message { opcode, data } => {
                desk.board.count(Counter::MessagesIn);
                if !self.allowance.take(desk.limits.messages_per_s_max, fx.now) {
                    return self.disconnect(Disconnect::TooManyRequests, desk, fx);
                }
                self.message(id, *opcode, data, desk, fx);
            }
        }
    }

    fn message(&mut self, id: ConnId, opcode: Opcode, data: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        match self.mode {
            // This endpoint only delivers; what clients say here is counted and not used.
            Mode::Plain => {}
            Mode::Uni if self.connected => {}
            _ if opcode == Opcode::Binary => {
                self.disconnect(Disconnect::InappropriateProtocol, desk, fx);
            }
            Mode::Centrifuge => centrifuge::commands(self, id, data, desk, fx),
            Mode::Uni => centrifuge::uni_connect(self, id, data, desk, fx),
        }
    }

    /// The client has shown that it is there.
    pub(crate) fn alive(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.awaits_pong {
            self.awaits_pong = false;
            // The ping was sent when the last beat was due; the wait for the answer is part of the
            // interval.
            let waited_ms = desk.limits.pong_timeout_ms;
            self.beat_at =
                Millis(self.beat_at.0.saturating_sub(waited_ms)) + desk.limits.ping_interval_ms;
            self.arm(desk, fx);
        }
    }

    pub(crate) fn timeout(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if !self.connected {
            return self.disconnect(Disconnect::Stale, desk, fx);
        }
        self.end_what_expired(id, desk, fx);
        if self.closing {
            return;
        }
        if fx.now.mono >= self.beat_at {
            if self.awaits_pong {
                return self.disconnect(Disconnect::NoPong, desk, fx);
            }
            if desk.limits.ping_interval_ms > 0 {
                self.ping(desk, fx);
            }
        }
        self.arm(desk, fx);
    }

    fn ping(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::Pings);
        match self.mode {
            Mode::Plain => encode_ping(Masking::Server, b"", fx.out),
            Mode::Centrifuge | Mode::Uni => ws_text(fx.out, throng_centrifuge::encode_ping),
        }
        // Unidirectional clients do not answer in their protocol.
        self.awaits_pong = self.mode != Mode::Uni;
        self.beat_at = fx.now.mono
            + if self.awaits_pong {
                desk.limits.pong_timeout_ms
            } else {
                desk.limits.ping_interval_ms
            };
    }

    fn end_what_expired(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let (now_s, grace_s) = (fx.now.unix_s(), self.grace_s());
        let over = |until: u64| until.saturating_add(grace_s) <= now_s;
        let Some(identity) = self.identity.as_mut() else {
            return;
        };
        if identity.expires_at_unix_s.is_some_and(over) {
            return self.disconnect(Disconnect::Expired, desk, fx);
        }
        let ended: Vec<ChannelName> = identity
            .subscriptions_until
            .iter()
            .filter(|(_, until)| over(*until))
            .map(|(channel, _)| channel.clone())
            .collect();
        identity
            .subscriptions_until
            .retain(|(_, until)| !over(*until));
        for channel in ended {
            self.tell_unsubscribed(&channel, Unsubscribe::Expired, fx);
            fx.hub(Command::Unsubscribe { conn: id, channel });
        }
    }

    /// Asks for the subscriptions that the connection begins with.
    pub(crate) fn open(
        &mut self,
        id: ConnId,
        channels: Vec<(ChannelName, Option<Position>)>,
        command: u32,
        fx: &mut Fx<'_>,
    ) {
        let resuming = channels.iter().any(|(_, since)| since.is_some());
        self.opening = Some(Opening::new(channels.len(), command, resuming));
        if self.mode != Mode::Plain {
            fx.hold = Some(true);
        }
        opening::subscribe(id, channels, self.format(), fx);
    }

    pub(crate) fn answer(
        &mut self,
        id: ConnId,
        token: u32,
        answer: Answer,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if self.closing {
            return;
        }
        let Answer::Subscribed { channel, result } = answer else {
            return centrifuge::answer(self, token, answer, desk, fx);
        };
        if token != OPENING {
            return centrifuge::subscribed(self, token, &channel, &result, desk, fx);
        }
        let Some(opening) = self.opening.as_mut() else {
            return;
        };
        if !opening.take(channel, result) {
            return;
        }
        if let Some(opening) = self.opening.take() {
            match self.mode {
                Mode::Plain => self.plain_opened(&opening, desk, fx),
                Mode::Centrifuge | Mode::Uni => centrifuge::opened(self, id, &opening, desk, fx),
            }
        }
    }

    /// A plain WebSocket has no words for a refusal but the close frame.
    fn plain_opened(&mut self, opening: &Opening, desk: &Desk, fx: &mut Fx<'_>) {
        if opening.opened.iter().any(|opened| opened.result.is_err()) {
            self.disconnect(Disconnect::ServerError, desk, fx);
        }
    }

    pub(crate) fn tell_dropped(&self, dropped: u32, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        match self.mode {
            // Data frames are for data alone, so the news travels in a ping's payload.
            Mode::Plain => {
                encode_ping(
                    Masking::Server,
                    format!("dropped={dropped}").as_bytes(),
                    fx.out,
                );
            }
            Mode::Centrifuge | Mode::Uni => {
                let data = payload_of(format!("{{\"dropped\":{dropped}}}").into_bytes());
                let bidirectional = self.mode == Mode::Centrifuge;
                ws_text(fx.out, |out| encode_message_push(&data, bidirectional, out));
            }
        }
    }

    /// The server ended a subscription. First words that are still to come leave it out.
    pub(crate) fn unsubscribed(
        &mut self,
        channel: &ChannelName,
        why: Unsubscribe,
        fx: &mut Fx<'_>,
    ) {
        if let Some(opening) = self.opening.as_mut() {
            opening.forget(channel);
        }
        if let Some(identity) = self.identity.as_mut() {
            identity.set_subscription_until(channel, None);
        }
        self.tell_unsubscribed(channel, why, fx);
    }

    fn tell_unsubscribed(&self, channel: &ChannelName, why: Unsubscribe, fx: &mut Fx<'_>) {
        if self.closing || self.mode == Mode::Plain {
            return;
        }
        let bidirectional = self.mode == Mode::Centrifuge;
        ws_text(fx.out, |out| {
            encode_unsubscribe_push(
                channel.as_str(),
                why.code(),
                why.reason(),
                bidirectional,
                out,
            );
        });
    }

    pub(crate) fn farewell(&mut self, farewell: &Farewell, desk: &Desk, fx: &mut Fx<'_>) {
        if let Farewell::Because(reason) = farewell {
            return self.disconnect(*reason, desk, fx);
        }
        desk.board.count(farewell.counter());
        let code = match farewell {
            // "Service restart": come back after a random while (RFC 6455, registry of close
            // codes).
            Farewell::Drain { .. } if self.mode == Mode::Plain => 1012,
            _ => farewell.code(),
        };
        self.close(code, farewell.reason(), fx);
    }

    /// Ends the connection for one of our reasons.
    pub(crate) fn disconnect(&mut self, reason: Disconnect, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::closed(reason));
        self.close(reason.code(), reason.reason(), fx);
    }

    fn close(&mut self, code: u16, reason: &str, fx: &mut Fx<'_>) {
        if !self.closing {
            self.closing = true;
            encode_close(Masking::Server, Some(CloseFrame { code, reason }), fx.out);
            // What is held never leaves: it would follow the close frame.
            fx.hold = None;
            fx.end(End::Flush);
        }
    }
}
