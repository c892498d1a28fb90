//! From figures to results: intervals become rows and totals, totals become a report.
//!
//! Owns: the rows, the merged histograms, the log, the verdict. It takes intervals from wherever
//! they come, this machine's workers or other machines.

use std::sync::Arc;

use super::finished::Finished;
use super::machine;
use super::options::RunOptions;
use throng_bench_measure::Tally;
use throng_bench_measure::{
    DeliveryCounts, GeneratorHealth, GeneratorLimits, Latency, LogWriter, Sample, ServerSample,
};
use throng_bench_plan::{Kind, Redactor, Scenario};
use throng_bench_report::{
    AgentSummary, Machine, Manifest, Results, SCHEMA, ServerTotals, StepResult, Totals,
};
use throng_bench_report::{Observer, Phase, Snapshot};
use throng_bench_worker::Interval;
use throng_sys::clock;

/// Memory before connections, and again when all stood.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Footprint {
    pub(crate) generator_bytes: Option<u64>,
    pub(crate) server: Option<ServerSample>,
    pub(crate) alive: u64,
}

/// The figures of a run while it goes on, and what makes results of them.
pub(crate) struct Collector {
    redactor: Redactor,
    /// The scenario, the title and the command line, without secrets: what is shown and kept.
    shown: Scenario,
    title: String,
    command: Vec<String>,
    started_unix_ms: u64,
    /// Histograms since the last row.
    since: Interval,
    /// Totals so far.
    pub(crate) latest: Interval,
    pub(crate) delivery: Latency,
    pub(crate) connect: Latency,
    health: GeneratorHealth,
    limits: GeneratorLimits,
    pub(crate) series: Vec<Sample>,
    log: LogWriter,
    row_at_ms: u64,
    pub(crate) before: Footprint,
    pub(crate) standing: Option<Footprint>,
    pub(crate) measured_ms: (u64, u64),
    pub(crate) steps: Vec<StepResult>,
    pub(crate) notes: Vec<String>,
    pub(crate) agents: Vec<AgentSummary>,
    pub(crate) machines: Vec<Machine>,
    server_name: Option<String>,
}

/// This process's own memory.
pub(crate) fn own_memory() -> Option<u64> {
    let memory = throng_sys::memory::process(None).ok()?;
    Some(memory.pss_bytes)
}

impl Collector {
    pub(crate) fn new(
        scenario: &Scenario,
        options: &RunOptions,
        server_name: Option<String>,
    ) -> Self {
        let started_unix_ms = clock::unix_ms();
        let redactor = Redactor::new(scenario, &options.command);
        let title = options.title.as_ref().unwrap_or(&scenario.name);
        Self {
            shown: redactor.scenario(scenario),
            title: redactor.text(title),
            command: redactor.command(&options.command),
            redactor,
            started_unix_ms,
            since: Interval::default(),
            latest: Interval::default(),
            delivery: Latency::new(),
            connect: Latency::new(),
            health: GeneratorHealth::default(),
            limits: GeneratorLimits {
                lag_share_max: options.lag_share_max,
                ..GeneratorLimits::default()
            },
            series: Vec::new(),
            log: LogWriter::new(started_unix_ms),
            row_at_ms: 0,
            before: Footprint::default(),
            standing: None,
            measured_ms: (0, 0),
            steps: Vec::new(),
            notes: options.notes.clone(),
            agents: Vec::new(),
            machines: vec![machine::describe("controller")],
            server_name,
        }
    }

    /// Takes figures as they come: totals so far, and histograms since the ones before.
    pub(crate) fn take(&mut self, interval: Interval) {
        self.take_histograms(
            &interval.tally.delivery,
            &interval.tally.connect,
            &interval.tally.lag,
            None,
        );
        self.since.busy.extend(&interval.busy);
        self.latest = interval;
    }

    /// Takes totals alone.
    pub(crate) fn take_totals(&mut self, totals: Tally) {
        self.latest.tally = totals;
    }

    /// Takes histograms alone, and how busy the busiest thread behind them was.
    pub(crate) fn take_histograms(
        &mut self,
        delivery: &Latency,
        connect: &Latency,
        lag: &Latency,
        busy: impl Into<Option<f64>>,
    ) {
        self.since.tally.delivery.merge(delivery);
        self.since.tally.connect.merge(connect);
        self.since.tally.lag.merge(lag);
        self.delivery.merge(delivery);
        self.connect.merge(connect);
        self.health.lag.merge(lag);
        self.since.busy.extend(busy.into());
    }

