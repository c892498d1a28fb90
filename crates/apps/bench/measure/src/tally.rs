//! Figures of a worker, and how those of several workers are added up.
//!
//! Nothing in them is shared: the controller asks, and gets totals so far and the histograms since
//! it asked before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ConnectFailure, DeliveryCounts, Latency, LostReason, RunCounters, RunningSummary};

/// Most kinds of remarks that are kept; a server that invents a new one each time must not fill the
/// memory.
const REMARKS_MAX: usize = 32;

/// Figures of one worker, or of several: totals so far, and histograms of an interval.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub counters: RunCounters,
    pub deliveries: DeliveryCounts,
    /// Latencies since the last report.
    pub interval: Histograms,
    /// Mean and spread of all latencies, where they are wanted.
    pub running: Option<RunningSummary>,
    pub due_events: u64,
    /// Connections that have begun and are neither usable nor failed.
    pub pending: u64,
    /// Deliveries that are due and have not come, where they were asked for.
    pub behind: u64,
    /// Everything else, which agents send as it is.
    pub sums: Sums,
}

impl Tally {
    pub fn remark(&mut self, observation: String) {
        self.sums.remark(observation, 1);
    }

    pub fn failed(&mut self, reason: ConnectFailure) {
        self.counters.on_connect_failure(reason);
        self.pending = self.pending.saturating_sub(1);
    }

    pub fn lost(&mut self, reason: LostReason) {
        self.counters.on_lost(reason, 1);
    }

    /// Returns everything so far; the interval's histograms begin anew.
    pub fn report(&mut self) -> Self {
        let interval = std::mem::take(&mut self.interval);
        Self {
            interval,
            ..self.clone()
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.deliveries.merge(&other.deliveries);
        self.interval.merge(&other.interval);
        if let Some(running) = &other.running {
            self.running.get_or_insert_default().merge(running);
        }
        add_fields!(self, other: due_events pending behind);
        self.sums.merge(&other.sums);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histograms {
    pub delivery: Latency,
    pub connect: Latency,
    pub lag: Latency,
    /// Lag of messages alone, without that of connects.
    #[serde(default)]
    pub message_lag: Latency,
}

impl Histograms {
    pub fn merge(&mut self, other: &Self) {
        self.delivery.merge(&other.delivery);
        self.connect.merge(&other.connect);
        self.lag.merge(&other.lag);
        self.message_lag.merge(&other.message_lag);
    }

    /// Records how late a message began that was due.
    pub fn begun_late(&mut self, due_us: u64, now_us: u64) {
        self.lag.record_between(due_us, now_us);
        self.message_lag.record_between(due_us, now_us);
    }
}

/// Sums so far that are neither counters nor deliveries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    pub slowly: DeliveryCounts,
    pub dropped: u64,
    /// Times from the drop until each was usable again.
    pub back: Latency,
    pub caught_up: Latency,
    pub with_data: u64,
    pub with_loss: u64,
    pub expecting: u64,
    /// Lines for the report, and how often each is true.
    pub remarks: BTreeMap<String, u64>,
}

impl Sums {
    fn remark(&mut self, observation: String, times: u64) {
        if self.remarks.len() < REMARKS_MAX || self.remarks.contains_key(&observation) {
            *self.remarks.entry(observation).or_default() += times;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.slowly.merge(&other.slowly);
        self.back.merge(&other.back);
        self.caught_up.merge(&other.caught_up);
        add_fields!(self, other: dropped with_data with_loss expecting);
        for (observation, &times) in &other.remarks {
            self.remark(observation.clone(), times);
        }
    }
}

/// State at the end of an interval, and counts of what happened in it (not per second).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// End of the interval, in ms from the run's start.
    pub at_ms: u64,
    pub length_ms: u64,
    pub attempted: u64,
    pub tcp_connected: u64,
    pub upgraded: u64,
    pub subscribed: u64,
    pub alive: u64,
    pub lost: u64,
    pub failed: u64,
    pub published: u64,
    /// Measured messages received in the interval.
    pub received: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    /// Deliveries: 50th, 90th, 99th, 99.9th percentile and maximum in µs; none without data.
    pub latency_us: Option<[u64; 5]>,
    /// Times to be usable (connect, upgrade, subscribe): the same figures.
    pub connect_us: Option<[u64; 5]>,
    pub lag_us: Option<[u64; 5]>,
    /// Busiest thread of the generator, as a share of one CPU.
    pub generator_busy: f64,
    /// Memory of the generator in bytes (PSS), where known.
    pub generator_memory_bytes: Option<u64>,
    pub server: Option<ServerSample>,
}

/// Server at the end of an interval, from its machine or its metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServerSample {
    /// CPU of its processes in the interval, as a share of one CPU.
    pub cpu: Option<f64>,
    /// Memory of its processes in bytes (PSS).
    pub memory_bytes: Option<u64>,
    pub slab_bytes: Option<u64>,
    pub sockets: Option<u64>,
    pub connections: Option<u64>,
}

impl Sample {
    pub fn figures(latency: &Latency) -> Option<[u64; 5]> {
        Some([
            latency.percentile_us(50.0)?,
            latency.percentile_us(90.0)?,
            latency.percentile_us(99.0)?,
            latency.percentile_us(99.9)?,
            latency.max_us()?,
        ])
    }

    /// Converts a count of the interval to a rate per second, rounded down.
    pub fn per_s(&self, count: u64) -> u64 {
        count
            .saturating_mul(1000)
            .checked_div(self.length_ms)
            .unwrap_or(0)
    }
}
