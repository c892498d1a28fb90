//! Numbers that the collector adds up: a channel's subscribers, a route's connections.

use throng_grip::stats::RouteStats;
use throng_types::Millis;

use super::news::RouteId;

/// The subscribers of a channel in one mode, by route.
#[derive(Default)]
pub(crate) struct Subscribers {
    /// Bound: the routes that have an id.
    routes: Vec<(RouteId, u64)>,
    /// Time until which subscribers are reported although the last one has left.
    pub(crate) lingers_until: Option<Millis>,
}

impl Subscribers {
    pub(crate) fn count(&self) -> u64 {
        self.routes.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn routes(&self) -> &[(RouteId, u64)] {
        &self.routes
    }

    pub(crate) fn add(&mut self, route: &RouteId) {
        match self.routes.iter_mut().find(|(known, _)| known == route) {
            Some((_, count)) => *count += 1,
            None => self.routes.push((route.clone(), 1)),
        }
    }

    pub(crate) fn remove(&mut self, route: &RouteId) {
        if let Some((_, count)) = self.routes.iter_mut().find(|(known, _)| known == route) {
            *count = count.saturating_sub(1);
        }
        self.routes.retain(|(_, count)| *count > 0);
    }
}

/// Counts of a route since the last report.
pub(crate) struct Since {
    /// Those that are there now.
    connections: u64,
    report: RouteStats,
    at: Millis,
}

impl Since {
    pub(crate) fn new(now: Millis) -> Self {
        Self {
            connections: 0,
            report: RouteStats::default(),
            at: now,
        }
    }

    pub(crate) fn connected(&mut self) {
        self.connections += 1;
        self.report.connections = self.report.connections.max(self.connections);
    }

    pub(crate) fn gone(&mut self) {
        self.connections = self.connections.saturating_sub(1);
    }

    pub(crate) fn lasted(&mut self, minutes: u64) {
        self.report.minutes += minutes;
    }

    pub(crate) fn received(&mut self) {
        self.report.received += 1;
    }

    pub(crate) fn sent(&mut self, count: u64, is_response: bool) {
        self.report.sent += count;
        if is_response {
            self.report.responses_sent += count;
        }
    }

    /// Returns the report, and whether the route is worth another one. As in Pushpin the last
    /// report of a route that had connections has none.
    pub(crate) fn report(&mut self, now: Millis) -> (RouteStats, bool) {
        let mut report = std::mem::take(&mut self.report);
        report.duration_ms = now.0.saturating_sub(self.at.0);
        self.at = now;
        self.report.connections = self.connections;
        (report, report.connections > 0)
    }
}
