//! A client's WebSocket whose backend speaks WebSocket too.
//!
//! A backend that does not answer the extension `grip` is only connected to the client: bytes pass
//! as they are. One that does marks its messages as for the client or for us, so messages are read
//! on both sides and written anew.
//!
//! Rule for "full": bytes that the backend has not taken are bounded by [`Uplink`]; bytes that the
//! client has not taken are bounded by the driver's credit.

use std::sync::Arc;

use throng_grip::headers::is_grip;
use throng_grip::item::WsKind;
use throng_grip::ws_events::{ControlMessage, GripFilter, GripMessage, grip_prefix};
use throng_http1::origin::{OriginEvent, OriginFailure, OriginHead};
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::answer_text;
use throng_types::{End, Publication};
use throng_ws::{WsDecoder, WsRole};

use crate::Cx;
use crate::client_side::{CLOSE_TIMEOUT_MS, Side, WsInput, read};
use crate::order::Order;
use crate::request::BackendRequest;
use crate::response_head::{After, Framing, pass_on, send_head, switch_protocols};
use crate::upload::Uplink;

/// A message of a backend, in bytes, if `limits.message_bytes_max` is not more; more than Pushpin
/// takes.
const BACKEND_MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A WebSocket that is connected to a WebSocket of its backend.
pub struct Tunnel {
    asked: BackendRequest,
    accept: [u8; 28],
    stage: Stage,
    side: Side,
    uplink: Uplink,
}

enum Stage {
    /// The backend's answer is awaited.
    Asking,
    /// The answer is no WebSocket; the client gets it unchanged.
    Refusing { framing: Framing },
    /// Bytes pass as they are.
    Plain,
    /// Messages are looked at.
    Sorting(Box<Sorting>),
}

struct Sorting {
    /// Sorts the backend's messages; without it, all of them are for the client.
    filter: Option<GripFilter>,
    up: WsDecoder,
    down: WsDecoder,
    /// The backend has let go, and the client stays.
    is_detached: bool,
    close_heard: bool,
}

impl Tunnel {
    /// Creates a session for a client whose handshake was checked.
    pub(crate) fn start(asked: BackendRequest, accept: [u8; 28], cx: &mut Cx<'_>) -> Self {
        let request = asked.upgrade(cx.own, cx.now);
        let target = asked.route.to.targets.first();
        let target = target.filter(|_| asked.may_instruct());
        let side = Side::new(&asked.route.channel_prefix, target);
        cx.order(Order::Ask {
            conn: cx.id,
            token: 1,
            request,
        });
        Self {
            asked,
            accept,
            stage: Stage::Asking,
            side,
            uplink: Uplink::default(),
        }
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.side.is_open
    }

