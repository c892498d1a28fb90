//! Effects of a backend's answer on a conversation.

use crate::headers::Header;
use crate::instruct::ResponseHead;
use crate::item::WsKind;
use crate::ws_events::client::{ClientEnd, Conversation, Line, Offer, Stage, Uplink};
use crate::ws_events::control::{ControlMessage, GripFilter, GripMessage, grip_prefix};
use crate::ws_events::event::{
    ConversationCommand, EventKind, EventsReply, EventsReplyError, WsHttpEvent, accepted_headers,
};

/// Progress of the conversation by the events of an answer.
#[derive(Default)]
struct Heard {
    /// The backend closes in order.
    close: bool,
    /// The backend hangs up.
    hang_up: bool,
    /// The backend lets go of the client, who stays.
    detach: bool,
}

impl Conversation {
    pub(super) fn take_answer(
        &mut self,
        offer: &Offer,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<ConversationCommand>,
    ) -> Result<(), EventsReplyError> {
        if body.len() > self.limits.reply_bytes_max {
            return Err(EventsReplyError::TooLarge);
        }
        let reply = EventsReply::parse(head, body)?;
        self.keep_alive_s = reply.keep_alive_interval_s.unwrap_or(self.keep_alive_s);
        self.settle(offer, reply.content_bytes_accepted)?;
        for (name, value) in &reply.set_meta {
            self.meta
                .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            if !value.is_empty() {
                self.meta.push(((*name).to_owned(), value.to_vec()));
            }
        }
        let mut events = reply.events.as_slice();
        if self.stage == Stage::Opening && reply.opens()? {
            events = events.get(1..).unwrap_or_default();
            self.open(head, out);
        }
        if matches!(self.client, ClientEnd::Lost { told: true }) {
            self.stage = Stage::Over;
            return Ok(());
        }
        let heard = self.hear(events, out)?;
        self.conclude(offer, &heard, out);
        Ok(())
    }

    /// Takes off the front what the backend took.
    fn settle(&mut self, offer: &Offer, accepted: Option<usize>) -> Result<(), EventsReplyError> {
        let shown = offer.shown.bytes + offer.close_bytes.unwrap_or(0);
        let accepted = accepted.unwrap_or(shown);
        if accepted > shown {
            return Err(EventsReplyError::Accepted);
        }
        let content = accepted.min(offer.shown.bytes);
        let moved = self.uplink.take(offer.shown, content);
        // The queue was too long for one request, so standing still would be for ever.
        if !offer.shows_all && !moved {
            return Err(EventsReplyError::Accepted);
        }
        if offer.close_bytes.is_none() || content < offer.shown.bytes {
            return Ok(());
        }
        // A close cannot be put off: nothing comes after it.
        if accepted < shown {
            return Err(EventsReplyError::Accepted);
        }
        self.uplink = Uplink::default();
        if let ClientEnd::Closed { told, .. } = &mut self.client {
            *told = true;
        }
        Ok(())
    }

    fn open(&mut self, head: ResponseHead<'_>, out: &mut Vec<ConversationCommand>) {
        self.stage = Stage::Talking;
        const NAME: &str = "Sec-WebSocket-Extensions";
        let extensions = head.headers.iter();
        let extensions = extensions.filter(|(name, _)| name.eq_ignore_ascii_case(NAME));
        let prefix = grip_prefix(extensions.map(|&(_, value)| value));
        self.grip = prefix.map(|prefix| GripFilter::new(&prefix));
        if !self.is_lost() {
            let headers = accepted_headers(head);
            out.push(ConversationCommand::Accept { headers });
        }
    }

