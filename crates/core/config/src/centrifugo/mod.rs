//! A Centrifugo configuration, version 4, 5 or 6, as one of ours: for `throng config import`.
//!
//! Takes a tree of any format. Every value of it is translated, or reported with what
//! its absence means; rights are never widened silently, and where a rule of
//! Centrifugo's cannot be kept, the channel or port that it guards stays closed.
//!
//! Source: Centrifugo 5.4.9 (`main.go`) and 6.9.1 (`internal/configtypes`).

mod channels;
mod env;
pub(crate) mod given;
pub(crate) mod nodes;
mod proxies;
pub(crate) mod server;

#[cfg(test)]
pub(crate) mod tests;

pub use env::put_variables;
pub use given::{Effect, ImportNote};

use given::{Notes, Options, Output};

#[derive(Clone, Debug)]
pub struct ImportedConfig {
    pub text: String,
    /// Options without a counterpart, or with another meaning here.
    pub notes: Vec<ImportNote>,
}

/// Translates a configuration; `name` is the file's name for messages.
#[must_use]
pub fn import(name: &str, tree: &toml::Table) -> ImportedConfig {
    let mut given = Options::new(tree);
    let (mut out, mut notes) = (Output::new(name), Notes::default());
    server::translate(&mut given, &mut out, &mut notes);
    let asked = proxies::translate(&mut given, &mut out, &mut notes);
    nodes::broker(&mut given, &mut out, &mut notes);
    nodes::consumers(&mut given, &mut out, &mut notes);
    channels::translate(&mut given, &asked, &mut out, &mut notes);
    given::tell_rest(given, &mut notes);
    ImportedConfig {
        text: out.text(),
        notes: notes.all(),
    }
}
