//! The client's side of a WebSocket that a backend serves: its output, and its channels. Shared by
//! WebSockets over HTTP and by those that are passed through.
//!
//! Owns: subscriptions, keep-alive, the delayed message, the closing of the client's end. Never:
//! talks to the backend.

use std::ops::ControlFlow;
use std::sync::Arc;

use throng_grip::instruct::HoldChannel;
use throng_grip::item::{WsKind, WsMessageItem};
use throng_grip::ws_events::{ControlError, ControlMessage, WsKeepAlive};
use throng_http1::origin::OriginTarget;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::{Allowance, Form, Work};
use throng_types::{End, Millis, Publication, Save};
use throng_ws::{
    CloseFrame, Masking, Opcode, WsDecoder, WsError, WsEvent, WsLimits, close_code_valid,
    encode_close, encode_message, encode_ping, encode_pong,
};

use crate::Cx;
use crate::following::{Following, leave_channel};
use crate::forms::{GRIP_FRAMES, GRIP_OWN, frame, hub_channel};

/// Milliseconds that a client may take to answer a close.
pub(crate) const CLOSE_TIMEOUT_MS: u64 = 5_000;

/// Code for closing the WebSocket of a client that sends more than it may: "policy violation" (RFC
/// 6455 section 7.4.1).
const OVERSPENT_CODE: u16 = 1008;
const OVERSPENT_REASON: &str = "too many messages";

/// The client's end of a WebSocket that a backend serves.
#[derive(Save)]
#[save(check = Self::has_known_form)]
pub(crate) struct Side {
    /// Goes in front of the backend's channel names.
    prefix: Box<str>,
    following: Following,
    /// Channels at the front that the route gave, and the backend cannot take away.
    implicit: usize,
    form: Form,
    keep_alive: Option<(WsKeepAlive, Millis)>,
    delayed: Option<(WsKind, Vec<u8>, Millis)>,
    #[save(skip)]
    pub(crate) close_by: Option<Millis>,
    pub(crate) is_open: bool,
    #[save(skip)]
    pub(crate) close_sent: bool,
    /// Whether the client sent more than it may: it is closed when the backend has answered the
    /// messages before that.
    #[save(skip)]
    pub(crate) is_overspent: bool,
    /// Bytes that came before the handshake was answered. Bound: `limits.head_bytes_max`.
    #[save(skip)]
    pub(crate) early: Vec<u8>,
    allowance: Allowance,
}

impl Side {
    pub(crate) fn new(prefix: &str, target: Option<&OriginTarget>) -> Self {
        let implicit = target.map_or(&[][..], |target| &target.subscriptions[..]);
        let implicit: Vec<HoldChannel> = implicit.iter().map(|name| plain(name)).collect();
        let following = Following::new("", &implicit, Vec::new());
        Self {
            prefix: prefix.into(),
            implicit: following.channels.len(),
            following,
            form: GRIP_FRAMES,
            keep_alive: None,
            delayed: None,
            close_by: None,
            is_open: false,
            close_sent: false,
            is_overspent: false,
            early: Vec::new(),
            allowance: Allowance::default(),
        }
    }

    /// Keeps bytes that come before the handshake is answered, up to a head's worth.
    pub(crate) fn keep_early(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        if self.early.len() + input.len() > cx.shared.limits.head_bytes_max {
            return cx.end(End::Now);
        }
        self.early.extend_from_slice(input);
    }

    /// Decodes what the client says; messages before a fault are returned too. A client that sends
    /// more than it may is not read any more, and the backend gets that as its close.
    pub(crate) fn hear(
        &mut self,
        decoder: &mut WsDecoder,
        input: &mut [u8],
        cx: &mut Cx<'_>,
    ) -> (Vec<WsInput>, Result<(), WsError>) {
        let (mut inputs, fed) = read(decoder, input, cx.shared.limits.message_bytes_max);
        cx.shared.meter.lend(self.allowance);
        let over_at = inputs.iter().position(|_| cx.spend(Work::Message).is_err());
        if let Some(allowance) = cx.shared.meter.take_back() {
            self.allowance = allowance;
        }
        if let Some(at) = over_at {
            self.is_overspent = true;
            cx.pause(true);
            inputs.truncate(at);
            let reason = OVERSPENT_REASON.as_bytes().to_vec();
            inputs.push(WsInput::Close(Some(OVERSPENT_CODE), reason));
        }
        (inputs, fed)
    }

    /// Whether another process can go on with it: it is open, and not about to end.
    pub(crate) fn moves(&self) -> bool {
        self.is_open && !self.close_sent && self.close_by.is_none()
    }

    fn has_known_form(&self) -> bool {
        [GRIP_FRAMES, GRIP_OWN].contains(&self.form)
    }

