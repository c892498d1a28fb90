//! Metrics: every name once, one set of counters per shard, sums, and the texts that tools read.
//!
//! Owns: the table of metrics (`names`), counting (`counters`), adding up and differences
//! (`totals`), durations that end with a turn (`turn`), metrics with a label of their users'
//! (`labelled`, `namespaces`), traces of durations (`exemplars`), and the forms for Prometheus, for
//! `/stats` and for the documentation (`text`, `json`, `pushpin`, `reference`).
//!
//! Never: reads a clock or the process; the caller sets in [`Totals`] what is only known
//! outside (memory, CPU time, descriptors, uptime). Counting takes no lock, allocates nothing and
//! uses no floats.
//!
//! Invariants
//! - A cell of [`Counters`] has one writer; see there.
//! - A metric is declared by one line of the table, and every text follows from it.

mod counters;
mod exemplars;
mod histogram;
mod json;
mod labelled;
mod names;
mod namespaces;
mod pushpin;
mod reference;
mod text;
mod totals;
mod turn;

pub use counters::Counters;
pub use exemplars::Exemplars;
pub use histogram::{BOUNDS_US, Buckets};
pub use json::write_json;
pub use labelled::{AppValues, write_apps};
pub use names::{AppMetric, Counter, Gauge, Histogram, Label, NamespaceMetric};
pub use namespaces::{NamespaceLabels, write_namespaces};
pub use pushpin::write_pushpin;
pub use reference::reference_text;
pub use text::{Exposition, write_text};
pub use totals::{Delta, Totals};
pub use turn::TurnTimes;
