//! One client: frames in, frames and orders out.
//!
//! Invariants
//! - Nothing is written behind a close frame.
//! - `channels` has every channel that the hub was asked for and has not refused.

use std::sync::Arc;

use throng_auth::{Algorithm, TokenFault};
use throng_broker::{HookEvent, Refusal, Subscribed};
use throng_hub::{Answer, Command};
use throng_metrics::Counter;
use throng_pusher::{
    ChannelAccess, ChannelKind, ChannelUser, ClientFrame, CloseCode, ErrorScope, EventData,
    NAME_BYTES_MAX, PONG, SignedInUser, SubscriptionFailure, channel_message, server_to_user,
    user_message,
};
use throng_session::encode::ws_text;
use throng_session::{Beat, CloseReason, Event, Heard, WebSocket, Work};
use throng_types::{
    ChannelName, Disconnect, Publication, PublicationKind, Publisher, Save, Unsubscribe,
};
use throng_ws::{Masking, Opcode, WsLimits, encode_ping};

use crate::apps::NO_APP;
use crate::channels::{More, Subscription, User};
use crate::forms;
use crate::membership::{self, NotIn, begin_with_cache, over};
use crate::quota::EventSource;
use crate::refusal::sentence_of;
use crate::socket_id::socket_id;
use crate::{Cx, PusherApp, PusherShared, names};

/// Tokens of commands to the hub.
const CLIENT_EVENT: u32 = 1;

/// One client: its WebSocket, its channels and its user. Moves to the next process in an upgrade,
/// unless something is under way.
#[derive(Save)]
pub struct PusherConnection {
    pub(crate) ws: WebSocket<State>,
    /// Channels and user; `None` until it has subscribed or signed in.
    pub(crate) more: Option<Box<More>>,
}

/// State in the WebSocket's spare bytes.
#[derive(Save)]
pub(crate) struct State {
    /// Place of its app, which is found again by its id.
    #[save(skip)]
    pub(crate) app: u16,
}

impl PusherConnection {
    /// Greets a client whose handshake was answered.
    pub(crate) fn open(app: u16, cx: &mut Cx<'_>) -> Self {
        let connection = Self::new(app, cx);
        let timeout_s = cx.own.app(app).map_or(0, |app| app.activity_timeout_s);
        let id = socket_id(&cx.shared.node, cx.id);
        ws_text(cx.out, |out| {
            throng_pusher::connection_established(&id, timeout_s, out)
        });
        connection.ws.arm(None, cx);
        connection
    }

    /// Refuses a client whose handshake was answered.
    pub(crate) fn refused(why: CloseCode, cx: &mut Cx<'_>) -> Self {
        let mut connection = Self::new(NO_APP, cx);
        cx.shared.notices.refused("pusher", "", "", why.reason());
        connection.disconnect(why, cx);
        connection
    }

    fn new(app: u16, cx: &Cx<'_>) -> Self {
        Self {
            ws: WebSocket::new(State { app }, cx),
            more: None,
        }
    }

    /// Whether another process can go on with it: the hub has answered all.
    pub(crate) fn moves(&self) -> bool {
        self.ws.moves() && self.channels().all(Subscription::is_at_rest)
    }

