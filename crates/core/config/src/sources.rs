//! Input and output of the loader.

use crate::config::Config;
use crate::origin::Origins;

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
    pub origins: Origins,
    /// Sentences on values that are allowed but probably not meant.
    pub warnings: Vec<String>,
}
