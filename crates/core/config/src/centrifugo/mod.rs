//! A Centrifugo configuration, version 4, 5 or 6, as one of ours: for `throng config import`.
//!
//! Takes a tree of any format. Every value of it is translated, or reported with what
//! its absence means; rights are never widened silently, and where a rule of
//! Centrifugo's cannot be kept, the channel or port that it guards stays closed.
//!
//! Source: Centrifugo 5.4.9 (`main.go`) and 6.9.1 (`internal/configtypes`).

mod channels;
mod consumers;
mod env;
mod given;
mod nodes;
mod output;
mod proxies;
mod server;

#[cfg(test)]
mod tests;

pub use env::put_variables;

use given::Given;
use output::Output;

/// Result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// A configuration file of ours.
    pub text: String,
    /// Options without a counterpart, or with another meaning here.
    pub notes: Vec<ImportNote>,
}

/// Translates a configuration; `name` is the file's name for messages.
#[must_use]
pub fn import(name: &str, tree: &toml::Table) -> Imported {
    let mut given = Given::new(tree);
    let (mut out, mut notes) = (Output::new(name), Notes::default());
    server::translate(&mut given, &mut out, &mut notes);
    let asked = proxies::translate(&mut given, &mut out, &mut notes);
    nodes::translate(&mut given, &mut out, &mut notes);
    consumers::translate(&mut given, &mut out, &mut notes);
    channels::translate(&mut given, &asked, &mut out, &mut notes);
    given::tell_rest(given, &mut notes);
    Imported {
        text: out.text(),
        notes: notes.all(),
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
    fn named(name: &str) -> Self {
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
struct Notes(Vec<ImportNote>);

impl Notes {
    fn add(&mut self, effect: Effect, option: &str, text: impl Into<String>) {
        self.0.push(ImportNote {
            effect,
            option: option.to_owned(),
            text: text.into(),
        });
    }

    /// All notes, the most important first, without duplicates.
    fn all(mut self) -> Vec<ImportNote> {
        self.0.sort();
        self.0.dedup();
        self.0
    }
}
