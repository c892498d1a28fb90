//! The load generator: scenarios, importers, measurement, reports.
//!
//! Owns: what a run is (`plan`), when each event is due (`schedule`), from where each
//! connection comes (`ports`), what a measured message carries (`payload`), what was counted
//! (`measure`), whether that is good enough (`check`), how it is shown (`report`, `export`),
//! and how several machines make one run (`agents`).
//!
//! Never: a hub, a session or a server of ours. The meter shares no code with what it
//! measures except the wire formats. Everything in this crate that can be a pure function is
//! one: time and randomness come in as arguments.

pub mod agents;
pub mod check;
pub mod export;
pub mod import;
pub mod live;
pub mod measure;
pub mod payload;
pub mod plan;
pub mod ports;
pub mod report;
pub mod rng;
pub mod run;
pub mod schedule;
mod suggest;
pub mod template;
pub mod units;
mod worker;

pub use run::{Finished, RunOptions, run_observed, run_scenario};
pub use worker::PrepareError;
