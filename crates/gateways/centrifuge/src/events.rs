//! Kinds of connections, and the events of a client.

use throng_centrifuge::Push;
use throng_hub::Answer;
use throng_session::{
    Answered, Beat, Event, Heard, InitialSubscription, OPENING, Opening, Payer, WebSocket, Work,
};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Disconnect, Save, Unsubscribe};

use crate::Cx;
use crate::call::ApiCall;
use crate::emulation::Upstream;
use crate::socket::{Phase, Socket};
use crate::{channels, commands, connect, control, subscribing};

#[derive(Save)]
pub enum Session {
    Socket(Socket),
    /// A call of the server API, until it is answered.
    #[save(skip)]
    Call(Box<ApiCall>),
    /// Commands of a client whose stream is on another connection.
    #[save(skip)]
    Upstream(Box<Upstream>),
}

impl Session {
    /// Whether another process can go on with it now. Calls and commands stay until they are
    /// answered; so does a client about which a backend is being asked.
    pub(crate) fn moves(&self) -> bool {
        match self {
            Self::Socket(socket) => socket.moves(),
            Self::Call(_) | Self::Upstream(_) => false,
        }
    }

    /// A backend has answered the question with this number, or failed to.
    pub fn answered(&mut self, number: u32, answer: Answered, cx: &mut Cx<'_>) {
        match self {
            Self::Socket(socket) => socket.answered(number, answer, cx),
            Self::Call(_) | Self::Upstream(_) => {}
        }
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
            Event::Control(command) => control::carry_out(self, command, cx),
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
        if self.mode().is_stream() {
            // It carries nothing in this direction.
            return;
        }
        let input = (input, &self.ws.limits(cx));
        WebSocket::feed((self, |one| &mut one.ws), input, cx, |one, heard, cx| {
            match heard {
                Heard::Alive => one.arm(cx),
                // Text or binary is no difference, as in Centrifugo.
                Heard::Message { data, .. } => one.message(data, cx),
            }
        });
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
                self.mode().ping(cx.out);
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
            return control::subscribed(self, &channel, &result, cx);
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
            subscribing::want(self, wanted, cx);
        }
    }
}
