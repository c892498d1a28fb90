//! What backends do, and what sessions want of them.

use throng_engine::{Conns, Kernel};
use throng_grip::exchange::OriginEvent;
use throng_session::{Desk, Fx, Session};
use throng_types::{ChannelName, ConnId, Now};

use super::{GHOSTS_MS, GripNote, QUEUE_LONG_BYTES};
use crate::shard::ShardApp;

impl ShardApp {
    /// A backend has done something.
    pub(crate) fn origin_event(
        &mut self,
        conn: ConnId,
        token: u32,
        event: OriginEvent,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let bytes = match &event {
            OriginEvent::Body(bytes) => bytes.len(),
            _ => 0,
        };
        let is_last = matches!(event, OriginEvent::End | OriginEvent::Failed(_));
        if let OriginEvent::Failed(failure) = &event {
            tracing::debug!(detail = failure.detail, "a backend failed");
        }
        if conns.session(conn).is_some() {
            self.with(conn, conns, |session, desk, fx| {
                session.origin(conn, token, event, desk, fx);
            });
        } else {
            self.with_ghost(conn, conns.now(), |session, desk, fx| {
                session.origin(conn, token, event, desk, fx);
            });
        }
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let Some(live) = grip.live.get_mut(&conn).filter(|live| live.token == token) else {
            return;
        };
        if is_last {
            grip.live.remove(&conn);
        } else if bytes > 0 && conns.queued_bytes(conn) > QUEUE_LONG_BYTES {
            // Each time, not only the first: what one turn brought may be gone after it, and then
            // nothing tells that the queue is empty.
            if !live.is_listed {
                live.is_listed = true;
                grip.owing[0].push(conn);
            }
            live.owed += bytes;
        } else if bytes > 0 {
            live.ticket.grant(bytes);
        }
    }

    /// A connection's queue is empty again.
    pub(crate) fn grip_drained(&mut self, conn: ConnId) {
        let live = self.grip.as_mut().and_then(|grip| grip.live.get_mut(&conn));
        if let Some(live) = live
            && live.owed > 0
        {
            live.ticket.grant(std::mem::take(&mut live.owed));
        }
    }

    /// A connection has gone.
    pub(crate) fn grip_closed(&mut self, conn: ConnId, mut session: Session, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        grip.topics.left(conn);
        let mut out = Vec::new();
        let mut fx = Fx::new(&mut out, &mut self.orders, now);
        if session.gone(conn, &self.parts.desk, &mut fx) {
            grip.ghosts.insert(conn, session);
        } else {
            grip.live.remove(&conn);
        }
    }

    pub(super) fn recover(&mut self, conns: &mut Conns<Session, impl Kernel>) {
        let all: Vec<ConnId> = conns.sessions().map(|(conn, _)| conn).collect();
        for conn in all {
            self.with(conn, conns, |session, desk, fx| {
                session.recover(conn, desk, fx)
            });
        }
    }

    pub(super) fn refresh(
        &mut self,
        connection: Option<ConnId>,
        channel: Option<String>,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let channel = channel.and_then(|name| {
            let name = format!("{}:{name}", throng_session::GRIP_NAMESPACE);
            ChannelName::new(&name).ok()
        });
        for shard in 0..usize::from(self.parts.shards) {
            if shard != self.parts.shard.index() {
                let channel = channel.clone();
                let note = GripNote::Refresh {
                    connection,
                    channel,
                };
                self.note(shard, note);
            }
        }
        self.refresh_here(connection, channel.as_ref(), conns);
    }

    pub(super) fn refresh_here(
        &mut self,
        connection: Option<ConnId>,
        channel: Option<&ChannelName>,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let hub = &self.parts.hub;
        let fits = |conn: &ConnId| {
            connection == Some(*conn)
                || channel.is_some_and(|channel| hub.is_subscribed(*conn, channel))
        };
        let all: Vec<ConnId> = conns
            .sessions()
            .map(|(conn, _)| conn)
            .filter(fits)
            .collect();
        for conn in all {
            self.with(conn, conns, |session, desk, fx| {
                session.refresh(conn, desk, fx)
            });
        }
    }

    /// Lets a session go on that has no connection any more; false if there is none.
    fn with_ghost(
        &mut self,
        conn: ConnId,
        now: Now,
        run: impl FnOnce(&mut Session, &Desk, &mut Fx<'_>),
    ) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        let Some(ghost) = grip.ghosts.get_mut(&conn) else {
            return;
        };
        let mut out = Vec::new();
        let mut fx = Fx::new(&mut out, &mut self.orders, now);
        run(ghost, &self.parts.desk, &mut fx);
        if ghost.is_over() {
            grip.ghosts.remove(&conn);
            grip.live.remove(&conn);
        }
    }

    /// Grants what was owed only because a turn brought much at once. A queue that is long after
    /// everything was written is one that the kernel does not take, and that is told when it does.
    pub(super) fn settle(&mut self, conns: &Conns<Session, impl Kernel>) -> bool {
        let Some(grip) = self.grip.as_mut() else {
            return false;
        };
        let settled = std::mem::take(&mut grip.owing[1]);
        grip.owing.swap(0, 1);
        for conn in &grip.owing[1] {
            if let Some(live) = grip.live.get_mut(conn) {
                live.is_listed = false;
            }
        }
        let is_more = !grip.owing[1].is_empty();
        for conn in settled {
            if conns.queued_bytes(conn) <= QUEUE_LONG_BYTES {
                self.grip_drained(conn);
            }
        }
        is_more
    }

    /// Retries of those whose connection has gone.
    pub(super) fn wake_ghosts(&mut self, now: Now) {
        let Some(grip) = self.grip.as_mut() else {
            return;
        };
        if grip.ghosts.is_empty() || now.mono < grip.ghosts_at {
            return;
        }
        grip.ghosts_at = now.mono + GHOSTS_MS;
        let all: Vec<ConnId> = grip.ghosts.keys().copied().collect();
        for conn in all {
            self.with_ghost(conn, now, |session, desk, fx| {
                session.timeout(conn, desk, fx)
            });
        }
    }
}
