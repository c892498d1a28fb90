//! One client of Appwrite Realtime: frames in, frames and orders out.
//!
//! While Appwrite is asked who the client is, its messages wait; before the first answer it is in
//! nobody's room, so no event can overtake its `connected` frame.
//!
//! Invariants
//! - After a close frame was written, nothing else is.
//! - A connection enters the room once, when it says `connected`, and stays until it is gone.

use std::ops::ControlFlow;
use std::sync::Arc;

use throng_appwrite::{
    Aftermath, ClientMessage, Connected, Fault, Identity, PONG, Phase, Slot, SubscribeItem,
    channel, subscription_id,
};
use throng_metrics::Counter;
use throng_types::{ConnId, Disconnect, Millis, Now};
use throng_ws::{
    CloseFrame, Decoder, Event, Limits, Masking, Role, encode_close, encode_close_answer,
    encode_ping, encode_pong,
};

use super::waiting::{Asking, More, User};
pub(super) use super::waiting::{Opening, Shown};
use super::{AppwriteDesk, Credential, Order, Wanted};
use crate::effects::{End, Fx};
use crate::format::ws_text;
use crate::session::first_beat;
use crate::standing::Farewell;
use crate::{Desk, effects};

/// See the module's head.
pub(crate) struct Appwrite {
    decoder: Decoder,
    pub(super) more: Option<Box<More>>,
    /// When the next ping, the pong or, before that, the opening is due.
    beat_at: Millis,
    /// The number of the window in which `messages` were counted.
    window: u32,
    messages: u16,
    pub(super) project: u16,
    opened: bool,
    awaits_pong: bool,
    pub(super) closing: bool,
}

impl Appwrite {
    /// A WebSocket whose handshake was answered.
    pub(super) fn new(id: ConnId, desk: &Desk, fx: &Fx<'_>) -> Self {
        Self {
            decoder: Decoder::new(Role::Server),
            more: None,
            beat_at: first_beat(id, desk.limits.ping_interval_ms, fx.now),
            window: 0,
            messages: 0,
            project: 0,
            opened: false,
            awaits_pong: false,
            closing: false,
        }
    }

