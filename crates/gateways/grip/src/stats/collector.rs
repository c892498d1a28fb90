//! Sum of all shards' news, made into packets. One value, on the first shard.
//!
//! Owns: subscribers of channels, reports of routes, changes not yet sent. Never: knows the readers
//! of packets.
//!
//! Invariants
//! - A channel is in `subscribers` while it has some, or lingers.
//! - It is in `lingering` exactly while it lingers.

use std::collections::{BTreeMap, BTreeSet};

use throng_grip::stats::{RouteStats, StatsPacket, SubscriptionMode};
use throng_types::{ChannelName, Millis};

use super::lap::{Lap, STEP_MS};
use super::{ConnectionReport, RouteId, StatsEvent, StatsOptions, Subscriber, Transports, bit};
use crate::forms::own_name;

/// Channels that linger; beyond that the first ones stop early. Bound of `lingering`.
const LINGERING_MAX: usize = 65_536;
/// Milliseconds between two looks for channels whose number of subscribers has changed.
const CHANGED_MS: u64 = 1000;

type Key = (ChannelName, SubscriptionMode);

/// Sum of the statistics of all shards.
pub(crate) struct Collector {
    options: StatsOptions,
    from: String,
    /// Whether anybody reads packets; else none are made.
    pub(crate) is_read: bool,
    /// Bound: subscriptions, and `lingering`.
    subscribers: BTreeMap<Key, Subscribers>,
    lap: Lap<Key>,
    /// Bound: subscriptions that ended within their time.
    lingering: BTreeSet<(Millis, Key)>,
    /// Channels whose number has changed. Bound: as for `subscribers`.
    changed: BTreeSet<Key>,
    changed_at: Millis,
    /// Bound: the routes that have an id.
    routes: BTreeMap<RouteId, Since>,
    report_at: Millis,
    /// Bound: as for `routes`.
    activity: BTreeMap<RouteId, u64>,
    requests: u64,
    /// Packets of one turn. Bound: they are taken at its end.
    out: Vec<Vec<u8>>,
}

impl Collector {
    /// Creates the collector of the server named `from`.
    pub(crate) fn new(options: StatsOptions, from: String, now: Millis) -> Self {
        Self {
            from,
            is_read: false,
            subscribers: BTreeMap::new(),
            lap: Lap::new(options.subscription_ttl_ms / 2),
            lingering: BTreeSet::new(),
            changed: BTreeSet::new(),
            changed_at: now + CHANGED_MS,
            routes: BTreeMap::new(),
            report_at: now + options.report_interval_ms,
            activity: BTreeMap::new(),
            requests: 0,
            out: Vec::new(),
            options,
        }
    }

    fn push(&mut self, packet: &StatsPacket<'_>, route: &str) {
        if self.is_read {
            let packet = packet.encode(&self.from, route, self.options.format);
            self.out.push(packet);
        }
    }

    fn route(&mut self, route: &RouteId, now: Millis) -> &mut Since {
        let since = self.routes.entry(route.clone());
        since.or_insert_with(|| Since {
            connections: 0,
            report: RouteStats::default(),
            at: now,
        })
    }

    pub(crate) fn add(&mut self, news: StatsEvent, now: Millis) {
        match news {
            StatsEvent::Connected(connected) => self.connected(&connected, now),
            StatsEvent::Gone { id, route, minutes } => {
                let since = self.route(&route, now);
                since.report.minutes += minutes;
                since.connections = since.connections.saturating_sub(1);
                if self.options.sends_connections {
                    let id = id.as_str();
                    self.push(&StatsPacket::Disconnected { id }, &route);
                }
            }
            StatsEvent::Active { route } => *self.activity.entry(route).or_default() += 1,
            StatsEvent::Subscribed(subscriber) => self.subscribed(subscriber),
            StatsEvent::Left(subscriber) => self.left(subscriber, now),
            StatsEvent::Published {
                channel,
                id,
                transports,
            } => self.published(&channel, id.as_deref(), transports, now),
        }
    }

