//! A given configuration: leaves by their path in version 6, each taken once. The file that is
//! written, and the notes beside it, also on those leaves that nobody took.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::{Table, Value};

use crate::sources::rows;

/// Beginning of the paths of channel options without a namespace.
const WITHOUT_NAMESPACE: &str = "channel.without_namespace.";

/// A value, and its option's name in the file.
#[derive(Clone, Debug)]
pub(crate) struct Leaf {
    pub(crate) option: String,
    pub(crate) value: Value,
}

/// Leaves by their path in version 6.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    leaves: BTreeMap<String, Leaf>,
    /// The options of each namespace, by its name.
    pub(crate) namespaces: Vec<(String, Self)>,
    /// Whether `client.insecure` was on: all clients have all rights in every channel.
    pub(crate) is_insecure: bool,
}

impl Options {
    pub(crate) fn new(tree: &Table) -> Self {
        let mut given = Self::default();
        given.put("", "", tree, six);
        for path in ["channel.namespaces", "namespaces"] {
            for table in given.tables(path) {
                let name = text(&table, "name").unwrap_or_default();
                let mut options = Self::default();
                options.put("", &format!("{name}."), &table, six_of_namespace);
                options.leaves.remove("name");
                given.namespaces.push((name, options));
            }
        }
        given
    }

    /// Reads a single table, under its own names; `place` is its name in the file.
    pub(crate) fn plain(place: &str, table: &Table) -> Self {
        let mut given = Self::default();
        given.put("", place, table, str::to_owned);
        given
    }

    fn put(&mut self, path: &str, place: &str, table: &Table, rename: fn(&str) -> String) {
        for (key, value) in table {
            let path = format!("{path}{key}");
            if let Value::Table(inner) = value {
                self.put(&format!("{path}."), place, inner, rename);
                continue;
            }
            let leaf = Leaf {
                option: format!("{place}{path}"),
                value: value.clone(),
            };
            self.leaves.insert(rename(&path), leaf);
        }
    }

    /// Whether a value is there that switches something on.
    pub(crate) fn has(&self, path: &str) -> bool {
        let leaf = self.leaves.get(path);
        leaf.is_some_and(|leaf| match &leaf.value {
            Value::Boolean(is_on) => *is_on,
            Value::String(text) => !matches!(text.as_str(), "" | "false" | "0"),
            _ => true,
        })
    }

    pub(crate) fn insert(&mut self, path: &str, leaf: Leaf) {
        self.leaves.insert(path.to_owned(), leaf);
    }

    pub(crate) fn take(&mut self, path: &str) -> Option<Leaf> {
        self.leaves.remove(path)
    }

    /// Takes the tables of a list.
    pub(crate) fn tables(&mut self, path: &str) -> Vec<Table> {
        let leaf = self.take(path);
        let all = leaf.and_then(|leaf| leaf.value.try_into::<Vec<Value>>().ok());
        let all = all.into_iter().flatten();
        all.filter_map(|value| value.try_into().ok()).collect()
    }

    /// Takes all values below a path, by what is behind it.
    pub(crate) fn below(&mut self, path: &str) -> Vec<(String, Leaf)> {
        let names = self.leaves.keys().filter(|name| name.starts_with(path));
        let names: Vec<String> = names.cloned().collect();
        let take = |name: String| Some((name[path.len()..].to_owned(), self.leaves.remove(&name)?));
        names.into_iter().filter_map(take).collect()
    }

    /// Takes a text or a number as text; none if it is empty.
    pub(crate) fn text(&mut self, path: &str) -> Option<(String, String)> {
        let leaf = self.take(path)?;
        let text = match leaf.value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some((leaf.option, text))
    }

    /// Takes a number above zero, which may be written as a text.
    pub(crate) fn number(&mut self, path: &str) -> Option<(String, u64)> {
        let (option, text) = self.text(path)?;
        let number = text.trim().parse().ok().filter(|number| *number > 0);
        Some((option, number?))
    }