    pub(crate) fn app<'a>(&self, cx: &Cx<'a>) -> Option<&'a PusherApp> {
        cx.own.app(self.ws.state.app)
    }

    pub(crate) fn channels(&self) -> impl Iterator<Item = &Subscription> {
        self.more.iter().flat_map(|more| more.channels())
    }

    pub(crate) fn channels_mut(&mut self) -> impl Iterator<Item = &mut Subscription> {
        self.more.iter_mut().flat_map(|more| more.channels_mut())
    }

    pub(crate) fn subscription(&self, channel: &ChannelName) -> Option<&Subscription> {
        { self.channels() }.find(|subscription| subscription.channel == *channel)
    }

    /// Id of the user that has signed in; empty for none.
    pub(crate) fn user(&self) -> &str {
        let user = self.more.as_ref().and_then(|more| more.user());
        user.map_or("", |user| &user.id)
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        if self.ws.is_closing() {
            return;
        }
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => self.timeout(cx),
            Event::Answer { token, answer } => self.answer(token, answer, cx),
            Event::Publication(publication) => self.publication(publication, cx),
            // Its client cannot tell what is missing, and begins anew.
            Event::Drained { .. } => self.disconnect(CloseCode::OverCapacity, cx),
            Event::Unsubscribed { channel, why } => self.unsubscribed(channel, why, cx),
            Event::Close(why) => self.close(why, cx),
            Event::Surveyed(_) | Event::Reloaded(_) | Event::Control(_) => {}
        }
    }

    // ---- frames ----

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        let limits = WsLimits::new(cx.shared.limits.message_bytes_max);
        let input = (input, &limits);
        WebSocket::feed((self, |one| &mut one.ws), input, cx, |one, heard, cx| {
            let Heard::Message { opcode, data } = heard else {
                return one.ws.arm(None, cx);
            };
            let text = str::from_utf8(data).ok().filter(|_| opcode == Opcode::Text);
            one.message(text.unwrap_or_default(), cx);
        });
    }

    fn message(&mut self, text: &str, cx: &mut Cx<'_>) {
        let frame = ClientFrame::parse(text);
        let work = match &frame {
            Ok(ClientFrame::Subscribe(_)) => Work::Subscribe,
            Ok(ClientFrame::Event { .. }) => Work::Command,
            _ => Work::Message,
        };
        // Who has paid nothing more is closed.
        let Some(app) = self.app(cx).filter(|_| self.ws.may(work, cx)) else {
            return;
        };
        match frame {
            Ok(ClientFrame::Ping) => ws_text(cx.out, |out| out.extend_from_slice(PONG)),
            Ok(ClientFrame::Pong | ClientFrame::Other) => {}
            Ok(ClientFrame::Subscribe(wanted)) => {
                let channel = &wanted.channel;
                let auth = wanted.auth.as_deref().unwrap_or_default();
                let data = wanted.channel_data.as_deref();
                if let Err(why) = self.subscribe(app, channel, auth, data, cx) {
                    let (notices, user) = (&cx.shared.notices, self.user());
                    notices.refused("subscribe", channel, user, why.2);
                    membership::refuse(channel, why, cx);
                }
            }
            Ok(ClientFrame::Unsubscribe { channel }) => self.unsubscribe(app, &channel, cx),
            Ok(ClientFrame::SignIn(user)) => self.sign_in(app, &user.auth, &user.user_data, cx),
            Ok(ClientFrame::Event {
                event,
                channel,
                data,
            }) => {
                if let Err(why) =
                    self.client_event(app, &event, &channel, EventData::Json(data), cx)
                {
                    let scope = ErrorScope::Channel(&channel);
                    tell_error(CloseCode::ClientEvent, why, scope, cx);
                }
            }
            Err(fault) => {
                cx.count(Counter::BadRequests);
                let scope = ErrorScope::Connection;
                tell_error(CloseCode::Reconnect, fault.reason(), scope, cx);
            }
        }
    }

    /// Checks a signature, and charges its cost. Closes a client that has brought too many bad
    /// ones.
    fn is_signed(&mut self, app: &PusherApp, auth: &str, message: &str, cx: &mut Cx<'_>) -> bool {
        let is_good = app.keys.admits(auth, message);
        let fault = (!is_good).then_some(TokenFault::Signature);
        cx.shared
            .meter
            .token_checked(Some(Algorithm::Hs256), fault, cx.now);
        if cx.shared.meter.has_lost_trust() {
            self.disconnect(CloseCode::Unauthorized, cx);
        }
        is_good
    }

    // ---- channels ----

    /// Subscribes, or says why not.
    fn subscribe(
        &mut self,
        app: &PusherApp,
        name: &str,
        auth: &str,
        channel_data: Option<&str>,
        cx: &mut Cx<'_>,
    ) -> Result<(), NotIn> {
        let unauthorized = |why| (SubscriptionFailure::AuthError, 401, why);
        let no_such_name = match name.len() > NAME_BYTES_MAX {
            true => over(CloseCode::Unauthorized, "the channel's name is too long"),
            false => (
                SubscriptionFailure::AuthError,
                400,
                "no channel has this name",
            ),
        };
        let kind = ChannelKind::of(name).ok_or(no_such_name)?;
        let channel = forms::hub_channel(app, name, kind).ok_or(no_such_name)?;
        if kind.access == ChannelAccess::User {
            let is_own = !self.user().is_empty() && *name == server_to_user(self.user());
            if !is_own {
                return Err(unauthorized(
                    "this channel is of another user; sign in first",
                ));
            }
        }
        if kind.is_signed() {
            let message = channel_message(&socket_id(&cx.shared.node, cx.id), name, channel_data);
            if !self.is_signed(app, auth, &message, cx) {
                return Err(unauthorized(
                    "the signature is not of this connection and channel",
                ));
            }
        }
        let member = match kind.access {
            ChannelAccess::Presence => Some(self.member(channel_data, cx)?),
            _ => None,
        };
        if let Some(known) = self.subscription(&channel) {
            // The hub's answer tells those who wait for it.
            if known.is_at_rest()
                && let Some(member) = member
            {
                self.come(channel, member, cx);
            } else if known.is_live && member.is_none() {
                ws_text(cx.out, |out| {
                    throng_pusher::subscription_succeeded(name, out)
                });
            }
            return Ok(());
        }
        let over = |why| Err(over(CloseCode::OverCapacity, why));
        if self.channels().count() >= cx.shared.limits.channels_max {
            return over("this connection has as many channels as it may have");
        }
        if app.counts(&channel) && !app.used.enter_channel(&channel, &app.quota) {
            return over("the app has as many channels as it may have");
        }
        match member {
            Some(member) => self.come(channel, member, cx),
            None => self.listen(channel, cx),
        }
        Ok(())
    }

    /// The member that a client's own data name, or its user that has signed in.
    fn member(&self, channel_data: Option<&str>, cx: &Cx<'_>) -> Result<Publisher, NotIn> {
        let own = self.more.as_ref().and_then(|more| more.user());
        let user = match (channel_data, own) {
            (Some(data), _) => ChannelUser::parse(data).map_err(|fault| fault.reason()),
            (None, Some(user)) => Ok(ChannelUser {
                user_id: user.id.to_string(),
                user_info: user.info.as_deref().map(str::to_owned),
            }),
            (None, None) => Err("a presence channel needs channel_data, or a user that signed in"),
        };
        membership::member(
            user.map_err(|why| (SubscriptionFailure::AuthError, 400, why))?,
            cx,
        )
    }

    fn listen(&mut self, channel: ChannelName, cx: &mut Cx<'_>) {
        membership::subscribe(channel.clone(), None, cx);
        self.more.get_or_insert_default().add(channel, None);
    }

    fn answer(&mut self, token: u32, answer: Answer, cx: &mut Cx<'_>) {
        let (items, from) = (answer.items(), cx.out.len());
        match answer {
            Answer::Subscribed { channel, result } => self.subscribed(&channel, result, cx),
            Answer::Present { result } => {
                self.present(token, result, cx);
                self.ws.charge_answer(items, from, cx);
            }
            Answer::Published {
                result: Err(refusal),
            } if token == CLIENT_EVENT => {
                let (why, scope) = (sentence_of(refusal), ErrorScope::Connection);
                tell_error(CloseCode::ClientEvent, why, scope, cx);
            }
            _ => {}
        }
    }

    fn subscribed(
        &mut self,
        channel: &ChannelName,
        result: Result<Subscribed, Refusal>,
        cx: &mut Cx<'_>,
    ) {
        let name = names::own_name(channel);
        match result {
            Ok(subscribed) => {
                let known = { self.channels_mut() }.find(|known| known.channel == *channel);
                let Some(subscription) = known else { return };
                let membership = subscription.membership.as_mut();
                if let Some(joining) = membership.and_then(|it| it.joining.as_mut()) {
                    let newest = names::is_cache(channel).then_some(subscribed);
                    return joining.come_in(channel, newest, cx);
                }
                subscription.is_live = true;
                // A sign-in has subscribed; its client asks for the answer if it wants one.
                let kind = ChannelKind::of(name);
                let kind = kind.filter(|kind| kind.access != ChannelAccess::User);
                let Some(kind) = kind else { return };
                ws_text(cx.out, |out| {
                    throng_pusher::subscription_succeeded(name, out)
                });
                if kind.is_cache {
                    begin_with_cache(channel, subscribed, cx);
                }
                self.note_change(channel, cx);
            }
            // Its client has unsubscribed meanwhile.
            Err(Refusal::Cancelled) => {}
            Err(refusal) => {
                self.forget(channel, cx);
                if forms::watched(channel).is_some() {
                    return;
                }
                let why = (SubscriptionFailure::ServerError, 503, sentence_of(refusal));
                membership::refuse(name, why, cx);
            }
        }
    }

    fn unsubscribe(&mut self, app: &PusherApp, name: &str, cx: &mut Cx<'_>) {
        let kind = ChannelKind::of(name).filter(|kind| kind.access != ChannelAccess::User);
        if let Some(channel) = kind.and_then(|kind| forms::hub_channel(app, name, kind))
            && self.forget(&channel, cx)
        {
            cx.unsubscribe(channel.clone());
            self.note_change(&channel, cx);
        }
    }

    /// The number of a channel's subscribers has changed.
    fn note_change(&self, channel: &ChannelName, cx: &mut Cx<'_>) {
        let is_wanted = self.app(cx).is_some_and(|app| app.subscription_count);
        if is_wanted && forms::is_counted(channel) {
            cx.order(channel.clone());
        }
    }

    /// Forgets a channel; false if it is not subscribed to.
    pub(crate) fn forget(&mut self, channel: &ChannelName, cx: &Cx<'_>) -> bool {
        let is_known = { self.more.as_mut() }.is_some_and(|more| more.remove(channel));
        if let Some(app) = self.app(cx).filter(|app| is_known && app.counts(channel)) {
            app.used.held.leave(channel);
        }
        is_known
    }

    /// Closes a client of which the server has ended a subscription: the protocol has no word for
    /// the end of one alone.
    fn unsubscribed(&mut self, channel: &ChannelName, why: Unsubscribe, cx: &mut Cx<'_>) {
        if self.forget(channel, cx) {
            self.note_change(channel, cx);
            let is_gap = why == Unsubscribe::InsufficientState;
            let code = match is_gap {
                true => CloseCode::OverCapacity,
                false => CloseCode::Unauthorized,
            };
            self.disconnect(code, cx);
        }
    }

    // ---- events ----

    /// A publication that is not the same bytes for all.
    fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) {
        if publication.told != PublicationKind::Data {
            return self.user_news(publication, cx);
        }
        if forms::is_termination(publication) {
            return self.disconnect(CloseCode::Unauthorized, cx);
        }
        let left_out = publication
            .publisher
            .as_ref()
            .map(|publisher| &*publisher.client);
        if left_out.is_none_or(|client| *client != socket_id(&cx.shared.node, cx.id)) {
            forms::encode_for_one(publication, cx.out);
        }
    }

    /// Passes a client's event on, or says why not.
    fn client_event(
        &self,
        app: &PusherApp,
        event: &str,
        name: &str,
        data: EventData<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<(), &'static str> {
        if !app.client_events {
            return Err("the app does not take client events");
        }
        let kind = ChannelKind::of(name).filter(|kind| kind.takes_client_events());
        let kind = kind.ok_or("client events go to private and presence channels alone")?;
        let channel =
            forms::hub_channel(app, name, kind).ok_or("the channel's name is too long")?;
        let known = self.subscription(&channel).filter(|known| known.is_live);
        let known = known.ok_or("client events go to channels that their sender subscribes to")?;
        let user = known.membership.as_ref().map(|it| &*it.user);
        if event.len() > app.limits.name_bytes_max {
            return Err("the name of the event is too long");
        }
        let bytes = match data {
            EventData::Text(text) => text.len(),
            EventData::Json(json) => json.get().len(),
        };
        if bytes > app.limits.data_bytes_max {
            return Err("the data of the event are too long");
        }
        let charged = (app.used).publish(EventSource::Client, (1, bytes), &[], &app.quota, cx.now);
        if charged.is_err() {
            return Err("the clients of the app send more events than it may have; slow down");
        }
        cx.count(Counter::PublicationsClient);
        let own_id = socket_id(&cx.shared.node, cx.id);
        if let Some(hooks) = &cx.shared.hooks {
            hooks.tell(HookEvent::Client {
                channel: channel.clone(),
                event: event.into(),
                data: data.content().into_owned().into(),
                socket_id: own_id.as_str().into(),
                user: user.map(Into::into),
                trace: cx.shared.client_traces.of(cx.id),
            });
        }
        let mut draft = forms::draft(channel, (event, data), user, Some(&own_id));
        // A cache has what back ends say.
        draft.skip_history = true;
        let reply_to = cx.reply_to(CLIENT_EVENT);
        cx.hub(Command::Publish { reply_to, draft });
        Ok(())
    }

    fn sign_in(&mut self, app: &PusherApp, auth: &str, user_data: &str, cx: &mut Cx<'_>) {
        let message = user_message(&socket_id(&cx.shared.node, cx.id), user_data);
        let user = match self.is_signed(app, auth, &message, cx) {
            true => SignedInUser::parse(user_data).ok(),
            false => None,
        };
        let is_same = |user: &SignedInUser| self.user().is_empty() || self.user() == user.id;
        let user = user.filter(is_same);
        let channel = { user.as_ref() }.and_then(|user| forms::user_channel(app, &user.id));
        let (Some(user), Some(channel)) = (user, channel) else {
            cx.shared
                .notices
                .refused("signin", "", "", "the signature or the user is not good");
            return self.disconnect(CloseCode::Unauthorized, cx);
        };
        if let Err(over) = cx.admit_user(&format!("pusher/{}", app.id), &user.id) {
            return self.close(&CloseReason::Because(over.disconnect()), cx);
        }
        if self.subscription(&channel).is_none() {
            self.listen(channel, cx);
        }
        ws_text(cx.out, |out| throng_pusher::signin_success(user_data, out));
        if app.watchlists {
            self.be_online(app, &user, cx);
        }
        self.more.get_or_insert_default().sign_in(User {
            id: user.id.into(),
            info: user.user_info.map(Into::into),
        });
    }

    // ---- time and the end ----

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        match self.ws.beat(cx) {
            Beat::Early => {}
            Beat::NoPong => {
                cx.count(Counter::closed(Disconnect::NoPong));
                return self.disconnect(CloseCode::NoPong, cx);
            }
            Beat::Ping => {
                encode_ping(Masking::Server, b"", cx.out);
                self.ws.pinged(true, cx);
            }
        }
        self.ws.arm(None, cx);
    }

    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        cx.count(why.counter());
        let code = match why {
            _ if why.is_forced() => CloseCode::Unauthorized,
            CloseReason::Custom { code, reason } => return self.ws.close(*code, reason, cx),
            CloseReason::Drain { .. } => CloseCode::OverCapacity,
            CloseReason::Because(Disconnect::ConnectionLimit) => CloseCode::OverQuota,
            CloseReason::Because(reason) if reason.reconnect() => CloseCode::OverCapacity,
            CloseReason::Because(_) => CloseCode::Unauthorized,
        };
        self.disconnect(code, cx);
    }

    /// Takes a client that ends or moves away out of what its app has.
    pub(crate) fn leave(&self, apps: &PusherShared) {
        if let Some(app) = apps.app(self.ws.state.app) {
            app.used.leave();
            self.recount(Some(app), None);
        }
    }

    /// Counts its channels for its app, if that limits them from now on, or does not any more.
    pub(crate) fn recount(&self, before: Option<&PusherApp>, next: Option<&PusherApp>) {
        for Subscription { channel, .. } in self.channels() {
            match [before, next].map(|app| app.filter(|app| app.counts(channel))) {
                [None, Some(app)] => drop(app.used.held.enter(channel, u64::MAX)),
                [Some(app), None] => app.used.held.leave(channel),
                _ => {}
            }
        }
    }

    /// Ends the connection of a client whose app is not served any more.
    pub(crate) fn end_with_app(&mut self, code: CloseCode, cx: &mut Cx<'_>) {
        self.leave(cx.own);
        self.ws.state.app = NO_APP;
        self.disconnect(code, cx);
    }

    /// Ends the connection, and says why in an event before it.
    fn disconnect(&mut self, code: CloseCode, cx: &mut Cx<'_>) {
        if !self.ws.is_closing() {
            tell_error(code, code.reason(), ErrorScope::Connection, cx);
            self.ws.close(code.code(), code.reason(), cx);
        }
    }
}

/// Tells a client of an error; the code does not tell whether a close follows.
fn tell_error(code: CloseCode, why: &str, scope: ErrorScope<'_>, cx: &mut Cx<'_>) {
    ws_text(cx.out, |out| {
        throng_pusher::error(code.code(), why, scope, out)
    });
}
