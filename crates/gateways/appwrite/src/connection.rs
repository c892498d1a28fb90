//! One client of Appwrite Realtime: frames in, frames and orders out.
//!
//! While Appwrite is asked for the client's identity, its messages wait; before the first answer it
//! is not in the event hub, so no event can overtake its `connected` frame.
//!
//! Invariants
//! - After a close frame was written, nothing else is.
//! - A connection enters the hub once, when it sends `connected`, and stays until it closes.

use std::sync::Arc;

use throng_appwrite::{
    AppwriteIdentity, ClientMessage, Connected, ConnectionPhase, ErrorAction, PONG, RealtimeError,
    Slot, SubscribeItem, channel, subscription_id,
};
use throng_metrics::Counter;
use throng_session::encode::ws_text;
use throng_session::{Beat, CloseReason, Heard, WebSocket};
use throng_types::{Disconnect, Save, mix};
use throng_ws::{Masking, WsLimits, encode_ping};

use crate::Cx;
use crate::order::Order;
use crate::order::SubscriptionOrder;
use crate::pending::{Asking, More, Opening, Shown, User};
use crate::projects::NONE;
use crate::shared::{AppwriteShared, Credential};

#[derive(Save)]
pub struct Connection {
    pub(crate) ws: WebSocket<State>,
    pub(super) more: Option<Box<More>>,
}

/// State in the WebSocket's spare bytes.
#[derive(Save)]
pub(crate) struct State {
    /// The number of the window in which `messages` were counted.
    pub(crate) window: u32,
    pub(crate) messages: u16,
    /// A number of this shard alone, so it is found again by the project's name.
    #[save(skip)]
    pub(crate) project: u16,
    pub(crate) opened: bool,
}

impl Connection {
    pub(super) fn new(cx: &Cx<'_>) -> Self {
        let state = State {
            window: 0,
            messages: 0,
            project: NONE,
            opened: false,
        };
        Self {
            ws: WebSocket::new(state, cx),
            more: None,
        }
    }

    /// Whether another process can go on with it now.
    pub(crate) fn moves(&self) -> bool {
        let is_known = self.more.as_ref().is_none_or(|more| more.moves());
        self.ws.moves() && self.ws.state.opened && is_known
    }

    pub(super) const fn is_closing(&self) -> bool {
        self.ws.is_closing()
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.ws.state.opened && !self.is_closing()
    }

    pub(super) fn user_id(&self) -> &str {
        let user = self.more.as_ref().and_then(|more| more.user.as_ref());
        user.map_or("", |user| &user.id)
    }

    pub(super) fn more(&mut self) -> &mut More {
        self.more.get_or_insert_default()
    }

    /// Whether the client's identity is being looked up.
    pub(super) fn holds_messages(&self) -> bool {
        let asking = self.more.as_ref().and_then(|more| more.asking.as_ref());
        asking.is_some_and(|asking| !matches!(asking, Asking::Check(_)))
    }

    pub(super) fn project_id(&self, cx: &Cx<'_>) -> Box<str> {
        cx.own.projects.id(self.ws.state.project)
    }

    /// Counts the connection for its user. Error: that user has as many connections as it may.
    pub(super) fn admit(
        &self,
        identity: &AppwriteIdentity,
        cx: &Cx<'_>,
    ) -> Result<(), RealtimeError> {
        if identity.is_guest() {
            cx.shared.users.gone(cx.id);
            return Ok(());
        }
        let realm = format!("appwrite/{}", self.project_id(cx));
        let admitted = cx.admit_user(&realm, &identity.user_id);
        admitted.map_err(|_| RealtimeError::TooManyRequests)
    }

    pub(super) fn let_go(&self, appwrite: &AppwriteShared) {
        appwrite.projects.give(self.ws.state.project);
    }

    // ---- opening ----

    /// Opens the session, or looks up the client's identity first.
    pub(super) fn begin(&mut self, opening: Opening, cx: &mut Cx<'_>) {
        let Some(project) = cx.own.projects.take(&opening.request.project) else {
            return self.refuse_opening(&RealtimeError::UnknownProject, cx);
        };
        self.ws.state.project = project;
        let Some(shown) = opening.shown.clone() else {
            return self.open(None, opening, cx);
        };
        cx.deadline_at(cx.now.mono + cx.shared.limits.connect_timeout_ms);
        self.ask(Asking::Open(Box::new(opening)), &shown, cx);
    }

