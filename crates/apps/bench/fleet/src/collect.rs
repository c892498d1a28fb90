//! Collection of figures: intervals become rows and totals, totals become results.
//!
//! Owns: the rows, the merged histograms, the log, the verdict. Takes intervals of this machine's
//! workers and of other machines.

use std::sync::Arc;

use throng_bench_measure::{
    DeliveryCounts, GeneratorHealth, Histograms, Latency, LogWriter, Sample, ServerSample, Tally,
};
use throng_bench_plan::{Redactor, Scenario, Workload};
use throng_bench_report::{
    AgentSummary, LimitSetting, MachineInfo, Manifest, Observer, Results, RunPhase, RunTotals,
    ServerTotals, Snapshot, StepResult,
};
use throng_bench_worker::WorkerFigures;
use throng_sys::clock;

use super::{Finished, RunOptions};

/// Memory of generator and server, before connections or when all stand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryReading {
    pub(crate) generator_bytes: Option<u64>,
    pub(crate) server: Option<ServerSample>,
    pub(crate) alive: u64,
}

pub(crate) struct Collector {
    redactor: Redactor,
    // Scenario, title and command line without secrets, to be shown and kept.
    shown: Scenario,
    title: String,
    command: Vec<String>,
    started_unix_ms: u64,
    // Histograms and load of threads since the last row.
    since: Histograms,
    busy: Vec<f64>,
    // Totals so far; its histograms are those of the last row.
    pub(crate) latest: WorkerFigures,
    pub(crate) total: Histograms,
    health: GeneratorHealth,
    lag_share_max: f64,
    pub(crate) series: Vec<Sample>,
    log: LogWriter,
    row_at_ms: u64,
    pub(crate) before: MemoryReading,
    pub(crate) standing: Option<MemoryReading>,
    pub(crate) measured_ms: (u64, u64),
    pub(crate) steps: Vec<StepResult>,
    pub(crate) notes: Vec<String>,
    pub(crate) agents: Vec<AgentSummary>,
    pub(crate) machines: Vec<MachineInfo>,
    server_name: Option<String>,
}

