//! One shard's clients for statistics, and their events in this turn.
//!
//! Owns: the open clients, their channels, and news until they are taken. Never: adds up several
//! shards, or makes packets.

use std::collections::BTreeMap;

use throng_grip::stats::SubscriptionMode;
use throng_types::{ChannelName, ConnId, Load, Millis, Save, Saved};

use super::lap::Lap;
use super::{ClientInfo, ConnectionReport, StatsEvent, Subscriber};

const MINUTE_MS: u64 = 60_000;
/// Between two signs of life of one WebSocket, in milliseconds.
const ACTIVE_MS: u64 = 60_000;

/// Client as statistics know it.
#[derive(Save)]
struct Known {
    client: ClientInfo,
    /// Time up to which its minutes are reported.
    counted_at: Millis,
    /// Time of the last report of activity.
    active_at: Millis,
    /// Bound: the client's subscriptions.
    channels: BTreeMap<ChannelName, SubscriptionMode>,
}

impl Known {
    /// Minutes that began since the last call.
    fn minutes(&mut self, now: Millis) -> u64 {
        let minutes = now.0.saturating_sub(self.counted_at.0) / MINUTE_MS;
        self.counted_at = self.counted_at + minutes * MINUTE_MS;
        minutes
    }

    fn subscriber(&self, channel: &ChannelName, mode: SubscriptionMode) -> Subscriber {
        Subscriber {
            channel: channel.clone(),
            mode,
            route: self.client.route.clone(),
        }
    }

    fn news(&self, is_new: bool, minutes: u64) -> StatsEvent {
        StatsEvent::Connected(Box::new(ConnectionReport {
            client: self.client.clone(),
            is_new,
            minutes,
        }))
    }
}

/// Clients of one shard, for statistics.
pub(crate) struct Book {
    /// Bound: the shard's connections.
    known: BTreeMap<ConnId, Known>,
    lap: Lap<ConnId>,
    /// News of one turn. Bound: they are taken at the end of each turn.
    news: Vec<StatsEvent>,
}

impl Book {
    /// Creates a book that reports each client again before readers forget it.
    pub(crate) fn new(connection_ttl_ms: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            lap: Lap::new(connection_ttl_ms / 2),
            news: Vec::new(),
        }
    }

    /// A client has sent a request.
    pub(crate) fn opened(&mut self, conn: ConnId, client: ClientInfo, now: Millis) {
        // Minutes are rounded up, so the first one counts at once.
        let known = Known {
            client,
            counted_at: now,
            active_at: now,
            channels: BTreeMap::new(),
        };
        self.closed(conn, now);
        self.news.push(known.news(true, 1));
        self.known.insert(conn, known);
    }

    /// Records the end of a client: its request is answered, or its connection has closed.
    pub(crate) fn closed(&mut self, conn: ConnId, now: Millis) {
        let Some(mut known) = self.known.remove(&conn) else {
            return;
        };
        let minutes = known.minutes(now);
        for (channel, mode) in std::mem::take(&mut known.channels) {
            self.news
                .push(StatsEvent::Left(known.subscriber(&channel, mode)));
        }
        self.news.push(StatsEvent::Gone {
            id: Box::new(known.client.id),
            route: known.client.route,
            minutes,
        });
    }

    /// Records a subscription of a client to a channel.
    pub(crate) fn subscribed(
        &mut self,
        conn: ConnId,
        channel: &ChannelName,
        mode: SubscriptionMode,
    ) {
        let Some(known) = self.known.get_mut(&conn) else {
            return;
        };
        if known.channels.insert(channel.clone(), mode).is_none() {
            let subscriber = known.subscriber(channel, mode);
            self.news.push(StatsEvent::Subscribed(subscriber));
        }
    }

    /// Records the end of a client's subscription.
    pub(crate) fn left(&mut self, conn: ConnId, channel: &ChannelName) {
        let Some(known) = self.known.get_mut(&conn) else {
            return;
        };
        if let Some(mode) = known.channels.remove(channel) {
            self.news
                .push(StatsEvent::Left(known.subscriber(channel, mode)));
        }
    }

    /// Records that a client was sent a keep-alive.
    pub(crate) fn beat(&mut self, conn: ConnId) {
        if let Some(known) = self.known.get(&conn) {
            let route = known.client.route.clone();
            self.news.push(StatsEvent::Active { route });
        }
    }

    /// Records activity of a client: at most one report every [`ACTIVE_MS`].
    pub(crate) fn said(&mut self, conn: ConnId, now: Millis) {
        if let Some(known) = self.known.get_mut(&conn)
            && now >= known.active_at + ACTIVE_MS
        {
            known.active_at = now;
            let route = known.client.route.clone();
            self.news.push(StatsEvent::Active { route });
        }
    }

    /// Takes news about something else than a client.
    pub(crate) fn note(&mut self, news: StatsEvent) {
        self.news.push(news);
    }

    /// When [`Book::step`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        (!self.known.is_empty()).then(|| self.lap.next_at())
    }

    /// Reports some of the open clients again.
    pub(crate) fn step(&mut self, now: Millis) {
        if now < self.lap.next_at() {
            return;
        }
        for conn in self.lap.step(&self.known, now) {
            if let Some(known) = self.known.get_mut(&conn) {
                let minutes = known.minutes(now);
                self.news.push(known.news(false, minutes));
            }
        }
    }

    // ---- clients of another process ----

    /// Appends a client's state.
    pub(crate) fn save(&self, conn: ConnId, out: &mut Vec<u8>) {
        self.known.get(&conn).save(out);
    }

    /// Knows a client again.
    pub(crate) fn load(&mut self, conn: ConnId, from: &mut Saved<'_>) -> Option<()> {
        if let Some(known) = Load::load(from)? {
            self.known.insert(conn, known);
        }
        Some(())
    }

    /// Another process knows it from now on.
    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.known.remove(&conn);
    }

    /// Reports all clients again, for a collector without any.
    pub(crate) fn tell_all(&mut self) {
        for known in self.known.values() {
            self.news.push(known.news(false, 0));
            for (channel, mode) in &known.channels {
                let subscriber = known.subscriber(channel, *mode);
                self.news.push(StatsEvent::Subscribed(subscriber));
            }
        }
    }

    /// Takes the news since the last call.
    pub(crate) fn take(&mut self) -> Vec<StatsEvent> {
        std::mem::take(&mut self.news)
    }
}
