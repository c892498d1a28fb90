//! A WebSocket as every gateway needs it: control frames, pings, a bound on messages, the close.
//!
//! Owns the decoder and the time of the next sign of life. Never: the meaning of messages, the
//! identity of the client.
//!
//! Invariants
//! - After a close frame was written, nothing else is.
//! - At most one ping is without an answer.

use std::ops::ControlFlow;

use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, End, Millis, Now, Save};
use throng_ws::handshake::{Accept, encode_response};
use throng_ws::{
    CloseFrame, DeflateOffer, Masking, Opcode, WsDecoder, WsEvent, WsLimits, WsRole, encode_close,
    encode_close_answer, encode_pong,
};

use crate::Context;
use crate::work::{Allowance, Overspent, Work};

/// Bytes of compressed input that cost as much as a message of their own.
const INFLATED_BYTES_OF_A_MESSAGE: usize = 8192;

/// A time within 24 days of now, in four bytes instead of eight: every connection has one, and an
/// interval is an hour at most.
#[derive(Clone, Copy, Save)]
struct Soon(u32);

impl From<Millis> for Soon {
    fn from(at: Millis) -> Self {
        Self(at.0 as u32)
    }
}

impl Soon {
    fn near(self, now: Now) -> Millis {
        let from_now = self.0.wrapping_sub(now.mono.0 as u32) as i32;
        Millis(now.mono.0.saturating_add_signed(i64::from(from_now)))
    }
}

/// Bits of a WebSocket's state, in one byte.
#[derive(Clone, Copy, Save)]
struct Flags(u8);

impl Flags {
    const AWAITS_PONG: u8 = 1;
    /// The client may compress what it sends.
    const INFLATES: u8 = 1 << 1;
    /// The client reads what we compress.
    const TAKES_DEFLATED: u8 = 1 << 2;
    const IS_STREAM: u8 = 1 << 3;

    const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    const fn set(&mut self, flag: u8, is_set: bool) {
        self.0 = self.0 & !flag | if is_set { flag } else { 0 };
    }
}

/// Work that a frame leaves to the gateway.
pub enum Heard<'a> {
    /// The client has answered a ping: the deadline is to be set anew.
    Alive,
    Message {
        /// Opcode, either text or binary.
        opcode: Opcode,
        data: &'a [u8],
    },
}

/// Meaning of a WebSocket's deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beat {
    /// Nothing is due yet.
    Early,
    Ping,
    /// The client has not answered the last one.
    NoPong,
}

/// A WebSocket, with a few bytes of its gateway's own.
#[derive(Save)]
pub struct WebSocket<T = ()> {
    decoder: WsDecoder,
    allowance: Allowance,
    /// When the next ping or the awaited pong is due.
    beat_at: Soon,
    flags: Flags,
    /// Whether a close frame was written or answered. Not a flag: the unused values of this `bool`
    /// distinguish the kinds of sessions, which would otherwise take a word of their own.
    #[save(skip)]
    closing: bool,
    /// The gateway's. In here, because here is room for it that would else be lost.
    pub state: T,
}

impl<T> WebSocket<T> {
    /// Creates a WebSocket whose handshake was answered.
    pub fn new<S, O>(state: T, cx: &Context<'_, S, O>) -> Self {
        Self {
            decoder: WsDecoder::new(WsRole::Server),
            allowance: Allowance::default(),
            beat_at: first_beat(cx.id, cx.shared.limits.ping_interval_ms, cx.now).into(),
            flags: Flags(0),
            closing: false,
            state,
        }
    }

    /// Makes it the state of a held HTTP stream, whose signs of life have an interval of their own.
    pub fn as_stream<S, O>(mut self, cx: &Context<'_, S, O>) -> Self {
        self.flags.set(Flags::IS_STREAM, true);
        self.restart_beat(cx);
        self
    }

    /// Whether another process can go on with it: it is not about to end.
    pub const fn moves(&self) -> bool {
        !self.closing
    }

    /// Enables compression as the handshake agreed on.
    pub fn with_deflate(mut self, offer: Option<DeflateOffer>) -> Self {
        self.flags.set(Flags::INFLATES, offer.is_some());
        let takes_ours = offer.is_some_and(DeflateOffer::takes_ours);
        self.flags.set(Flags::TAKES_DEFLATED, takes_ours);
        self
    }

    /// Whether a channel's deliveries to this client are compressed.
    pub fn takes_deflated<S, O>(&self, channel: &ChannelName, cx: &Context<'_, S, O>) -> bool {
        let is_asked_for = || {
            let options = cx.shared.namespaces.find(channel);
            options.is_some_and(|options| options.compression)
        };
        self.flags.has(Flags::TAKES_DEFLATED) && is_asked_for()
    }

