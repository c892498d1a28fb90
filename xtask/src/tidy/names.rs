//! Names of types: one name for one thing, in the words of the field.
//!
//! The ratchet holds today's public names that stand in two crates, and the names with a word of
//! the dialect that this project once had.

use std::collections::{BTreeMap, BTreeSet};

use super::ratchet::{Count, Measure, by_crate};
use crate::finding::Finding;
use crate::source::{Kind, Source, Token};
use crate::tree::{Tree, is_test_file};

/// Names that several crates may have, and why.
const SHARED: &[(&str, &str)] = &[
    ("Error", "each crate has errors of its own"),
    ("Options", "each crate has options of its own"),
    (
        "Session",
        "each gateway has one for each of its connections",
    ),
    ("Request", "each protocol has requests of its own"),
    ("Response", "each protocol has responses of its own"),
    ("Header", "each protocol has headers of its own"),
    ("Headers", "each protocol has headers of its own"),
    ("Message", "each protocol has messages of its own"),
    ("Frame", "each protocol has frames of its own"),
    ("ErrorCode", "each protocol has codes of its own"),
    ("Decoder", "each protocol has a reader of its own"),
];

/// Private words, and those of the field.
const DIALECT: &[(&str, &str)] = &[
    ("Asked", "Request, Query"),
    ("Asker", "Client, Caller"),
    ("Beneath", "Layer"),
    ("Desk", "Requests, Queue"),
    ("Door", "Listener, Handshake"),
    ("Found", "Lookup, Match"),
    ("Given", "Input, Value"),
    ("Giving", "HandOver"),
    ("Letter", "Mail, Message"),
    ("Outlet", "Sink, Output"),
    ("Ring", "Queue, Mailbox"),
    ("Rounds", "Feed, Schedule"),
    ("Told", "Notice, Reply"),
    ("Wanted", "Request, Target"),
    ("Wish", "Request, Command"),
];

/// Counts both kinds of names in the crates of the product.
pub(super) fn count(tree: &Tree) -> Vec<Count> {
    let mut public: BTreeMap<&str, BTreeMap<&str, Finding>> = BTreeMap::new();
    let mut dialect: BTreeMap<&str, Vec<Finding>> = BTreeMap::new();
    for (path, source) in tree.rust().filter(|(path, _)| !is_test_file(path)) {
        let Some(package) = tree.package_of(path) else {
            continue;
        };
        let room = package.room();
        if room == package.folder || room.starts_with("dev/") {
            continue;
        }
        for (name, is_public) in types(source) {
            let text = name.text.as_str();
            if let Some((word, plain)) = word_of_dialect(text) {
                let message = format!("`{text}`: for {word} say {plain}, or what it is");
                let found = dialect.entry(&package.folder).or_default();
                found.push(Finding::at(path, name.line, message));
            }
            if is_public && !SHARED.iter().any(|(shared, _)| *shared == text) {
                let message = format!("`{text}` is public in another crate too: rename one");
                let rooms = public.entry(text).or_default();
                rooms.insert(room, Finding::at(path, name.line, message));
            }
        }
    }
    let twins = public.into_iter().filter(|(_, rooms)| rooms.len() > 1);
    let twins = twins.flat_map(|(name, rooms)| {
        rooms.into_iter().map(move |(room, finding)| Count {
            measure: Measure::Twin,
            key: format!("{name} {room}"),
            number: 1,
            findings: vec![finding],
        })
    });
    twins.chain(by_crate(Measure::Dialect, dialect)).collect()
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

fn word_of_dialect(name: &str) -> Option<(&'static str, &'static str)> {
    let starts = name.match_indices(|c: char| c.is_ascii_uppercase());
    let starts: BTreeSet<usize> = starts.map(|(at, _)| at).chain([name.len()]).collect();
    let starts: Vec<usize> = starts.into_iter().collect();
    let mut words = starts.windows(2).map(|ends| &name[ends[0]..ends[1]]);
    words.find_map(|word| { DIALECT.iter() }.find(|(old, _)| *old == word).copied())
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