    pub(super) fn user_id(&self) -> &str {
        let user = self.more.as_ref().and_then(|more| more.user.as_ref());
        user.map_or("", |user| &user.id)
    }

    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    pub(super) fn is_asking(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.asking.is_some())
    }

    // ---- opening ----

    /// Opens the session, or asks first who the client is.
    pub(super) fn begin(
        &mut self,
        id: ConnId,
        project: u16,
        opening: Opening,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        self.project = project;
        let Some(shown) = opening.shown.clone() else {
            return self.open(id, None, opening, desk, fx);
        };
        self.beat_at = fx.now.mono + desk.limits.connect_timeout_ms;
        self.ask(id, Asking::Open(Box::new(opening)), &shown, false, desk, fx);
        self.arm(desk, fx);
    }

    /// Says `connected` and enters the room.
    pub(super) fn open(
        &mut self,
        id: ConnId,
        user: Option<Arc<Identity>>,
        opening: Opening,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let Some(appwrite) = desk.appwrite.as_deref() else {
            return;
        };
        let guest = Identity::guest();
        let identity = user.as_deref().unwrap_or(&guest);
        let request = &opening.request;
        let slots = match request.subscriptions(&identity.user_id, &appwrite.limits) {
            Ok(slots) => slots,
            Err(fault) => return self.refuse_opening(&fault, desk, fx),
        };
        let ids: Vec<(Slot, String)> = slots
            .iter()
            .enumerate()
            .map(|(n, slot)| (slot.slot.clone(), own_id(id, n, 0, desk, fx.now)))
            .collect();
        let connected = Connected {
            channels: &channel::convert(&request.channels, &identity.user_id),
            subscriptions: Some(&ids),
            account: (!identity.is_guest()).then_some(&*identity.account),
        };
        ws_text(fx.out, |out| connected.encode(out));
        let subscriptions = slots.into_iter().zip(ids).map(|(slot, (_, id))| Wanted {
            id,
            channels: slot.channels,
            filter: slot.filter,
        });
        let subscriptions: Vec<Wanted> = subscriptions.collect();
        let waits = subscriptions.is_empty();
        fx.appwrite(Order::Enter {
            conn: id,
            project: appwrite.project_id(self.project).into(),
            roles: identity.roles.clone(),
            subscriptions,
            positions: opening.recover.is_some(),
        });
        if let Some(shown) = opening.shown.filter(|_| !identity.is_guest()) {
            self.more().user = Some(User {
                id: identity.user_id.as_str().into(),
                shown,
            });
        }
        match opening.recover {
            // Its subscriptions come in a message, and what it missed after them.
            Some(since) if waits => self.more().recover = Some(since),
            Some(since) => fx.appwrite(Order::Recover { conn: id, since }),
            None => {}
        }
        self.opened = true;
        self.beat_at = first_beat(id, desk.limits.ping_interval_ms, fx.now);
        self.arm(desk, fx);
    }

    /// Says why not, and ends the connection.
    pub(super) fn refuse_opening(&mut self, fault: &Fault, desk: &Desk, fx: &mut Fx<'_>) {
        self.refuse(fault, Phase::Open, desk, fx);
    }

    /// Sends the `error` frame; what becomes of the connection depends on the fault and the phase.
    pub(crate) fn refuse(&mut self, fault: &Fault, phase: Phase, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(appwrite) = desk.appwrite.as_deref().filter(|_| !self.closing) else {
            return;
        };
        desk.board.count(refused(fault));
        let mut aftermath = Aftermath::Stay;
        ws_text(fx.out, |out| {
            aftermath = fault.refuse(phase, appwrite.style, out);
        });
        match aftermath {
            Aftermath::Stay => {}
            Aftermath::Close(code) => self.close(code, fault.label(), fx),
            Aftermath::Drop => {
                self.closing = true;
                fx.end(End::Flush);
            }
        }
    }

    // ---- frames ----

    pub(crate) fn bytes(&mut self, id: ConnId, input: &mut [u8], desk: &Desk, fx: &mut Fx<'_>) {
        let Some(appwrite) = desk.appwrite.as_deref().filter(|_| !self.closing) else {
            return;
        };
        let limits = Limits {
            message_bytes_max: appwrite.limits.message_bytes_max,
        };
        let mut decoder = std::mem::replace(&mut self.decoder, Decoder::new(Role::Server));
        let result = decoder.feed(input, &limits, |event| {
            self.event(id, &event, appwrite, desk, fx);
            match self.closing {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        });
        self.decoder = decoder;
        if let Err(fault) = result {
            desk.board.count(Counter::BadRequests);
            self.close(fault.close_code(), fault.reason(), fx);
        }
    }

    fn event(
        &mut self,
        id: ConnId,
        event: &Event<'_>,
        appwrite: &AppwriteDesk,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match event {
            Event::Ping(payload) => encode_pong(Masking::Server, payload, fx.out),
            Event::Pong(_) => self.alive(desk, fx),
            Event::Close(frame) => {
                self.closing = true;
                encode_close_answer(Masking::Server, frame.as_ref(), fx.out);
                fx.end(End::Flush);
            }
            Event::Message { data, .. } => {
                desk.board.count(Counter::MessagesIn);
                let waits = self.is_asking();
                let taken = self.may_speak(appwrite, fx.now) && (!waits || self.more().wait(data));
                if !taken {
                    self.refuse(&Fault::TooManyMessages, Phase::Message, desk, fx);
                } else if !waits {
                    self.message(id, data, desk, fx);
                    self.more.take_if(|more| more.is_empty());
                }
            }
        }
    }

    /// Counts a message; false if there were too many in this window.
    fn may_speak(&mut self, appwrite: &AppwriteDesk, now: Now) -> bool {
        let window = now.mono.0.checked_div(appwrite.rates.window_ms);
        let window = window.unwrap_or_default() as u32;
        if self.window != window {
            self.window = window;
            self.messages = 0;
        }
        self.messages = self.messages.saturating_add(1);
        let max = appwrite.rates.messages_max;
        max == 0 || u32::from(self.messages) <= max
    }

    pub(super) fn message(&mut self, id: ConnId, data: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        let Some(appwrite) = desk.appwrite.as_deref() else {
            return;
        };
        match ClientMessage::parse(data, &appwrite.limits) {
            Ok(message) => self.act(id, message, appwrite, desk, fx),
            Err(fault) => self.refuse(&fault, Phase::Message, desk, fx),
        }
    }

    fn act(
        &mut self,
        id: ConnId,
        message: ClientMessage,
        appwrite: &AppwriteDesk,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match message {
            ClientMessage::Ping => ws_text(fx.out, |out| out.extend_from_slice(PONG)),
            ClientMessage::Authentication { session } if appwrite.identifies => {
                let shown = Shown {
                    credential: Credential::Session(session.into()),
                    to_console: false,
                };
                let asking = Asking::Authentication(shown.clone());
                self.ask(id, asking, &shown, false, desk, fx);
            }
            ClientMessage::Authentication { .. } => {
                self.refuse(&Fault::Session, Phase::Message, desk, fx);
            }
            ClientMessage::Subscribe(items) => self.subscribe(id, items, desk, fx),
            ClientMessage::Unsubscribe(ids) => {
                fx.appwrite(Order::Unsubscribe { conn: id, ids });
            }
            // Presence is kept in Appwrite's database, which is not ours to write to.
            ClientMessage::Presence(_) if self.user_id().is_empty() => {
                self.refuse(&Fault::Unauthorized, Phase::Message, desk, fx);
            }
            ClientMessage::Presence(_) => {
                self.refuse(&Fault::ApiDisabled, Phase::Message, desk, fx);
            }
        }
    }

    fn subscribe(&mut self, id: ConnId, items: Vec<SubscribeItem>, desk: &Desk, fx: &mut Fx<'_>) {
        let items = items.into_iter().enumerate().map(|(n, item)| Wanted {
            id: item
                .id
                .unwrap_or_else(|| own_id(id, n, self.messages, desk, fx.now)),
            channels: channel::convert(&item.channels, self.user_id()),
            filter: item.filter,
        });
        let items = items.collect();
        fx.appwrite(Order::Subscribe { conn: id, items });
        let recover = self.more.as_mut().and_then(|more| more.recover.take());
        if let Some(since) = recover {
            fx.appwrite(Order::Recover { conn: id, since });
        }
    }

    // ---- time and the end ----

    fn arm(&self, desk: &Desk, fx: &mut Fx<'_>) {
        if !self.closing {
            let beats = !self.opened || desk.limits.ping_interval_ms > 0;
            fx.deadline = Some(beats.then_some(self.beat_at));
        }
    }

    fn alive(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.awaits_pong {
            self.awaits_pong = false;
            // The ping was sent when the last beat was due; the wait for the answer is part of the
            // interval.
            let sent_at = self.beat_at.0.saturating_sub(desk.limits.pong_timeout_ms);
            self.beat_at = Millis(sent_at) + desk.limits.ping_interval_ms;
            self.arm(desk, fx);
        }
    }

    pub(crate) fn timeout(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        if !self.opened {
            return self.refuse_opening(&Fault::Server, desk, fx);
        }
        if self.awaits_pong {
            return self.disconnect(Disconnect::NoPong, desk, fx);
        }
        desk.board.count(Counter::Pings);
        encode_ping(Masking::Server, b"", fx.out);
        self.awaits_pong = true;
        self.beat_at = fx.now.mono + desk.limits.pong_timeout_ms;
        self.arm(desk, fx);
    }

    pub(crate) fn farewell(&mut self, farewell: &Farewell, desk: &Desk, fx: &mut Fx<'_>) {
        match farewell {
            Farewell::Because(reason) => self.disconnect(*reason, desk, fx),
            Farewell::Custom { code, reason } => {
                desk.board
                    .count(Counter::closed(Disconnect::ForceNoReconnect));
                self.close(*code, reason, fx);
            }
            Farewell::Drain { .. } => self.disconnect(Disconnect::Shutdown, desk, fx),
        }
    }

    /// Ends the connection for one of our reasons. SDKs come back after every code but 1008.
    fn disconnect(&mut self, reason: Disconnect, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::closed(reason));
        let code = match reason {
            // "Service restart" and "try again later" (RFC 6455, registry of close codes).
            Disconnect::Shutdown => 1012,
            Disconnect::Slow => 1013,
            reason if reason.reconnect() => 1011,
            _ => 1008,
        };
        self.close(code, reason.reason(), fx);
    }

    fn close(&mut self, code: u16, reason: &str, fx: &mut Fx<'_>) {
        if !self.closing {
            self.closing = true;
            encode_close(Masking::Server, Some(CloseFrame { code, reason }), fx.out);
            fx.end(End::Flush);
        }
    }
}

