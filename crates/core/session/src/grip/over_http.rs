//! A client's WebSocket whose backend speaks HTTP: frames on one side, requests with events
//! on the other, and between them a [`Conversation`].
//!
//! Rule for "full": what the backend has not taken is bounded by the conversation; then the
//! client is not read until there is room, and what one read brought too much waits in `stuck`.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_grip::exchange::{OriginEvent, OriginFault, OriginHead};
use throng_grip::headers::Header;
use throng_grip::instruct::ResponseHead;
use throng_grip::item::WsKind;
use throng_grip::ws_events::{Command, Conversation, ConversationLimits, Failure, Phase};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{ConnId, Publication};
use throng_ws::{Decoder, Role, handshake};

use super::GripDesk;
use super::asked::Asked;
use super::frames::{Told, read};
use super::head::{Framing, encode_head, switch_protocols};
use super::order::GripOrder;
use super::side::{CLOSE_TIMEOUT_MS, Side, Wish};
use crate::Desk;
use crate::effects::{End, Fx, Order};
use crate::http::answer_text;

/// See the module's head.
pub(crate) struct OverHttp {
    asked: Asked,
    accept: [u8; 28],
    conversation: Conversation,
    /// Of the exchange whose events are waited for.
    token: u32,
    /// What has come of its answer.
    answer: Option<(OriginHead, Vec<u8>)>,
    reply_bytes_max: usize,
    decoder: Decoder,
    /// Bytes that came before the handshake was answered.
    early: Vec<u8>,
    stuck: VecDeque<(WsKind, Vec<u8>)>,
    side: Side,
    close_heard: bool,
}

impl OverHttp {
    /// For a client whose handshake was checked.
    pub(super) fn start(
        id: ConnId,
        asked: Asked,
        accept: [u8; 28],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let target = asked.route.targets.first();
        let one_event = target.is_some_and(|target| target.one_event);
        let limits = ConversationLimits {
            events_max: if one_event { 1 } else { usize::MAX },
            ..ConversationLimits::default()
        };
        let mut commands = Vec::new();
        let name = desk.node.client_id(id);
        let conversation = Conversation::start(limits, name.as_str(), &mut commands);
        let side = Side::new(&asked.route.channel_prefix, target);
        let mut this = Self {
            asked,
            accept,
            conversation,
            token: 0,
            answer: None,
            reply_bytes_max: limits.reply_bytes_max,
            decoder: Decoder::new(Role::Server),
            early: Vec::new(),
            stuck: VecDeque::new(),
            side,
            close_heard: false,
        };
        this.run(id, commands, desk, fx);
        this
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.side.is_open
    }

    /// Whether nothing more has to be said to the backend.
    pub(crate) fn is_over(&self) -> bool {
        self.conversation.phase() == Phase::Done
    }

    pub(crate) fn bytes(&mut self, id: ConnId, input: &mut [u8], desk: &Desk, fx: &mut Fx<'_>) {
        if !self.side.is_open {
            if self.early.len() + input.len() > desk.limits.head_bytes_max {
                return fx.end(End::Now);
            }
            return self.early.extend_from_slice(input);
        }
        if self.close_heard {
            return;
        }
        let message_bytes_max = self.conversation_bytes_max(desk);
        let (events, fed) = read(&mut self.decoder, input, message_bytes_max);
        let mut commands = Vec::new();
        for event in events {
            match event {
                Told::Message(kind, data) => self.say(kind, data, &mut commands, desk, fx),
                Told::Close(code, reason) => {
                    self.close_heard = true;
                    self.conversation.on_close(code, &reason, &mut commands);
                    // The client's own close is answered when the backend answers it.
                    self.side.close_by = Some(fx.now.mono + CLOSE_TIMEOUT_MS);
                    break;
                }
            }
        }
        self.run(id, commands, desk, fx);
        if let Err(fault) = fed {
            desk.board.count(Counter::BadRequests);
            self.side
                .close(Some(fault.close_code()), fault.reason().as_bytes(), fx);
            fx.end(End::Flush);
        }
        self.settle(desk, fx);
    }

    fn conversation_bytes_max(&self, desk: &Desk) -> usize {
        let own_max = ConversationLimits::default().pending_bytes_max;
        desk.limits.message_bytes_max.min(own_max)
    }

    fn say(
        &mut self,
        kind: WsKind,
        data: Vec<u8>,
        commands: &mut Vec<Command>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        desk.board.count(Counter::MessagesIn);
        if !self.stuck.is_empty() || data.len() > self.conversation.room_bytes() {
            self.stuck.push_back((kind, data));
            fx.pause = Some(true);
            return;
        }
        // There is room.
        let _ = self.conversation.on_message(kind, data, commands);
    }

    /// Says what was stuck, as far as there is room.
    fn unstick(&mut self, commands: &mut Vec<Command>, fx: &mut Fx<'_>) {
        if self.stuck.is_empty() {
            return;
        }
        while let Some((_, data)) = self.stuck.front()
            && data.len() <= self.conversation.room_bytes()
            && let Some((kind, data)) = self.stuck.pop_front()
        {
            let _ = self.conversation.on_message(kind, data, commands);
        }
        if self.stuck.is_empty() {
            fx.pause = Some(false);
        }
    }

