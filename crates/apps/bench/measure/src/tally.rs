//! What a worker counts, and how it tells.
//!
//! Owns: figures, and how those of several workers are added up. Nothing in them is shared: the
//! controller asks, and gets totals so far and the histograms since it asked before.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::as_base64;
use crate::{ConnectFailure, Counters, DeliveryCounts, Latency, LostReason, Running};

/// Kinds of remarks that are kept; a server that invents a new one each time must not fill the
/// memory.
const REMARKS_MAX: usize = 32;

/// Figures of one worker, or of several: totals so far, and histograms of an interval.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Connections and publications.
    pub counters: Counters,
    /// What came to connections that read as fast as they can.
    pub deliveries: DeliveryCounts,
    /// Latencies of deliveries, of the interval.
    pub delivery: Latency,
    /// Times until connections were usable, of the interval.
    pub connect: Latency,
    /// How late the generator began its events, of the interval.
    pub lag: Latency,
    /// All latencies with their mean and spread, where somebody wants to see them.
    pub running: Option<Running>,
    /// Events that were due.
    pub due_events: u64,
    /// Connections that have begun and are neither usable nor failed.
    pub pending: u64,
    /// Deliveries that are due and have not come, where somebody asked for them.
    pub behind: u64,
    /// Everything else, which agents send as it is.
    pub sums: Sums,
}

impl Tally {
    /// Counts something that is worth a line in the report.
    pub fn remark(&mut self, what: String) {
        self.sums.remark(what, 1);
    }

    /// A connection never became usable.
    pub fn failed(&mut self, reason: ConnectFailure) {
        self.counters.on_connect_failure(reason);
        self.pending = self.pending.saturating_sub(1);
    }

    /// A connection that had been usable is gone.
    pub fn lost(&mut self, reason: LostReason) {
        self.counters.on_lost(reason, 1);
    }

    /// Everything so far; the interval's histograms begin anew.
    pub fn so_far(&mut self) -> Self {
        let interval = self.take_interval();
        Self {
            delivery: interval.delivery,
            connect: interval.connect,
            lag: interval.lag,
            ..self.clone()
        }
    }

    /// Takes the interval's histograms out; totals stay.
    pub fn take_interval(&mut self) -> Histograms {
        Histograms {
            delivery: std::mem::take(&mut self.delivery),
            connect: std::mem::take(&mut self.connect),
            lag: std::mem::take(&mut self.lag),
        }
    }

    /// Adds an interval's histograms.
    pub fn add_interval(&mut self, interval: &Histograms) {
        self.delivery.merge(&interval.delivery);
        self.connect.merge(&interval.connect);
        self.lag.merge(&interval.lag);
    }

    /// Adds another worker's figures.
    pub fn merge(&mut self, other: &Self) {
        self.counters.merge(&other.counters);
        self.deliveries.merge(&other.deliveries);
        self.delivery.merge(&other.delivery);
        self.connect.merge(&other.connect);
        self.lag.merge(&other.lag);
        if let Some(running) = &other.running {
            self.running.get_or_insert_default().merge(running);
        }
        self.due_events += other.due_events;
        self.pending += other.pending;
        self.behind += other.behind;
        self.sums.merge(&other.sums);
    }
}

/// Histograms since somebody asked before.
#[derive(Clone, Debug, Default)]
pub struct Histograms {
    /// Latencies of deliveries, of the interval.
    pub delivery: Latency,
    /// Times until connections were usable, of the interval.
    pub connect: Latency,
    /// How late the generator began its events, of the interval.
    pub lag: Latency,
}

/// Sums so far that are neither counters nor deliveries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// Deliveries to connections that read slowly by plan.
    pub slowly: DeliveryCounts,
    /// Connections that a storm dropped.
    pub dropped: u64,
    /// From the drop until each was usable again.
    #[serde(with = "as_base64")]
    pub back: Latency,
    /// From the drop until each had what it had missed.
    #[serde(with = "as_base64")]
    pub caught_up: Latency,
    /// Connections to which something came.
    pub with_data: u64,
    /// Connections that missed something.
    pub with_loss: u64,
    /// Connections to which something is due.
    pub expecting: u64,
    /// Lines for the report, and how often each is true.
    pub remarks: BTreeMap<String, u64>,
}

impl Sums {
    fn remark(&mut self, what: String, times: u64) {
        if self.remarks.len() < REMARKS_MAX || self.remarks.contains_key(&what) {
            *self.remarks.entry(what).or_default() += times;
        }
    }

    /// Adds those of another worker or of another machine.
    pub fn merge(&mut self, other: &Self) {
        self.slowly.merge(&other.slowly);
        self.back.merge(&other.back);
        self.caught_up.merge(&other.caught_up);
        self.dropped += other.dropped;
        self.with_data += other.with_data;
        self.with_loss += other.with_loss;
        self.expecting += other.expecting;
        for (what, &times) in &other.remarks {
            self.remark(what.clone(), times);
        }
    }
}

impl PartialEq for Sums {
    fn eq(&self, other: &Self) -> bool {
        let counts = |sums: &Self| {
            let Self {
                slowly,
                dropped,
                with_data,
                with_loss,
                expecting,
                ..
            } = *sums;
            (slowly, dropped, with_data, with_loss, expecting)
        };
        counts(self) == counts(other)
            && self.remarks == other.remarks
            && self.back.summary() == other.back.summary()
            && self.caught_up.summary() == other.caught_up.summary()
    }
}
