//! Input and output of the loader: sources and the places in them, values' origins, problems.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::Config;

/// A configuration file that the caller has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// Name in messages, usually its path.
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The file that `grip.pushpin_conf` names, see [`Config::named_files`]. It stands below our
    /// own.
    pub pushpin: Option<ConfigFile>,
    /// The files in the folder that `pusher.apps_dir` names, in the order of their names.
    pub apps: Vec<ConfigFile>,
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

#[derive(Clone, Debug)]
pub struct Loaded {
    pub config: Config,
    pub(crate) origins: ValueOrigins,
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Default,
    Pushpin {
        name: String,
        /// `section.option`, as it stands there.
        option: &'static str,
    },
    File {
        name: String,
        /// Line number, counted from 1.
        line: u32,
        /// Column in characters, counted from 1.
        column: u32,
    },
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
pub(crate) struct ValueOrigins(pub(crate) BTreeMap<String, Origin>);

impl ValueOrigins {
    /// Origin of a value; [`Origin::Default`] if it was not set.
    pub(crate) fn get(&self, path: &str) -> &Origin {
        self.0.get(path).unwrap_or(&Origin::Default)
    }
}

/// One reason why a configuration is refused. Its text has the place, the fault, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigProblem {
    /// The value at fault; [`Origin::Default`] when something is missing.
    pub origin: Origin,
    /// Fault and remedy, in one line and without the place.
    pub message: String,
}

impl ConfigProblem {
    pub(crate) fn new(origin: Origin, message: impl Into<String>) -> Self {
        Self {
            origin,
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigProblem {
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

impl std::error::Error for ConfigProblem {}

/// A file's text, and the line and column of each of its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    file: &'a ConfigFile,
}

impl<'a> Places<'a> {
    pub(crate) fn new(file: &'a ConfigFile) -> Self {
        Self { file }
    }

    /// Line and column of a byte; an offset outside the text means its end.
    pub(crate) fn origin(&self, byte: usize) -> Origin {
        let text = &self.file.text;
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        let column = before
            .get(line_start..)
            .map_or(0, |line| line.chars().count())
            + 1;
        Origin::File {
            name: self.file.name.clone(),
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn problem(&self, span: &Range<usize>, message: impl Into<String>) -> ConfigProblem {
        ConfigProblem::new(self.origin(span.start), message)
    }

    /// The whole file as a table, or every reason why it is not TOML.
    pub(crate) fn parse(&self) -> Result<DeTable<'a>, Vec<ConfigProblem>> {
        let (table, errors) = DeTable::parse_recoverable(&self.file.text);
        if errors.is_empty() {
            return Ok(table.into_inner());
        }
        if let Some(form) = other_form(&self.file.text) {
            let text = format!(
                "not TOML but {form}: `throng config init` writes a file in TOML, and `throng \
                 config import` translates those of Centrifugo, soketi and Reverb"
            );
            return Err(vec![self.problem(&(0..0), text)]);
        }
        let problem = |error: &toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let why = self.unquoted(span.start);
            let why = why.unwrap_or_else(|| one_line(error.message()));
            self.problem(&span, format!("not valid TOML: {why}"))
        };
        let mut problems: Vec<_> = errors.iter().map(problem).collect();
        // What stands behind a fault on its line is one because of it.
        problems.sort();
        problems.dedup_by_key(|problem| match problem.origin {
            Origin::File { line, .. } => line,
            _ => 0,
        });
        Err(problems)
    }

    /// Advice on a line whose value is TOML in quotes alone. It does not repeat the value, which
    /// may be a secret.
    fn unquoted(&self, byte: usize) -> Option<String> {
        let (before, after) = self.file.text.split_at_checked(byte)?;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let end = byte + after.find('\n').unwrap_or(after.len());
        let line = self.file.text.get(start..end)?.split(" #").next()?.trim();
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            // An item of a list.
            None => ("", line.strip_suffix(',')?),
        };
        let is_list = value.starts_with('[') && !value.contains("]:");
        let words = value.trim_matches(|c| is_list && matches!(c, '[' | ']' | ' '));
        let is_toml = |value: &str| DeTable::parse(&format!("x = {value}")).is_ok();
        let is_bare = |word: &&str| !word.is_empty() && !is_toml(word);
        let bare = words.split(',').map(str::trim).find(is_bare)?;
        if bare.contains(['"', '\'']) {
            return None;
        }
        Some(match (bare.to_ascii_lowercase().as_str(), is_list) {
            (word @ ("true" | "false"), _) => format!("write {word} in small letters"),
            (_, true) => format!("texts stand in quotes: {key} = [\"…\"]"),
            _ if key.is_empty() => "a text stands in quotes: \"…\"".to_owned(),
            _ => format!("a text stands in quotes: {key} = \"…\""),
        })
    }
}

/// The language of a text that is not TOML.
fn other_form(text: &str) -> Option<&'static str> {
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match line.split_once(':') {
        _ if line.starts_with('{') => Some("JSON"),
        Some((key, rest))
            if key.chars().all(is_word) && (rest.is_empty() || rest.starts_with(' ')) =>
        {
            Some("YAML")
        }
        _ => (line == "---").then_some("YAML"),
    }
}

/// The value of a key.
pub(crate) fn entry<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    let found = table.iter().find(|(name, _)| name.get_ref() == key);
    found.map(|(_, value)| value)
}

fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message.lines().map(str::trim).collect();
    lines.join(", ")
}

/// The rows of a table of ours: cells between bars, the last ones may be missing; lines that begin
/// with `#` are comments.
pub(crate) fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut cells = line.splitn(N, " | ");
        std::array::from_fn(|_| cells.next().unwrap_or_default())
    })
}
