//! The request that brings commands of an emulated transport, until it is answered.

use throng_session::http::{allow_origin, respond};
use throng_session::{Event, Exchange, Flow, Incoming};
use throng_types::End;

use crate::context::Cx;

/// A request with commands, until they are on their way.
pub struct Upstream {
    exchange: Exchange,
    /// The page that may read the answer.
    origin: Option<Box<str>>,
}

impl Upstream {
    /// Begins with the request.
    pub(crate) fn new(incoming: &Incoming<'_, '_>) -> Self {
        Self {
            exchange: Exchange::new(incoming),
            origin: incoming.request.header("origin").map(Into::into),
        }
    }

    /// Whether its connection may serve another request.
    pub(crate) const fn keep_alive(&self) -> bool {
        self.exchange.keep_alive
    }

    /// Answers it; the connection takes the next request.
    pub(crate) fn done(&mut self, status: u16, cx: &mut Cx<'_>) -> Flow {
        self.respond(status, cx);
        self.exchange.done(cx)
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        match event {
            // The answer comes within this turn.
            Event::Bytes(input) => {
                let limits = &cx.shared.limits;
                let bytes_max = 2 * (limits.head_bytes_max + limits.message_bytes_max);
                self.exchange.keep(input, bytes_max, cx);
            }
            Event::Timeout => cx.end(End::Flush),
            _ => {}
        }
    }

    /// Writes the answer.
    pub(crate) fn respond(&self, status: u16, cx: &mut Cx<'_>) {
        let mut headers = Vec::new();
        allow_origin(self.origin.as_deref(), &mut headers);
        respond(status, &headers, b"", self.exchange.keep_alive, cx);
    }
}
