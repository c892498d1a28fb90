//! What a worker counts, and how it tells.
//!
//! Owns: a worker's own figures. Nothing in it is shared: the controller asks, and gets totals so far and the
//! histograms since it asked before.

use std::collections::BTreeMap;

use crate::measure::{ConnectFailure, Counters, DeliveryCounts, Latency, LostReason, Running};

/// Kinds of remarks that are kept; a server that invents a new one each time must not fill the memory.
const REMARKS_MAX: usize = 32;

/// See the module's head.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) counters: Counters,
    pub(crate) deliveries: DeliveryCounts,
    pub(crate) delivery: Latency,
    pub(crate) connect: Latency,
    pub(crate) lag: Latency,
    /// All latencies with their mean and spread, where somebody wants to see them.
    pub(crate) running: Option<Running>,
    pub(crate) due_events: u64,
    /// Connections that have begun and are neither usable nor failed.
    pub(crate) pending: u64,
    /// From the drop of a storm until each connection was usable again.
    pub(crate) back: Latency,
    pub(crate) dropped: u64,
    pub(crate) with_data: u64,
    pub(crate) with_loss: u64,
    pub(crate) expecting: u64,
    remarks: BTreeMap<String, u64>,
}

impl Tally {
    /// Counts something that is worth a line in the report.
    pub(crate) fn remark(&mut self, what: String) {
        if self.remarks.len() < REMARKS_MAX || self.remarks.contains_key(&what) {
            *self.remarks.entry(what).or_default() += 1;
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

    /// Everything so far; histograms begin anew.
    pub(crate) fn report(&mut self, worker: usize, arrivals_done: bool, busy: f64) -> Report {
        Report {
            worker,
            counters: self.counters.clone(),
            deliveries: self.deliveries,
            delivery: std::mem::take(&mut self.delivery),
            connect: std::mem::take(&mut self.connect),
            lag: std::mem::take(&mut self.lag),
            running: self.running,
            due_events: self.due_events,
            pending: self.pending,
            arrivals_done,
            busy,
            back: self.back.clone(),
            dropped: self.dropped,
            with_data: self.with_data,
            with_loss: self.with_loss,
            expecting: self.expecting,
            remarks: self.remarks.clone(),
            last: false,
        }
    }
}

/// What a worker tells the controller: totals so far, and histograms since its last report.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) worker: usize,
    pub(crate) counters: Counters,
    pub(crate) deliveries: DeliveryCounts,
    pub(crate) delivery: Latency,
    pub(crate) connect: Latency,
    pub(crate) lag: Latency,
    pub(crate) running: Option<Running>,
    pub(crate) due_events: u64,
    pub(crate) pending: u64,
    pub(crate) arrivals_done: bool,
    /// CPU since the last report, as a share of one.
    pub(crate) busy: f64,
    pub(crate) back: Latency,
    pub(crate) dropped: u64,
    pub(crate) with_data: u64,
    pub(crate) with_loss: u64,
    pub(crate) expecting: u64,
    pub(crate) remarks: BTreeMap<String, u64>,
    /// The worker has ended.
    pub(crate) last: bool,
}