    /// Ends a row and tells somebody about it.
    pub(crate) fn tell_row(
        &mut self,
        phase: Phase,
        at_ms: u64,
        (server, memory): (Option<ServerSample>, Option<u64>),
        observer: &mut dyn Observer,
    ) {
        let delivery = self.since.tally.delivery.clone();
        let connect = self.since.tally.connect.clone();
        let lag = self.since.tally.lag.clone();
        let sample = self.row(at_ms, server, memory);
        observer.on_row(&Snapshot {
            scenario: &self.shown,
            phase,
            at_ms,
            sample: &sample,
            before: self.series.iter().rev().nth(1),
            counters: &self.latest.tally.counters,
            deliveries: &self.latest.tally.deliveries,
            delivery: &self.delivery,
            connect: &self.connect,
            running: self.latest.tally.running.as_ref(),
            row_delivery: &delivery,
            row_connect: &connect,
            row_lag: &lag,
            tally: &self.latest.tally,
        });
    }

    /// How busy the threads were, for the verdict. Called once for each row, with each thread's
    /// share of a CPU.
    fn judge_threads(&mut self, busy: &[f64]) -> f64 {
        for &share in busy {
            self.health.on_thread_second(share, &self.limits);
        }
        busy.iter().copied().fold(0.0, f64::max)
    }

    /// Ends a row at `at_ms` from the start.
    pub(crate) fn row(
        &mut self,
        at_ms: u64,
        server: Option<ServerSample>,
        memory: Option<u64>,
    ) -> Sample {
        let busy = std::mem::take(&mut self.since.busy);
        let busiest = self.judge_threads(&busy);
        let now = &self.latest;
        let counters = &now.tally.counters;
        let (published, received, sent, came) =
            self.series
                .iter()
                .fold((0, 0, 0, 0), |(published, received, sent, came), row| {
                    (
                        published + row.published,
                        received + row.received,
                        sent + row.sent_bytes,
                        came + row.received_bytes,
                    )
                });
        let length_ms = at_ms.saturating_sub(self.row_at_ms);
        let sample = Sample {
            at_ms,
            length_ms,
            attempted: counters.attempted,
            tcp_connected: counters.tcp_connected,
            upgraded: counters.upgraded,
            subscribed: counters.subscribed,
            alive: counters.alive(),
            lost: counters.lost(),
            failed: counters.failed(),
            published: counters.published.saturating_sub(published),
            received: now.tally.deliveries.received.saturating_sub(received),
            sent_bytes: counters.sent_bytes.saturating_sub(sent),
            received_bytes: counters.received_bytes.saturating_sub(came),
            latency_us: Sample::figures(&self.since.tally.delivery),
            connect_us: Sample::figures(&self.since.tally.connect),
            lag_us: Sample::figures(&self.since.tally.lag),
            generator_busy: busiest,
            generator_memory_bytes: memory,
            server,
        };
        for (kind, latency) in [
            ("delivery", &self.since.tally.delivery),
            ("connect", &self.since.tally.connect),
            ("lag", &self.since.tally.lag),
        ] {
            if latency.count() > 0 {
                self.log.push(self.row_at_ms, length_ms, kind, latency);
            }
        }
        self.since = Interval::default();
        self.row_at_ms = at_ms;
        self.series.push(sample.clone());
        sample
    }

