//! The part of GRIP's backend and its clients in a run.

use super::Play;
use crate::client::Around;

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
