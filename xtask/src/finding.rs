//! What a check found: a place and what is wrong there.

use std::fmt;

/// Something that has to change before the tree is tidy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A path, with a line where that helps.
    pub(crate) place: String,
    /// Describes the fault and its remedy.
    pub(crate) message: String,
}

impl Finding {
    /// A finding about a whole file or crate.
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }

    /// A finding about one line, counted from 1.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}
