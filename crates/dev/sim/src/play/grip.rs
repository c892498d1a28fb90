//! The part of GRIP's backend and its clients in a run.

use throng_http1::origin::{OriginEvent, OriginFailureKind};
use throng_server::Assembly;

use super::Play;
use crate::client::Around;
use crate::fault::Fault;

impl Play {
    pub(super) fn visitor_acts(&mut self) {
        if self.visitors.is_empty() {
            return;
        }
        let at = self.net.below(self.visitors.len());
        let Some(conn) = self.visitors[at].conn() else {
            return self.visitors[at].connect(&mut around!(self));
        };
        let visitor = &mut self.visitors[at];
        match self.net.below(100) {
            0..30 => self.net.arrive(conn, self.net.pick(&[1, 20, 100_000])),
            30..70 => {
                visitor.read(&mut around!(self));
            }
            _ if self.net.percent(self.setup.cut_percent) => visitor.leave(&around!(self)),
            _ => visitor.act(&around!(self)),
        }
    }

    /// The backend answers a little of what it was asked, or fails.
    pub(super) fn backend_acts(&self) {
        const FAULTS: [OriginFailureKind; 5] = [
            OriginFailureKind::Unreachable,
            OriginFailureKind::Unsent,
            OriginFailureKind::Timeout,
            OriginFailureKind::Cut,
            OriginFailureKind::Garbage,
        ];
        let fault = self.net.percent(8).then(|| self.net.pick(&FAULTS));
        let chance = self.net.next() as usize;
        let Some((conn, token, event)) = self.requests.next(chance, fault) else {
            return;
        };
        if let OriginEvent::Failed(_) = event {
            self.net.hit(Fault::BackendFailed);
        }
        self.net
            .note(format_args!("the backend answers {conn:?}: {event:?}"));
        if Assembly::answer(&self.stage.mailboxes, conn, token, event).is_ok() {
            self.requests.done(conn, token);
        }
    }

    /// Publishes one more line to each log, so that clients notice lines they missed.
    pub(super) fn end_logs(&mut self) {
        let mut around = around!(self);
        let all = self.publishers.iter_mut();
        for publisher in all.filter(|publisher| publisher.is_grip()) {
            if !publisher.is_connected() {
                publisher.connect(&mut around);
            }
            publisher.end_logs(&mut around);
        }
        self.rest();
    }
}
