//! Data of a run from a CSV file: a row of texts for each connection, put into templates as
//! `{data.NAME}`.
//!
//! Owns: reading CSV (RFC 4180) and its bounds; which row a number gets. Rows begin anew when there
//! are more connections than rows. Never: opens a file; puts a cell where it would change a
//! request's shape, since a cell has no control characters.
//!
//! ```text
//! user,token
//! ann,eyJhbGciOi…
//! "Doe, John",eyJhbGciOi…
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Largest file, in bytes. A scenario goes to agents in one message of 8 MiB at most.
pub const DATA_BYTES_MAX: usize = 4 << 20;
/// Most columns; more is a file of another kind.
const COLUMNS_MAX: usize = 64;

/// Rows of texts with named columns. Clones share them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Plain", into = "Plain")]
pub struct Data(Arc<Table>);

#[derive(Debug, PartialEq, Eq)]
struct Table {
    columns: Vec<String>,
    // Row after row.
    cells: Vec<Box<str>>,
}

/// Form in which data travel.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plain {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Data {
    /// Reads CSV whose first line names the columns. Empty lines are left out.
    pub fn from_csv(text: &str) -> Result<Self, String> {
        let bytes = text.len();
        if bytes > DATA_BYTES_MAX {
            return Err(format!(
                "the CSV has {bytes} bytes, {DATA_BYTES_MAX} are allowed"
            ));
        }
        let at = |line: usize| move |why| format!("line {line} of the CSV: {why}");
        // Spreadsheets write a mark at the beginning.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut rows = Vec::new();
        for (line, row) in (1..).zip(text.lines()) {
            if !row.is_empty() {
                rows.push((line, cells(row).map_err(at(line))?));
            }
        }
        let mut rows = rows.into_iter();
        let columns = rows.next().map(|(_, names)| names).unwrap_or_default();
        let mut table = Table::new(columns).map_err(at(1))?;
        for (line, row) in rows {
            table.add(row).map_err(at(line))?;
        }
        if table.cells.is_empty() {
            return Err("the CSV has no row below the names of its columns".into());
        }
        Ok(Self(Arc::new(table)))
    }

    pub fn columns(&self) -> &[String] {
        &self.0.columns
    }

    pub fn rows(&self) -> usize {
        self.0.cells.len() / self.0.columns.len()
    }

    pub(crate) fn cells_of(&self, column: usize) -> impl Iterator<Item = &str> {
        let cells = self.0.cells.iter().skip(column);
        cells.step_by(self.0.columns.len()).map(|cell| &**cell)
    }

    /// Cell of a column in the row of connection `n`; empty if there are no rows.
    pub(crate) fn cell(&self, column: usize, n: u64) -> &str {
        let row = n.checked_rem(self.rows() as u64).unwrap_or(0) as usize;
        let at = row * self.0.columns.len() + column;
        self.0.cells.get(at).map_or("", |cell| cell)
    }

    /// Copies the columns without rows, for results that must not keep them.
    pub(crate) fn without_rows(&self) -> Self {
        let columns = self.0.columns.clone();
        Self(Arc::new(Table {
            columns,
            cells: Vec::new(),
        }))
    }
}

impl Table {
    fn new(columns: Vec<String>) -> Result<Self, String> {
        if columns.is_empty() || columns.len() > COLUMNS_MAX {
            return Err(format!(
                "the first line names 1 to {COLUMNS_MAX} columns, as in `user,token`"
            ));
        }
        for (at, name) in columns.iter().enumerate() {
            let letters = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(letters) {
                return Err(format!(
                    "`{}` cannot name a column: a name has letters, digits and `_`",
                    name.escape_debug()
                ));
            }
            if columns.iter().take(at).any(|before| before == name) {
                return Err(format!("two columns have the name `{name}`"));
            }
        }
        Ok(Self {
            columns,
            cells: Vec::new(),
        })
    }

    fn add(&mut self, row: Vec<String>) -> Result<(), String> {
        if row.len() != self.columns.len() {
            return Err(format!(
                "it has {} cells, and the first line names {} columns",
                row.len(),
                self.columns.len()
            ));
        }
        if row.iter().any(|cell| cell.contains(char::is_control)) {
            return Err("a cell has a control character".into());
        }
        self.cells.extend(row.into_iter().map(Into::into));
        Ok(())
    }
}