/// Reads this process's own memory, in bytes (PSS).
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
            since: Histograms::default(),
            busy: Vec::new(),
            latest: WorkerFigures::default(),
            total: Histograms::default(),
            health: GeneratorHealth::default(),
            lag_share_max: options.lag_share_max,
            series: Vec::new(),
            log: LogWriter::new(started_unix_ms),
            row_at_ms: 0,
            before: MemoryReading::default(),
            standing: None,
            measured_ms: (0, 0),
            steps: Vec::new(),
            notes: options.notes.clone(),
            agents: Vec::new(),
            machines: vec![describe("controller")],
            server_name,
        }
    }

    /// Takes figures as they come: totals so far, and histograms since the ones before.
    pub(crate) fn take(&mut self, interval: WorkerFigures) {
        self.take_histograms(&interval.tally.interval, &interval.busy);
        self.latest = interval;
    }

    pub(crate) fn take_totals(&mut self, totals: Tally) {
        self.latest.tally = totals;
    }

    /// Takes histograms, and how busy the threads behind them were, as shares of one CPU.
    pub(crate) fn take_histograms(&mut self, histograms: &Histograms, busy: &[f64]) {
        self.since.merge(histograms);
        self.total.merge(histograms);
        self.busy.extend(busy);
    }

    pub(crate) fn observe_row(
        &mut self,
        phase: RunPhase,
        at_ms: u64,
        (server, memory): (Option<ServerSample>, Option<u64>),
        observer: &mut Observer<'_>,
    ) {
        let sample = self.row(at_ms, server, memory);
        observer(&Snapshot {
            scenario: &self.shown,
            phase,
            at_ms,
            sample: &sample,
            before: self.series.iter().rev().nth(1),
            tally: &self.latest.tally,
            total: &self.total,
        });
    }

    pub(crate) fn row(
        &mut self,
        at_ms: u64,
        server: Option<ServerSample>,
        memory: Option<u64>,
    ) -> Sample {
        let busy = std::mem::take(&mut self.busy);
        for &share in &busy {
            self.health.on_thread_second(share);
        }
        self.latest.tally.interval = std::mem::take(&mut self.since);
        let tally = &self.latest.tally;
        let counters = &tally.counters;
        let before = |of: fn(&Sample) -> u64| self.series.iter().map(of).sum::<u64>();
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
            published: counters
                .published
                .saturating_sub(before(|row| row.published)),
            received: { tally.deliveries.received }.saturating_sub(before(|row| row.received)),
            sent_bytes: counters
                .sent_bytes
                .saturating_sub(before(|row| row.sent_bytes)),
            received_bytes: { counters.received_bytes }
                .saturating_sub(before(|row| row.received_bytes)),
            latency_us: Sample::figures(&tally.interval.delivery),
            connect_us: Sample::figures(&tally.interval.connect),
            lag_us: Sample::figures(&tally.interval.lag),
            generator_busy: busy.into_iter().fold(0.0, f64::max),
            generator_memory_bytes: memory,
            server,
        };
        for (kind, latency) in [
            ("delivery", &tally.interval.delivery),
            ("connect", &tally.interval.connect),
            ("lag", &tally.interval.lag),
        ] {
            if latency.count() > 0 {
                self.log.push(self.row_at_ms, length_ms, kind, latency);
            }
        }
        self.row_at_ms = at_ms;
        self.series.push(sample.clone());
        sample
    }

    pub(crate) fn finish(mut self, interrupted: bool) -> Finished {
        let scenario = &self.shown;
        let last = &self.latest.tally;
        self.health.due_events = last.due_events;
        self.health.missed_events = last.counters.missed_events;
        let Histograms {
            delivery,
            connect,
            lag,
            message_lag,
        } = &self.total;
        // Late connects delay no message.
        let (late, measured_p99) = match delivery.percentile_us(99.0) {
            Some(p99_us) => (message_lag, Some(p99_us)),
            None => (lag, connect.percentile_us(99.0)),
        };
        self.health.lag = late.clone();
        let verdict = self.health.verdict(measured_p99, self.lag_share_max);
        let mut notes = std::mem::take(&mut self.notes);
        let mut remarks: Vec<(&String, &u64)> = last.sums.remarks.iter().collect();
        remarks.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        notes.extend(
            remarks
                .iter()
                .map(|(remark, count)| format!("{count} × {remark}")),
        );
        notes.extend(slow_readers_note(scenario, &last.sums.slowly));
        let notes = notes.iter().map(|note| self.redactor.text(note)).collect();
        let expecting = last.sums.expecting;
        let totals = RunTotals {
            measured_ms: self.measured_ms,
            counters: last.counters.clone(),
            deliveries: last.deliveries,
            connections_with_data: (expecting > 0)
                .then(|| (last.sums.with_data.min(expecting), expecting)),
            connections_with_loss: (expecting > 0).then_some(last.sums.with_loss),
            delivery: delivery.summary(),
            connect: connect.summary(),
            lag: lag.summary(),
            delivery_curve: delivery.curve(),
            generator_bytes_per_connection: self.slope(|at| at.generator_bytes),
            generator_busiest: self.health.busiest,
            reconnected_us: reached_us(scenario, last, &last.sums.back),
            back_us: reached_us(scenario, last, &last.sums.caught_up),
        };
        let server = self.server_totals();
        let mut results = Results {
            manifest: Manifest {
                title: self.title,
                started_unix_ms: self.started_unix_ms,
                finished_unix_ms: clock::unix_ms(),
                command: self.command,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                server: self.server_name,
                machines: self.machines,
            },
            totals,
            server,
            verdict,
            steps: self.steps,
            agents: self.agents,
            notes,
            series: self.series,
            ..Results::empty(&self.shown)
        };
        results.judge();
        let log = Arc::new(self.log);
        Finished {
            results,
            log,
            interrupted,
        }
    }

    /// Growth of a reading for each connection, from before the first to when all stand.
    fn slope(&self, of: impl Fn(&MemoryReading) -> Option<u64>) -> Option<f64> {
        let standing = self.standing.as_ref()?;
        // Below this the noise of a page or two exceeds the reading.
        if standing.alive < 1000 {
            return None;
        }
        let risen = of(standing)? as f64 - of(&self.before)? as f64;
        Some(risen / standing.alive as f64)
    }

    fn server_totals(&self) -> Option<ServerTotals> {
        let (from_ms, to_ms) = self.measured_ms;
        let measured = |row: &&Sample| row.at_ms > from_ms && row.at_ms <= to_ms + 500;
        let seen = self
            .series
            .iter()
            .filter(measured)
            .filter_map(|row| row.server.as_ref());
        let seen: Vec<&ServerSample> = seen.collect();
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
        Workload::SlowReaders { bytes_per_s: 0, .. } => Some(
            "what the connections that stopped reading never took is not counted as missing"
                .to_owned(),
        ),
        Workload::SlowReaders { bytes_per_s, .. } => Some(format!(
            "the slow readers, {bytes_per_s} bytes a second each, took {} messages and were \
             refused {} between them; none of that is counted elsewhere",
            slowly.distinct, slowly.missing
        )),
        _ => None,
    }
}

/// Time after the drop of a storm at which the asked share had reached a state; none if never.
fn reached_us(scenario: &Scenario, last: &Tally, reached: &Latency) -> Option<u64> {
    let Workload::ReconnectStorm { back_share, .. } = scenario.kind else {
        return None;
    };
    let (dropped, count) = (last.sums.dropped as f64, reached.count() as f64);
    if dropped == 0.0 || count < back_share * dropped {
        return None;
    }
    reached.percentile_us(back_share * dropped / count * 100.0)
}

