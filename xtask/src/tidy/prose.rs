//! Documentation that tells the reader nothing, and phrases that nobody says.

use crate::finding::Finding;
use crate::tree::Tree;

/// Documentation that sends the reader elsewhere; the place it names may change or be long.
const ELSEWHERE: &[&str] = &["See the module's head", "See the head of the module"];

/// Phrases that a colleague would not say, as two halves so that this file does not contain them.
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

/// Unclear sentences.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in &tree.files {
        let mut add = |line: usize, message: &str| {
            found.push(Finding::at(&file.path, line, message.to_owned()));
        };
        for doc in file.source.iter().flat_map(|source| &source.docs) {
            if let Some(message) = fault(&doc.text) {
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

fn fault(doc: &str) -> Option<&'static str> {
    let words = doc.split_whitespace().count();
    if words == 1 && doc.chars().all(|c| c.is_alphabetic() || ".?!".contains(c)) {
        return Some("one word is no documentation: say what it is, with unit and limits");
    }
    ELSEWHERE
        .iter()
        .any(|phrase| doc.contains(phrase))
        .then_some("sends the reader elsewhere: say what it is in one sentence, or link an item")
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
            assert_eq!(fault(doc).is_none(), fine, "{doc}");
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
