//! A client's WebSocket whose backend speaks HTTP: frames on one side, requests with events
//! on the other, and between them a [`Conversation`].
//!
//! Rule for "full": bytes for the backend are bounded by the conversation; beyond that the client
//! is not read until there is room, and the rest of one read waits in `stuck`.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_grip::instruct::ResponseHead;
use throng_grip::item::WsKind;
use throng_grip::ws_events::{
    Conversation, ConversationCommand, ConversationLimits, ConversationPhase,
};
use throng_http1::field::{Header, fields};
use throng_http1::origin::{OriginEvent, OriginHead};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::answer_text;
use throng_types::{End, Publication, Save};
use throng_ws::{WsDecoder, WsRole};

use crate::Cx;
use crate::client_side::{CLOSE_TIMEOUT_MS, Side, WsInput};
use crate::order::Order;
use crate::request::BackendRequest;
use crate::response_head::{After, Framing, send_head, switch_protocols};

/// Bytes for the framing of a message in a backend's answer, at most.
const EVENT_BYTES: usize = 1024;

/// A WebSocket whose backend gets its events by HTTP.
#[derive(Save)]
pub struct OverHttp {
    asked: BackendRequest,
    accept: [u8; 28],
    conversation: Conversation,
    /// Token of the exchange whose events are awaited.
    token: u32,
    /// Head and body of the backend's answer, as far as received.
    #[save(skip)]
    answer: Option<(OriginHead, Vec<u8>)>,
    reply_bytes_max: usize,
    decoder: WsDecoder,
    /// Messages without room in the conversation. Bound: one read; the client is not read until
    /// this is empty.
    #[save(skip)]
    stuck: VecDeque<(WsKind, Vec<u8>)>,
    side: Side,
    #[save(skip)]
    close_heard: bool,
}

impl OverHttp {
    /// Creates a session for a client whose handshake was checked.
    pub(crate) fn start(asked: BackendRequest, accept: [u8; 28], cx: &mut Cx<'_>) -> Self {
        let target = asked.route.to.targets.first();
        let one_event = target.is_some_and(|target| target.one_event);
        let least = ConversationLimits::default();
        let message_bytes_max = cx.shared.limits.message_bytes_max;
        // Room for the longest message with its framing.
        let limits = ConversationLimits {
            events_max: if one_event { 1 } else { usize::MAX },
            pending_bytes_max: least.pending_bytes_max.max(message_bytes_max),
            reply_bytes_max: least.reply_bytes_max.max(message_bytes_max + EVENT_BYTES),
            ..least
        };
        let mut commands = Vec::new();
        let name = cx.shared.node.client_id(cx.id);
        let conversation = Conversation::start(limits, name.as_str(), &mut commands);
        let side = Side::new(&asked.route.channel_prefix, target);
        let mut this = Self {
            asked,
            accept,
            conversation,
            token: 0,
            answer: None,
            reply_bytes_max: limits.reply_bytes_max,
            decoder: WsDecoder::new(WsRole::Server),
            stuck: VecDeque::new(),
            side,
            close_heard: false,
        };
        this.run(commands, cx);
        this
    }

    /// Whether another process can go on with it: its backend is not being asked, and it is not
    /// about to end.
    pub(crate) fn moves(&self) -> bool {
        let is_quiet = self.side.early.is_empty() && self.stuck.is_empty() && self.answer.is_none();
        self.conversation.moves() && self.side.moves() && is_quiet && !self.close_heard
    }

    pub(crate) const fn asked(&mut self) -> &mut BackendRequest {
        &mut self.asked
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.side.is_open
    }

    /// Whether nothing more has to be sent to the backend.
    pub(crate) fn is_over(&self) -> bool {
        self.conversation.phase() == ConversationPhase::Done
    }

