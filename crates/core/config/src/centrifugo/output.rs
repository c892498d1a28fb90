//! The file that is written, and the notes beside it.

use std::fmt::Write as _;

use toml::Value;

/// Sections in the order in which they were begun, each with its lines.
pub(super) struct Output {
    name: String,
    sections: Vec<(String, Vec<String>)>,
}

impl Output {
    pub(super) fn new(name: &str) -> Self {
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
    pub(super) fn begin(&mut self, head: &str) {
        self.section(head);
    }

    /// A value in a section.
    pub(super) fn put(&mut self, head: &str, key: &str, value: impl Into<Value>) {
        let line = format!("{key} = {}", value.into());
        self.section(head).push(line);
    }

    /// A value in the section that was begun last.
    pub(super) fn put_last(&mut self, key: &str, value: impl Into<Value>) {
        let line = format!("{key} = {}", value.into());
        if let Some((_, lines)) = self.sections.last_mut() {
            lines.push(line);
        }
    }

    /// Adds a line that is commented out until an operator has checked it.
    pub(super) fn comment(&mut self, head: &str, text: &str) {
        self.section(head).push(format!("# {text}"));
    }

    pub(super) fn text(&self) -> String {
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
    /// The feature is missing here.
    Missing,
    /// The feature is there, but works differently.
    Changed,
}

impl Effect {
    /// The effect of a name in our tables.
    pub(super) fn named(name: &str) -> Self {
        match name {
            "wider" => Self::Wider,
            "narrower" => Self::Narrower,
            "changed" => Self::Changed,
            _ => Self::Missing,
        }
    }
}

/// A sentence on one option.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ImportNote {
    /// Consequence of the missing counterpart.
    pub effect: Effect,
    /// Name of the option in the file.
    pub option: String,
    /// A sentence without a full stop.
    pub text: String,
}

/// Notes on one configuration.
#[derive(Default)]
pub(super) struct Notes(Vec<ImportNote>);

impl Notes {
    pub(super) fn add(&mut self, effect: Effect, option: &str, text: impl Into<String>) {
        self.0.push(ImportNote {
            effect,
            option: option.to_owned(),
            text: text.into(),
        });
    }

    /// All notes, the most important first, without duplicates.
    pub(super) fn all(mut self) -> Vec<ImportNote> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
