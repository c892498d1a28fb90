//! Figures of a run, and the forms in which they are reported.

mod markdown;
mod metric;
mod report;

pub(crate) use metric::{Metric, Samples};
pub(crate) use report::Report;