    pub fn limits<S, O>(&self, cx: &Context<'_, S, O>) -> WsLimits {
        WsLimits {
            message_bytes_max: cx.shared.limits.message_bytes_max,
            deflates: self.flags.has(Flags::INFLATES),
        }
    }

    /// Whether a close frame was written or answered.
    pub const fn is_closing(&self) -> bool {
        self.closing
    }

    // ---- reading ----

    /// Reads input of a session's client, and lets the session act on what is not answered here.
    /// The allowance pays for it meanwhile. A fault of the client's ends the connection.
    pub fn feed<C, S, O>(
        (session, ws): (&mut C, fn(&mut C) -> &mut Self),
        (input, limits): (&mut [u8], &WsLimits),
        cx: &mut Context<'_, S, O>,
        mut act: impl FnMut(&mut C, Heard<'_>, &mut Context<'_, S, O>),
    ) {
        let own = ws(session);
        own.lend_allowance(cx);
        // Lent, because the session is called while it reads.
        let mut decoder = std::mem::replace(&mut own.decoder, WsDecoder::new(WsRole::Server));
        let fed = decoder.feed(input, limits, |event| {
            if let Some(heard) = ws(session).hear(&event, cx) {
                act(session, heard, cx);
            }
            ws(session).flow()
        });
        let own = ws(session);
        own.decoder = decoder;
        own.take_allowance_back(cx);
        if let Err(fault) = fed {
            cx.count(Counter::BadRequests);
            own.close(fault.close_code(), fault.reason(), cx);
        }
    }

    /// Lends the allowance that pays for the client's requests; see
    /// [`WebSocket::take_allowance_back`].
    pub fn lend_allowance<S, O>(&self, cx: &Context<'_, S, O>) {
        cx.shared.meter.lend(self.allowance);
    }

    /// Takes back the allowance, with the charges since.
    pub fn take_allowance_back<S, O>(&mut self, cx: &Context<'_, S, O>) {
        if let Some(allowance) = cx.shared.meter.take_back() {
            self.allowance = allowance;
        }
    }

    /// Charges an answer of the broker with this many items, from the offset `from` of the output.
    /// The client's address is charged by the server, for all kinds of sessions.
    pub fn charge_answer<S, O>(&mut self, items: usize, from: usize, cx: &Context<'_, S, O>) {
        let work = Work::answer(items, cx.out.len().saturating_sub(from));
        cx.shared
            .meter
            .charge_own(&mut self.allowance, work, cx.now);
    }

