//! Limits of an app, and the counters that they are held against: one set for all shards of a node.
//!
//! Owns the counting. Never: answers or closes; the caller does.
//!
//! Invariant: `connections` is the number of sessions that hold the app's place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use throng_broker::Draft;
use throng_metrics::AppMetric;
use throng_session::SharedDebt;
use throng_types::{ChannelName, Now};

use crate::held::Held;

/// Bounds of an app; 0 is no bound. Those of connections and rates hold for all nodes together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AppLimits {
    pub connections_max: u64,
    /// Events of back ends a second, each counted once for each of its channels.
    pub publications_per_s: u64,
    /// Events a second of all clients together.
    pub client_events_per_s: u64,
    /// Bytes of events a second: so many for back ends, and so many for clients.
    pub bytes_per_s: u64,
    /// Calls of back ends a second that ask and change nothing (`GET`).
    pub reads_per_s: u64,
    /// Channels with subscribers on this node, but for those of one user.
    pub channels_max: u64,
    /// Names and newest events of cache channels that came through this node.
    pub history_bytes_max: u64,
}

/// Number of rates that an app has.
pub(crate) const RATES: usize = 5;

/// Origin of an event. Each has a rate of its own, so that clients take nothing from back ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventSource {
    BackEnd,
    Client,
}

/// Limit of an app that refused something, and seconds after which to try again.
pub(crate) type Over = (AppMetric, u64);

/// Counters of one app on one node, which all its shards change.
#[derive(Debug, Default)]
pub struct AppUse {
    connections: AtomicU64,
    /// Connections on other nodes, as far as they are known.
    pub(crate) elsewhere: AtomicU64,
    /// Rates of events and of bytes by [`EventSource`], and that of questions.
    pub(crate) rates: [SharedDebt; RATES],
    pub(crate) held: Held,
    counts: [AtomicU64; AppMetric::COUNT],
}

impl AppUse {
    /// Counts a connection; false, and it is not counted, if the app has as many as it may have.
    pub(crate) fn enter(&self, limits: &AppLimits) -> bool {
        let most = limits.connections_max;
        let elsewhere = self.elsewhere.load(Relaxed);
        let has_place = |here: u64| most == 0 || here.saturating_add(elsewhere) < most;
        let count = |here| has_place(here).then_some(here + 1);
        let has_room = { &self.connections }
            .fetch_update(Relaxed, Relaxed, count)
            .is_ok();
        if !has_room {
            self.count(AppMetric::RefusedConnections, 1);
        }
        has_room
    }

    /// Counts a connection that another process has let in.
    pub(crate) fn take_over(&self) {
        self.connections.fetch_add(1, Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Relaxed);
    }

    /// Counts a subscription; false, and it is not counted, if the app has as many channels as it
    /// may have.
    pub(crate) fn enter_channel(&self, channel: &ChannelName, limits: &AppLimits) -> bool {
        let has_room = self.held.enter(channel, limits.channels_max);
        if !has_room {
            self.count(AppMetric::RefusedChannels, 1);
        }
        has_room
    }

    /// Charges an event for each of so many channels, with so many bytes in all; `kept` are those
    /// that caches keep. Nothing is charged for what is refused.
    pub(crate) fn publish(
        &self,
        from: EventSource,
        (channels, bytes): (usize, usize),
        kept: &[Draft],
        limits: &AppLimits,
        now: Now,
    ) -> Result<(), Over> {
        let (channels, bytes) = (channels as u64, bytes as u64);
        let [events, volume] = [0, BYTES].map(|first| &self.rates[first + from as usize]);
        let over = |metric| move |wait_s| self.refuse(metric, wait_s);
        let per_s = match from {
            EventSource::BackEnd => limits.publications_per_s,
            EventSource::Client => limits.client_events_per_s,
        };
        let charged = charge(events, channels, per_s, now);
        let charged = charged.map_err(over(AppMetric::RefusedPublications))?;
        let more = charge(volume, bytes, limits.bytes_per_s, now);
        let more = more.map_err(|wait_s| {
            events.give_back(charged);
            self.refuse(AppMetric::RefusedBytes, wait_s)
        })?;
        let most = limits.history_bytes_max;
        if most > 0
            && let Err(wait_s) = self.held.keep(kept, most, now.mono)
        {
            events.give_back(charged);
            volume.give_back(more);
            return Err(self.refuse(AppMetric::RefusedHistory, wait_s));
        }
        events.count(charged);
        volume.count(more);
        self.count(AppMetric::Publications, channels);
        self.count(AppMetric::PublicationBytes, bytes);
        Ok(())
    }

