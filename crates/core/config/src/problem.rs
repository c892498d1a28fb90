//! Problems of a configuration.

use std::fmt;

use crate::origin::Origin;

/// One reason why a configuration is refused. Its text has the place, the fault, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The value at fault; [`Origin::Default`] when something is missing.
    pub origin: Origin,
    /// Fault and remedy, in one line and without the place.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self {
            origin,
            message: message.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Origin::Default => f.write_str(&self.message),
            Origin::File { name, line, column } => {
                write!(f, "{name}:{line}:{column}: {}", self.message)
            }
            other => write!(f, "{other}: {}", self.message),
        }
    }
}

impl std::error::Error for Problem {}
