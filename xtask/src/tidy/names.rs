//! Names of types: one name for one thing, in the words of the field.
//!
//! A public name stands in one crate, unless `plan.toml` says why several have it. No name has a
//! word of the dialect that this project once had.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::plan::{self, PLAN};
use crate::source::{Kind, Source, Token};
use crate::tree::{Tree, is_test_file};

/// Checks the names of types in the crates of the product.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut public: BTreeMap<&str, BTreeMap<&str, Finding>> = BTreeMap::new();
    for (path, source) in tree.rust().filter(|(path, _)| !is_test_file(path)) {
        let Some(package) = tree.package_of(path) else {
            continue;
        };
        let room = package.room();
        if room == package.folder || plan::covers(&PLAN.for_tests, room) {
            continue;
        }
        for (name, is_public) in types(source) {
            let text = name.text.as_str();
            if let Some((word, plain)) = word_of_dialect(text) {
                let message = format!("`{text}`: for {word} say {plain}, or what it is");
                findings.push(Finding::at(path, name.line, message));
            }
            if is_public {
                let message = format!("`{text}` is public in another crate too: rename one");
                let rooms = public.entry(text).or_default();
                rooms.insert(room, Finding::at(path, name.line, message));
            }
        }
    }
    for name in PLAN.shared_names.keys() {
        let rooms = public.remove(name.as_str()).unwrap_or_default();
        if rooms.len() < 2 {
            let message = format!("`{name}` is no longer in two crates: remove it");
            findings.push(Finding::new("xtask/plan.toml", message));
        }
    }
    let twins = public.into_values().filter(|rooms| rooms.len() > 1);
    findings.extend(twins.flat_map(BTreeMap::into_values));
    findings
}

/// The names of types that are declared outside tests, and whether each is public.
fn types(source: &Source) -> Vec<(&Token, bool)> {
    let live: Vec<&Token> = source.live().collect();
    let declared = live.windows(3).filter(|at| {
        let word = ["struct", "enum", "union", "trait", "type"];
        let is_declared = word.iter().any(|word| at[1].is(word));
        // A type without `pub` may be that of a trait.
        is_declared && at[2].kind == Kind::Name && (at[0].is("pub") || !at[1].is("type"))
    });
    declared.map(|at| (at[2], at[0].is("pub"))).collect()
}

fn word_of_dialect(name: &str) -> Option<(&str, &'static str)> {
    let starts = name.match_indices(|c: char| c.is_ascii_uppercase());
    let starts: BTreeSet<usize> = starts.map(|(at, _)| at).chain([name.len()]).collect();
    let starts: Vec<usize> = starts.into_iter().collect();
    let mut words = starts.windows(2).map(|ends| &name[ends[0]..ends[1]]);
    words.find_map(|word| Some((word, PLAN.dialect.get(word)?.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_types_are_found() {
        let source = "struct A; pub enum B { C } pub(crate) trait D { type E; } pub type F = u8;\n\
                      #[cfg(test)] struct G; fn f() { let h = \"struct I\"; }";
        let source = Source::parse(&format!("use x::y;\n{source}")).unwrap();
        let found: Vec<_> = types(&source)
            .iter()
            .map(|(name, is_public)| (name.text.as_str(), *is_public))
            .collect();
        assert_eq!(
            found,
            [("A", false), ("B", true), ("D", false), ("F", true)]
        );
    }

    #[test]
    fn words_of_the_dialect_are_whole_words() {
        for (name, word) in [
            ("Wish", Some("Wish")),
            ("FeedLetter", Some("Letter")),
            ("FrontDoor", Some("Door")),
            ("Doors", None),
            ("String", None),
            ("RingBuffer", Some("Ring")),
        ] {
            assert_eq!(word_of_dialect(name).map(|(word, _)| word), word, "{name}");
        }
    }
}