    const fn flow(&self) -> ControlFlow<()> {
        if self.is_closing() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Answers control frames, and returns what is left to the gateway.
    fn hear<'e, S, O>(
        &mut self,
        event: &'e WsEvent<'_>,
        cx: &mut Context<'_, S, O>,
    ) -> Option<Heard<'e>> {
        match event {
            WsEvent::Ping(payload) => {
                if self.may(Work::Message, cx) {
                    encode_pong(Masking::Server, payload, cx.out);
                }
            }
            WsEvent::Pong(_) if self.alive(cx) => return Some(Heard::Alive),
            WsEvent::Pong(_) => {
                self.may(Work::Message, cx);
            }
            WsEvent::Close(frame) => {
                self.closing = true;
                if let Some(frame) = frame {
                    cx.note_end(frame.code, frame.reason);
                }
                encode_close_answer(Masking::Server, frame.as_ref(), cx.out);
                cx.end(End::Flush);
            }
            WsEvent::Message { opcode, data } => {
                cx.count(Counter::MessagesIn);
                if self.flags.has(Flags::INFLATES) && !self.may_inflate(data.len(), cx) {
                    return None;
                }
                let opcode = *opcode;
                return Some(Heard::Message { opcode, data });
            }
        }
        None
    }

    /// Charges a piece of work to the client; false if its allowance is used up, and then the
    /// connection is closed with that reason. Only while the decoder is lent.
    pub fn may<S, O>(&mut self, work: Work, cx: &mut Context<'_, S, O>) -> bool {
        match cx.spend(work) {
            Ok(()) => true,
            Err(over) => {
                self.overspent(over, cx);
                false
            }
        }
    }

    /// Charges for a message that may have been compressed, by its inflated length: a few bytes can
    /// inflate to the longest message.
    fn may_inflate<S, O>(&mut self, bytes: usize, cx: &mut Context<'_, S, O>) -> bool {
        let more = bytes / INFLATED_BYTES_OF_A_MESSAGE;
        (0..more).all(|_| self.may(Work::Message, cx))
    }

    fn overspent<S, O>(&mut self, over: Overspent, cx: &mut Context<'_, S, O>) {
        if !self.is_closing() {
            let reason = over.disconnect();
            cx.count(Counter::closed(reason));
            self.close(reason.code(), reason.reason(), cx);
        }
    }

    // ---- signs of life ----

    /// Milliseconds from one ping to the next; 0 for none.
    pub fn interval_ms<S, O>(&self, cx: &Context<'_, S, O>) -> u64 {
        match self.flags.has(Flags::IS_STREAM) {
            true => cx.shared.limits.stream_keepalive_ms,
            false => cx.shared.limits.ping_interval_ms,
        }
    }

    /// When the next ping, or the answer to the last one, is due.
    pub fn beat_at<S, O>(&self, cx: &Context<'_, S, O>) -> Option<Millis> {
        let beats = self.flags.has(Flags::AWAITS_PONG) || self.interval_ms(cx) > 0;
        beats.then_some(self.beat_at.near(cx.now))
    }

    /// Sets the connection's deadline: the next sign of life, or the session's own end before it.
    pub fn arm<S, O>(&self, ends_at: Option<Millis>, cx: &mut Context<'_, S, O>) {
        if !self.is_closing() {
            let due = [self.beat_at(cx), ends_at];
            cx.set_deadline(due.into_iter().flatten().min());
        }
    }

    /// The client has shown that it is there. True if the deadline is to be set anew.
    pub fn alive<S, O>(&mut self, cx: &Context<'_, S, O>) -> bool {
        if !self.flags.has(Flags::AWAITS_PONG) {
            return false;
        }
        self.flags.set(Flags::AWAITS_PONG, false);
        // The ping was sent when the last beat was due; the wait for the answer is part of the
        // interval.
        let limits = &cx.shared.limits;
        let sent_at = self.beat_at.near(cx.now).0;
        let sent_at = Millis(sent_at.saturating_sub(limits.pong_timeout_ms));
        self.beat_at = (sent_at + limits.ping_interval_ms).into();
        true
    }

    /// Decides what is due at a deadline.
    pub fn beat<S, O>(&self, cx: &Context<'_, S, O>) -> Beat {
        match cx.now.mono >= self.beat_at.near(cx.now) {
            true if self.flags.has(Flags::AWAITS_PONG) => Beat::NoPong,
            true if self.interval_ms(cx) > 0 => Beat::Ping,
            _ => Beat::Early,
        }
    }

    /// Notes that a ping was written; `is_answered` if the client's protocol has an answer.
    pub fn pinged<S, O>(&mut self, is_answered: bool, cx: &Context<'_, S, O>) {
        cx.count(Counter::Pings);
        self.flags.set(Flags::AWAITS_PONG, is_answered);
        let wait_ms = match is_answered {
            true => cx.shared.limits.pong_timeout_ms,
            false => self.interval_ms(cx),
        };
        self.beat_at = (cx.now.mono + wait_ms).into();
    }

    /// Begins the intervals anew, at a time of this connection's own within the first.
    pub fn restart_beat<S, O>(&mut self, cx: &Context<'_, S, O>) {
        self.beat_at = first_beat(cx.id, self.interval_ms(cx), cx.now).into();
    }

    // ---- the end ----

    /// Writes the close frame. Deliveries held back never leave: they would follow the frame.
    pub fn close<S, O>(&mut self, code: u16, reason: &str, cx: &mut Context<'_, S, O>) {
        if !self.is_closing() {
            cx.note_end(code, reason);
            encode_close(Masking::Server, Some(CloseFrame { code, reason }), cx.out);
            self.cut(cx);
        }
    }

    /// Ends the connection without a close frame, once the output has left.
    pub fn cut<S, O>(&mut self, cx: &mut Context<'_, S, O>) {
        self.closing = true;
        cx.actions.hold = None;
        cx.end(End::Flush);
    }
}

/// Answers the handshake of a WebSocket whose deliveries may be compressed: agrees to the client's
/// offer if a namespace asks for compression, and returns the offer.
pub fn answer_handshake<S, O>(
    accept: &Accept<'_>,
    subprotocol: Option<&str>,
    cx: &mut Context<'_, S, O>,
) -> Option<DeflateOffer> {
    let deflate = accept.deflate.filter(|_| cx.shared.namespaces.compresses());
    encode_response(accept, subprotocol, deflate, cx.out);
    deflate
}

/// Returns the time of a connection's first sign of life: at random within the first interval, so
/// that a crowd of new clients does not get its pings at once for ever.
pub fn first_beat(id: ConnId, interval_ms: u64, now: Now) -> Millis {
    let spread = u64::from(id.index()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    now.mono + interval_ms / 2 + ((spread * (interval_ms / 2).max(1)) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_four_bytes_is_the_one_near_now() {
        let wrap = u64::from(u32::MAX);
        for now in [0, 5, wrap - 5, wrap, wrap + 5, 7 * wrap] {
            for at in [now, now + 3_600_000, now.saturating_sub(3_600_000)] {
                let now = Now::new(now, 0);
                assert_eq!(Soon::from(Millis(at)).near(now), Millis(at));
            }
        }
    }
}
