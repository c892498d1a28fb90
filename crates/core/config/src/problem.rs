//! Where a value came from, and what is wrong with one.

use std::fmt;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// An option of Pushpin's file.
    Pushpin {
        /// The name that the caller gave the file.
        name: String,
        /// `section.option`, as it stands there.
        option: &'static str,
    },
    /// The configuration file.
    File {
        /// The name that the caller gave the file.
        name: String,
        /// Counts from 1.
        line: u32,
        /// Counts characters from 1.
        column: u32,
    },
    /// An environment variable, by its name.
    Env(String),
    /// A command line flag, as it is written: `--api`.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Pushpin { name, option } => write!(f, "{name}: {option}"),
            Self::File { name, line, .. } => write!(f, "{name}:{line}"),
            Self::Env(name) => write!(f, "env {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One reason why a configuration is refused. Its text says where, what, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The value at fault; [`Origin::Default`] when something is missing.
    pub origin: Origin,
    /// What is wrong and what to do, in one line and without the place.
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
