//! The request that brings commands of an emulated transport, until it is answered.

use throng_session::http::{allow_origin, respond};
use throng_session::{Event, Exchange, Flow, Incoming, SurveyReply};
use throng_types::End;

use crate::context::Cx;

/// A request with commands, until they are on their way.
pub struct Upstream {
    exchange: Exchange,
    /// The page that may read the answer.
    origin: Option<Box<str>>,
    /// Whether other nodes are asked for the session.
    is_elsewhere: bool,
}

impl Upstream {
    /// Begins with the request.
    pub(crate) fn new(incoming: &Incoming<'_, '_>) -> Self {
        Self {
            exchange: Exchange::new(incoming),
            origin: incoming.request.header("origin").map(Into::into),
            is_elsewhere: false,
        }
    }

    /// Marks the commands as carried out on another node.
    pub(crate) fn elsewhere(self) -> Self {
        Self {
            is_elsewhere: true,
            ..self
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

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Surveyed(replies) if self.is_elsewhere => {
                return self.done(status_of(&replies), cx);
            }
            // The answer comes within this turn, or when the other nodes have answered.
            Event::Bytes(input) => {
                let limits = &cx.shared.limits;
                let bytes_max = 2 * (limits.head_bytes_max + limits.message_bytes_max);
                self.exchange.keep(input, bytes_max, cx);
            }
            Event::Timeout => cx.end(End::Flush),
            _ => {}
        }
        Flow::Stay
    }

    /// Writes the response without a body.
    pub(crate) fn respond(&self, status: u16, cx: &mut Cx<'_>) {
        let mut headers = Vec::new();
        allow_origin(self.origin.as_deref(), &mut headers);
        respond(status, &headers, b"", self.exchange.keep_alive, cx);
    }
}

/// Chooses the status for commands that went to another node: 204 if a node took them, 404 if there
/// is none of its name, 503 while not all nodes have answered.
fn status_of(replies: &[SurveyReply]) -> u16 {
    let is_taken = |reply: &SurveyReply| matches!(reply, SurveyReply::Done(1..));
    let mut status = 404;
    for reply in replies {
        match reply {
            SurveyReply::Elsewhere(nodes)
                if { nodes.iter() }.any(|node| node.replies.iter().any(is_taken)) =>
            {
                return 204;
            }
            SurveyReply::Unanswered => status = 503,
            _ => {}
        }
    }
    status
}