    pub(crate) fn origin(
        &mut self,
        id: ConnId,
        token: u32,
        event: OriginEvent,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if token != self.token {
            return;
        }
        let mut commands = Vec::new();
        match event {
            OriginEvent::Head(head) => {
                self.answer = Some((head, Vec::new()));
                return;
            }
            OriginEvent::Body(bytes) => {
                let Some((_, body)) = &mut self.answer else {
                    return;
                };
                body.extend_from_slice(&bytes);
                if body.len() <= self.reply_bytes_max {
                    return;
                }
                fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
                self.answered(&mut commands, fx);
            }
            OriginEvent::End => self.answered(&mut commands, fx),
            // Nothing follows its requests.
            OriginEvent::Taken(_) => return,
            OriginEvent::Failed(failure) => {
                desk.board.count(Counter::GripOriginFailures);
                self.answer = None;
                let failure = match failure.fault {
                    OriginFault::Unreachable | OriginFault::Busy => Failure::Unreachable,
                    OriginFault::Unsent => Failure::Unsent,
                    OriginFault::Timeout | OriginFault::Cut | OriginFault::Garbage => Failure::Sent,
                };
                let jitter_ms = desk.grip.as_ref().map_or(0, GripDesk::chance) % 1000;
                let now = fx.now.mono;
                self.conversation
                    .on_failure(now, failure, jitter_ms, &mut commands);
            }
        }
        self.unstick(&mut commands, fx);
        self.run(id, commands, desk, fx);
        self.settle(desk, fx);
    }

    fn answered(&mut self, commands: &mut Vec<Command>, fx: &Fx<'_>) {
        let Some((head, body)) = self.answer.take() else {
            return;
        };
        self.token += 1;
        let fields = head.fields();
        let head = ResponseHead {
            code: head.code,
            reason: &head.reason,
            headers: &fields,
        };
        self.conversation
            .on_response(fx.now.mono, head, &body, commands);
    }

    /// Carries out what the conversation wants.
    fn run(&mut self, id: ConnId, commands: Vec<Command>, desk: &Desk, fx: &mut Fx<'_>) {
        for command in commands {
            match command {
                Command::Request { headers, body } => self.ask(id, headers, body, desk, fx),
                Command::Accept { headers } => self.open(id, &headers, fx),
                Command::Reject {
                    code,
                    headers,
                    body,
                } => {
                    let framing = Framing::Length(body.len() as u64);
                    encode_head(code, None, &headers, framing, false, fx.out);
                    fx.out.extend_from_slice(&body);
                    fx.end(End::Flush);
                }
                Command::Send { kind, content } => self.side.send(kind, &content, fx),
                Command::Control(control) => self.side.control(id, control, desk, fx),
                Command::ControlFault(fault) => self.side.control_fault(&fault, desk, fx),
                Command::Close { code, reason } => self.side.close(code, &reason, fx),
                Command::Abort(_) => fx.end(End::Flush),
            }
        }
        if self.side.is_open && !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            self.bytes(id, &mut early, desk, fx);
        }
    }

    fn ask(&mut self, conn: ConnId, own: Vec<Header>, body: Vec<u8>, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(grip) = desk.grip.as_ref() else {
            return;
        };
        self.token += 1;
        self.answer = None;
        let request = self.asked.events(own, body, grip, fx.now);
        fx.orders.push(Order::Grip(GripOrder::Ask {
            conn,
            token: self.token,
            request,
        }));
    }

    fn open(&mut self, id: ConnId, headers: &[Header], fx: &mut Fx<'_>) {
        let accept = Header::new("Sec-WebSocket-Accept", self.accept);
        switch_protocols(accept, headers, fx.out);
        self.side.open(id, fx);
    }

    /// Asks the backend, also without an event.
    pub(crate) fn refresh(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let mut commands = Vec::new();
        self.conversation.refresh(&mut commands);
        self.run(id, commands, desk, fx);
        self.settle(desk, fx);
    }

    pub(crate) fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match self.side.publication(publication, desk, fx) {
            Wish::Refresh => self.refresh(id, desk, fx),
            Wish::Nothing => self.settle(desk, fx),
        }
    }

    pub(crate) fn answer(&mut self, answer: &Answer, fx: &mut Fx<'_>) {
        if let Answer::Subscribed { result: Err(_), .. } = answer {
            self.side
                .close(Some(1013), b"no room for this subscription", fx);
        }
    }

    pub(crate) fn timeout(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let now = fx.now.mono;
        if self.side.close_by.is_some_and(|at| at <= now) {
            return fx.end(End::Flush);
        }
        self.side.timeout(desk, fx);
        let mut commands = Vec::new();
        self.conversation.on_timeout(now, &mut commands);
        self.run(id, commands, desk, fx);
        self.settle(desk, fx);
    }

    /// Sets the deadline, and ends what is over.
    fn settle(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        let _ = desk;
        let is_done = self.is_over() && (self.side.close_sent || self.close_heard);
        if is_done && (self.close_heard || !self.side.is_open) {
            return fx.end(End::Flush);
        }
        if self.side.close_sent && self.close_heard && self.is_over() {
            return fx.end(End::Flush);
        }
        let deadlines = [self.conversation.next_timeout(), self.side.next_timeout()];
        fx.deadline = Some(deadlines.into_iter().flatten().min());
    }

    /// The connection has gone; what the backend must hear of it is still said.
    pub(crate) fn lost(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let mut commands = Vec::new();
        self.conversation.on_lost(&mut commands);
        self.run(id, commands, desk, fx);
    }

    pub(crate) fn farewell(&mut self, fx: &mut Fx<'_>) {
        if self.side.is_open {
            // "Service restart" (RFC 6455, registry of close codes).
            self.side.close(Some(1012), b"", fx);
        } else {
            answer_text(503, "the server is going down", &[], false, fx);
        }
        fx.end(End::Flush);
    }
}

/// Checks a client's handshake.
pub(super) fn accept_key(
    request: &throng_http1::Request<'_>,
) -> Result<[u8; 28], handshake::Refusal> {
    let accepted = handshake::accept(request.method, |name| request.header(name));
    accepted.map(|accept| accept.key)
}
