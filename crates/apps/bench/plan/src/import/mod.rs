//! Other tools' scenarios, as scenarios of ours.
//!
//! Owns: reading Tsung's XML and TCPKali's command line. Never: guesses. What is not supported is
//! refused with its line or its name, and what works differently here is said in a note.

mod tcpkali;
mod tsung;
mod xml;

pub use tcpkali::read_tcpkali;
pub use tsung::{TsungOptions, read_tsung};

use crate::Scenario;

/// A scenario that was written for another tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// What will run.
    pub scenario: Scenario,
    /// What the reader should know before it runs: what the original would do, and what is
    /// different here.
    pub notes: Vec<String>,
}