    pub(super) fn open(
        &mut self,
        user: Option<Arc<AppwriteIdentity>>,
        opening: Opening,
        cx: &mut Cx<'_>,
    ) {
        let appwrite = cx.own;
        let guest = AppwriteIdentity::guest();
        let identity = user.as_deref().unwrap_or(&guest);
        let request = &opening.request;
        if let Err(fault) = self.admit(identity, cx) {
            return self.refuse_opening(&fault, cx);
        }
        let slots = match request.subscriptions(&identity.user_id, &appwrite.limits) {
            Ok(slots) => slots,
            Err(fault) => return self.refuse_opening(&fault, cx),
        };
        let ids: Vec<(Slot, String)> = slots
            .iter()
            .enumerate()
            .map(|(n, slot)| (slot.slot.clone(), own_id(n, 0, cx)))
            .collect();
        let connected = Connected {
            channels: &channel::convert(&request.channels, &identity.user_id),
            subscriptions: &ids,
            account: (!identity.is_guest()).then_some(&*identity.account),
        };
        ws_text(cx.out, |out| connected.encode(out));
        let subscriptions = slots
            .into_iter()
            .zip(ids)
            .map(|(slot, (_, id))| SubscriptionOrder {
                id,
                channels: slot.channels,
                filter: slot.filter,
            });
        let subscriptions: Vec<SubscriptionOrder> = subscriptions.collect();
        let waits = subscriptions.is_empty();
        cx.order(Order::Enter {
            conn: cx.id,
            project: self.project_id(cx),
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
            Some(since) => cx.order(Order::Recover { conn: cx.id, since }),
            None => {}
        }
        self.ws.state.opened = true;
        self.ws.restart_beat(cx);
        self.arm(cx);
    }

    pub(super) fn refuse_opening(&mut self, fault: &RealtimeError, cx: &mut Cx<'_>) {
        self.refuse(fault, ConnectionPhase::Open, cx);
    }

    /// Answers a message; only a policy violation ends the connection.
    pub(super) fn refuse_message(&mut self, fault: &RealtimeError, cx: &mut Cx<'_>) {
        self.refuse(fault, ConnectionPhase::Message, cx);
    }

    /// Sends the `error` frame; what becomes of the connection depends on the fault and the phase.
    pub(crate) fn refuse(
        &mut self,
        fault: &RealtimeError,
        phase: ConnectionPhase,
        cx: &mut Cx<'_>,
    ) {
        if self.is_closing() {
            return;
        }
        let appwrite = cx.own;
        cx.count(refused(fault));
        let (label, user) = (fault.label(), self.user_id());
        cx.shared.notices.refused("appwrite", "", user, label);
        let mut aftermath = ErrorAction::Stay;
        ws_text(cx.out, |out| {
            aftermath = fault.refuse(phase, appwrite.style, out);
        });
        match aftermath {
            ErrorAction::Stay => {}
            ErrorAction::Close(code) => self.ws.close(code, fault.label(), cx),
            ErrorAction::Drop => self.ws.cut(cx),
        }
    }

    // ---- frames ----

    pub(crate) fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        let limits = WsLimits::new(cx.own.limits.message_bytes_max);
        let input = (input, &limits);
        WebSocket::feed((self, |one| &mut one.ws), input, cx, |one, heard, cx| {
            match heard {
                Heard::Alive => one.arm(cx),
                Heard::Message { data, .. } => one.hear(data, cx),
            };
        });
    }

    /// Handles a message, which waits while the client's identity is looked up.
    fn hear(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        let waits = self.holds_messages();
        let taken = self.may_speak(cx) && (!waits || self.more().wait(data));
        if !taken {
            self.refuse_message(&RealtimeError::TooManyMessages, cx);
        } else if !waits {
            self.message(data, cx);
            self.more.take_if(|more| more.is_empty());
        }
    }

    /// Counts a message; false if there were too many in this window.
    fn may_speak(&mut self, cx: &Cx<'_>) -> bool {
        let rates = &cx.own.rates;
        let window = cx.now.mono.0.checked_div(rates.window_ms);
        let window = window.unwrap_or_default() as u32;
        if self.ws.state.window != window {
            self.ws.state.window = window;
            self.ws.state.messages = 0;
        }
        self.ws.state.messages = self.ws.state.messages.saturating_add(1);
        let max = rates.messages_max;
        max == 0 || u32::from(self.ws.state.messages) <= max
    }

    pub(super) fn message(&mut self, data: &[u8], cx: &mut Cx<'_>) {
        match ClientMessage::parse(data, &cx.own.limits) {
            Ok(message) => self.act(message, cx),
            Err(fault) => self.refuse_message(&fault, cx),
        }
    }