    fn connected(&mut self, connected: &ConnectionReport, now: Millis) {
        let client = &connected.client;
        let since = self.route(&client.route, now);
        since.report.minutes += connected.minutes;
        if connected.is_new {
            since.connected();
            self.requests += 1;
            *self.activity.entry(client.route.clone()).or_default() += 1;
        }
        if self.options.sends_connections {
            let packet = StatsPacket::Connected {
                id: client.id.as_str(),
                is_websocket: client.is_websocket,
                peer: client.peer,
                is_tls: client.is_tls,
                ttl_s: self.options.connection_ttl_ms / 1000,
            };
            self.push(&packet, &client.route);
        }
    }

    fn subscribed(&mut self, subscriber: Subscriber) {
        let key = (subscriber.channel, subscriber.mode);
        let known = self.subscribers.entry(key.clone()).or_default();
        let is_first = known.count() == 0;
        known.add(&subscriber.route);
        if let Some(until) = known.lingers_until.take() {
            self.lingering.remove(&(until, key.clone()));
        }
        match is_first {
            true => self.tell_subscribers(&key),
            false => _ = self.changed.insert(key),
        }
    }

    fn left(&mut self, subscriber: Subscriber, now: Millis) {
        let key = (subscriber.channel, subscriber.mode);
        let Some(known) = self.subscribers.get_mut(&key) else {
            return;
        };
        known.remove(&subscriber.route);
        if known.count() > 0 {
            self.changed.insert(key);
        } else if key.1 == SubscriptionMode::Response {
            let until = now + self.options.linger_ms;
            known.lingers_until = Some(until);
            self.changed.remove(&key);
            self.lingering.insert((until, key));
            if self.lingering.len() > LINGERING_MAX
                && let Some((_, first)) = self.lingering.pop_first()
            {
                self.forget(&first);
            }
        } else {
            self.forget(&key);
        }
    }

    /// A channel has no subscribers any more.
    fn forget(&mut self, key: &Key) {
        self.subscribers.remove(key);
        self.changed.remove(key);
        let packet = StatsPacket::Unsubscribed {
            mode: key.1,
            channel: own_name(&key.0),
        };
        self.push(&packet, "");
    }

    fn tell_subscribers(&mut self, key: &Key) {
        let Some(known) = self.subscribers.get(key) else {
            return;
        };
        // A lingering one may come back, and is not reported until then.
        if known.lingers_until.is_some() {
            return;
        }
        let packet = StatsPacket::Subscribed {
            mode: key.1,
            channel: own_name(&key.0),
            ttl_s: self.options.subscription_ttl_ms / 1000,
            subscribers: known.count(),
        };
        self.push(&packet, "");
    }

    fn published(
        &mut self,
        channel: &ChannelName,
        item_id: Option<&str>,
        transports: Transports,
        now: Millis,
    ) {
        self.route(&RouteId::default(), now).report.received += 1;
        for mode in SubscriptionMode::ALL {
            if transports & bit(mode) == 0 {
                continue;
            }
            let Some(known) = self.subscribers.get(&(channel.clone(), mode)) else {
                continue;
            };
            let count = known.count();
            if count == 0 {
                continue;
            }
            for (route, count) in known.routes.clone() {
                let report = &mut self.route(&route, now).report;
                report.sent += count;
                if mode == SubscriptionMode::Response {
                    report.responses_sent += count;
                }
            }
            let packet = StatsPacket::Message {
                channel: own_name(channel),
                item_id,
                count,
                mode,
            };
            self.push(&packet, "");
        }
    }

