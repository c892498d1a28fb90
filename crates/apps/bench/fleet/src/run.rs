//! Run from a scenario to its results: on this machine (`local`), or on several (`fleet`, with
//! an `agent` on each).
//!
//! Owns: threads, the course of the run, one row a second, the results. Never: prints; a
//! `throng_bench_report::Observer` sees the run while it goes on.
//!
//! ```no_run
//! use throng_bench_plan::{Dialect, Workload, Scenario, Target, Transport};
//! use throng_bench_fleet::{RunOptions, run_scenario};
//!
//! let target = Target::parse("ws://127.0.0.1:8000/ws?channel={channel:url}")?;
//! let transport = Transport::websocket(Dialect::Plain);
//! let mut scenario = Scenario::new(Workload::Hold, vec![target], transport);
//! scenario.channels = vec!["group-{n%10}".into()];
//! scenario.set_clients(1000, 500.0);
//! let finished = run_scenario(&scenario, &RunOptions::default())?;
//! assert_eq!(finished.results.totals.counters.alive(), 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agent;
mod collect;
mod drive;
mod fleet;
mod local;
mod machine;
mod options;
mod search;
mod server;
mod tls;
mod wire;

pub use self::agent::{AGENT_PORT, AgentOptions, serve_agent};
pub use self::fleet::{FleetError, run_on_agents};
pub use self::local::{run_observed, run_scenario};
pub use self::options::{Finished, RunOptions};
pub use self::server::WatchServer;
pub use self::tls::{AgentTls, ControllerTls, TlsError};