    pub(crate) fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        match &mut self.stage {
            Stage::Asking => self.side.keep_early(input, cx),
            Stage::Refusing { .. } => {}
            Stage::Plain => self.uplink.send(input.to_vec(), cx),
            Stage::Sorting(sorting) if sorting.close_heard => {}
            Stage::Sorting(sorting) => {
                let (inputs, fed) = self.side.hear(&mut sorting.up, input, cx);
                for input in inputs {
                    self.client_says(input, cx);
                }
                if let Err(fault) = fed {
                    cx.count(Counter::BadRequests);
                    self.close_both(Some(fault.close_code()), fault.reason(), cx);
                    cx.end(End::Flush);
                }
                self.settle(cx);
            }
        }
    }

    fn client_says(&mut self, told: WsInput, cx: &mut Cx<'_>) {
        let Stage::Sorting(sorting) = &mut self.stage else {
            return;
        };
        if matches!(told, WsInput::Message(WsKind::Text | WsKind::Binary, _)) {
            cx.count(Counter::MessagesIn);
        }
        if let WsInput::Close(..) = told {
            sorting.close_heard = true;
            // The backend's own close is the answer to it.
            self.side.close_by = Some(cx.now.mono + CLOSE_TIMEOUT_MS);
        }
        if !sorting.is_detached {
            return self.say_up(&told, cx);
        }
        match told {
            WsInput::Message(WsKind::Ping, data) => self.side.send(WsKind::Pong, &data, cx),
            WsInput::Message(..) => {}
            WsInput::Close(..) => {
                if !self.side.is_overspent {
                    self.side.close(None, b"", cx);
                }
                self.side.end(cx);
            }
        }
    }

    fn say_up(&mut self, told: &WsInput, cx: &mut Cx<'_>) {
        let chance = cx.own.chance();
        let mut bytes = Vec::new();
        // A part of a number of 64 bits fits.
        told.encode_masked((chance as u32).to_be_bytes(), &mut bytes);
        self.uplink.send(bytes, cx);
    }

    pub(crate) fn origin(&mut self, event: OriginEvent, cx: &mut Cx<'_>) {
        match (&mut self.stage, event) {
            (Stage::Asking, OriginEvent::Head(head)) => self.head(head, cx),
            (_, OriginEvent::Head(_)) => {}
            (_, OriginEvent::Taken(bytes)) => {
                if self.uplink.taken(bytes) {
                    cx.pause(self.side.is_overspent);
                }
            }
            (Stage::Plain, OriginEvent::Body(bytes)) => cx.out.extend_from_slice(&bytes),
            (Stage::Refusing { framing }, OriginEvent::Body(bytes)) => {
                pass_on(*framing, &bytes, cx.out);
            }
            (Stage::Sorting(sorting), OriginEvent::Body(mut bytes)) => {
                // The mark of the client's messages is not part of them.
                let prefix = sorting.filter.as_ref().map_or(0, GripFilter::prefix_bytes);
                let bytes_max = cx.shared.limits.message_bytes_max;
                let bytes_max = bytes_max.max(BACKEND_MESSAGE_BYTES_MAX) + prefix;
                let (told, fed) = read(&mut sorting.down, &mut bytes, bytes_max);
                for told in told {
                    self.backend_says(told, cx);
                }
                if fed.is_err() {
                    cx.count(Counter::GripInstructFaults);
                    self.side
                        .close(Some(1011), b"the backend broke the protocol", cx);
                    cx.end(End::Flush);
                }
                self.settle(cx);
            }
            (Stage::Sorting(sorting), _) if sorting.is_detached => {}
            (Stage::Asking, OriginEvent::Failed(failure)) => self.refuse(&failure, cx),
            (Stage::Asking, _) => cx.end(End::Flush),
            (_, OriginEvent::Failed(_)) => {
                cx.count(Counter::GripOriginFailures);
                self.side.end(cx);
            }
            (_, OriginEvent::End) => self.side.end(cx),
        }
    }

    fn head(&mut self, mut head: OriginHead, cx: &mut Cx<'_>) {
        if head.code != 101 {
            let framing = match head.body_bytes {
                Some(bytes) => Framing::Length(bytes),
                None if head.is_bodiless => Framing::None(None),
                None => Framing::Close,
            };
            let reason = Some(head.reason.as_str()).filter(|reason| !reason.is_empty());
            send_head(head.code, reason, &head.headers, (framing, After::Ends), cx);
            self.stage = Stage::Refusing { framing };
            return;
        }
        let of = |name: &'static str| {
            let headers = head.headers.iter();
            let named = headers.filter(move |header| header.is(name));
            named.map(|header| header.value.as_slice())
        };
        if !of("Sec-WebSocket-Accept").any(|accept| accept == self.accept) {
            cx.count(Counter::GripInstructFaults);
            cx.order(Order::Forget { conn: cx.id });
            answer_text(502, "the backend's handshake is invalid", &[], false, cx);
            return cx.end(End::Flush);
        }
        let may_instruct = self.asked.may_instruct();
        let prefix = grip_prefix(of("Sec-WebSocket-Extensions")).filter(|_| may_instruct);
        let subscribes = self.side.has_channels();
        self.stage = if prefix.is_some() || subscribes {
            Stage::Sorting(Box::new(Sorting {
                filter: prefix.as_deref().map(GripFilter::new),
                up: WsDecoder::new(WsRole::Server),
                down: WsDecoder::new(WsRole::Client),
                is_detached: false,
                close_heard: false,
            }))
        } else {
            Stage::Plain
        };
        if may_instruct {
            // The offer was ours, so its acceptance is not for the client.
            let ours =
                |name: &str| is_grip(name) || name.eq_ignore_ascii_case("Sec-WebSocket-Extensions");
            head.headers.retain(|header| !ours(&header.name));
        }
        let accept = throng_http1::field::Header::new("Sec-WebSocket-Accept", self.accept);
        switch_protocols(accept, &head.headers, cx.out);
        self.side.open(cx);
        let mut early = std::mem::take(&mut self.side.early);
        if !early.is_empty() {
            self.bytes(&mut early, cx);
        }
    }

    fn refuse(&mut self, failure: &OriginFailure, cx: &mut Cx<'_>) {
        cx.count(Counter::GripOriginFailures);
        let sentence = self.asked.sentence(failure);
        answer_text(failure.fault.status(), &sentence, &[], false, cx);
        cx.end(End::Flush);
    }

    fn backend_says(&mut self, told: WsInput, cx: &mut Cx<'_>) {
        let Stage::Sorting(sorting) = &mut self.stage else {
            return;
        };
        if sorting.is_detached {
            return;
        }
        let (kind, data) = match told {
            WsInput::Message(kind, data) => (kind, data),
            WsInput::Close(..) if self.side.is_overspent => return self.side.end(cx),
            WsInput::Close(code, reason) => {
                self.side.close(code, &reason, cx);
                if sorting.close_heard {
                    cx.end(End::Flush);
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
            None => self.side.send(kind, &data, cx),
            Some(GripMessage::Client(content)) => self.side.send(kind, content, cx),
            Some(GripMessage::Nobody) => {}
            Some(GripMessage::Control(Ok(ControlMessage::Detach))) => {
                sorting.is_detached = true;
                cx.order(Order::Forget { conn: cx.id });
                // Nothing of it has to be taken any more.
                if std::mem::take(&mut self.uplink).is_paused() {
                    cx.pause(false);
                }
            }
            Some(GripMessage::Control(Ok(control))) => self.side.control(control, cx),
            Some(GripMessage::Control(Err(fault))) => self.side.control_fault(&fault, cx),
        }
    }

    fn close_both(&mut self, code: Option<u16>, reason: &str, cx: &mut Cx<'_>) {
        self.side.close(code, reason.as_bytes(), cx);
        let is_detached = matches!(&self.stage, Stage::Sorting(sorting) if sorting.is_detached);
        if !is_detached {
            let close = WsInput::Close(code, reason.as_bytes().to_vec());
            self.say_up(&close, cx);
        }
    }

    pub(crate) fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) {
        let was_open = !self.side.close_sent;
        // No refresh is needed: the backend is connected.
        let _ = self.side.publication(publication, cx);
        let is_detached = matches!(&self.stage, Stage::Sorting(sorting) if sorting.is_detached);
        if was_open && self.side.close_sent && !is_detached {
            self.say_up(&WsInput::Close(Some(1000), Vec::new()), cx);
        }
        self.settle(cx);
    }

    pub(crate) fn answer(&mut self, answer: &Answer, cx: &mut Cx<'_>) {
        self.side.answer(answer, cx);
        self.settle(cx);
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.side.close_by.is_some_and(|at| at <= cx.now.mono) {
            return self.side.end(cx);
        }
        self.side.timeout(cx);
        self.settle(cx);
    }

    /// Sets the deadline, and ends the session when both sides have closed.
    fn settle(&self, cx: &mut Cx<'_>) {
        if let Stage::Sorting(sorting) = &self.stage {
            if sorting.close_heard && self.side.close_sent {
                return cx.end(End::Flush);
            }
            cx.set_deadline(self.side.next_timeout());
        }
    }

    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        match &self.stage {
            Stage::Asking => answer_text(503, "the server is shutting down", &[], false, cx),
            // "Service restart" (RFC 6455, registry of close codes).
            Stage::Sorting(_) => self.side.close(Some(1012), b"", cx),
            // Where a frame of the backend's ends is not known.
            Stage::Plain | Stage::Refusing { .. } => {}
        }
        cx.end(End::Flush);
    }
}
