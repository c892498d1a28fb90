//! From a request to a stream: its backend holds the client.

use throng_grip::instruct::{Hold, Instruct};

use crate::context::Cx;
use crate::held::Held;
use crate::next_request::NextRequest;
use crate::proxied::{Becomes, Next, Proxied};
use crate::response_head::{Framing, encode_head};

impl Proxied {
    /// Whether the client stays: it is held, or the answer goes on behind a link.
    pub(crate) fn is_stream(&self, instruct: &Instruct) -> bool {
        let goes_on = instruct.hold == Hold::None && instruct.next.is_some();
        (instruct.hold == Hold::Stream || goes_on) && &*self.asked.method != "HEAD"
    }

    /// Holds the client; with the backend's own body, if that is here whole.
    pub(crate) fn stream(
        &mut self,
        mut instruct: Instruct,
        body: Option<Vec<u8>>,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        self.asked.cors(&mut instruct.reply.headers);
        let framing = Framing::open(self.minor_version);
        let reply = &instruct.reply;
        let mut head = Vec::new();
        encode_head(
            reply.code,
            reply.reason.as_deref(),
            &reply.headers,
            (framing, self.after()),
            Some(&cx.shared.dates.at(cx.now)),
            &mut head,
        );
        let asked = self.asked.take();
        let is_chunked = framing == Framing::Chunked;
        let next = match self.exchange.keep_alive && is_chunked && self.exchange.is_quiet() {
            true => NextRequest::after(asked.peer, cx),
            false => NextRequest::Never,
        };
        let exchange = (self.token, is_chunked, next);
        let mut held = Held::new(asked, exchange, (head, instruct), cx);
        if let Some(body) = body {
            held.body_is_here(&body, cx);
        }
        Some(Next::Held(held))
    }
}
