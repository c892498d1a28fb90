//! The schema of results.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use throng_bench_measure::{Counters, DeliveryCounts, LatencySummary, Sample, Verdict};
use throng_bench_plan::Scenario;
use throng_bench_plan::check::{Check, Facts, Figure, Kind, Metric, Outcome};

/// The version of the schema; a reader refuses a higher one.
pub const SCHEMA: u32 = 1;

/// Everything that a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`SCHEMA`] when it was written.
    pub schema: u32,
    /// What ran where.
    pub manifest: Manifest,
    /// What was asked for.
    pub scenario: Scenario,
    /// What was counted.
    pub totals: Totals,
    /// The server, where it could be seen.
    pub server: Option<ServerTotals>,
    /// Whether the generator kept up.
    pub verdict: Verdict,
    /// What checks can look at, by the names that checks use: µs, counts, shares, bytes, per
    /// second. What was not measured is not there.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Promises and how they ended.
    pub checks: Vec<CheckResult>,
    /// The steps of a search for the highest rate.
    #[serde(default)]
    pub steps: Vec<StepResult>,
    /// The machines that made the load, when there were several.
    #[serde(default)]
    pub agents: Vec<AgentSummary>,
    /// What a reader must know.
    #[serde(default)]
    pub notes: Vec<String>,
    /// One row per interval; a file of its own in the folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Sample>,
}

/// What ran where: enough to run it again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// For people.
    pub title: String,
    /// The wall clock at the start.
    pub started_unix_ms: u64,
    /// The wall clock at the end.
    pub finished_unix_ms: u64,
    /// The command line.
    pub command: Vec<String>,
    /// The generator's version.
    pub version: String,
    /// What the server says it is.
    pub server: Option<String>,
    /// The machines of the run, the controller's first.
    pub machines: Vec<Machine>,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// What it does in the run: `controller`, `agent`, `server`.
    pub role: String,
    /// Operating system and kernel release.
    pub kernel: String,
    /// Model of its processors.
    pub cpu_model: String,
    /// How many of them it may use.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Limits by their kernel's names.
    pub limits: Vec<LimitSetting>,
}

/// A limit as it stood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitSetting {
    /// Its kernel's name: `nofile`, `ip_local_port_range`, …
    pub name: String,
    /// Its value as the kernel shows it.
    pub value: String,
}

/// What was counted over the whole run and, for deliveries and latency, over its measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// The measured part: after arrivals and warm-up, in ms from the start, begin and end.
    pub measured_ms: (u64, u64),
    /// Connections and publications.
    pub counters: Counters,
    /// What came, and what did not.
    pub deliveries: DeliveryCounts,
    /// Connections to which at least one delivery came, of those that expected one.
    pub connections_with_data: Option<(u64, u64)>,
    /// Connections that missed at least one delivery.
    pub connections_with_loss: Option<u64>,
    /// From the intended publication to the delivery.
    pub delivery: Option<LatencySummary>,
    /// From the intended connect to being usable.
    pub connect: Option<LatencySummary>,
    /// The generator's own lag.
    pub lag: Option<LatencySummary>,
    /// The curve of delivery latencies: percentile and µs.
    #[serde(default)]
    pub delivery_curve: Vec<(f64, u64)>,
    /// The generator's own memory for each connection in bytes.
    pub generator_bytes_per_connection: Option<f64>,
    /// The generator's busiest second, as a share of one CPU.
    pub generator_busiest: f64,
    /// After a storm: from the drop until the asked share was usable again, in µs.
    #[serde(default)]
    pub reconnected_us: Option<u64>,
    /// After a storm: from the drop until the asked share was back and had got what it had missed,
    /// in µs. Where the transport cannot resume nothing more is due to who comes back.
    pub back_us: Option<u64>,
}

/// The server over the measured part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerTotals {
    /// Its processes' memory for each connection in bytes: the slope, not the total divided.
    pub process_bytes_per_connection: Option<f64>,
    /// The kernel's memory for each connection in bytes: the slope of the slab.
    pub kernel_bytes_per_connection: Option<f64>,
    /// Mean CPU as a share of one CPU.
    pub cpu_mean: Option<f64>,
    /// Highest memory of its processes in bytes.
    pub memory_bytes_max: Option<u64>,
}

/// A promise and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The promise.
    pub check: Check,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// One step of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// Publications a second.
    pub per_s: f64,
    /// Whether the promise held.
    pub held: bool,
    /// Its deliveries.
    pub delivery: Option<LatencySummary>,
}

/// A machine that made a part of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AgentSummary {
    /// Its name.
    pub name: String,
    /// Connections that it kept at the end.
    pub alive: u64,
    /// Its clock minus the controller's, in µs.
    pub offset_us: i64,
    /// How wrong that may be at most, in µs.
    pub offset_error_us: u64,
    /// Whether it died during the run.
    pub lost: bool,
}

/// Results that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultsError {
    /// Not JSON, or JSON of another shape.
    Malformed(String),
    /// Written by a newer version.
    TooNew(u32),
}

impl fmt::Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) => write!(f, "not the results of a run: {why}"),
            Self::TooNew(schema) => write!(
                f,
                "written with schema {schema}; this version reads up to {SCHEMA}"
            ),
        }
    }
}

impl std::error::Error for ResultsError {}

impl Results {
    /// Results of a scenario without anything in them.
    #[must_use]
    pub fn empty(scenario: &Scenario) -> Self {
        Self {
            schema: SCHEMA,
            manifest: Manifest::default(),
            scenario: scenario.clone(),
            totals: Totals::default(),
            server: None,
            verdict: Verdict::Valid,
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

    /// Judges the promises of the scenario by what was found, and keeps the outcomes and the
    /// figures.
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
                outcome: check.judge(self),
            })
            .collect();
    }

    /// How long the measured part lasted, in seconds; none if there was none.
    #[must_use]
    pub fn measured_s(&self) -> Option<f64> {
        let (begin, end) = self.totals.measured_ms;
        (end > begin).then(|| (end - begin) as f64 / 1000.0)
    }

    fn latency(&self, kind: Kind) -> Option<&LatencySummary> {
        match kind {
            Kind::Delivery => self.totals.delivery.as_ref(),
            Kind::Connect => self.totals.connect.as_ref(),
            Kind::Lag => self.totals.lag.as_ref(),
        }
    }
}

impl Facts for Results {
    fn get(&self, metric: Metric) -> Option<f64> {
        let figure = match metric {
            Metric::Percentile(kind, percentile) => {
                return self
                    .latency(kind)?
                    .percentile_us(percentile)
                    .map(|us| us as f64);
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
