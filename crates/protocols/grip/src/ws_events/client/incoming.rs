//! What a backend's answer makes of a conversation.

use super::Conversation;
use crate::headers::Header;
use crate::instruct::ResponseHead;
use crate::item::WsKind;
use crate::ws_events::command::{Command, Phase};
use crate::ws_events::control::{ControlMessage, GripFilter, GripMessage, grip_prefix};
use crate::ws_events::event::{Event, EventKind};
use crate::ws_events::reply::{EventsReply, FirstReply, ReplyFault};

impl Conversation {
    pub(super) fn take_response(
        &mut self,
        sent: &super::InFlight,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<Command>,
    ) -> Result<(), ReplyFault> {
        let is_first = self.phase == Phase::Connecting;
        if body.len() > self.limits.reply_bytes_max {
            return Err(ReplyFault::TooLarge);
        }
        let reply = EventsReply::parse(head, body)?;
        if let Some(interval_s) = reply.keep_alive_interval_s {
            self.keep_alive_interval_s = interval_s;
        }
        let has_closed = self.accept(sent, reply.content_bytes_accepted)?;
        for (name, value) in &reply.set_meta {
            self.put_meta(name, value);
        }
        let opens = is_first && FirstReply::opens(&reply)?;
        if self.disconnect_sent {
            self.phase = Phase::Done;
            return Ok(());
        }
        if opens {
            self.open(head, out);
        }
        let skip = usize::from(opens);
        self.relay(
            reply.events.get(skip..).unwrap_or_default(),
            has_closed,
            out,
        )
    }

    fn open(&mut self, head: ResponseHead<'_>, out: &mut Vec<Command>) {
        self.phase = Phase::Open;
        self.grip = grip_prefix(
            head.headers
                .iter()
                .filter(|(name, _)| name.eq_ignore_ascii_case("Sec-WebSocket-Extensions"))
                .map(|&(_, value)| value),
        )
        .map(|prefix| GripFilter::new(&prefix));
        if !self.is_lost {
            out.push(Command::Accept {
                headers: FirstReply(head).accepted_headers(),
            });
        }
    }

    fn put_meta(&mut self, name: &str, value: &[u8]) {
        self.meta
            .retain(|(other, _)| !other.eq_ignore_ascii_case(name));
        if !value.is_empty() {
            self.meta.push((name.to_owned(), value.to_owned()));
        }
    }

    fn relay(
        &mut self,
        events: &[Event<'_>],
        has_closed: bool,
        out: &mut Vec<Command>,
    ) -> Result<(), ReplyFault> {
        let (mut closed, mut disconnected, mut detached) = (false, false, false);
        for event in events {
            let kind = match event.kind {
                EventKind::Open => return Err(ReplyFault::OpenTwice),
                EventKind::Disconnect => {
                    disconnected = true;
                    break;
                }
                EventKind::Close => {
                    closed = true;
                    self.backend_close(event, out);
                    break;
                }
                EventKind::Text => WsKind::Text,
                EventKind::Binary => WsKind::Binary,
                EventKind::Ping => WsKind::Ping,
                EventKind::Pong => WsKind::Pong,
            };
            detached |= self.message(kind, event.bytes(), out);
        }
        // Without keep-alives the answer to a close is the backend's one chance to close too.
        let is_unclean = has_closed && !self.backend_closed && self.keep_alive_interval_s == 0;
        if closed && self.close_sent || has_closed && self.backend_closed {
            self.phase = Phase::Done;
        } else if disconnected || is_unclean {
            self.fail(None, out);
        } else if detached && self.phase == Phase::Open && !self.is_lost {
            self.phase = Phase::Detached;
            self.pending.clear();
            self.pending_bytes = 0;
            self.client_close = Some(Vec::new());
        }
        Ok(())
    }

    fn backend_close(&mut self, event: &Event<'_>, out: &mut Vec<Command>) {
        if self.backend_closed || self.is_lost {
            return;
        }
        self.backend_closed = true;
        let (code, reason) = match event.close_code() {
            Some((code, reason)) => (Some(code), reason.to_owned()),
            None => (None, Vec::new()),
        };
        out.push(Command::Close { code, reason });
    }

    /// Hands on a message; true if it was the order to detach.
    fn message(&mut self, kind: WsKind, content: &[u8], out: &mut Vec<Command>) -> bool {
        let is_data = matches!(kind, WsKind::Text | WsKind::Binary);
        let content = match &self.grip {
            Some(grip) if is_data => match grip.sort(kind == WsKind::Text, content) {
                GripMessage::Client(content) => content,
                GripMessage::Nobody => return false,
                GripMessage::Control(Ok(control)) => {
                    let is_detach = control == ControlMessage::Detach;
                    out.push(Command::Control(control));
                    return is_detach;
                }
                GripMessage::Control(Err(fault)) => {
                    out.push(Command::ControlFault(fault));
                    return false;
                }
            },
            _ => content,
        };
        if !self.is_lost {
            let content = content.to_owned();
            out.push(Command::Send { kind, content });
        }
        false
    }

    pub(super) fn reject(&mut self, head: ResponseHead<'_>, body: &[u8], out: &mut Vec<Command>) {
        self.phase = Phase::Done;
        if self.is_lost {
            return;
        }
        out.push(Command::Reject {
            code: head.code,
            headers: head
                .headers
                .iter()
                .filter(|(name, _)| !name.eq_ignore_ascii_case("Content-Length"))
                .map(|&(name, value)| Header::new(name, value))
                .collect(),
            body: body
                .iter()
                .copied()
                .take(self.limits.reject_bytes_max)
                .collect(),
        });
    }
}
