//! What the user may change about an import.

use crate::Target;

/// How an import is bent to the machine at hand.
#[derive(Clone, Debug, PartialEq)]
pub struct TsungOptions {
    /// Instead of the file's servers. Its path replaces the file's, unless it is `/`.
    pub target: Option<Target>,
    /// Multiplies numbers of users and rates.
    pub scale: f64,
    /// An upper bound of the whole run.
    pub duration_us: Option<u64>,
}

impl Default for TsungOptions {
    fn default() -> Self {
        Self {
            target: None,
            scale: 1.0,
            duration_us: None,
        }
    }
}