    fn act(&mut self, message: ClientMessage, cx: &mut Cx<'_>) {
        match message {
            ClientMessage::Ping => ws_text(cx.out, |out| out.extend_from_slice(PONG)),
            ClientMessage::Authentication { session } if cx.own.identifies => {
                let shown = Shown {
                    credential: Credential::Session(session.into()),
                    to_console: false,
                };
                let asking = Asking::Authentication(shown.clone());
                let more = self.more();
                if let Some(Asking::Check(check)) = more.asking.take() {
                    more.check_later(check);
                }
                self.ask(asking, &shown, cx);
            }
            ClientMessage::Authentication { .. } => {
                self.refuse_message(&RealtimeError::Session, cx);
            }
            ClientMessage::Subscribe(items) => self.subscribe(items, cx),
            ClientMessage::Unsubscribe(ids) => {
                cx.order(Order::Unsubscribe { conn: cx.id, ids });
            }
            ClientMessage::Presence(presence) => self.set_presence(&presence, cx),
        }
    }

    fn subscribe(&mut self, items: Vec<SubscribeItem>, cx: &mut Cx<'_>) {
        let items = items
            .into_iter()
            .enumerate()
            .map(|(n, item)| SubscriptionOrder {
                id: item
                    .id
                    .unwrap_or_else(|| own_id(n, self.ws.state.messages, cx)),
                channels: channel::convert(&item.channels, self.user_id()),
                filter: item.filter,
            });
        let items = items.collect();
        cx.order(Order::Subscribe { conn: cx.id, items });
        let recover = self.more.as_mut().and_then(|more| more.recover.take());
        if let Some(since) = recover {
            cx.order(Order::Recover { conn: cx.id, since });
        }
    }

    // ---- time and the end ----

    pub(super) fn arm(&self, cx: &mut Cx<'_>) {
        if self.ws.state.opened && !self.is_closing() {
            let beat_at = self.ws.beat_at(cx).filter(|_| cx.own.pings);
            cx.set_deadline(beat_at.into_iter().chain(self.next_at()).min());
        }
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        if !self.ws.state.opened {
            return self.refuse_opening(&RealtimeError::Server, cx);
        }
        self.ask_next(cx);
        if self.is_closing() {
            return;
        }
        let beat = match cx.own.pings {
            true => self.ws.beat(cx),
            false => Beat::Early,
        };
        match beat {
            Beat::Early => {}
            Beat::NoPong => return self.disconnect(Disconnect::NoPong, cx),
            Beat::Ping => {
                encode_ping(Masking::Server, b"", cx.out);
                self.ws.pinged(true, cx);
            }
        }
        self.arm(cx);
    }

    pub(crate) fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        match why {
            _ if why.is_forced() => self.disconnect(Disconnect::ForceNoReconnect, cx),
            CloseReason::Because(reason) => self.disconnect(*reason, cx),
            CloseReason::Custom { code, reason } => {
                cx.count(why.counter());
                self.ws.close(*code, reason, cx);
            }
            CloseReason::Drain { .. } => self.disconnect(Disconnect::Shutdown, cx),
        }
    }

    /// Ends the connection for one of our reasons. SDKs come back after every code but 1008.
    fn disconnect(&mut self, reason: Disconnect, cx: &mut Cx<'_>) {
        cx.count(Counter::closed(reason));
        let code = match reason {
            // "Service restart" and "try again later" (RFC 6455, registry of close codes).
            Disconnect::Shutdown => 1012,
            Disconnect::Slow => 1013,
            reason if reason.reconnect() => 1011,
            _ => 1008,
        };
        self.ws.close(code, reason.reason(), cx);
    }
}

/// An id for a subscription without one, different from all others of the connection: the numbers
/// that tell it from them go through a mixer, so that it looks like what Appwrite makes.
pub(super) fn own_id(n: usize, messages: u16, cx: &Cx<'_>) -> String {
    let within = u64::from(messages) << 16 | n as u64;
    let conn = mix(cx.shared.node.number().wrapping_add(cx.id.to_bits()));
    let id = mix(conn.wrapping_add(within)) as u32;
    subscription_id(cx.now.unix_ms * 1000, id)
}

fn refused(fault: &RealtimeError) -> Counter {
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
        "presence" => Counter::AppwriteRefusedPresence,
        _ => Counter::AppwriteRefusedServer,
    }
}