    /// When [`Collector::step`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let is_idle = self.subscribers.is_empty()
            && self.activity.is_empty()
            && self.routes.is_empty()
            && self.requests == 0;
        (!is_idle).then(|| self.lap.next_at())
    }

    /// Sends due packets; does nothing before a step is over.
    pub(crate) fn step(&mut self, now: Millis) {
        if now < self.lap.next_at() {
            return;
        }
        for (route, count) in std::mem::take(&mut self.activity) {
            self.push(&StatsPacket::Activity { count }, &route);
        }
        let requests = std::mem::take(&mut self.requests);
        if requests > 0 {
            self.push(&StatsPacket::Counts { requests }, "");
        }
        while let Some((until, _)) = self.lingering.first()
            && *until <= now
            && let Some((_, key)) = self.lingering.pop_first()
        {
            self.forget(&key);
        }
        let mut due: BTreeSet<Key> = self.lap.step(&self.subscribers, now).into_iter().collect();
        if now >= self.changed_at {
            self.changed_at = now + CHANGED_MS;
            due.append(&mut self.changed);
        }
        for key in due {
            self.tell_subscribers(&key);
        }
        if self.options.report_interval_ms > 0 && now >= self.report_at {
            self.report_at = now + self.options.report_interval_ms;
            self.report(now);
        }
    }

    fn report(&mut self, now: Millis) {
        for (route, mut since) in std::mem::take(&mut self.routes) {
            let (report, goes_on) = since.report(now);
            self.push(&StatsPacket::Report(report), &route);
            if goes_on {
                self.routes.insert(route, since);
            }
        }
    }

    /// The packets that were made since the last call.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }
}

/// The subscribers of a channel in one mode, by route.
#[derive(Default)]
struct Subscribers {
    /// Bound: the routes that have an id.
    routes: Vec<(RouteId, u64)>,
    /// Time until which subscribers are reported although the last one has left.
    lingers_until: Option<Millis>,
}

impl Subscribers {
    fn count(&self) -> u64 {
        self.routes.iter().map(|(_, count)| count).sum()
    }

    fn add(&mut self, route: &RouteId) {
        match self.routes.iter_mut().find(|(known, _)| known == route) {
            Some((_, count)) => *count += 1,
            None => self.routes.push((route.clone(), 1)),
        }
    }

    fn remove(&mut self, route: &RouteId) {
        if let Some((_, count)) = self.routes.iter_mut().find(|(known, _)| known == route) {
            *count = count.saturating_sub(1);
        }
        self.routes.retain(|(_, count)| *count > 0);
    }
}

/// Counts of a route since the last report.
struct Since {
    connections: u64,
    report: RouteStats,
    at: Millis,
}

impl Since {
    fn connected(&mut self) {
        self.connections += 1;
        self.report.connections = self.report.connections.max(self.connections);
    }

    /// Returns the report, and whether the route is worth another one. As in Pushpin the last
    /// report of a route that had connections has none.
    fn report(&mut self, now: Millis) -> (RouteStats, bool) {
        let mut report = std::mem::take(&mut self.report);
        report.duration_ms = now.0.saturating_sub(self.at.0);
        self.at = now;
        self.report.connections = self.connections;
        (report, report.connections > 0)
    }
}

const _: () = assert!(STEP_MS < CHANGED_MS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forms::hub_channel;

    #[test]
    fn channels_that_linger_are_bounded() {
        let options = StatsOptions {
            format: throng_grip::stats::StatsFormat::Json,
            report_interval_ms: 0,
            sends_connections: false,
            connection_ttl_ms: 120_000,
            subscription_ttl_ms: 60_000,
            linger_ms: 60_000,
        };
        let mut collector = Collector::new(options, "me".to_owned(), Millis(0));
        collector.is_read = true;
        for number in 0..=LINGERING_MAX {
            let channel = hub_channel("", &number.to_string()).expect("a name");
            let subscriber = Subscriber {
                channel,
                mode: SubscriptionMode::Response,
                route: RouteId::default(),
            };
            collector.subscribed(subscriber.clone());
            collector.left(subscriber, Millis(1));
        }
        assert_eq!(collector.lingering.len(), LINGERING_MAX);
        assert_eq!(collector.subscribers.len(), LINGERING_MAX);
        let last = collector.take().pop().expect("an end");
        assert!(String::from_utf8_lossy(&last).contains("unavailable"));
        collector.step(Millis(60_001));
        assert!(collector.subscribers.is_empty() && collector.lingering.is_empty());
        assert!(collector.changed.is_empty());
    }
}
