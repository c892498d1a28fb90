//! Importers of other tools' scenarios.
//!
//! Owns: reading Tsung's XML and TCPKali's command line. Never: guesses. Unsupported parts
//! are refused with their line or name; a note says where a part works differently here.

mod tcpkali;
mod tsung;
mod xml;

pub use tcpkali::read_tcpkali;
pub use tsung::{TsungOptions, read_tsung};

use crate::Scenario;

#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub scenario: Scenario,
    /// Sentences on the original load, and on the differences to it here.
    pub notes: Vec<String>,
}
