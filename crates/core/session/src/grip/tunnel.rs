//! A client's WebSocket whose backend speaks WebSocket too.
//!
//! A backend that does not answer the extension `grip` is only connected to the client: bytes
//! pass as they are. One that does says in messages what is for the client and what for us, so
//! messages are read on both sides and written anew.
//!
//! Rule for "full": what the backend has not taken is counted, and above [`BEHIND_BYTES_MAX`] the
//! client is not read; what the client has not taken is bounded by the driver's credit.

use std::sync::Arc;

use throng_grip::exchange::{OriginEvent, OriginFailure, OriginHead};
use throng_grip::headers::is_grip;
use throng_grip::item::WsKind;
use throng_grip::ws_events::{ControlMessage, GripFilter, GripMessage, grip_prefix};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{ConnId, Publication};
use throng_ws::{Decoder, Role};

use super::GripDesk;
use super::asked::Asked;
use super::frames::{Told, read};
use super::head::{Framing, encode_head, pass_on, switch_protocols};
use super::order::GripOrder;
use super::side::{CLOSE_TIMEOUT_MS, Side};
use crate::Desk;
use crate::effects::{End, Fx, Order};
use crate::http::answer_text;

/// Bytes that may be on their way to the backend before the client is no longer read.
/// Queue: `uplink`.
const BEHIND_BYTES_MAX: usize = 64 << 10;
/// A message of a backend, in bytes; more than Pushpin takes.
const BACKEND_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// See the module's head.
pub(crate) struct Tunnel {
    asked: Asked,
    accept: [u8; 28],
    stage: Stage,
    side: Side,
    /// Bytes that came before the handshake was answered.
    early: Vec<u8>,
    /// Bytes on their way to the backend.
    behind_bytes: usize,
    is_paused: bool,
}

enum Stage {
    /// The backend's answer is awaited.
    Asking,
    /// It is no WebSocket, and the client gets what it is.
    Refusing { framing: Framing },
    /// Bytes pass as they are.
    Plain,
    /// Messages are looked at.
    Sorting(Box<Sorting>),
}

struct Sorting {
    /// Without one, all that the backend says is for the client.
    filter: Option<GripFilter>,
    up: Decoder,
    down: Decoder,
    /// The backend has let go, and the client stays.
    is_detached: bool,
    close_heard: bool,
}