impl TryFrom<Plain> for Data {
    type Error = String;

    fn try_from(plain: Plain) -> Result<Self, String> {
        let mut table = Table::new(plain.columns)?;
        plain.rows.into_iter().try_for_each(|row| table.add(row))?;
        Ok(Self(Arc::new(table)))
    }
}

impl From<Data> for Plain {
    fn from(data: Data) -> Self {
        let rows = data.0.cells.chunks(data.0.columns.len());
        let texts = |row: &[Box<str>]| row.iter().map(|cell| cell.to_string()).collect();
        Self {
            rows: rows.map(texts).collect(),
            columns: data.0.columns.clone(),
        }
    }
}

fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquoted(quoted)?,
            None => {
                let (cell, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
                if cell.contains('"') {
                    return Err(
                        "a quote in the middle of a cell; put the cell into quotes and \
                                write each quote in it twice"
                            .into(),
                    );
                }
                (cell.to_owned(), after)
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(cells),
            None => return Err("after a quoted cell comes a comma or the end of the line".into()),
        }
    }
}

/// Reads a cell behind its opening quote; also returns the text after the closing one.
fn unquoted(mut rest: &str) -> Result<(String, &str), String> {
    let mut cell = String::new();
    loop {
        let Some((before, after)) = rest.split_once('"') else {
            return Err("a quote is not closed on its line; a cell has one line".into());
        };
        cell.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                cell.push('"');
                rest = more;
            }
            None => return Ok((cell, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::*;

    #[test]
    fn rows_are_read_and_begin_anew() {
        let text = "\u{feff}user,note\r\nann,\r\n\r\n\"Doe, John\",\"says \"\"hi\"\"\"\n";
        let data = Data::from_csv(text).unwrap();
        assert_eq!((data.columns().len(), data.rows()), (2, 2));
        assert_eq!(data.cell(0, 0), "ann");
        assert_eq!(data.cell(1, 0), "");
        assert_eq!(data.cell(0, 3), "Doe, John");
        assert_eq!(data.cell(1, 1), "says \"hi\"");
        assert_eq!(data.cells_of(0).collect::<Vec<_>>(), ["ann", "Doe, John"]);
        let json = serde_json::to_string(&data).unwrap();
        assert_eq!(serde_json::from_str::<Data>(&json).unwrap(), data);
        assert_eq!(data.without_rows().cell(1, 5), "");
    }

    #[track_caller]
    fn check_refused(text: &str, line: Option<usize>, message: &str) {
        let error = Data::from_csv(text).unwrap_err();
        let place = line.map_or_else(String::new, |line| format!("line {line} of the CSV: "));
        assert!(error.starts_with(&place), "{error}");
        assert_eq!(error.contains(" of the CSV: "), line.is_some(), "{error}");
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn what_is_not_data_is_refused_with_its_line() {
        check_refused("", Some(1), "as in `user,token`");
        check_refused("a,b\n", None, "no row");
        check_refused("a,a\n1,2", Some(1), "two columns have the name `a`");
        check_refused("a b\n1", Some(1), "cannot name a column");
        check_refused(
            "a,b\n1,2\n1",
            Some(3),
            "it has 1 cells, and the first line names 2",
        );
        check_refused("a\n\"1", Some(2), "not closed");
        check_refused("a\n\"1\"2", Some(2), "a comma or the end");
        check_refused("a\n1\"2", Some(2), "in the middle");
        check_refused("a\n1\t2", Some(2), "control character");
        check_refused(&"x".repeat(DATA_BYTES_MAX + 1), None, "are allowed");
        let json = r#"{"columns":["a"],"rows":[["1","2"]]}"#;
        assert!(serde_json::from_str::<Data>(json).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a,\"\r\n\u{feff}é]{0,40}") {
            if let Ok(data) = Data::from_csv(&text) {
                assert!((0..9).all(|n| !data.cell(0, n).contains('\n')));
            }
        }
    }
}
