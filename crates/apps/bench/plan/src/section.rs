//! Table of a TOML file: keys are taken one by one, and keys that nobody took are refused.
//!
//! Owns: the place of every key (line and column) and the wording of complaints. All problems of a
//! file are gathered, so that one reading shows them all.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use throng_types::nearest;

/// Fault of a scenario, with its line and a way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The line, from 1; none where the scenario did not come from a text.
    pub line: Option<usize>,
    /// Sentence on the fault, with a way out.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Number of the line (from 1) that a byte of a text is on.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    1 + memchr::memchr_iter(b'\n', before).count()
}

/// Collector of problems, with the text whose lines they name.
#[derive(Clone)]
pub(crate) struct Complaints<'t> {
    text: &'t str,
    problems: Rc<RefCell<Vec<Problem>>>,
}

impl<'t> Complaints<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            problems: Rc::default(),
        }
    }

    pub(crate) fn add(&self, at: usize, message: String) {
        self.problems.borrow_mut().push(Problem {
            line: Some(line_of(self.text, at)),
            message,
        });
    }

    pub(crate) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.take();
        problems.sort();
        problems
    }
}

type Value<'t> = Spanned<DeValue<'t>>;

/// A table whose keys are being taken.
pub(crate) struct Section<'t> {
    /// `publish` in `[publish]`; empty at the top.
    name: String,
    at: usize,
    table: DeTable<'t>,
    asked: Vec<&'static str>,
    complaints: Complaints<'t>,
}

impl<'t> Section<'t> {
    pub(crate) fn new(
        name: &str,
        at: usize,
        table: DeTable<'t>,
        complaints: &Complaints<'t>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            at,
            table,
            asked: Vec::new(),
            complaints: complaints.clone(),
        }
    }

    /// Complains about the section as a whole.
    pub(crate) fn complain(&self, message: String) {
        self.complaints.add(self.at, message);
    }

    fn take(&mut self, key: &'static str) -> Option<Value<'t>> {
        self.asked.push(key);
        self.table.remove(key)
    }

    /// Key with the section's name before it, as people find it in the file.
    fn path(&self, key: &str) -> String {
        if self.name.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.name)
        }
    }

    fn wrong_type(&self, key: &str, value: &Value<'_>, wanted: &str) {
        self.complaints.add(
            value.span().start,
            format!(
                "`{}` is {} {}, and should be {wanted}",
                self.path(key),
                article(value.get_ref().type_str()),
                value.get_ref().type_str()
            ),
        );
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.wrong_type(key, &value, "a text in quotes");
        }
        text
    }

    /// Parses a text or number.
    pub(crate) fn parsed<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            DeValue::Float(number) => number.as_str(),
            _ => {
                self.wrong_type(key, &value, "a text or a number");
                return None;
            }
        };
        match parse(text) {
            Ok(parsed) => Some(parsed),
            Err(why) => {
                self.complaints
                    .add(value.span().start, format!("`{}`: {why}", self.path(key)));
                None
            }
        }
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        let flag = value.get_ref().as_bool();
        if flag.is_none() {
            self.wrong_type(key, &value, "true or false");
        }
        flag
    }

    /// Takes a text that must be one of several words.
    pub(crate) fn word(
        &mut self,
        key: &'static str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        self.parsed(key, |text| match words.iter().find(|word| **word == text) {
            Some(word) => Ok(*word),
            None => Err(nearest(text, words.iter().copied()).map_or_else(
                || format!("`{text}` is unknown; known are {}", words.join(", ")),
                |near| format!("`{text}` is unknown; did you mean `{near}`?"),
            )),
        })
    }

    /// Parses one text or a list of texts.
    pub(crate) fn list<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let items: Vec<&Value<'_>> = match value.get_ref() {
            DeValue::String(_) => vec![&value],
            DeValue::Array(array) => array.iter().collect(),
            _ => {
                self.wrong_type(key, &value, "a text or a list of texts");
                return None;
            }
        };
        let mut parsed = Vec::with_capacity(items.len());
        for item in items {
            match item.get_ref().as_str().map(&parse) {
                Some(Ok(one)) => parsed.push(one),
                Some(Err(why)) => self
                    .complaints
                    .add(item.span().start, format!("`{}`: {why}", self.path(key))),
                None => self.wrong_type(key, item, "a text in quotes"),
            }
        }
        Some(parsed)
    }

    pub(crate) fn texts_of(&mut self, key: &'static str) -> Vec<String> {
        self.list(key, |text| Ok::<_, String>(text.to_owned()))
            .unwrap_or_default()
    }

    /// Takes a table of texts, as headers are written.
    pub(crate) fn texts(&mut self, key: &'static str) -> Option<Vec<(String, String)>> {
        let value = self.take(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_type(key, &value, "a table of texts");
            return None;
        };
        let mut texts = Vec::new();
        for (name, value) in table {
            match value.get_ref().as_str() {
                Some(text) => texts.push((name.get_ref().to_string(), text.to_owned())),
                None => self.wrong_type(key, value, "a table of texts in quotes"),
            }
        }
        Some(texts)
    }

    /// Takes a table within this one.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<Self> {
        let value = self.take(key)?;
        let at = value.span().start;
        let path = self.path(key);
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(&path, at, table, &self.complaints)),
            other => {
                self.complaints.add(
                    at,
                    format!("`{path}` is a {}, and should be a table", other.type_str()),
                );
                None
            }
        }
    }

    /// Takes a table within this one; an absent one has no keys.
    pub(crate) fn section_or_empty(&mut self, key: &'static str) -> Self {
        let empty = Self::new(&self.path(key), self.at, DeTable::new(), &self.complaints);
        self.section(key).unwrap_or(empty)
    }

    /// Takes a list of tables within this one (`[[connect.phase]]`).
    pub(crate) fn sections(&mut self, key: &'static str) -> Vec<Self> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let path = self.path(key);
        let wrong = format!("`{path}` should be a list of tables: `[[{path}]]`");
        let at = value.span().start;
        let DeValue::Array(array) = value.into_inner() else {
            self.complaints.add(at, wrong);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in array {
            let at = item.span().start;
            match item.into_inner() {
                DeValue::Table(table) => {
                    sections.push(Self::new(&path, at, table, &self.complaints));
                }
                _ => self.complaints.add(at, wrong.clone()),
            }
        }
        sections
    }

    /// Complains about a missing key; to be asked before the key is taken.
    pub(crate) fn require(&self, key: &'static str, example: &str) {
        if !self.has(key) {
            self.complaints.add(
                self.at,
                format!("`{}` is missing, as in `{example}`", self.path(key)),
            );
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Refuses keys that nobody took.
    pub(crate) fn finish(self) {
        for (key, _) in &self.table {
            let name = key.get_ref().as_ref();
            let place = if self.name.is_empty() {
                String::new()
            } else {
                format!(" in [{}]", self.name)
            };
            let help = nearest(name, self.asked.iter().copied()).map_or_else(
                || {
                    let mut known = self.asked.clone();
                    known.sort_unstable();
                    known.dedup();
                    format!("known are {}", known.join(", "))
                },
                |near| format!("did you mean `{near}`?"),
            );
            self.complaints.add(
                key.span().start,
                format!("unknown key `{name}`{place}; {help}"),
            );
        }
    }
}

fn article(word: &str) -> &'static str {
    if word.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    }
}
