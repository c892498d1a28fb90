//! Finds documentation without content, and phrases that nobody uses.

use crate::finding::Finding;
use crate::tree::Tree;

/// Words with which a doc of an item does not begin: what follows has no main clause, or a noun
/// that is elsewhere.
const VAGUE: &[&str] = &[
    "What", "Who", "Whoever", "Whose", "How", "Of", "That", "It", "They", "The same",
];
/// Fewest words in the doc of an item.
const WORDS_MIN: usize = 4;

/// Documentation that sends the reader elsewhere; the place it names may change or be long.
const ELSEWHERE: &[&str] = &["See the module's head", "See the head of the module"];

/// Phrases that a colleague would not use, as two halves so that this file does not contain them.
const RIDDLES: &[[&str; 2]] = &[
    ["when", "ce"],
    ["otherwise", " than"],
    ["does", " otherwise"],
    ["the worse", " for"],
    ["nobody in", " particular"],
    ["hither", "to"],
    ["where", "in"],
    ["here", "in"],
    ["al", "beit"],
    ["no bad", " day"],
];

/// Files whose sentences people read.
const READ: &[&str] = &[
    ".rs", ".md", ".toml", ".sh", ".py", ".js", ".mjs", ".html", ".yml",
];

/// Finds unclear sentences and docs that say nothing.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let mut add = |line: usize, message: &str| {
            found.push(Finding::at(&file.path, line, message.to_owned()));
        };
        for doc in file.source.iter().flat_map(|source| &source.docs) {
            if let Some(message) = fault(&doc.text, doc.inner) {
                add(doc.line, message);
            }
        }
        let text = file
            .text
            .as_deref()
            .filter(|_| READ.iter().any(|end| file.path.ends_with(end)));
        for (n, line) in text.unwrap_or_default().lines().enumerate() {
            if let Some(riddle) = riddle(line) {
                add(
                    n + 1,
                    &format!("`{riddle}`: say it in the words of every day"),
                );
            }
        }
    }
    found
}

fn is_vague(doc: &str) -> bool {
    let begins = |start: &&&str| {
        let rest = doc.strip_prefix(**start);
        rest.is_some_and(|rest| rest.starts_with([' ', '\n', ',', '\'']))
    };
    VAGUE.iter().any(|start| begins(&start)) || doc.split_whitespace().count() < WORDS_MIN
}

/// Returns the fault of a doc, of a file's head (`inner`) or of an item.
fn fault(doc: &str, inner: bool) -> Option<&'static str> {
    let words = doc.split_whitespace().count();
    if words == 1 && doc.chars().all(|c| c.is_alphabetic() || ".?!".contains(c)) {
        return Some("one word is no documentation: say what it is, with unit and limits");
    }
    if ELSEWHERE.iter().any(|phrase| doc.contains(phrase)) {
        return Some("sends the reader elsewhere: say it in one sentence, or link an item");
    }
    (!inner && is_vague(doc))
        .then_some("says little: begin with a verb or a noun, in four words or more")
}

fn riddle(line: &str) -> Option<String> {
    let line = line.to_lowercase();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    RIDDLES.iter().map(|halves| halves.concat()).find(|riddle| {
        line.match_indices(riddle.as_str()).any(|(at, _)| {
            !line[..at].ends_with(is_word) && !line[at + riddle.len()..].starts_with(is_word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_and_a_signpost_are_no_documentation() {
        for (doc, fine) in [
            ("Who.", false),
            ("What?", false),
            ("[`Hub`]", true),
            ("Bytes sent.", true),
            ("Sends it. See the module's head.", false),
        ] {
            assert_eq!(fault(doc, true).is_none(), fine, "{doc}");
        }
    }

    #[test]
    fn docs_begin_with_a_verb_or_a_noun() {
        for (doc, vague) in [
            ("What it says.", true),
            ("The same, by hand.", true),
            ("Whatever it says counts.", false),
            ("Its own port.", true),
            ("Port of the server.", false),
        ] {
            assert_eq!(fault(doc, false).is_some(), vague, "{doc}");
        }
    }

    #[test]
    fn riddles_are_whole_words() {
        for halves in RIDDLES {
            let phrase = halves.concat();
            assert_eq!(
                riddle(&format!("// {}.", phrase.to_uppercase())),
                Some(phrase.clone())
            );
            assert_eq!(riddle(&format!("x{phrase}")), None);
        }
    }
}
