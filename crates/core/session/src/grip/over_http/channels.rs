//! What the backend says about channels, and what is published in them.

use std::sync::Arc;

use throng_grip::filters::Filtered;
use throng_grip::instruct::HoldChannel;
use throng_grip::item::{Item, WsKind, WsMessageItem};
use throng_grip::ws_events::ControlMessage;
use throng_hub::Command as HubCommand;
use throng_metrics::Counter;
use throng_types::{ConnId, Publication};
use throng_ws::{Masking, Opcode, encode_header, encode_ping, encode_pong};

use super::{OverHttp, plain};
use crate::Desk;
use crate::effects::Fx;
use crate::grip::follow::Following;
use crate::grip::forms::{GRIP_OWN, hub_channel};

impl OverHttp {
    pub(super) fn control(
        &mut self,
        id: ConnId,
        control: ControlMessage,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        match control {
            ControlMessage::Subscribe { channel, filters } => {
                let prefix = &self.asked.route.channel_prefix;
                let wanted = HoldChannel {
                    filters,
                    ..plain(&channel)
                };
                let new = Following::new(prefix, &[wanted], Vec::new());
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
            ControlMessage::Unsubscribe { channel } => {
                let Some(channel) = hub_channel(&self.asked.route.channel_prefix, &channel) else {
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
            // The conversation has let go already; and there are no sessions of that kind.
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

    pub(crate) fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let Some(grip) = desk.grip.as_ref() else {
            return;
        };
        let Some(at) = self.following.find(&publication.channel) else {
            return;
        };
        let item = grip.item(publication);
        match &item.ws_message {
            None | Some(WsMessageItem::Nothing) => {}
            Some(WsMessageItem::Refresh) => self.refresh(id, desk, fx),
            Some(WsMessageItem::Close { code, reason }) => {
                self.close(code.or(Some(1000)), reason.as_bytes(), fx);
                self.settle(desk, fx);
            }
            Some(WsMessageItem::Send {
                kind,
                content,
                content_filters,
            }) => self.deliver(
                at,
                &item,
                (*kind, content, content_filters.as_deref()),
                desk,
                fx,
            ),
        }
    }

    fn deliver(
        &mut self,
        at: usize,
        item: &Item,
        (kind, content, content_filters): (WsKind, &[u8], Option<&[String]>),
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if !self.following.channels[at]
            .filters
            .match_content_filters(content_filters)
        {
            return;
        }
        match self.following.filter(at, item, content) {
            Ok(Filtered::Send(content)) => {
                let content = content.into_owned();
                self.send(kind, &content, fx);
                self.settle(desk, fx);
            }
            Ok(Filtered::Drop) => {}
            Err(_) => desk.board.count(Counter::GripFilterFaults),
        }
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
