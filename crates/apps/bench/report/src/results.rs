//! Schema of a run's results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use throng_bench_measure::{DeliveryCounts, LatencySummary, RunCounters, RunVerdict, Sample};
use throng_bench_plan::Scenario;
use throng_bench_plan::check::{Check, CheckOutcome, Figure, LatencyKind, Metric};

/// Version of the schema; a reader refuses a higher one.
pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Value of [`SCHEMA`] at the time of writing.
    pub schema: u32,
    pub manifest: Manifest,
    pub scenario: Scenario,
    pub totals: RunTotals,
    pub server: Option<ServerTotals>,
    pub verdict: RunVerdict,
    /// Figures by the names that checks use: µs, counts, shares, bytes, per second. Without those
    /// that were not measured.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    pub checks: Vec<CheckResult>,
    #[serde(default)]
    pub steps: Vec<StepResult>,
    /// Machines that made the load, when there were several.
    #[serde(default)]
    pub agents: Vec<AgentSummary>,
    #[serde(default)]
    pub notes: Vec<String>,
    /// Rows, one per interval; a file of its own in the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Sample>,
}

/// Command, version and machines of a run: enough to run it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub title: String,
    pub started_unix_ms: u64,
    pub finished_unix_ms: u64,
    pub command: Vec<String>,
    pub version: String,
    pub server: Option<String>,
    pub machines: Vec<MachineInfo>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineInfo {
    pub name: String,
    /// Role in the run: `controller`, `agent`, `server`.
    pub role: String,
    pub kernel: String,
    pub cpu_model: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub limits: Vec<LimitSetting>,
}

/// Limit of a kernel, as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSetting {
    /// Name in its kernel: `nofile`, `ip_local_port_range`, …
    pub name: String,
    pub value: String,
}

