//! Run from a scenario to its results: on this machine, or on several (`fleet`, with an `agent` on
//! each).
//!
//! Owns: the threads of a run, its course (ramp, warm-up, hold, drain), one row of figures a
//! second, the search for a rate, the observation of the server, and the agents on other machines:
//! their protocol and both of its sides (`agents`).
//!
//! Never: prints, or writes a file; a `throng_bench_report::Observer` sees the run while it goes
//! on. Nothing here uses a hub, a session or a server of ours: the generator shares no code with
//! the server except the wire formats and the reactor.
//!
//! ```no_run
//! use throng_bench_plan::{Dialect, Workload, Scenario, Target, ClientTransport};
//! use throng_bench_fleet::{RunOptions, run_scenario};
//!
//! let target = Target::parse("ws://127.0.0.1:8000/ws?channel={channel:url}")?;
//! let transport = ClientTransport::websocket(Dialect::Plain);
//! let mut scenario = Scenario::new(Workload::Hold, vec![target], transport);
//! scenario.channels = vec!["group-{n%10}".into()];
//! scenario.set_clients(1000, 500.0);
//! let finished = run_scenario(&scenario, &RunOptions::default())?;
//! assert_eq!(finished.results.totals.counters.alive(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod agents;
mod collect;
mod drive;
mod fleet;
mod local;
mod server;
mod wire;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use throng_bench_measure::{LAG_SHARE_MAX, LogWriter};
use throng_bench_plan::Target;
use throng_bench_plan::check::BenchExit;
use throng_bench_report::Results;

pub use self::agent::{AGENT_PORT, AgentOptions, serve_agent};
pub use self::fleet::{FleetError, run_on_agents};
pub use self::local::{run_observed, run_scenario};
pub use self::server::WatchServer;
pub use self::wire::{AgentTls, ControllerTls, TlsError};

#[derive(Clone, Debug)]
pub struct RunOptions {
    pub title: Option<String>,
    pub command: Vec<String>,
    /// Number of threads that open connections; by default at most that of processors.
    pub threads: Option<usize>,
    /// True to open the scenario's clients; publishing alone needs them only to know the channels.
    pub subscribers: bool,
    pub watch: WatchServer,
    pub metrics: Option<Target>,
    /// True to keep mean and spread of all latencies, for MigratoryData's lines.
    pub running: bool,
    /// Certificates of agents to accept; none speaks to them without TLS.
    pub agents_tls: Option<ControllerTls>,
    /// Largest lag of the generator, as a share of the measured 99th percentile: 0.1 is a tenth.
    pub lag_share_max: f64,
    /// Sentences that a reader of the report must know.
    pub notes: Vec<String>,
    /// Flag that ends the run early; the results are written all the same.
    pub stop: Arc<AtomicBool>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            title: None,
            command: Vec::new(),
            threads: None,
            subscribers: true,
            watch: WatchServer::Auto,
            metrics: None,
            running: false,
            agents_tls: None,
            lag_share_max: LAG_SHARE_MAX,
            notes: Vec::new(),
            stop: Arc::default(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Finished {
    pub results: Results,
    log: Arc<LogWriter>,
    pub interrupted: bool,
}

impl Finished {
    /// Histograms of all intervals, as the log that HdrHistogram's own tools read.
    pub fn log(&self) -> &LogWriter {
        &self.log
    }

    pub fn exit(&self) -> BenchExit {
        if self.interrupted {
            return BenchExit::Interrupted;
        }
        let counters = &self.results.totals.counters;
        let nothing = counters.attempted > 0 && counters.upgraded == 0;
        let unheard = counters.published > 0 && counters.publish_failed >= counters.published;
        if nothing || unheard {
            return BenchExit::Error;
        }
        let outcomes: Vec<_> = self
            .results
            .checks
            .iter()
            .map(|check| check.outcome)
            .collect();
        BenchExit::of_run(&outcomes, self.results.verdict.is_valid())
    }
}
