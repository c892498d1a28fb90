//! The client's side of a WebSocket that a backend serves: what goes to the client, and from
//! which channels. Shared by WebSockets over HTTP and by those that are passed through.
//!
//! Owns: subscriptions, keep-alive, the delayed message, the closing of the client's end. Never:
//! speaks to the backend.

use std::sync::Arc;

use throng_grip::filters::Filtered;
use throng_grip::instruct::HoldChannel;
use throng_grip::item::{Item, WsKind, WsMessageItem};
use throng_grip::routes::Target;
use throng_grip::ws_events::{ControlFault, ControlMessage, WsKeepAlive};
use throng_hub::{Command as HubCommand, Format};
use throng_metrics::Counter;
use throng_types::{ConnId, Millis, Publication};
use throng_ws::{
    CloseFrame, Masking, Opcode, encode_close, encode_header, encode_ping, encode_pong,
};

use super::follow::Following;
use super::forms::{GRIP_FRAMES, GRIP_OWN, hub_channel};
use crate::Desk;
use crate::effects::Fx;

/// How long a client may take to answer a close, in milliseconds.
pub(super) const CLOSE_TIMEOUT_MS: u64 = 5_000;

/// See the module's head.
pub(super) struct Side {
    /// Goes in front of the backend's channel names.
    prefix: Box<str>,
    following: Following,
    /// Channels at the front that the route gave, and the backend cannot take away.
    implicit: usize,
    form: Format,
    keep_alive: Option<(WsKeepAlive, Millis)>,
    delayed: Option<(WsKind, Vec<u8>, Millis)>,
    pub(super) close_by: Option<Millis>,
    pub(super) is_open: bool,
    pub(super) close_sent: bool,
}

/// What a publication wants of whoever speaks to the backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Nothing,
    /// It is to be asked.
    Refresh,
}

