//! What a run is: one model, whatever it was written in.
//!
//! Owns: the scenario, its defaults, its validation, and its TOML form. Importers (`import`) and
//! command lines make the same [`Scenario`]. Never: opens a file, resolves a name.

mod channels;
mod read;
mod scenario;
mod section;
mod target;
mod validate;

pub use channels::Channels;
pub use read::read_toml;
pub use scenario::{
    Choose, Dialect, Kind, Marker, Publish, Say, Scenario, StatsdExport, Transport, Until, Via,
};
pub use section::Problem;
pub(crate) use section::line_of;
pub use target::{Target, TargetError};
