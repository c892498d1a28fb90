//! `POST /api/reload`: the server reads its configuration again, and answers with the result.
//!
//! The answer comes from the thread that reads the configuration, so a session waits for it. Who
//! asks has passed the API port's door: by its key, where keys are set.

use throng_session::http::respond_json;
use throng_session::{Event, Exchange, Flow, Incoming, Reloaded};
use throng_types::End;

use crate::context::Cx;

/// A call that waits.
pub struct Reloading(Exchange);

impl Reloading {
    pub(crate) fn open(incoming: &Incoming<'_, '_>, cx: &mut Cx<'_>) -> Self {
        cx.shared.notices.changed("reload", "", "");
        cx.set_deadline(None);
        cx.reload();
        Self(Exchange::new(incoming))
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => self.0.keep_behind_api_call(input, cx),
            Event::Reloaded(what) => return self.told(what, cx),
            Event::Timeout => cx.end(End::Flush),
            // The answer still comes.
            Event::Close(_) => self.0.keep_alive = false,
            _ => {}
        }
        Flow::Stay
    }

    fn told(&mut self, what: &Reloaded, cx: &mut Cx<'_>) -> Flow {
        let (status, body) = what.answer();
        respond_json(status, body.as_bytes(), self.0.keep_alive, cx);
        self.0.done(cx)
    }
}
