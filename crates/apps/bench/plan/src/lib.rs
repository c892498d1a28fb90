//! Plan of a run of the load generator: one model for all sources.
//!
//! Owns: the scenario with its defaults, validation and TOML form ([`read_toml_with`]); the readers
//! of other tools' files ([`import`]); due times of events ([`schedule`]); the address and port of
//! each connection ([`ports`]); measured messages ([`payload`]); texts with placeholders
//! ([`template`]) and data for them ([`Data`]); and conditions on results ([`check`]).
//!
//! Never: opens a file or a socket, resolves a name, reads a clock. Randomness comes from the
//! scenario's seed.

mod channels;
pub mod check;
mod data;
pub mod import;
pub mod payload;
pub mod ports;
mod read;
mod redact;
mod scenario;
pub mod schedule;
mod section;
pub mod template;
mod validate;

pub use channels::ChannelPlan;
pub use data::{DATA_BYTES_MAX, Data};
pub use read::{ScenarioFiles, read_toml_with};
pub use redact::{MASK, Redactor};
pub use scenario::{
    ChannelChoice, ClientTransport, Dialect, Marker, PeriodicMessage, Publish, RateSearch,
    Scenario, StatsdExport, TlsTrust, Via, Workload,
};
pub use section::Problem;
pub(crate) use section::line_of;
pub use throng_client::Target;

#[cfg(test)]
mod scenario_tests;
#[cfg(test)]
mod words_tests;
