//! What a run of the load generator is: one model, whatever it was written in.
//!
//! Owns: the scenario with its defaults, validation and TOML form ([`read_toml`]); the readers of
//! other tools' files ([`import`]); when each event is due ([`schedule`]); from which address and
//! port each connection comes ([`ports`]); what a measured message carries ([`payload`]); texts
//! with placeholders ([`template`]) and data for them ([`Data`]); and what a result must be to pass
//! ([`check`]).
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

pub use channels::Channels;
pub use data::{DATA_BYTES_MAX, Data};
pub use read::{ReadFile, read_toml, read_toml_with};
pub use redact::{MASK, Redactor};
pub use scenario::{
    Choose, Dialect, Kind, Marker, Publish, Say, Scenario, StatsdExport, TlsTrust, Transport,
    Until, Via,
};
pub use section::Problem;
pub(crate) use section::line_of;
pub use throng_client::{Target, TargetError};