    fn hear(
        &mut self,
        events: &[WsHttpEvent<'_>],
        out: &mut Vec<ConversationCommand>,
    ) -> Result<Heard, EventsReplyError> {
        let mut heard = Heard::default();
        for event in events {
            match event.kind {
                EventKind::Open => return Err(EventsReplyError::OpenTwice),
                EventKind::Disconnect => {
                    heard.hang_up = true;
                    return Ok(heard);
                }
                EventKind::Close => {
                    heard.close = true;
                    self.pass_close(event, out);
                    return Ok(heard);
                }
                EventKind::Text => heard.detach |= self.pass(WsKind::Text, event.bytes(), out),
                EventKind::Binary => heard.detach |= self.pass(WsKind::Binary, event.bytes(), out),
                EventKind::Ping => self.send(WsKind::Ping, event.bytes(), out),
                EventKind::Pong => self.send(WsKind::Pong, event.bytes(), out),
            }
        }
        Ok(heard)
    }

    fn conclude(&mut self, offer: &Offer, heard: &Heard, out: &mut Vec<ConversationCommand>) {
        let client_closed = offer.close_bytes.is_some() && self.uplink.bytes == 0;
        let knows_close =
            client_closed || matches!(self.client, ClientEnd::Closed { told: true, .. });
        let is_done = heard.close && knows_close || client_closed && self.backend_closed;
        // Without keep-alives, the answer to a close was the one occasion to close too.
        let is_mute = client_closed && !self.backend_closed && self.keep_alive_s == 0;
        if is_done {
            self.stage = Stage::Over;
        } else if heard.hang_up || is_mute {
            self.fail(None, out);
        } else if heard.detach
            && self.stage == Stage::Talking
            && matches!(self.client, ClientEnd::Here)
        {
            self.detach(out);
        }
    }

    /// The backend lets go: it is told of a close, and what it answers does not matter.
    fn detach(&mut self, out: &mut Vec<ConversationCommand>) {
        self.stage = Stage::Detached;
        self.line = Line::Free { ask_at: None };
        self.uplink = Uplink::default();
        // Without a code.
        let offer = Offer::event(EventKind::Close);
        self.request(&offer, out);
    }

    fn pass_close(&mut self, event: &WsHttpEvent<'_>, out: &mut Vec<ConversationCommand>) {
        if self.backend_closed || self.is_lost() {
            return;
        }
        self.backend_closed = true;
        let (code, reason) = match event.close_code() {
            Some((code, reason)) => (Some(code), reason.to_owned()),
            None => (None, Vec::new()),
        };
        out.push(ConversationCommand::Close { code, reason });
    }

    /// Hands on data; true if it was the order to detach.
    fn pass(&self, kind: WsKind, content: &[u8], out: &mut Vec<ConversationCommand>) -> bool {
        let Some(grip) = &self.grip else {
            self.send(kind, content, out);
            return false;
        };
        match grip.sort(kind == WsKind::Text, content) {
            GripMessage::Client(content) => self.send(kind, content, out),
            GripMessage::Nobody => {}
            GripMessage::Control(Err(fault)) => out.push(ConversationCommand::ControlError(fault)),
            GripMessage::Control(Ok(control)) => {
                let is_detach = control == ControlMessage::Detach;
                out.push(ConversationCommand::Control(control));
                return is_detach;
            }
        }
        false
    }

    fn send(&self, kind: WsKind, content: &[u8], out: &mut Vec<ConversationCommand>) {
        if !self.is_lost() {
            let content = content.to_owned();
            out.push(ConversationCommand::Send { kind, content });
        }
    }

    /// The handshake was answered with something that is no conversation: the client gets that.
    pub(super) fn reject(
        &mut self,
        head: ResponseHead<'_>,
        body: &[u8],
        out: &mut Vec<ConversationCommand>,
    ) {
        self.stage = Stage::Over;
        if self.is_lost() {
            return;
        }
        let fields = head.headers.iter();
        let fields = fields.filter(|(name, _)| !name.eq_ignore_ascii_case("Content-Length"));
        let body_bytes = body.len().min(self.limits.reject_bytes_max);
        out.push(ConversationCommand::Reject {
            code: head.code,
            headers: fields
                .map(|&(name, value)| Header::new(name, value))
                .collect(),
            body: body[..body_bytes].to_vec(),
        });
    }
}