    /// Charges a question of a back end.
    pub(crate) fn read(&self, limits: &AppLimits, now: Now) -> Result<(), Over> {
        let charged = charge(&self.rates[READS], 1, limits.reads_per_s, now);
        charged
            .map(|charged| self.rates[READS].count(charged))
            .map_err(|wait_s| self.refuse(AppMetric::RefusedReads, wait_s))
    }

    fn refuse(&self, metric: AppMetric, wait_s: u64) -> Over {
        self.count(metric, 1);
        (metric, wait_s)
    }

    fn count(&self, metric: AppMetric, by: u64) {
        self.counts[metric as usize].fetch_add(by, Relaxed);
    }

    /// Number of connections on this node now.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Values of all metrics, in their order.
    pub fn values(&self) -> [u64; AppMetric::COUNT] {
        std::array::from_fn(|at| match AppMetric::ALL[at] {
            AppMetric::Connections => self.connections(),
            _ => self.counts[at].load(Relaxed),
        })
    }
}

/// Places of rates: of bytes of back ends, and of questions.
const BYTES: usize = 2;
const READS: usize = 4;

/// Charges so many units at so many a second, 0 for no bound. Up to a second of debt is allowed; a
/// caller without debt may exceed it once, and is refused until the debt is paid. Returns the debt
/// added; error: seconds after which the same may be done.
fn charge(rate: &SharedDebt, units: u64, per_s: u64, now: Now) -> Result<u64, u64> {
    if per_s == 0 {
        return Ok(0);
    }
    let cost_us = (units.saturating_mul(1_000_000) / per_s).min(SharedDebt::CHARGE_US_MAX);
    // At the latest once nothing is owed any more.
    let wait_us = |owed_us: u64| (owed_us + cost_us).saturating_sub(1_000_000).min(owed_us);
    match rate.charge(cost_us, now.mono, |owed_us| wait_us(owed_us) == 0) {
        Ok(()) => Ok(cost_us),
        Err(owed_us) => Err(wait_us(owed_us).div_ceil(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use throng_types::Millis;

    use super::*;

    fn at(ms: u64) -> Now {
        Now {
            mono: Millis(ms),
            ..Now::default()
        }
    }

    #[test]
    fn a_rate_holds_over_time_and_lets_a_large_call_through_once() {
        let rate = SharedDebt::default();
        let mut taken = 0;
        for ms in 0..10_000 {
            taken += u64::from(charge(&rate, 1, 50, at(ms)).is_ok());
        }
        assert_eq!(taken, 50 + 499);
        // Later nothing is owed: ten seconds' worth at once, and then a pause of ten.
        assert!(charge(&rate, 500, 50, at(20_000)).is_ok());
        assert_eq!(charge(&rate, 1, 50, at(20_000)), Err(10));
        assert_eq!(charge(&rate, 1, 50, at(28_000)), Err(2));
        assert!(charge(&rate, 1, 50, at(29_100)).is_ok());
        // A bound that was lifted holds nobody.
        assert_eq!(charge(&rate, u64::MAX, 0, at(29_100)), Ok(0));
    }

    #[test]
    fn what_is_refused_for_its_bytes_costs_no_publication() {
        let (used, limits) = (
            AppUse::default(),
            AppLimits {
                connections_max: 1,
                publications_per_s: 10,
                client_events_per_s: 10,
                bytes_per_s: 100,
                reads_per_s: 1,
                ..AppLimits::default()
            },
        );
        let over_events = Err((AppMetric::RefusedPublications, 1));
        let over_bytes = Err((AppMetric::RefusedBytes, 1));
        let publish = |from, bytes| used.publish(from, (10, bytes), &[], &limits, at(5));
        assert_eq!(publish(EventSource::BackEnd, 100), Ok(()));
        assert_eq!(publish(EventSource::BackEnd, 1), over_events);
        assert_eq!(
            publish(EventSource::Client, 100),
            Ok(()),
            "clients have their own"
        );
        assert_eq!(used.read(&limits, at(5)), Ok(()));
        assert_eq!(used.read(&limits, at(5)), Err((AppMetric::RefusedReads, 1)));
        assert!(used.enter(&limits));
        assert!(!used.enter(&limits));
        used.leave();
        assert!(used.enter(&limits));
        let of = |metric: AppMetric| used.values()[metric as usize];
        let counted = AppMetric::ALL.iter().map(|&metric| of(metric));
        assert_eq!(counted.collect::<Vec<_>>(), [1, 20, 200, 1, 1, 0, 1, 0, 0]);
        let other = AppUse::default();
        assert_eq!(
            other.publish(EventSource::Client, (1, 101), &[], &limits, at(5)),
            Ok(())
        );
        assert_eq!(
            other.publish(EventSource::Client, (1, 1), &[], &limits, at(5)),
            over_bytes
        );
        assert_eq!(
            other.publish(EventSource::Client, (8, 0), &[], &limits, at(1_100)),
            Ok(())
        );
    }
}
