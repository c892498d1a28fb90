//! The engine's and the hub's numbers, copied to the shard's board at the end of each turn.

use throng_engine::{ConnStats, Conns, Kernel, LoopStats};
use throng_metrics::{Counter, Gauge, Histogram};
use throng_session::{Desk, Session, Standing, Transport};

use crate::shard::ShardApp;

/// What was copied before.
#[derive(Default)]
pub(crate) struct Observer {
    turns: LoopStats,
    conns: ConnStats,
}

impl Observer {
    /// Adds what is new.
    pub(crate) fn observe(
        &mut self,
        app: &ShardApp,
        conns: &Conns<Session, impl Kernel>,
        turns: LoopStats,
    ) {
        let board = app.board();
        let before = std::mem::replace(&mut self.turns, turns);
        board.add(Counter::Turns, turns.turns - before.turns);
        board.record(Histogram::TurnDuration, turns.last_turn_us);
        board.add(
            Counter::ConnectionsAccepted,
            turns.accepted - before.accepted,
        );
        board.add(Counter::BytesIn, turns.read_bytes - before.read_bytes);
        let now = conns.stats();
        let before = std::mem::replace(&mut self.conns, now);
        board.add(Counter::BytesOut, now.sent_bytes - before.sent_bytes);
        board.add(Counter::Writes, now.writes - before.writes);
        board.add(
            Counter::DroppedOldest,
            now.dropped_oldest - before.dropped_oldest,
        );
        board.add(
            Counter::DroppedLatestOnly,
            now.dropped_latest_only - before.dropped_latest_only,
        );
        let slow = now.slow - before.slow;
        board.add(Counter::DroppedClose, slow);
        board.add(Counter::SlowConsumers, slow + now.lagged - before.lagged);
        let hub = app.hub().stats();
        board.set(Gauge::Channels, hub.home.streams as u64);
        board.set(Gauge::Subscriptions, hub.subscriptions as u64);
        board.set(Gauge::HistoryBytes, hub.home.history_bytes as u64);
        board.set(
            Gauge::HistoryPublications,
            hub.home.history_publications as u64,
        );
    }
}

/// Where connections of a kind are counted.
const fn gauge(transport: Transport) -> Gauge {
    match transport {
        Transport::Http => Gauge::ConnectionsHttp,
        Transport::WebSocket => Gauge::ConnectionsWebsocket,
        Transport::Sse => Gauge::ConnectionsSse,
        Transport::Stream => Gauge::ConnectionsStream,
    }
}

/// Counts a session elsewhere if it became something else.
pub(crate) fn recount(desk: &Desk, before: Standing, after: Standing) {
    if before.transport != after.transport {
        desk.board.fall(gauge(before.transport), 1);
        desk.board.rise(gauge(after.transport), 1);
    }
    match (before.is_grip, after.is_grip) {
        (false, true) => desk.board.rise(Gauge::GripConnections, 1),
        (true, false) => desk.board.fall(Gauge::GripConnections, 1),
        _ => {}
    }
}

/// Counts a session no longer.
pub(crate) fn uncount(desk: &Desk, last: Standing) {
    desk.board.fall(gauge(last.transport), 1);
    desk.board
        .fall(Gauge::GripConnections, u64::from(last.is_grip));
}
