//! The results of a run: a folder of files that can be read without us, and pages that open from
//! disk.
//!
//! Owns: the schema of results, the text summary, the HTML report, the comparison of two runs.
//! Never: writes a file; it makes their bytes. The schema is described in `schema.md` beside this
//! module.

mod charts;
mod compare;
mod html;
mod results;
mod text;

pub use compare::{Comparison, Reading, Row, compare};
pub use html::{comparison_page, report_page};
pub use results::{
    AgentSummary, CheckResult, LimitSetting, Machine, Manifest, ResultFile, Results, ResultsError,
    SCHEMA, ServerTotals, StepResult, Totals, files,
};
pub use text::summary;
