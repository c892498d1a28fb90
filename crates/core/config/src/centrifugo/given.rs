//! A given configuration: leaves by their path in version 6, each taken once.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::older;

/// A value, and its option's name in the file.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) option: String,
    pub(super) value: Value,
}

/// Leaves by their path in version 6.
#[derive(Clone, Debug, Default)]
pub(super) struct Given {
    leaves: BTreeMap<String, Leaf>,
    /// The options of each namespace, by its name.
    pub(super) namespaces: Vec<(String, Self)>,
    /// Whether `client.insecure` was on: all clients have all rights in every channel.
    pub(super) is_insecure: bool,
}

impl Given {
    /// Reads the tree of a whole configuration.
    pub(super) fn new(tree: &Table) -> Self {
        let mut given = Self::default();
        given.put("", "", tree, older::root);
        for path in ["channel.namespaces", "namespaces"] {
            let Some(leaf) = given.leaves.remove(path) else {
                continue;
            };
            for value in leaf.value.as_array().into_iter().flatten() {
                let Some(table) = value.as_table() else {
                    continue;
                };
                let name = table
                    .get("name")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                let mut options = Self::default();
                let place = format!("{name}.");
                options.put("", &place, table, older::namespace);
                options.leaves.remove("name");
                given.namespaces.push((name.to_owned(), options));
            }
        }
        given
    }

    /// Reads a single table, under its own names; `place` is its name in the file.
    pub(super) fn plain(place: &str, table: &Table) -> Self {
        let mut given = Self::default();
        given.put("", place, table, |path, _| path.to_owned());
        given
    }

    fn put(&mut self, path: &str, place: &str, table: &Table, rename: fn(&str, &Value) -> String) {
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
            self.leaves.insert(rename(&path, value), leaf);
        }
    }

    /// Whether a value is there that switches something on.
    pub(super) fn has(&self, path: &str) -> bool {
        let leaf = self.leaves.get(path);
        leaf.is_some_and(|leaf| match &leaf.value {
            Value::Boolean(is_on) => *is_on,
            Value::String(text) => !matches!(text.as_str(), "" | "false" | "0"),
            _ => true,
        })
    }

    /// Takes a value of any kind.
    pub(super) fn take(&mut self, path: &str) -> Option<Leaf> {
        self.leaves.remove(path)
    }

    /// Takes all values below a path, by what is behind it.
    pub(super) fn below(&mut self, path: &str) -> Vec<(String, Leaf)> {
        let names = self.leaves.keys().filter(|name| name.starts_with(path));
        let names: Vec<String> = names.cloned().collect();
        let take = |name: String| Some((name[path.len()..].to_owned(), self.leaves.remove(&name)?));
        names.into_iter().filter_map(take).collect()
    }

    /// Takes a text or a number as text; none if it is empty.
    pub(super) fn text(&mut self, path: &str) -> Option<(String, String)> {
        let leaf = self.take(path)?;
        let text = match leaf.value {
            Value::String(text) => text,
            Value::Integer(number) => number.to_string(),
            _ => return None,
        };
        (!text.is_empty()).then_some((leaf.option, text))
    }

    /// Takes a number above zero, which may be written as a text.
    pub(super) fn number(&mut self, path: &str) -> Option<(String, u64)> {
        let (option, text) = self.text(path)?;
        let number = text.trim().parse().ok().filter(|number| *number > 0);
        Some((option, number?))
    }

    /// Takes a switch: its name in the file, if it is on.
    pub(super) fn is_on(&mut self, path: &str) -> Option<String> {
        let leaf = self.take(path)?;
        let is_on = match &leaf.value {
            Value::Boolean(is_on) => *is_on,
            Value::String(text) => matches!(text.as_str(), "true" | "1"),
            _ => false,
        };
        is_on.then_some(leaf.option)
    }

    /// Takes a list of texts, which may be one text with spaces.
    pub(super) fn texts(&mut self, path: &str) -> Option<(String, Vec<String>)> {
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

    /// Values that were not taken.
    pub(super) fn rest(self) -> impl Iterator<Item = (String, Leaf)> {
        let of_namespaces = self.namespaces.into_iter().flat_map(|(_, given)| {
            let leaves = given.leaves.into_iter();
            leaves.map(|(path, leaf)| (format!("channel.without_namespace.{path}"), leaf))
        });
        self.leaves.into_iter().chain(of_namespaces)
    }

    /// The options of channels without a namespace, apart from all others.
    pub(super) fn without_namespace(&mut self) -> Self {
        const PREFIX: &str = "channel.without_namespace.";
        let (own, others) = std::mem::take(&mut self.leaves)
            .into_iter()
            .partition(|(path, _)| path.starts_with(PREFIX));
        self.leaves = others;
        let own: BTreeMap<String, Leaf> = own;
        let own = own.into_iter();
        Self {
            leaves: own
                .map(|(path, leaf)| (path[PREFIX.len()..].to_owned(), leaf))
                .collect(),
            ..Self::default()
        }
    }
}