impl Tunnel {
    /// For a client whose handshake was checked.
    pub(super) fn start(
        id: ConnId,
        asked: Asked,
        accept: [u8; 28],
        grip: &GripDesk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let request = asked.upgrade(grip, fx.now);
        let target = asked.route.targets.first();
        let target = target.filter(|_| asked.may_instruct());
        let side = Side::new(&asked.route.channel_prefix, target);
        fx.orders.push(Order::Grip(GripOrder::Ask {
            conn: id,
            token: 1,
            request,
        }));
        Self {
            asked,
            accept,
            stage: Stage::Asking,
            side,
            early: Vec::new(),
            behind_bytes: 0,
            is_paused: false,
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.side.is_open
    }

    pub(crate) fn bytes(&mut self, id: ConnId, input: &mut [u8], desk: &Desk, fx: &mut Fx<'_>) {
        match &mut self.stage {
            Stage::Asking if self.early.len() + input.len() > desk.limits.head_bytes_max => {
                fx.end(End::Now);
            }
            Stage::Asking => self.early.extend_from_slice(input),
            Stage::Refusing { .. } => {}
            Stage::Plain => self.send_up(id, input.to_vec(), fx),
            Stage::Sorting(sorting) if sorting.close_heard => {}
            Stage::Sorting(sorting) => {
                let (told, fed) = read(&mut sorting.up, input, desk.limits.message_bytes_max);
                for told in told {
                    self.client_says(id, told, desk, fx);
                }
                if let Err(fault) = fed {
                    desk.board.count(Counter::BadRequests);
                    self.close_both(id, Some(fault.close_code()), fault.reason(), desk, fx);
                    fx.end(End::Flush);
                }
                self.settle(fx);
            }
        }
    }

    fn client_says(&mut self, id: ConnId, told: Told, desk: &Desk, fx: &mut Fx<'_>) {
        let Stage::Sorting(sorting) = &mut self.stage else {
            return;
        };
        if matches!(told, Told::Message(WsKind::Text | WsKind::Binary, _)) {
            desk.board.count(Counter::MessagesIn);
        }
        if let Told::Close(..) = told {
            sorting.close_heard = true;
            // The backend's own close is the answer to it.
            self.side.close_by = Some(fx.now.mono + CLOSE_TIMEOUT_MS);
        }
        if !sorting.is_detached {
            return self.say_up(id, &told, desk, fx);
        }
        match told {
            Told::Message(WsKind::Ping, data) => self.side.send(WsKind::Pong, &data, fx),
            Told::Message(..) => {}
            Told::Close(code, reason) => {
                self.side.close(code, &reason, fx);
                fx.end(End::Flush);
            }
        }
    }

    fn say_up(&mut self, id: ConnId, told: &Told, desk: &Desk, fx: &mut Fx<'_>) {
        let chance = desk.grip.as_ref().map_or(0, GripDesk::chance);
        let mut bytes = Vec::new();
        // A part of a number of 64 bits fits.
        told.encode_masked((chance as u32).to_be_bytes(), &mut bytes);
        self.send_up(id, bytes, fx);
    }

    fn send_up(&mut self, conn: ConnId, bytes: Vec<u8>, fx: &mut Fx<'_>) {
        self.behind_bytes += bytes.len();
        fx.orders.push(Order::Grip(GripOrder::Send { conn, bytes }));
        if self.behind_bytes > BEHIND_BYTES_MAX && !self.is_paused {
            self.is_paused = true;
            fx.pause = Some(true);
        }
    }

    pub(crate) fn origin(&mut self, id: ConnId, event: OriginEvent, desk: &Desk, fx: &mut Fx<'_>) {
        match (&mut self.stage, event) {
            (Stage::Asking, OriginEvent::Head(head)) => self.head(id, head, desk, fx),
            (_, OriginEvent::Head(_)) => {}
            (_, OriginEvent::Taken(bytes)) => {
                self.behind_bytes = self.behind_bytes.saturating_sub(bytes);
                if self.is_paused && self.behind_bytes <= BEHIND_BYTES_MAX / 2 {
                    self.is_paused = false;
                    fx.pause = Some(false);
                }
            }
            (Stage::Plain, OriginEvent::Body(bytes)) => fx.out.extend_from_slice(&bytes),
            (Stage::Refusing { framing }, OriginEvent::Body(bytes)) => {
                pass_on(*framing, &bytes, fx.out);
            }
            (Stage::Sorting(sorting), OriginEvent::Body(mut bytes)) => {
                let (told, fed) = read(&mut sorting.down, &mut bytes, BACKEND_MESSAGE_BYTES_MAX);
                for told in told {
                    self.backend_says(id, told, desk, fx);
                }
                if fed.is_err() {
                    desk.board.count(Counter::GripInstructFaults);
                    self.side
                        .close(Some(1011), b"the backend broke the protocol", fx);
                    fx.end(End::Flush);
                }
                self.settle(fx);
            }
            (Stage::Sorting(sorting), _) if sorting.is_detached => {}
            (Stage::Asking, OriginEvent::Failed(failure)) => self.refuse(&failure, desk, fx),
            (Stage::Asking, _) => fx.end(End::Flush),
            (_, OriginEvent::Failed(_)) => {
                desk.board.count(Counter::GripOriginFailures);
                fx.end(End::Flush);
            }
            (_, OriginEvent::End) => fx.end(End::Flush),
        }
    }

    fn head(&mut self, id: ConnId, mut head: OriginHead, desk: &Desk, fx: &mut Fx<'_>) {
        if head.code != 101 {
            let framing = match head.body_bytes {
                Some(bytes) => Framing::Length(bytes),
                None if head.is_bodiless => Framing::None(None),
                None => Framing::Close,
            };
            let reason = Some(head.reason.as_str()).filter(|reason| !reason.is_empty());
            encode_head(head.code, reason, &head.headers, framing, false, fx.out);
            self.stage = Stage::Refusing { framing };
            return;
        }
        let of = |name: &'static str| {
            let headers = head.headers.iter();
            let named = headers.filter(move |header| header.is(name));
            named.map(|header| header.value.as_slice())
        };
        if !of("Sec-WebSocket-Accept").any(|accept| accept == self.accept) {
            desk.board.count(Counter::GripInstructFaults);
            fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
            answer_text(502, "the backend's handshake is wrong", &[], false, fx);
            return fx.end(End::Flush);
        }
        let may_instruct = self.asked.may_instruct();
        let prefix = grip_prefix(of("Sec-WebSocket-Extensions")).filter(|_| may_instruct);
        let subscribes = self.side.has_channels();
        self.stage = if prefix.is_some() || subscribes {
            Stage::Sorting(Box::new(Sorting {
                filter: prefix.as_deref().map(GripFilter::new),
                up: Decoder::new(Role::Server),
                down: Decoder::new(Role::Client),
                is_detached: false,
                close_heard: false,
            }))
        } else {
            Stage::Plain
        };
        if may_instruct {
            // What was offered was ours, so what was taken is not for the client.
            let ours =
                |name: &str| is_grip(name) || name.eq_ignore_ascii_case("Sec-WebSocket-Extensions");
            head.headers.retain(|header| !ours(&header.name));
        }
        let accept = throng_grip::headers::Header::new("Sec-WebSocket-Accept", self.accept);
        switch_protocols(accept, &head.headers, fx.out);
        self.side.open(id, fx);
        let mut early = std::mem::take(&mut self.early);
        if !early.is_empty() {
            self.bytes(id, &mut early, desk, fx);
        }
    }

