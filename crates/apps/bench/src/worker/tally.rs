//! What a worker counts, and how it tells.
//!
//! Owns: figures, and how those of several workers are added up. Nothing in them is shared: the
//! controller asks, and gets totals so far and the histograms since it asked before.

use std::collections::BTreeMap;

use crate::agents::Sums;
use crate::measure::{ConnectFailure, Counters, DeliveryCounts, Latency, LostReason, Running};

/// Kinds of remarks that are kept; a server that invents a new one each time must not fill the
/// memory.
const REMARKS_MAX: usize = 32;

/// Figures of one worker, or of several: totals so far, and histograms of an interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counters: Counters,
    pub(crate) deliveries: DeliveryCounts,
    /// What came to connections that read slowly by plan; it is not among the others.
    pub(crate) slowly: DeliveryCounts,
    pub(crate) delivery: Latency,
    pub(crate) connect: Latency,
    pub(crate) lag: Latency,
    /// All latencies with their mean and spread, where somebody wants to see them.
    pub(crate) running: Option<Running>,
    pub(crate) due_events: u64,
    /// Connections that have begun and are neither usable nor failed.
    pub(crate) pending: u64,
    /// Deliveries that are due and have not come, where somebody asked for them.
    pub(crate) behind: u64,
    /// From the drop of a storm until each connection was usable again.
    pub(crate) back: Latency,
    /// From there until each connection had what it had missed.
    pub(crate) caught_up: Latency,
    pub(crate) dropped: u64,
    pub(crate) with_data: u64,
    pub(crate) with_loss: u64,
    pub(crate) expecting: u64,
    pub(crate) remarks: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts something that is worth a line in the report.
    pub(crate) fn remark(&mut self, what: String) {
        self.remark_times(what, 1);
    }

    fn remark_times(&mut self, what: String, times: u64) {
        if self.remarks.len() < REMARKS_MAX || self.remarks.contains_key(&what) {
            *self.remarks.entry(what).or_default() += times;
        }
    }

    /// A connection never became usable.
    pub(crate) fn failed(&mut self, reason: ConnectFailure) {
        self.counters.on_connect_failure(reason);
        self.pending = self.pending.saturating_sub(1);
    }

    /// A connection that had been usable is gone.
    pub(crate) fn lost(&mut self, reason: LostReason) {
        self.counters.on_lost(reason, 1);
    }

    /// Everything so far; the interval's histograms begin anew.
    pub(crate) fn so_far(&mut self) -> Self {
        let interval = self.take_interval();
        Self {
            delivery: interval.delivery,
            connect: interval.connect,
            lag: interval.lag,
            ..self.clone()
        }
    }

    /// Takes the interval's histograms out; totals stay.
    pub(crate) fn take_interval(&mut self) -> Histograms {
        Histograms {
            delivery: std::mem::take(&mut self.delivery),
            connect: std::mem::take(&mut self.connect),
            lag: std::mem::take(&mut self.lag),
        }
    }

    /// Adds an interval's histograms.
    pub(crate) fn add_interval(&mut self, interval: &Histograms) {
        self.delivery.merge(&interval.delivery);
        self.connect.merge(&interval.connect);
        self.lag.merge(&interval.lag);
    }

    /// What another machine is told besides counters, deliveries and histograms of an interval.
    pub(crate) fn sums(&self) -> Sums {
        Sums {
            slowly: self.slowly,
            dropped: self.dropped,
            back: self.back.clone(),
            caught_up: self.caught_up.clone(),
            with_data: self.with_data,
            with_loss: self.with_loss,
            expecting: self.expecting,
            remarks: self.remarks.clone(),
        }
    }

    /// Adds what another machine told.
    pub(crate) fn add_sums(&mut self, sums: &Sums) {
        self.slowly.merge(&sums.slowly);
        self.back.merge(&sums.back);
        self.caught_up.merge(&sums.caught_up);
        self.dropped += sums.dropped;
        self.with_data += sums.with_data;
        self.with_loss += sums.with_loss;
        self.expecting += sums.expecting;
        for (what, &times) in &sums.remarks {
            self.remark_times(what.clone(), times);
        }
    }

    /// Adds another worker's figures.
    pub(crate) fn merge(&mut self, other: &Self) {
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
        self.add_sums(&other.sums());
    }
}

/// Histograms since somebody asked before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histograms {
    pub(crate) delivery: Latency,
    pub(crate) connect: Latency,
    pub(crate) lag: Latency,
}

/// What a worker tells the controller.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) worker: usize,
    pub(crate) tally: Tally,
    pub(crate) arrivals_done: bool,
    /// CPU since the last report, as a share of one.
    pub(crate) busy: f64,
    /// The worker has ended.
    pub(crate) last: bool,
}