/// Kernel settings that a run's figures depend on.
const SETTINGS: [(&str, &str); 9] = [
    ("file-max", "fs/file-max"),
    ("nr_open", "fs/nr_open"),
    ("ip_local_port_range", "net/ipv4/ip_local_port_range"),
    ("tcp_mem", "net/ipv4/tcp_mem"),
    ("tcp_rmem", "net/ipv4/tcp_rmem"),
    ("tcp_wmem", "net/ipv4/tcp_wmem"),
    ("tcp_tw_reuse", "net/ipv4/tcp_tw_reuse"),
    ("somaxconn", "net/core/somaxconn"),
    ("nf_conntrack_max", "net/netfilter/nf_conntrack_max"),
];

pub(crate) fn describe(role: &str) -> MachineInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |path: &str| read(path).split_whitespace().collect::<Vec<_>>().join(" ");
    let nofile = throng_sys::limits::nofile();
    let mut limits = vec![LimitSetting {
        name: "nofile".into(),
        value: format!("{} {}", nofile.soft, nofile.hard),
    }];
    for (name, path) in SETTINGS {
        let value = line(&format!("/proc/sys/{path}"));
        if !value.is_empty() {
            limits.push(LimitSetting {
                name: name.into(),
                value,
            });
        }
    }
    let cpuinfo = read("/proc/cpuinfo");
    let cpu_model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(String::new, |(_, model)| model.trim().to_owned());
    MachineInfo {
        name: line("/proc/sys/kernel/hostname"),
        role: role.to_owned(),
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        cpu_model,
        cpus: throng_sys::cpu::count() as u32,
        memory_bytes: throng_sys::memory::system().total_bytes.unwrap_or(0),
        limits,
    }
}

#[cfg(test)]
mod tests {
    use throng_bench_plan::{ClientTransport, Dialect, Target};

    use super::*;

    #[test]
    fn a_storm_is_over_when_the_asked_share_is_back() {
        let target = Target::parse("ws://127.0.0.1:1/").unwrap();
        let kind = Workload::ReconnectStorm {
            at_us: 0,
            share: 1.0,
            backoff_us: (0, 0),
            back_share: 0.9,
        };
        let scenario = Scenario::new(
            kind,
            vec![target],
            ClientTransport::websocket(Dialect::Plain),
        );
        let mut last = Tally::default();
        last.sums.dropped = 10;
        for ms in 1..=8 {
            last.sums.back.record_us(ms * 1000);
        }
        assert_eq!(reached_us(&scenario, &last, &last.sums.back), None);
        last.sums.back.record_us(9000);
        let back = reached_us(&scenario, &last, &last.sums.back).unwrap();
        assert!((8900..=9000).contains(&back), "{back}");
        last.sums.back.record_us(500_000);
        let back = reached_us(&scenario, &last, &last.sums.back).unwrap();
        assert!((8900..=9100).contains(&back), "{back}");
    }

    #[test]
    fn rows_hold_what_happened_since_the_row_before() {
        let target = Target::parse("a:1").unwrap();
        let transport = ClientTransport::websocket(Dialect::Plain);
        let scenario = Scenario::new(Workload::Hold, vec![target], transport);
        let mut collector = Collector::new(&scenario, &RunOptions::default(), None);
        let interval = |published: u64, us: u64| {
            let mut interval = WorkerFigures::default();
            interval.tally.counters.published = published;
            interval.tally.interval.delivery.record_us(us);
            interval.busy.push(0.5);
            interval
        };
        collector.take(interval(5, 100));
        collector.take(interval(7, 200));
        let row = collector.row(1000, None, None);
        assert_eq!((row.published, row.length_ms), (7, 1000));
        assert_eq!(row.latency_us.unwrap()[4], 200);
        collector.take(interval(10, 50));
        let row = collector.row(1500, None, None);
        assert_eq!((row.published, row.length_ms), (3, 500));
        assert_eq!(row.latency_us.unwrap()[4], 50);
        assert_eq!(collector.total.delivery.count(), 3);
    }

    #[test]
    fn late_connects_are_not_blamed_for_deliveries() {
        let target = Target::parse("a:1").unwrap();
        let transport = ClientTransport::websocket(Dialect::Plain);
        let scenario = Scenario::new(Workload::Hold, vec![target], transport);
        for (is_message, is_valid) in [(false, true), (true, false)] {
            let mut collector = Collector::new(&scenario, &RunOptions::default(), None);
            let mut interval = WorkerFigures::default();
            let histograms = &mut interval.tally.interval;
            histograms.delivery.record_us(5000);
            match is_message {
                true => histograms.begun_late(0, 400_000),
                false => histograms.lag.record_us(400_000),
            }
            collector.take(interval);
            let results = collector.finish(false).results;
            assert_eq!(results.verdict.is_valid(), is_valid, "{is_message}");
            assert_eq!(results.totals.lag.unwrap().count, 1);
        }
    }

    #[test]
    fn this_machine_has_a_kernel_processors_and_limits() {
        let machine = describe("controller");
        assert!(machine.kernel.starts_with("Linux "), "{}", machine.kernel);
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
        assert!(machine.limits.iter().any(|limit| limit.name == "nofile"));
    }
}