    fn refuse(&mut self, failure: &OriginFailure, desk: &Desk, fx: &mut Fx<'_>) {
        desk.board.count(Counter::GripOriginFailures);
        let fault = failure.fault;
        let sentence = if self.asked.route.debug {
            format!("{}: {}", fault.sentence(), failure.detail)
        } else {
            fault.sentence().to_owned()
        };
        answer_text(fault.status(), &sentence, &[], false, fx);
        fx.end(End::Flush);
    }

    fn backend_says(&mut self, id: ConnId, told: Told, desk: &Desk, fx: &mut Fx<'_>) {
        let Stage::Sorting(sorting) = &mut self.stage else {
            return;
        };
        if sorting.is_detached {
            return;
        }
        let (kind, data) = match told {
            Told::Message(kind, data) => (kind, data),
            Told::Close(code, reason) => {
                self.side.close(code, &reason, fx);
                if sorting.close_heard {
                    fx.end(End::Flush);
                }
                return;
            }
        };
        let is_text = kind == WsKind::Text;
        let filter = match kind {
            WsKind::Text | WsKind::Binary => sorting.filter.as_ref(),
            WsKind::Ping | WsKind::Pong => None,
        };
        match filter.map(|filter| filter.sort(is_text, &data)) {
            None => self.side.send(kind, &data, fx),
            Some(GripMessage::Client(content)) => self.side.send(kind, content, fx),
            Some(GripMessage::Nobody) => {}
            Some(GripMessage::Control(Ok(ControlMessage::Detach))) => {
                sorting.is_detached = true;
                fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
                // Nothing of it has to be taken any more.
                self.behind_bytes = 0;
                if std::mem::take(&mut self.is_paused) {
                    fx.pause = Some(false);
                }
            }
            Some(GripMessage::Control(Ok(control))) => self.side.control(id, control, desk, fx),
            Some(GripMessage::Control(Err(fault))) => self.side.control_fault(&fault, desk, fx),
        }
    }

    /// Ends the WebSocket on both sides.
    fn close_both(
        &mut self,
        id: ConnId,
        code: Option<u16>,
        reason: &str,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        self.side.close(code, reason.as_bytes(), fx);
        let is_detached = matches!(&self.stage, Stage::Sorting(sorting) if sorting.is_detached);
        if !is_detached {
            let close = Told::Close(code, reason.as_bytes().to_vec());
            self.say_up(id, &close, desk, fx);
        }
    }

    pub(crate) fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let was_open = !self.side.close_sent;
        // There is nobody to refresh: the backend is connected.
        let _ = self.side.publication(publication, desk, fx);
        let is_detached = matches!(&self.stage, Stage::Sorting(sorting) if sorting.is_detached);
        if was_open && self.side.close_sent && !is_detached {
            self.say_up(id, &Told::Close(Some(1000), Vec::new()), desk, fx);
        }
        self.settle(fx);
    }

    pub(crate) fn answer(&mut self, answer: &Answer, fx: &mut Fx<'_>) {
        if let Answer::Subscribed { result: Err(_), .. } = answer {
            self.side
                .close(Some(1013), b"no room for this subscription", fx);
            self.settle(fx);
        }
    }

    pub(crate) fn timeout(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        if self.side.close_by.is_some_and(|at| at <= fx.now.mono) {
            return fx.end(End::Flush);
        }
        self.side.timeout(desk, fx);
        self.settle(fx);
    }

    /// Sets the deadline, and ends what both sides have ended.
    fn settle(&self, fx: &mut Fx<'_>) {
        if let Stage::Sorting(sorting) = &self.stage {
            if sorting.close_heard && self.side.close_sent {
                return fx.end(End::Flush);
            }
            fx.deadline = Some(self.side.next_timeout());
        }
    }

    pub(crate) fn farewell(&mut self, fx: &mut Fx<'_>) {
        match &self.stage {
            Stage::Asking => answer_text(503, "the server is going down", &[], false, fx),
            // "Service restart" (RFC 6455, registry of close codes).
            Stage::Sorting(_) => self.side.close(Some(1012), b"", fx),
            // Where a frame of the backend's ends is not known.
            Stage::Plain | Stage::Refusing { .. } => {}
        }
        fx.end(End::Flush);
    }
}