    /// Everything that was found.
    pub(crate) fn finish(mut self, interrupted: bool) -> Finished {
        let scenario = &self.shown;
        let last = &self.latest.tally;
        self.health.due_events = last.due_events;
        self.health.missed_events = last.counters.missed_events;
        let delivery = self.delivery.summary();
        let measured_p99 = self.delivery.percentile_us(99.0);
        let measured_p99 = measured_p99.or_else(|| self.connect.percentile_us(99.0));
        let verdict = self.health.verdict(measured_p99, &self.limits);
        let mut notes = std::mem::take(&mut self.notes);
        let mut remarks: Vec<(&String, &u64)> = last.sums.remarks.iter().collect();
        remarks.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        notes.extend(
            remarks
                .into_iter()
                .map(|(what, count)| format!("{count} × {what}")),
        );
        notes.extend(slow_readers_note(scenario, &last.sums.slowly));
        let notes = notes.iter().map(|note| self.redactor.text(note)).collect();
        let expecting = last.sums.expecting;
        let totals = Totals {
            measured_ms: self.measured_ms,
            counters: last.counters.clone(),
            deliveries: last.deliveries,
            connections_with_data: (expecting > 0)
                .then(|| (last.sums.with_data.min(expecting), expecting)),
            connections_with_loss: (expecting > 0).then_some(last.sums.with_loss),
            delivery,
            connect: self.connect.summary(),
            lag: self.health.lag.summary(),
            delivery_curve: self.delivery.curve(),
            generator_bytes_per_connection: self.slope(|at| at.generator_bytes),
            generator_busiest: self.health.busiest,
            reconnected_us: reached_us(scenario, last, &last.sums.back),
            back_us: reached_us(scenario, last, &last.sums.caught_up),
        };
        let server = self.server_totals();
        let mut results = Results {
            schema: SCHEMA,
            manifest: Manifest {
                title: self.title,
                started_unix_ms: self.started_unix_ms,
                finished_unix_ms: clock::unix_ms(),
                command: self.command,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                server: self.server_name,
                machines: self.machines,
            },
            scenario: self.shown,
            totals,
            server,
            verdict,
            figures: std::collections::BTreeMap::new(),
            checks: Vec::new(),
            steps: self.steps,
            agents: self.agents,
            notes,
            series: self.series,
        };
        results.judge();
        Finished {
            results,
            log: Arc::new(self.log),
            interrupted,
        }
    }

    /// How much more of something there is for each connection, from before the first to when all
    /// stood.
    fn slope(&self, of: impl Fn(&Footprint) -> Option<u64>) -> Option<f64> {
        let standing = self.standing.as_ref()?;
        // Below this the noise of a page or two is more than what is measured.
        if standing.alive < 1000 {
            return None;
        }
        let risen = of(standing)? as f64 - of(&self.before)? as f64;
        Some(risen / standing.alive as f64)
    }

    fn server_totals(&self) -> Option<ServerTotals> {
        let (from_ms, to_ms) = self.measured_ms;
        let seen: Vec<&ServerSample> = self
            .series
            .iter()
            .filter(|row| row.at_ms > from_ms && row.at_ms <= to_ms + 500)
            .filter_map(|row| row.server.as_ref())
            .collect();
        let all = self.series.iter().filter_map(|row| row.server.as_ref());
        let memory_bytes_max = all.filter_map(|server| server.memory_bytes).max();
        let cpus: Vec<f64> = seen.iter().filter_map(|server| server.cpu).collect();
        if seen.is_empty() && memory_bytes_max.is_none() {
            return None;
        }
        Some(ServerTotals {
            process_bytes_per_connection: self.slope(|at| at.server?.memory_bytes),
            kernel_bytes_per_connection: self.slope(|at| at.server?.slab_bytes),
            cpu_mean: (!cpus.is_empty()).then(|| cpus.iter().sum::<f64>() / cpus.len() as f64),
            memory_bytes_max,
        })
    }
}

fn slow_readers_note(scenario: &Scenario, slowly: &DeliveryCounts) -> Option<String> {
    match scenario.kind {
        Kind::SlowReaders { bytes_per_s: 0, .. } => Some(
            "what the connections that stopped reading never took is not counted as missing"
                .to_owned(),
        ),
        Kind::SlowReaders { bytes_per_s, .. } => Some(format!(
            "the slow readers, {bytes_per_s} bytes a second each, took {} messages and were \
             refused {} between them; none of that is counted elsewhere",
            slowly.distinct, slowly.missing
        )),
        _ => None,
    }
}

/// How long after the drop of a storm the asked share had reached something; none if that never
/// happened.
fn reached_us(scenario: &Scenario, last: &Tally, reached: &Latency) -> Option<u64> {
    let Kind::ReconnectStorm { back_share, .. } = scenario.kind else {
        return None;
    };
    let (dropped, count) = (last.sums.dropped as f64, reached.count() as f64);
    if dropped == 0.0 || count < back_share * dropped {
        return None;
    }
    reached.percentile_us(back_share * dropped / count * 100.0)
}

#[cfg(test)]
mod tests;