    /// Whether the client is subscribed to anything.
    pub(crate) fn has_channels(&self) -> bool {
        !self.following.channels.is_empty()
    }

    /// The client's handshake was answered.
    pub(crate) fn open(&mut self, cx: &mut Cx<'_>) {
        self.is_open = true;
        self.following.subscribe(self.form, cx);
    }

    pub(crate) fn send(&mut self, kind: WsKind, content: &[u8], cx: &mut Cx<'_>) {
        if self.close_sent || !self.is_open {
            return;
        }
        frame(kind, content, cx.out);
        if let Some((keep_alive, at)) = &mut self.keep_alive
            && !keep_alive.is_interval
        {
            *at = cx.now.mono + u64::from(keep_alive.timeout_s) * 1000;
        }
    }

    pub(crate) fn close(&mut self, code: Option<u16>, reason: &[u8], cx: &mut Cx<'_>) {
        if self.close_sent {
            return;
        }
        self.close_sent = true;
        let reason = String::from_utf8_lossy(reason);
        let reason = &reason[..reason.floor_char_boundary(123)];
        let code = close_code(code);
        cx.note_end(code, reason);
        encode_close(Masking::Server, Some(CloseFrame { code, reason }), cx.out);
        // No data may follow (RFC 6455 section 5.5.1).
        cx.hold(true);
        self.following.leave(cx);
        self.close_by = Some(cx.now.mono + CLOSE_TIMEOUT_MS);
    }

    /// Ends the connection; a client that has sent more than it may is told so.
    pub(crate) fn end(&mut self, cx: &mut Cx<'_>) {
        if self.is_overspent {
            self.close(Some(OVERSPENT_CODE), OVERSPENT_REASON.as_bytes(), cx);
        }
        cx.end(End::Flush);
    }

    /// Handles the hub's answer: a client without one of its subscriptions is closed.
    pub(crate) fn answer(&mut self, answer: &Answer, cx: &mut Cx<'_>) {
        if let Answer::Subscribed { result: Err(_), .. } = answer {
            self.close(Some(1013), b"no room for this subscription", cx);
        }
    }

    /// A control message that means nothing.
    pub(crate) fn control_fault(&mut self, fault: &ControlError, cx: &mut Cx<'_>) {
        cx.count(Counter::GripInstructFaults);
        if matches!(fault, ControlError::TooManyFilters(_)) {
            self.close(Some(1011), b"too many filters", cx);
        }
    }

    pub(crate) fn control(&mut self, control: ControlMessage, cx: &mut Cx<'_>) {
        match control {
            ControlMessage::Subscribe { channel, filters } => {
                let wanted = HoldChannel {
                    filters,
                    ..plain(&channel)
                };
                self.subscribe(&wanted, cx);
            }
            ControlMessage::Unsubscribe { channel } => {
                let Some(channel) = hub_channel(&self.prefix, &channel) else {
                    return;
                };
                if let Some(at) = self
                    .following
                    .find(&channel)
                    .filter(|&at| at >= self.implicit)
                {
                    self.following.channels.remove(at);
                    leave_channel(channel, cx);
                }
            }
            // The backend's side handles detaching; sessions of that kind do not exist here.
            ControlMessage::Detach | ControlMessage::Session { .. } => {}
            ControlMessage::SetMeta { name, value } => {
                self.following.meta.retain(|(known, _)| *known != name);
                self.following.meta.extend(value.map(|value| (name, value)));
            }
            ControlMessage::KeepAlive(keep_alive) => {
                let now = cx.now.mono;
                self.keep_alive = keep_alive.map(|keep_alive| {
                    let at = now + u64::from(keep_alive.timeout_s) * 1000;
                    (keep_alive, at)
                });
            }
            ControlMessage::SendDelayed {
                kind,
                content,
                timeout_s,
            } => {
                let at = cx.now.mono + u64::from(timeout_s) * 1000;
                self.delayed = Some((kind, content, at));
            }
            ControlMessage::FlushDelayed => {
                if let Some((kind, content, _)) = self.delayed.take() {
                    self.send(kind, &content, cx);
                }
            }
        }
    }

    fn subscribe(&mut self, wanted: &HoldChannel, cx: &mut Cx<'_>) {
        let new = Following::new(&self.prefix, std::slice::from_ref(wanted), Vec::new());
        let Some(new) = new.channels.into_iter().next() else {
            return cx.count(Counter::GripInstructFaults);
        };
        let own_max = cx.shared.limits.channels_max;
        let channels_max = cx.own.channels_max(own_max);
        let is_full = self.following.channels.len() >= channels_max;
        if is_full || self.following.find(&new.channel).is_some() {
            return;
        }
        let needs_look = !new.filters.is_empty();
        let added = new.channel.clone();
        self.following.channels.push(new);
        if needs_look && self.form != GRIP_OWN {
            // One form for all subscriptions of a connection.
            self.following.leave(cx);
            self.form = GRIP_OWN;
            self.following.subscribe(self.form, cx);
        } else {
            self.following
                .subscribe_those(self.form, |channel| *channel == added, cx);
        }
    }

