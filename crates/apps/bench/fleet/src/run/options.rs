//! What whoever starts a run may ask for, besides its scenario.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::server::Watch;
use super::tls::ControllerTls;
use throng_bench_measure::GeneratorLimits;
use throng_bench_plan::Target;

/// How a scenario is run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// What the run is called; the scenario's name otherwise.
    pub title: Option<String>,
    /// The command line, for the manifest.
    pub command: Vec<String>,
    /// How many threads open connections; as many as there are processors at most, otherwise.
    pub threads: Option<usize>,
    /// Whether the scenario's clients are opened; publishing alone needs them only to know the
    /// channels.
    pub subscribers: bool,
    /// How the server is watched.
    pub watch: Watch,
    /// The server's own metrics page.
    pub metrics: Option<Target>,
    /// Whether mean and spread of all latencies are wanted, for MigratoryData's lines.
    pub running: bool,
    /// How agents are believed; none speaks to them without TLS.
    pub agents_tls: Option<ControllerTls>,
    /// Which part of the measured 99th percentile the generator's own lag may be: 0.1 is a tenth.
    pub lag_share_max: f64,
    /// What a reader of the report must know.
    pub notes: Vec<String>,
    /// Set it to end the run early; the results are written all the same.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            title: None,
            command: Vec::new(),
            threads: None,
            subscribers: true,
            watch: Watch::Auto,
            metrics: None,
            running: false,
            agents_tls: None,
            lag_share_max: GeneratorLimits::default().lag_share_max,
            notes: Vec::new(),
            stop: Arc::default(),
        }
    }
}
