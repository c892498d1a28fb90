//! Input and output of the loader: sources, values' origins, problems.

use std::collections::BTreeMap;
use std::fmt;

use crate::config::Config;

/// A configuration file that the caller has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// Name in messages, usually its path.
    pub name: String,
    /// Content of the file.
    pub text: String,
}

/// Everything that a configuration is made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that `grip.pushpin_conf` names, see [`Config::pushpin_conf`]. It stands below our
    /// own.
    pub pushpin: Option<ConfigFile>,
    /// The file, if there is one.
    pub file: Option<ConfigFile>,
    /// Environment variables. The caller may hand over all: names that do not begin with
    /// `THRONG_` are not looked at. An empty value counts as not set, and is an error where a
    /// secret or key belongs.
    pub env: Vec<(String, String)>,
    /// Flags with values. A flag is `--api`, if the option has one of its own, or the option's
    /// path, if it was set by path: `("listen.api", "127.0.0.1:9001")`. Of several values for
    /// one option the last wins; an option that is a list takes them all.
    pub flags: Vec<(String, String)>,
}

/// A configuration that passed every check.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Values of all options.
    pub config: Config,
    /// Origin of each value.
    pub origins: ValueOrigins,
    /// Sentences on values that are allowed but probably not meant.
    pub warnings: Vec<String>,
}

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
pub struct ValueOrigins(pub(crate) BTreeMap<String, Origin>);

impl ValueOrigins {
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