    /// Handles a publication that has no shared form; true if the backend has to be asked now.
    pub(crate) fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) -> bool {
        let grip = cx.own;
        let Some(at) = self.following.find(&publication.channel) else {
            return false;
        };
        let item = grip.item(publication);
        match &item.ws_message {
            None | Some(WsMessageItem::Nothing) => {}
            Some(WsMessageItem::Refresh) => return true,
            Some(WsMessageItem::Close { code, reason }) => {
                self.close(code.or(Some(1000)), reason.as_bytes(), cx);
            }
            Some(WsMessageItem::Send {
                kind,
                content,
                content_filters,
            }) => {
                let content = (content.as_slice(), content_filters.as_deref());
                if let Some(content) = self.following.content_for(at, &item, content, cx) {
                    let content = content.into_owned();
                    self.send(*kind, &content, cx);
                }
            }
        }
        false
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now.mono;
        if let Some((keep_alive, at)) = self.keep_alive.clone()
            && at <= now
        {
            self.send(keep_alive.kind, &keep_alive.content, cx);
            cx.own.stats(|book| book.beat(cx.id));
            let at = now + u64::from(keep_alive.timeout_s) * 1000;
            self.keep_alive = Some((keep_alive, at));
            cx.count(Counter::Pings);
        }
        if let Some((kind, content, _)) = self.delayed.take_if(|(_, _, at)| *at <= now) {
            self.send(kind, &content, cx);
        }
    }

    /// When something is due.
    pub(crate) fn next_timeout(&self) -> Option<Millis> {
        let deadlines = [
            self.keep_alive.as_ref().map(|(_, at)| *at),
            self.delayed.as_ref().map(|(_, _, at)| *at),
            self.close_by,
        ];
        deadlines.into_iter().flatten().min()
    }
}

fn plain(name: &str) -> HoldChannel {
    HoldChannel {
        name: name.to_owned(),
        prev_id: None,
        filters: throng_grip::filters::Filters::default(),
    }
}

/// Message or close that one side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WsInput {
    Message(WsKind, Vec<u8>),
    Close(Option<u16>, Vec<u8>),
}

/// Decodes bytes; messages before a fault are returned too.
pub(crate) fn read(
    decoder: &mut WsDecoder,
    input: &mut [u8],
    message_bytes_max: usize,
) -> (Vec<WsInput>, Result<(), WsError>) {
    let mut inputs = Vec::new();
    let fed = decoder.feed(input, &WsLimits::new(message_bytes_max), |event| {
        inputs.push(match event {
            WsEvent::Message { opcode, data } => {
                let kind = if opcode == Opcode::Text {
                    WsKind::Text
                } else {
                    WsKind::Binary
                };
                WsInput::Message(kind, data.to_vec())
            }
            WsEvent::Ping(data) => WsInput::Message(WsKind::Ping, data.to_vec()),
            WsEvent::Pong(data) => WsInput::Message(WsKind::Pong, data.to_vec()),
            WsEvent::Close(frame) => {
                let frame = frame.as_ref();
                let reason = frame.map_or("", |frame| frame.reason).as_bytes().to_vec();
                WsInput::Close(frame.map(|frame| frame.code), reason)
            }
        });
        ControlFlow::Continue(())
    });
    (inputs, fed.map(drop))
}

impl WsInput {
    /// Appends the message as a client's masked frame.
    pub(crate) fn encode_masked(&self, key: [u8; 4], out: &mut Vec<u8>) {
        let masking = Masking::Client(key);
        match self {
            Self::Message(WsKind::Text, data) => encode_message(masking, Opcode::Text, data, out),
            Self::Message(WsKind::Binary, data) => {
                encode_message(masking, Opcode::Binary, data, out);
            }
            Self::Message(WsKind::Ping, data) => encode_ping(masking, data, out),
            Self::Message(WsKind::Pong, data) => encode_pong(masking, data, out),
            Self::Close(code, reason) => {
                let reason = String::from_utf8_lossy(reason);
                let frame = CloseFrame {
                    code: close_code(*code),
                    reason: &reason,
                };
                encode_close(masking, Some(frame), out);
            }
        }
    }
}

/// Returns the code of a close frame. Without a code, or with one that no frame may have, 1000, as
/// in Pushpin.
pub(crate) fn close_code(code: Option<u16>) -> u16 {
    code.filter(|&code| close_code_valid(code)).unwrap_or(1000)
}
