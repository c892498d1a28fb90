//! The configuration file as a tree whose parts know their line and column, and tables of ours.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::sources::{ConfigFile, Origin, Problem};

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

    pub(crate) fn problem(&self, span: &Range<usize>, message: impl Into<String>) -> Problem {
        Problem::new(self.origin(span.start), message)
    }

    /// The whole file as a table, or every reason why it is not TOML.
    pub(crate) fn parse(&self) -> Result<DeTable<'a>, Vec<Problem>> {
        let (table, errors) = DeTable::parse_recoverable(&self.file.text);
        if errors.is_empty() {
            return Ok(table.into_inner());
        }
        let problem = |error: &toml::de::Error| {
            let span = error.span().unwrap_or_default();
            self.problem(
                &span,
                format!("not valid TOML: {}", one_line(error.message())),
            )
        };
        Err(errors.iter().map(problem).collect())
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