    /// Takes a switch: its name in the file, if it is on.
    pub(crate) fn is_on(&mut self, path: &str) -> Option<String> {
        let leaf = self.take(path)?;
        let is_on = match &leaf.value {
            Value::Boolean(is_on) => *is_on,
            Value::String(text) => matches!(text.as_str(), "true" | "1"),
            _ => false,
        };
        is_on.then_some(leaf.option)
    }

    /// Takes a list of texts, which may be one text with spaces.
    pub(crate) fn texts(&mut self, path: &str) -> Option<(String, Vec<String>)> {
        let leaf = self.take(path)?;
        let texts: Vec<String> = match &leaf.value {
            Value::Array(all) => all
                .iter()
                .filter_map(|value| Some(value.as_str()?.to_owned()))
                .collect(),
            Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
            _ => Vec::new(),
        };
        (!texts.is_empty()).then_some((leaf.option, texts))
    }

    pub(crate) fn rest(self) -> impl Iterator<Item = (String, Leaf)> {
        let of_namespaces = self.namespaces.into_iter().flat_map(|(_, given)| {
            let leaves = given.leaves.into_iter();
            leaves.map(|(path, leaf)| (format!("{WITHOUT_NAMESPACE}{path}"), leaf))
        });
        self.leaves.into_iter().chain(of_namespaces)
    }

    /// The options of channels without a namespace, apart from all others.
    pub(crate) fn without_namespace(&mut self) -> Self {
        let (own, others) = std::mem::take(&mut self.leaves)
            .into_iter()
            .partition(|(path, _)| path.starts_with(WITHOUT_NAMESPACE));
        self.leaves = others;
        let own: BTreeMap<String, Leaf> = own;
        let own = own.into_iter();
        Self {
            leaves: own
                .map(|(path, leaf)| (path[WITHOUT_NAMESPACE.len()..].to_owned(), leaf))
                .collect(),
            ..Self::default()
        }
    }
}

/// A text of a table; none if it is empty.
pub(crate) fn text(table: &Table, key: &str) -> Option<String> {
    let text = table.get(key)?.as_str()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a switch of a table is on.
pub(crate) fn is(table: &Table, key: &str) -> bool {
    table.get(key).and_then(Value::as_bool) == Some(true)
}

/// Flat option names of version 5, and their paths in version 6.
const OLDER: &str = include_str!("older.txt");
/// Options without a counterpart, with the note on each.
const ABSENT: &str = include_str!("absent.txt");
/// Effect of options in [`ABSENT`] that get no note.
const SILENT: &str = "silent";

/// The path of a root option in version 6; a path that has parts already is one.
fn six(path: &str) -> String {
    if let Some(name) = path.strip_prefix("proxy_static_http_headers.") {
        return format!("proxies.static_http_headers.{name}");
    }
    let renamed = |[old, new]: [&str; 2]| match (old.strip_suffix('*'), new.strip_suffix('*')) {
        (Some(old), Some(new)) => Some(format!("{new}{}", path.strip_prefix(old)?)),
        _ => (path == old).then(|| new.to_owned()),
    };
    let renamed = rows(OLDER).find_map(renamed);
    renamed
        .filter(|_| !path.contains('.'))
        .unwrap_or_else(|| path.to_owned())
}

/// The name of a channel option in version 6.
fn six_of_namespace(name: &str) -> String {
    let path = six(name);
    path.strip_prefix(WITHOUT_NAMESPACE)
        .unwrap_or(name)
        .to_owned()
}

/// Reports the remaining options, unless they have their default.
pub(crate) fn tell_rest(given: Options, notes: &mut Notes) {
    for (path, leaf) in given.rest() {
        if is_nothing(&leaf.value) {
            continue;
        }
        let known = rows::<3>(ABSENT).find(|[start, ..]| path.starts_with(start));
        match known {
            Some([_, SILENT, _]) => {}
            Some([_, effect, text]) => notes.add(Effect::named(effect), &leaf.option, text),
            None => {
                let text = "unknown option: from a later version, from PRO, or mistyped";
                notes.add(Effect::Missing, &leaf.option, text);
            }
        }
    }
}

/// Whether a value is off, empty or zero: the default of each option without a counterpart.
pub(crate) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Boolean(is_on) => !is_on,
        Value::String(text) => matches!(text.as_str(), "" | "false" | "0"),
        Value::Integer(number) => *number == 0,
        Value::Array(all) => all.is_empty(),
        _ => false,
    }
}

