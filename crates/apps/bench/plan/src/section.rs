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
    pub message: String,
}

impl Problem {
    /// Returns true for a key that nobody took, in whose place nothing was read.
    pub(crate) fn is_unknown_key(&self) -> bool {
        self.message.starts_with("unknown key ")
    }
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

    fn add(&self, at: usize, message: String) {
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
    pub(crate) fn complain(&self, message: &str) {
        self.complaints.add(self.at, message.to_owned());
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

    /// Returns what was read from the value; complains if it is nothing.
    fn read<T>(&self, key: &str, value: &Value<'_>, wanted: &str, found: Option<T>) -> Option<T> {
        if found.is_none() {
            let (path, kind) = (self.path(key), value.get_ref().type_str());
            let article = match kind.starts_with(['a', 'e', 'i', 'o', 'u']) {
                true => "an",
                false => "a",
            };
            let message = format!("`{path}` is {article} {kind}, and should be {wanted}");
            self.complaints.add(value.span().start, message);
        }
        found
    }

    /// Returns what was parsed; complains if it could not be.
    fn checked<T, E: fmt::Display>(
        &self,
        key: &str,
        value: &Value<'_>,
        parsed: Result<T, E>,
    ) -> Option<T> {
        let complain = |why: E| {
            let message = format!("`{}`: {why}", self.path(key));
            self.complaints.add(value.span().start, message);
        };
        parsed.map_err(complain).ok()
    }

    pub(crate) fn text(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        self.read(key, &value, "a text in quotes", text)
    }

    pub(crate) fn flag(&mut self, key: &'static str) -> Option<bool> {
        let value = self.take(key)?;
        self.read(key, &value, "true or false", value.get_ref().as_bool())
    }

    pub(crate) fn parsed<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let text = match value.get_ref() {
            DeValue::String(text) => Some(text.as_ref()),
            DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            _ => None,
        };
        let text = self.read(key, &value, "a text or a number", text)?;
        self.checked(key, &value, parse(text))
    }

    /// Parses a text or a number into `into`, which stays as it is without the key.
    pub(crate) fn set<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        into: &mut T,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) {
        if let Some(parsed) = self.parsed(key, parse) {
            *into = parsed;
        }
    }

    /// Takes a text that must be one of several words. Goes on with the word that was probably
    /// meant, so that what depends on it is not refused as well.
    pub(crate) fn word(
        &mut self,
        key: &'static str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let mut near = None;
        let read = self.parsed(key, |text| match words.iter().find(|word| **word == text) {
            Some(word) => Ok(*word),
            None => {
                near = nearest(text, words.iter().copied());
                Err(near.map_or_else(
                    || format!("`{text}` is unknown; known are {}", words.join(", ")),
                    |near| format!("`{text}` is unknown; did you mean `{near}`?"),
                ))
            }
        });
        read.or(near)
    }

    pub(crate) fn list<T, E: fmt::Display>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let items: Option<Vec<&Value<'_>>> = match value.get_ref() {
            DeValue::String(_) => Some(vec![&value]),
            DeValue::Array(array) => Some(array.iter().collect()),
            _ => None,
        };
        let items = self.read(key, &value, "a text or a list of texts", items)?;
        let parse = |item: &Value<'_>| {
            let text = self.read(key, item, "a text in quotes", item.get_ref().as_str())?;
            self.checked(key, item, parse(text))
        };
        Some(items.into_iter().filter_map(parse).collect())
    }

    pub(crate) fn texts(&mut self, key: &'static str) -> Vec<String> {
        self.list(key, |text| Ok::<_, String>(text.to_owned()))
            .unwrap_or_default()
    }

    /// Takes a table of texts, as headers are written.
    pub(crate) fn pairs(&mut self, key: &'static str) -> Vec<(String, String)> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let table = self.read(key, &value, "a table of texts", value.get_ref().as_table());
        let pairs = table.into_iter().flatten().filter_map(|(name, value)| {
            let text = value.get_ref().as_str();
            let text = self.read(key, value, "a table of texts in quotes", text)?;
            Some((name.get_ref().to_string(), text.to_owned()))
        });
        pairs.collect()
    }

    /// Takes a table within this one. A misspelt one is refused, and what is in it is read.
    pub(crate) fn section(&mut self, key: &'static str) -> Option<Self> {
        let value = match self.take(key) {
            Some(value) => value,
            None => self.misspelt(key)?,
        };
        let (at, path) = (value.span().start, self.path(key));
        match value.into_inner() {
            DeValue::Table(table) => Some(Self::new(&path, at, table, &self.complaints)),
            other => {
                let kind = other.type_str();
                let message = format!("`{path}` is a {kind}, and should be a table");
                self.complaints.add(at, message);
                None
            }
        }
    }

    fn misspelt(&mut self, key: &'static str) -> Option<Value<'t>> {
        let tables = self.table.iter();
        let mut tables = tables.filter(|(_, value)| value.get_ref().is_table());
        let is_near = |name: &str| nearest(name, [key]).is_some();
        let (name, _) = tables.find(|(name, _)| is_near(name.get_ref()))?;
        let name = name.clone();
        let message = format!(
            "unknown key `{}`; did you mean `{}`?",
            name.get_ref(),
            self.path(key)
        );
        self.complaints.add(name.span().start, message);
        self.table.remove(name.get_ref().as_ref())
    }

    /// Refuses a table that belongs to something else.
    pub(crate) fn refuse_section(&mut self, key: &'static str, belongs_to: &str) {
        if let Some(value) = self.take(key) {
            let message = format!("`{}` belongs to {belongs_to}", self.path(key));
            self.complaints.add(value.span().start, message);
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
        let section = |item: Value<'t>| {
            let at = item.span().start;
            if let DeValue::Table(table) = item.into_inner() {
                return Some(Self::new(&path, at, table, &self.complaints));
            }
            self.complaints.add(at, wrong.clone());
            None
        };
        array.into_iter().filter_map(section).collect()
    }

    /// Complains about a missing key; to be asked before the key is taken.
    pub(crate) fn require(&self, key: &'static str, example: &str) {
        if !self.has(key) {
            let message = format!("`{}` is missing, as in `{example}`", self.path(key));
            self.complaints.add(self.at, message);
        }
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Refuses keys that nobody took.
    pub(crate) fn finish(mut self) {
        self.asked.sort_unstable();
        self.asked.dedup();
        let place = match self.name.as_str() {
            "" => String::new(),
            name => format!(" in [{name}]"),
        };
        for (key, _) in &self.table {
            let name = key.get_ref().as_ref();
            let help = nearest(name, self.asked.iter().copied()).map_or_else(
                || format!("known are {}", self.asked.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            let message = format!("unknown key `{name}`{place}; {help}");
            self.complaints.add(key.span().start, message);
        }
    }
}
