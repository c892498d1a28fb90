//! Requests to backends, and their events on the way to sessions, also to those whose connection
//! has closed.

use throng_grip::exchange::{OriginEvent, OriginRequest};
use throng_metrics::Counter;
use throng_session::{Event, Shard};
use throng_types::ConnId;

use crate::context::Cx;
use crate::grip::Grip;
use crate::session::Session;

/// Between two looks at sessions without a connection, in milliseconds.
const GONE_MS: u64 = 1000;

impl Grip {
    pub(crate) fn ask(
        &mut self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
        shard: &mut impl Shard<Self>,
    ) {
        shard.shared().counters.count(Counter::GripRequests);
        match self.backends.submit(conn, token, request) {
            Ok(ticket) => {
                self.exchanges.begin(conn, token, ticket);
            }
            Err(failure) => {
                self.exchanges.remove(conn);
                let event = OriginEvent::Failed(failure);
                self.backend_event(conn, token, event, shard);
            }
        }
    }

    pub(crate) fn tell(&self, request: OriginRequest, shard: &impl Shard<Self>) {
        let counters = &shard.shared().counters;
        counters.count(Counter::GripRequests);
        if self.backends.tell(request).is_err() {
            counters.count(Counter::GripOriginFailures);
        }
    }

    /// A backend has done something.
    pub(crate) fn backend_event(
        &mut self,
        conn: ConnId,
        token: u32,
        event: OriginEvent,
        shard: &mut impl Shard<Self>,
    ) {
        let bytes = match &event {
            OriginEvent::Body(bytes) => bytes.len(),
            _ => 0,
        };
        let is_last = matches!(event, OriginEvent::End | OriginEvent::Failed(_));
        if shard.is_connected(conn) {
            shard.with(conn, |session, cx| session.origin(token, event, cx));
        } else {
            self.with_gone(conn, shard, |session, cx| {
                let _ = session.origin(token, event, cx);
            });
        }
        if is_last {
            self.exchanges.end(conn, token);
        } else if bytes > 0 {
            let queued_bytes = shard.queued_bytes(conn);
            self.exchanges.pay(conn, token, bytes, queued_bytes);
        }
    }

    /// Handles the end of a connection. Its session stays while its backend still has to be
    /// notified.
    pub(crate) fn connection_closed(
        &mut self,
        conn: ConnId,
        mut session: Session,
        shard: &mut impl Shard<Self>,
    ) {
        self.topics.left(conn);
        self.stats_reader_left(conn, shard);
        let now = shard.now().mono;
        self.shared.stats(|book| book.closed(conn, now));
        let mut goes_on = false;
        shard.with_gone(conn, &mut session, |session, cx| {
            goes_on = session.connection_gone(cx);
        });
        if goes_on {
            self.gone.insert(conn, session);
        } else {
            self.exchanges.remove(conn);
        }
    }

    /// Lets a session go on that has no connection any more, if there is one.
    fn with_gone<S: Shard<Self>>(
        &mut self,
        conn: ConnId,
        shard: &mut S,
        act: impl FnOnce(&mut Session, &mut Cx<'_>),
    ) {
        let Some(session) = self.gone.get_mut(&conn) else {
            return;
        };
        shard.with_gone(conn, session, act);
        if session.is_over() {
            self.gone.remove(&conn);
            self.exchanges.remove(conn);
        }
    }

    pub(crate) fn wake_gone(&mut self, shard: &mut impl Shard<Self>) {
        let now = shard.now().mono;
        if self.gone.is_empty() || now < self.gone_at {
            return;
        }
        self.gone_at = now + GONE_MS;
        let all: Vec<ConnId> = self.gone.keys().copied().collect();
        for conn in all {
            self.with_gone(conn, shard, |session, cx| {
                let _ = session.event(Event::Timeout, cx);
            });
        }
    }
}
