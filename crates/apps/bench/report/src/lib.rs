//! Reports of a run: while it goes on and when it is over.
//!
//! Owns: the schema of results, the text summary, the HTML report, the comparison of two runs; the
//! views of a run that goes on ([`live`]), with the formats that other tools read.
//! Never: writes a file; it makes their bytes. It reads those of earlier runs, for the live page.
//! The schema is described in `schema.md` beside this file.

mod charts;
mod compare;
mod files;
mod html;
pub mod live;
mod results;
mod text;
mod view;

pub use compare::{Comparison, Reading, Row, compare};
pub use files::{ResultFile, files};
pub use html::{comparison_page, report_page};
pub use live::{Observer, RunPhase, Snapshot};
pub use results::{
    AgentSummary, CheckResult, LimitSetting, MachineInfo, Manifest, Results, ResultsError,
    RunTotals, SCHEMA, ServerTotals, StepResult,
};
pub use view::summary;