/// An id for a subscription without one, different from all others of the connection: the numbers
/// that tell it from them go through a mixer, so that it looks like what Appwrite makes.
fn own_id(id: ConnId, n: usize, messages: u16, desk: &Desk, now: Now) -> String {
    let within = u64::from(messages) << 16 | n as u64;
    let seed = desk.node.0 ^ id.to_bits().rotate_left(17) ^ now.unix_ms.rotate_left(32);
    subscription_id(now.unix_ms * 1000, mix(seed ^ mix(within)) as u32)
}

/// The finisher of `SplitMix64`: different numbers stay different.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

impl Fx<'_> {
    pub(super) fn appwrite(&mut self, order: Order) {
        self.orders.push(effects::Order::Appwrite(order));
    }
}

/// The metric of a refusal.
fn refused(fault: &Fault) -> Counter {
    match fault.label() {
        "project" => Counter::AppwriteRefusedProject,
        "api_disabled" => Counter::AppwriteRefusedApiDisabled,
        "too_many_requests" => Counter::AppwriteRefusedOpenings,
        "too_many_messages" => Counter::AppwriteRefusedMessages,
        "origin" => Counter::AppwriteRefusedOrigin,
        "channels" => Counter::AppwriteRefusedChannels,
        "query" => Counter::AppwriteRefusedQuery,
        "format" => Counter::AppwriteRefusedFormat,
        "session" => Counter::AppwriteRefusedSession,
        "unauthorized" => Counter::AppwriteRefusedUnauthorized,
        _ => Counter::AppwriteRefusedServer,
    }
}