/// Counts of the whole run; deliveries and latency of its measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunTotals {
    /// Begin and end of the measured part, after arrivals and warm-up, in ms from the start.
    pub measured_ms: (u64, u64),
    pub counters: RunCounters,
    pub deliveries: DeliveryCounts,
    /// Connections to which at least one delivery came, of those that expected one.
    pub connections_with_data: Option<(u64, u64)>,
    pub connections_with_loss: Option<u64>,
    pub delivery: Option<LatencySummary>,
    pub connect: Option<LatencySummary>,
    pub lag: Option<LatencySummary>,
    /// Curve of delivery latencies: percentile and µs.
    #[serde(default)]
    pub delivery_curve: Vec<(f64, u64)>,
    pub generator_bytes_per_connection: Option<f64>,
    /// Busiest second of the generator, as a share of one CPU.
    pub generator_busiest: f64,
    /// Time after a storm until the asked share was usable again, in µs.
    pub reconnected_us: Option<u64>,
    /// Time after a storm until the asked share was back with everything missed, in µs. Nothing
    /// missed is due where the transport cannot resume.
    pub back_us: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTotals {
    /// Memory of its processes for each connection in bytes: the slope, not the total divided.
    pub process_bytes_per_connection: Option<f64>,
    /// Memory of the kernel for each connection in bytes: the slope of the slab.
    pub kernel_bytes_per_connection: Option<f64>,
    pub cpu_mean: Option<f64>,
    pub memory_bytes_max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    pub check: Check,
    #[serde(flatten)]
    pub outcome: CheckOutcome,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    pub per_s: f64,
    pub held: bool,
    pub delivery: Option<LatencySummary>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSummary {
    pub name: String,
    pub alive: u64,
    /// Offset of its clock to the controller's, in µs.
    pub offset_us: i64,
    pub offset_error_us: u64,
    pub lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResultsError {
    #[error("not the results of a run: {0}")]
    Malformed(String),
    #[error("written with schema {0}; this version reads up to {SCHEMA}")]
    TooNew(u32),
}

impl Results {
    /// Makes results of a scenario without any figures.
    pub fn empty(scenario: &Scenario) -> Self {
        Self {
            schema: SCHEMA,
            manifest: Manifest::default(),
            scenario: scenario.clone(),
            totals: RunTotals::default(),
            server: None,
            verdict: RunVerdict::Valid,
            figures: BTreeMap::new(),
            checks: Vec::new(),
            steps: Vec::new(),
            agents: Vec::new(),
            notes: Vec::new(),
            series: Vec::new(),
        }
    }

    /// Reads `results.json`, and `series.json` if it is there.
    pub fn read(results: &str, series: Option<&str>) -> Result<Self, ResultsError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let malformed = |error: serde_json::Error| ResultsError::Malformed(error.to_string());
        // The version first: a newer schema may not fit the shape.
        let version: Version = serde_json::from_str(results).map_err(malformed)?;
        if version.schema > SCHEMA {
            return Err(ResultsError::TooNew(version.schema));
        }
        let mut read: Self = serde_json::from_str(results).map_err(malformed)?;
        if let Some(series) = series {
            read.series = serde_json::from_str(series).map_err(malformed)?;
        }
        Ok(read)
    }

    /// Judges the checks of the scenario, and keeps their outcomes and the figures.
    pub fn judge(&mut self) {
        self.figures = Metric::all()
            .filter_map(|metric| Some((metric.to_string(), self.get(metric)?)))
            .filter(|(_, figure)| figure.is_finite())
            .collect();
        self.checks = self
            .scenario
            .checks
            .iter()
            .map(|check| CheckResult {
                check: check.clone(),
                outcome: check.judge(self.get(check.metric())),
            })
            .collect();
    }

    /// Length of the measured part in seconds; none if there was none.
    pub fn measured_s(&self) -> Option<f64> {
        let (begin, end) = self.totals.measured_ms;
        (end > begin).then(|| (end - begin) as f64 / 1000.0)
    }

    pub(crate) fn latency(&self, kind: LatencyKind) -> Option<&LatencySummary> {
        match kind {
            LatencyKind::Delivery => self.totals.delivery.as_ref(),
            LatencyKind::Connect => self.totals.connect.as_ref(),
            LatencyKind::Lag => self.totals.lag.as_ref(),
        }
    }

    /// Figure of the run in its unit (µs, counts, shares, bytes, per second); none when nothing was
    /// measured.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        let figure = match metric {
            Metric::Percentile(kind, percentile) => {
                let us = self.latency(kind)?.percentile_us(percentile);
                return us.map(|us| us as f64);
            }
            Metric::Min(kind) => return Some(self.latency(kind)?.min_us as f64),
            Metric::Mean(kind) => return Some(self.latency(kind)?.mean_us),
            Metric::Max(kind) => return Some(self.latency(kind)?.max_us as f64),
            Metric::Figure(figure) => figure,
        };
        let counters = &self.totals.counters;
        let deliveries = &self.totals.deliveries;
        // Without a single connect nothing is known about connections, and without a delivery that
        // was due nothing about deliveries: zero would be a promise kept by doing nothing.
        let connections = |count: u64| (counters.attempted > 0).then_some(count as f64);
        let publications = |count: u64| (counters.published > 0).then_some(count as f64);
        let due =
            |count: u64| (deliveries.expected() + deliveries.received > 0).then_some(count as f64);
        match figure {
            Figure::Attempted => connections(counters.attempted),
            Figure::TcpConnected => connections(counters.tcp_connected),
            Figure::Upgraded => connections(counters.upgraded),
            Figure::Subscribed => connections(counters.subscribed),
            Figure::Alive => connections(counters.alive()),
            Figure::Failed => connections(counters.failed()),
            Figure::Lost => connections(counters.lost()),
            Figure::Published => publications(counters.published),
            Figure::PublishFailed => publications(counters.publish_failed),
            Figure::Expected => due(deliveries.expected()),
            Figure::Received => due(deliveries.received),
            Figure::Missing => due(deliveries.missing),
            Figure::Duplicates => due(deliveries.duplicates),
            Figure::OutOfOrder => due(deliveries.out_of_order),
            Figure::Reach => {
                let expected = deliveries.expected();
                (expected > 0).then(|| deliveries.distinct as f64 / expected as f64)
            }
            Figure::DeliveryRate => Some(due(deliveries.received)? / self.measured_s()?),
            Figure::BackTime => self.totals.back_us.map(|us| us as f64),
            Figure::ServerMemory => self.server.as_ref()?.process_bytes_per_connection,
            Figure::ServerCpu => self.server.as_ref()?.cpu_mean,
        }
    }
}
