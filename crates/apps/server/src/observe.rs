//! The engine's and the hub's numbers, copied to the shard's counters at the end of each turn.

use throng_engine::{ConnStats, Conns, Kernel, LoopStats};
use throng_metrics::{Counter, Gauge, Histogram};

use crate::list::GatewayList;
use crate::shard::ShardApp;

/// Totals at the end of the last turn, so that only the difference is added.
#[derive(Default)]
pub struct Observer {
    turns: LoopStats,
    conns: ConnStats,
    news_dropped: u64,
    conflated: u64,
}

impl Observer {
    /// Adds what is new.
    pub fn observe<L: GatewayList, K: Kernel>(
        &mut self,
        app: &ShardApp<L>,
        conns: &Conns<L::Session, K>,
        turns: LoopStats,
    ) {
        let counters = app.counters();
        let before = std::mem::replace(&mut self.turns, turns);
        counters.add(Counter::Turns, turns.turns - before.turns);
        counters.add(Counter::Sleeps, turns.sleeps - before.sleeps);
        counters.add(Counter::Mail, turns.mail - before.mail);
        counters.add(Counter::Wakes, turns.wakes - before.wakes);
        counters.record(Histogram::TurnDuration, turns.last_turn_us);
        counters.add(
            Counter::ConnectionsAccepted,
            turns.accepted - before.accepted,
        );
        counters.add(Counter::BytesIn, turns.read_bytes - before.read_bytes);
        let now = conns.stats();
        let before = std::mem::replace(&mut self.conns, now);
        counters.add(Counter::BytesOut, now.sent_bytes - before.sent_bytes);
        counters.add(Counter::Writes, now.writes - before.writes);
        counters.add(
            Counter::DroppedOldest,
            now.dropped_oldest - before.dropped_oldest,
        );
        counters.add(
            Counter::DroppedLatestOnly,
            now.dropped_latest_only - before.dropped_latest_only,
        );
        let slow = now.slow - before.slow;
        counters.add(Counter::DroppedClose, slow);
        counters.add(Counter::SlowConsumers, slow + now.lagged - before.lagged);
        counters.add(Counter::CrowdedOut, now.crowded - before.crowded);
        let hub = app.hub().stats();
        counters.set(Gauge::Channels, hub.home.streams as u64);
        counters.set(Gauge::Subscriptions, hub.subscriptions as u64);
        let before = std::mem::replace(&mut self.news_dropped, hub.news_dropped);
        counters.add(Counter::PresenceDropped, hub.news_dropped - before);
        let before = std::mem::replace(&mut self.conflated, hub.conflated);
        counters.add(Counter::Conflated, hub.conflated - before);
        counters.set(Gauge::PresenceMembers, hub.home.members as u64);
        counters.set(Gauge::HistoryBytes, hub.home.history_bytes as u64);
        counters.set(
            Gauge::HistoryPublications,
            hub.home.history_publications as u64,
        );
    }
}
