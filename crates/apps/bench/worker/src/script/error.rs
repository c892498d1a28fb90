//! Why a scenario cannot run on this machine.

use std::fmt;

use throng_bench_plan::ports::Shortfall;
use throng_bench_plan::template::TemplateError;

/// Why a scenario cannot run here.
#[derive(Debug)]
pub enum PrepareError {
    /// The scenario makes no sense; one sentence each.
    Scenario(Vec<String>),
    /// A template cannot be read.
    Template(TemplateError),
    /// A host has no address.
    Resolve {
        /// The target.
        target: String,
        /// What the system said.
        why: String,
    },
    /// TLS with a target cannot begin.
    Tls {
        /// The target.
        target: String,
        /// What stands in the way, in words.
        why: String,
    },
    /// The machine cannot hold what was asked for: the limit by its kernel's name, and a sentence.
    Limit {
        /// `nofile`, `ip_local_port_range`, …
        limit: &'static str,
        /// What is missing and what lifts it.
        sentence: String,
    },
    /// The system refused a thread, a descriptor or a port that the generator itself needs.
    System {
        /// What for.
        what: &'static str,
        /// What it said.
        why: std::io::Error,
    },
}

impl fmt::Display for PrepareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario(problems) => f.write_str(&problems.join("; ")),
            Self::Template(error) => error.fmt(f),
            Self::Resolve { target, why } => write!(f, "{target} cannot be resolved: {why}"),
            Self::Tls { target, why } => write!(f, "TLS with {target}: {why}"),
            Self::Limit { limit, sentence } => write!(f, "{limit}: {sentence}"),
            Self::System { what, why } => write!(f, "{what}: {why}"),
        }
    }
}

impl std::error::Error for PrepareError {}

impl From<TemplateError> for PrepareError {
    fn from(error: TemplateError) -> Self {
        Self::Template(error)
    }
}

impl From<Shortfall> for PrepareError {
    fn from(shortfall: Shortfall) -> Self {
        Self::Limit {
            limit: "source ports",
            sentence: shortfall.to_string(),
        }
    }
}