/// Sections in the order in which they were begun, each with its lines.
pub(crate) struct Output {
    name: String,
    sections: Vec<(String, Vec<String>)>,
}

impl Output {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            sections: Vec::new(),
        }
    }

    /// Begins a section such as `[listen]` or `[[namespace]]`, or goes on with one of its name.
    fn section(&mut self, head: &str) -> &mut Vec<String> {
        let known = self.sections.iter().position(|(known, _)| known == head);
        let at = match known.filter(|_| !head.starts_with("[[")) {
            Some(at) => at,
            None => {
                self.sections.push((head.to_owned(), Vec::new()));
                self.sections.len() - 1
            }
        };
        &mut self.sections[at].1
    }

    /// Another one of a section that is repeated.
    pub(crate) fn begin(&mut self, head: &str) {
        self.section(head);
    }

    pub(crate) fn put(&mut self, head: &str, key: &str, value: impl Into<Value>) {
        let line = format!("{key} = {}", value.into());
        self.section(head).push(line);
    }

    /// A value in the section that was begun last.
    pub(crate) fn put_last(&mut self, key: &str, value: impl Into<Value>) {
        let line = format!("{key} = {}", value.into());
        if let Some((_, lines)) = self.sections.last_mut() {
            lines.push(line);
        }
    }

    /// Adds a line that is commented out until an operator has checked it.
    pub(crate) fn comment(&mut self, head: &str, text: &str) {
        self.section(head).push(format!("# {text}"));
    }

    pub(crate) fn text(&self) -> String {
        let mut out = format!("# From {}, by `throng config import`.\n", self.name);
        for (head, lines) in &self.sections {
            // A name from outside cannot end the comment that it is in.
            let _ = write!(out, "\n{head}\n");
            for line in lines {
                let _ = writeln!(out, "{line}");
            }
        }
        out
    }
}

/// Consequence of a value that could not be taken over unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Clients may do more than with Centrifugo.
    Wider,
    /// Clients may do less, until an option is set or support is added.
    Narrower,
    Missing,
    Changed,
}

impl Effect {
    /// The effect of a name in our tables.
    pub(crate) fn named(name: &str) -> Self {
        match name {
            "wider" => Self::Wider,
            "narrower" => Self::Narrower,
            "changed" => Self::Changed,
            _ => Self::Missing,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportNote {
    pub effect: Effect,
    pub option: String,
    /// A sentence without a full stop.
    pub text: String,
}

#[derive(Default)]
pub(crate) struct Notes(Vec<ImportNote>);

impl Notes {
    pub(crate) fn add(&mut self, effect: Effect, option: &str, text: impl Into<String>) {
        self.0.push(ImportNote {
            effect,
            option: option.to_owned(),
            text: text.into(),
        });
    }

    /// All notes, the most important first, without duplicates.
    pub(crate) fn all(mut self) -> Vec<ImportNote> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_tables_are_whole() {
        for [start, effect, text] in rows(ABSENT) {
            assert!(!start.is_empty(), "{text}");
            match effect {
                SILENT => assert_eq!(text, "", "{start}"),
                _ => assert_eq!(
                    effect,
                    format!("{:?}", Effect::named(effect)).to_lowercase()
                ),
            }
        }
        assert!(rows(OLDER).all(|[old, new]| old.ends_with('*') == new.ends_with('*')));
    }
}