    pub(crate) fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if !self.side.is_open {
            return self.side.keep_early(input, cx);
        }
        if self.close_heard {
            return;
        }
        let (inputs, fed) = self.side.hear(&mut self.decoder, input, cx);
        let mut commands = Vec::new();
        for input in inputs {
            match input {
                WsInput::Message(kind, data) => self.say(kind, data, &mut commands, cx),
                WsInput::Close(code, reason) => {
                    self.close_heard = true;
                    self.conversation.on_close(code, &reason, &mut commands);
                    if self.is_over() && !self.side.is_overspent {
                        // The backend has detached, so no other side answers.
                        self.side.close(None, b"", cx);
                    }
                    // The client's own close is answered when the backend answers it.
                    self.side.close_by = Some(cx.now.mono + CLOSE_TIMEOUT_MS);
                    break;
                }
            }
        }
        self.run(commands, cx);
        if let Err(fault) = fed {
            cx.count(Counter::BadRequests);
            self.side
                .close(Some(fault.close_code()), fault.reason().as_bytes(), cx);
            cx.end(End::Flush);
        }
        self.settle(cx);
    }

    fn say(
        &mut self,
        kind: WsKind,
        data: Vec<u8>,
        commands: &mut Vec<ConversationCommand>,
        cx: &mut Cx<'_>,
    ) {
        if self.conversation.phase() == ConversationPhase::Detached {
            // There is no backend to answer a ping.
            if kind == WsKind::Ping {
                self.side.send(WsKind::Pong, &data, cx);
            }
            return;
        }
        cx.count(Counter::MessagesIn);
        if !self.stuck.is_empty() || !self.conversation.has_room(data.len()) {
            self.stuck.push_back((kind, data));
            cx.pause(true);
            return;
        }
        // There is room.
        let _ = self.conversation.on_message(kind, data, commands);
    }

    /// Passes stuck messages on, as far as there is room.
    fn unstick(&mut self, commands: &mut Vec<ConversationCommand>, cx: &mut Cx<'_>) {
        if self.stuck.is_empty() {
            return;
        }
        while let Some((_, data)) = self.stuck.front()
            && self.conversation.has_room(data.len())
            && let Some((kind, data)) = self.stuck.pop_front()
        {
            let _ = self.conversation.on_message(kind, data, commands);
        }
        if self.stuck.is_empty() {
            cx.pause(false);
        }
    }

    pub(crate) fn origin(&mut self, token: u32, event: OriginEvent, cx: &mut Cx<'_>) {
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
                cx.order(Order::Forget { conn: cx.id });
                self.answered(&mut commands, cx);
            }
            OriginEvent::End => self.answered(&mut commands, cx),
            // Nothing follows its requests.
            OriginEvent::Taken(_) => return,
            OriginEvent::Failed(failure) => {
                cx.count(Counter::GripOriginFailures);
                self.answer = None;
                let jitter_ms = cx.own.chance() % 1000;
                let now = cx.now.mono;
                self.conversation
                    .on_failure(now, failure.fault, jitter_ms, &mut commands);
            }
        }
        self.unstick(&mut commands, cx);
        self.run(commands, cx);
        self.settle(cx);
    }

    fn answered(&mut self, commands: &mut Vec<ConversationCommand>, cx: &Cx<'_>) {
        let Some((head, body)) = self.answer.take() else {
            return;
        };
        self.token += 1;
        let fields = fields(&head.headers);
        let head = ResponseHead::of(&head, &fields);
        self.conversation
            .on_response(cx.now.mono, head, &body, commands);
    }

    fn run(&mut self, commands: Vec<ConversationCommand>, cx: &mut Cx<'_>) {
        for command in commands {
            match command {
                ConversationCommand::Request { headers, body } => self.ask(headers, body, cx),
                ConversationCommand::Accept { headers } => self.open(&headers, cx),
                ConversationCommand::Reject {
                    code,
                    headers,
                    body,
                } => {
                    let framing = Framing::Length(body.len() as u64);
                    send_head(code, None, &headers, (framing, After::Ends), cx);
                    cx.out.extend_from_slice(&body);
                    cx.end(End::Flush);
                }
                ConversationCommand::Send { kind, content } => self.side.send(kind, &content, cx),
                ConversationCommand::Control(control) => self.side.control(control, cx),
                ConversationCommand::ControlError(fault) => self.side.control_fault(&fault, cx),
                ConversationCommand::Close { .. } if self.side.is_overspent => self.side.end(cx),
                ConversationCommand::Close { code, reason } => self.side.close(code, &reason, cx),
                ConversationCommand::Abort(_) => self.side.end(cx),
            }
        }
        if self.side.is_open && !self.side.early.is_empty() {
            let mut early = std::mem::take(&mut self.side.early);
            self.bytes(&mut early, cx);
        }
    }

    fn ask(&mut self, own: Vec<Header>, body: Vec<u8>, cx: &mut Cx<'_>) {
        let grip = cx.own;
        self.token += 1;
        self.answer = None;
        let request = self.asked.events(own, body, grip, cx.now);
        cx.order(Order::Ask {
            conn: cx.id,
            token: self.token,
            request,
        });
    }

    fn open(&mut self, headers: &[Header], cx: &mut Cx<'_>) {
        let accept = Header::new("Sec-WebSocket-Accept", self.accept);
        switch_protocols(accept, headers, cx.out);
        self.side.open(cx);
    }

    /// Asks the backend, also without an event.
    pub(crate) fn refresh(&mut self, cx: &mut Cx<'_>) {
        let mut commands = Vec::new();
        self.conversation.refresh(&mut commands);
        self.run(commands, cx);
        self.settle(cx);
    }

    pub(crate) fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) {
        match self.side.publication(publication, cx) {
            true => self.refresh(cx),
            false => self.settle(cx),
        }
    }

    pub(crate) fn answer(&mut self, answer: &Answer, cx: &mut Cx<'_>) {
        self.side.answer(answer, cx);
        self.settle(cx);
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.mono;
        if self.side.close_by.is_some_and(|at| at <= now) {
            return self.side.end(cx);
        }
        self.side.timeout(cx);
        let mut commands = Vec::new();
        self.conversation.on_timeout(now, &mut commands);
        self.run(commands, cx);
        self.settle(cx);
    }

    /// Sets the deadline, and ends a session that is over.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        let is_closed = self.close_heard || self.side.close_sent && !self.side.is_open;
        if self.is_over() && is_closed {
            return self.side.end(cx);
        }
        let deadlines = [self.conversation.next_timeout(), self.side.next_timeout()];
        cx.set_deadline(deadlines.into_iter().flatten().min());
    }

    /// Handles the end of the connection; the backend is still notified.
    pub(crate) fn lost(&mut self, cx: &mut Cx<'_>) {
        let mut commands = Vec::new();
        self.conversation.on_lost(&mut commands);
        self.run(commands, cx);
    }

    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        if self.side.is_open {
            // "Service restart" (RFC 6455, registry of close codes).
            self.side.close(Some(1012), b"", cx);
        } else {
            answer_text(503, "the server is shutting down", &[], false, cx);
        }
        cx.end(End::Flush);
    }
}
