//! End of a held stream, and the next use of its connection.
//!
//! A stream that ends in order leaves its connection to the next request, if no other bytes have
//! come on it. Nothing may follow the last chunk but that answer: deliveries are held back from
//! then on, and dropped when the client has left its channels.

use std::net::IpAddr;

use throng_http1::LAST_CHUNK;
use throng_types::End;

use crate::context::Cx;
use crate::follow::Step;
use crate::held::Held;
use crate::next_request::NextRequest;
use crate::order::Order;

impl Held {
    /// Handles bytes from the client, which get no answer.
    pub(crate) const fn said(&mut self) {
        self.next = NextRequest::Never;
    }

    /// Returns the client's address if the stream has ended and its connection waits for the next
    /// request.
    pub(crate) fn left(&self, cx: &Cx<'_>) -> Option<IpAddr> {
        match self.next {
            _ if !self.has_left => None,
            NextRequest::Never => None,
            NextRequest::OfV4(peer) => Some(peer.into()),
            NextRequest::OfV6 => cx.own.take_peer(cx.id),
        }
    }

    /// Ends the stream in order.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        // A channel that has not answered would be left before it is joined.
        let is_member = self.state.early.is_none();
        self.begin(cx);
        if self.is_chunked {
            cx.out.extend_from_slice(LAST_CHUNK);
        }
        if is_member && self.next != NextRequest::Never && !cx.shared.draining {
            self.closing = true;
            self.has_left = true;
            cx.set_deadline(None);
            cx.forget_held();
            cx.hold(true);
            return cx.order(Order::Leave { conn: cx.id });
        }
        self.cut(cx);
    }

    /// Ends the stream so that the client sees that there would have been more.
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        self.closing = true;
        // Deliveries held back would come behind the last chunk, or behind a piece of a body.
        cx.actions.hold = None;
        cx.set_deadline(None);
        cx.end(End::Flush);
    }

    /// The server ends it. Of a body that is not whole the client sees that something is missing.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        let fetch = self.state.fetch.as_ref();
        match fetch.is_some_and(|fetch| matches!(fetch.step, Step::Body)) {
            true if !self.closing => self.cut(cx),
            _ => self.finish(cx),
        }
    }
}
