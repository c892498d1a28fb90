//! Diagnosis of a machine: connections that it can hold, the limit that binds first, lines to lift
//! it.
//!
//! Owns: the list of limits that bound live connections, the arithmetic that turns each into a
//! number of connections, and the lines that lift it. Never: opens a connection, measures by
//! trying, or changes the machine without being asked.
//!
//! The path of a diagnosis: [`Machine::read`] gathers facts, [`assess`] judges them without
//! touching anything, [`render_text`] and [`render_json`] write the report, [`apply`] and
//! [`persist`] act. [`run`] is all of it, for the command line; [`summary_line`] is for a server's
//! banner; [`explain_errno`] names the limit that ended a run.
//!
//! A file that is missing or unreadable is *unknown*, never an error: containers hide some.

mod apply;
mod assess;
mod explain;
mod machine;
mod plan;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod text;

pub use apply::{Applied, ChangeOutcome, apply};
pub use apply::{PersistedFile, persist, write_persisted};
pub use assess::assess;
pub use explain::{Explanation, explain_errno};
pub use machine::{Conntrack, GroupMemory, Machine, NetworkDevice};
pub use plan::{Plan, Role};
pub use report::{CheckKind, CheckStatus, Fix, LimitCheck, Report, Scope};
pub use run::{Diagnosis, Options, run};
pub use text::{SCHEMA, render_json};
pub use text::{render_text, summary_line};
