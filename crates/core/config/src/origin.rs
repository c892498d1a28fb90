//! Origins of values.

use std::collections::BTreeMap;
use std::fmt;

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// Default of the option.
    Default,
    /// An option of Pushpin's file.
    Pushpin {
        /// The name that the caller gave the file.
        name: String,
        /// `section.option`, as it stands there.
        option: &'static str,
    },
    /// Place in the configuration file.
    File {
        /// The name that the caller gave the file.
        name: String,
        /// Line number, counted from 1.
        line: u32,
        /// Column in characters, counted from 1.
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

/// Origin of each value, by path: `listen.api`, `namespace[0].history_size`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(pub(crate) BTreeMap<String, Origin>);

impl Origins {
    /// Origin of a value; [`Origin::Default`] if it was not set.
    #[must_use]
    pub fn get(&self, path: &str) -> &Origin {
        self.0.get(path).unwrap_or(&Origin::Default)
    }

    /// All values that were set, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Origin)> {
        self.0.iter().map(|(path, origin)| (path.as_str(), origin))
    }
}