impl Side {
    pub(super) fn new(prefix: &str, target: Option<&Target>) -> Self {
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
        }
    }

    /// Whether the client is subscribed to anything.
    pub(super) fn has_channels(&self) -> bool {
        !self.following.channels.is_empty()
    }

    /// The client's handshake was answered.
    pub(super) fn open(&mut self, id: ConnId, fx: &mut Fx<'_>) {
        self.is_open = true;
        self.following.subscribe(id, self.form, fx);
    }

    pub(super) fn send(&mut self, kind: WsKind, content: &[u8], fx: &mut Fx<'_>) {
        if self.close_sent || !self.is_open {
            return;
        }
        frame(kind, content, fx.out);
        if let Some((keep_alive, at)) = &mut self.keep_alive
            && !keep_alive.is_interval
        {
            *at = fx.now.mono + u64::from(keep_alive.timeout_s) * 1000;
        }
    }

    pub(super) fn close(&mut self, code: Option<u16>, reason: &[u8], fx: &mut Fx<'_>) {
        if self.close_sent {
            return;
        }
        self.close_sent = true;
        let reason = String::from_utf8_lossy(reason);
        let reason = &reason[..reason.floor_char_boundary(123)];
        let code = code.filter(|&code| throng_ws::close_code_valid(code));
        encode_close(
            Masking::Server,
            code.map(|code| CloseFrame { code, reason }),
            fx.out,
        );
        self.close_by = Some(fx.now.mono + CLOSE_TIMEOUT_MS);
    }

    /// A control message that means nothing.
    pub(super) fn control_fault(&mut self, fault: &ControlFault, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::GripInstructFaults);
        if matches!(fault, ControlFault::TooManyFilters(_)) {
            self.close(Some(1011), b"too many filters", fx);
        }
    }

    pub(super) fn control(
        &mut self,
        id: ConnId,
        control: ControlMessage,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match control {
            ControlMessage::Subscribe { channel, filters } => {
                let wanted = HoldChannel {
                    filters,
                    ..plain(&channel)
                };
                self.subscribe(id, &wanted, desk, fx);
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
                    fx.hub(HubCommand::Unsubscribe { conn: id, channel });
                }
            }
            // Whoever speaks to the backend lets go; and there are no sessions of that kind.
            ControlMessage::Detach | ControlMessage::Session { .. } => {}
            ControlMessage::SetMeta { name, value } => {
                self.following.meta.retain(|(known, _)| *known != name);
                self.following.meta.extend(value.map(|value| (name, value)));
            }
            ControlMessage::KeepAlive(keep_alive) => {
                let now = fx.now.mono;
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
                let at = fx.now.mono + u64::from(timeout_s) * 1000;
                self.delayed = Some((kind, content, at));
            }
            ControlMessage::FlushDelayed => {
                if let Some((kind, content, _)) = self.delayed.take() {
                    self.send(kind, &content, fx);
                }
            }
        }
    }

    fn subscribe(&mut self, id: ConnId, wanted: &HoldChannel, desk: &Desk, fx: &mut Fx<'_>) {
        let new = Following::new(&self.prefix, std::slice::from_ref(wanted), Vec::new());
        let Some(new) = new.channels.into_iter().next() else {
            return desk.board.count(Counter::GripInstructFaults);
        };
        let own_max = desk.limits.channels_max;
        let grip = desk.grip.as_ref();
        let channels_max = grip.map_or(own_max, |grip| grip.channels_max(own_max));
        let is_full = self.following.channels.len() >= channels_max;
        if is_full || self.following.find(&new.channel).is_some() {
            return;
        }
        let needs_look = !new.filters.is_empty();
        let added = new.channel.clone();
        self.following.channels.push(new);
        if needs_look && self.form != GRIP_OWN {
            // One form for all subscriptions of a connection.
            self.following.leave(id, fx);
            self.form = GRIP_OWN;
            self.following.subscribe(id, self.form, fx);
        } else {
            self.following
                .subscribe_those(id, self.form, |channel| *channel == added, fx);
        }
    }

    /// A publication that has no shared form.
    pub(super) fn publication(
        &mut self,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Wish {
        let Some(grip) = desk.grip.as_ref() else {
            return Wish::Nothing;
        };
        let Some(at) = self.following.find(&publication.channel) else {
            return Wish::Nothing;
        };
        let item = grip.item(publication);
        match &item.ws_message {
            None | Some(WsMessageItem::Nothing) => {}
            Some(WsMessageItem::Refresh) => return Wish::Refresh,
            Some(WsMessageItem::Close { code, reason }) => {
                self.close(code.or(Some(1000)), reason.as_bytes(), fx);
            }
            Some(WsMessageItem::Send {
                kind,
                content,
                content_filters,
            }) => {
                let filters = self.following.channels[at].filters;
                if filters.match_content_filters(content_filters.as_deref()) {
                    self.deliver(at, &item, (*kind, content), desk, fx);
                }
            }
        }
        Wish::Nothing
    }

    fn deliver(
        &mut self,
        at: usize,
        item: &Item,
        (kind, content): (WsKind, &[u8]),
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match self.following.filter(at, item, content) {
            Ok(Filtered::Send(content)) => {
                let content = content.into_owned();
                self.send(kind, &content, fx);
            }
            Ok(Filtered::Drop) => {}
            Err(_) => desk.board.count(Counter::GripFilterFaults),
        }
    }

    /// Sends what is due.
    pub(super) fn timeout(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        let now = fx.now.mono;
        if let Some((keep_alive, at)) = self.keep_alive.clone()
            && at <= now
        {
            self.send(keep_alive.kind, &keep_alive.content, fx);
            let at = now + u64::from(keep_alive.timeout_s) * 1000;
            self.keep_alive = Some((keep_alive, at));
            desk.board.count(Counter::Pings);
        }
        if let Some((kind, content, _)) = self.delayed.take_if(|(_, _, at)| *at <= now) {
            self.send(kind, &content, fx);
        }
    }

    /// When something is due.
    pub(super) fn next_timeout(&self) -> Option<Millis> {
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

/// Appends a message as one frame.
pub(crate) fn frame(kind: WsKind, content: &[u8], out: &mut Vec<u8>) {
    // Control frames hold no more (RFC 6455 section 5.5).
    let control = &content[..content.len().min(125)];
    let opcode = match kind {
        WsKind::Text => Opcode::Text,
        WsKind::Binary => Opcode::Binary,
        WsKind::Ping => return encode_ping(Masking::Server, control, out),
        WsKind::Pong => return encode_pong(Masking::Server, control, out),
    };
    encode_header(Masking::Server, opcode, content.len(), out);
    out.extend_from_slice(content);
}
