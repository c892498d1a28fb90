//! Rules for the text of files: a header, no leftovers, no test that is silently off, lines of 100
//! characters.

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;

/// Macros that have no place in committed code.
const LEFTOVERS: &[&str] = &["todo", "dbg", "unimplemented"];
/// Words that mean "not done"; joined at run time so that this file does not contain them.
const UNDONE: &[[&str; 2]] = &[["FIX", "ME"], ["XX", "X"]];

/// The longest line, in characters.
const COLUMNS: usize = 100;
/// Endings of what people write by hand.
const ENDINGS: &[&str] = &[".rs", ".toml", ".py", ".sh", ".js", ".mjs", ".css", ".html"];

/// Finds lines that are too wide.
fn wide(tree: &Tree) -> Vec<Finding> {
    let files = tree
        .files
        .iter()
        .filter(|file| ENDINGS.iter().any(|ending| file.path.ends_with(ending)));
    let wide = files.flat_map(|file| {
        let lines = file.text.iter().flat_map(|text| text.lines()).enumerate();
        lines.filter_map(|(n, line)| {
            let columns = line.chars().count();
            let message = format!("{columns} columns wide");
            (columns > COLUMNS).then(|| Finding::at(&file.path, n + 1, message))
        })
    });
    wide.collect()
}

/// Checks every Rust file, and every text for words that mean "not done".
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = wide(tree);
    for (path, source) in tree.rust() {
        rust(path, source, &mut findings);
    }
    for file in &tree.files {
        if let Some(text) = &file.text {
            undone(&file.path, text, &mut findings);
        }
    }
    findings
}

fn rust(path: &str, source: &Source, findings: &mut Vec<Finding>) {
    // `foo/tests.rs` holds the tests of `foo.rs`, whose head names what is tested.
    let header = source.docs.first().filter(|doc| doc.inner && doc.next == 0);
    let has_header =
        header.is_some_and(|doc| doc.text.lines().next().is_some_and(|l| !l.is_empty()));
    if !path.ends_with("/tests.rs") && !has_header {
        let message = "opens without `//!`: say its job, what it owns and what it never does";
        findings.push(Finding::at(path, 1, message));
    }
    for at in source.tokens.windows(2) {
        if at[1].is("!") && LEFTOVERS.iter().any(|name| at[0].is(name)) {
            let message = format!("`{}!` is a leftover", at[0].text);
            findings.push(Finding::at(path, at[0].line, message));
        }
        // `#[ignore]` and `#[cfg_attr(.., ignore)]`, but not `#[ignore = ".."]`.
        let closes = at[1].is("]") || at[1].is(")");
        if at[0].is("ignore") && closes && in_attribute(source, at[0].line) {
            let message = "an ignored test says why: `#[ignore = \"needs ..\"]`";
            findings.push(Finding::at(path, at[0].line, message));
        }
    }
}

/// Whether a line of code starts with `#[`.
fn in_attribute(source: &Source, line: usize) -> bool {
    let mut tokens = source.tokens.iter().filter(|token| token.line == line);
    tokens.next().is_some_and(|token| token.is("#"))
}

fn undone(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let words: Vec<String> = UNDONE.iter().map(|parts| parts.concat()).collect();
    for (n, line) in text.lines().enumerate() {
        let mut parts = line.split(|c: char| !c.is_ascii_alphanumeric());
        if let Some(word) = parts.find(|part| words.iter().any(|word| word == part)) {
            let message =
                format!("{word}: finish it, or write down the condition under which it is done");
            findings.push(Finding::at(path, n + 1, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn found(text: &str) -> usize {
        let mut findings = Vec::new();
        rust("a.rs", &Source::parse(text).unwrap(), &mut findings);
        undone("a.rs", text, &mut findings);
        findings.len()
    }

    #[test]
    fn a_file_opens_with_its_job() {
        assert_eq!(found("//! Parses heads.\nfn f() {}"), 0);
        assert_eq!(found("\n//! Parses heads."), 0);
        assert_eq!(found("//!\n//! Late."), 1);
        assert_eq!(found("fn f() {}"), 1);
        assert_eq!(found("// Not a header.\nfn f() {}"), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        for name in LEFTOVERS {
            assert_eq!(
                found(&format!("//! A.\nfn f() {{ {name}!(); }}")),
                1,
                "{name}"
            );
            assert_eq!(
                found(&format!("//! No {name}!() here.\nfn {name}() {{}}")),
                0
            );
        }
        let word = UNDONE[0].concat();
        assert_eq!(found(&format!("//! A.\n// {word}: later")), 1);
        assert_eq!(found(&format!("//! A.\n// {word}ED")), 0);
    }

    #[test]
    fn ignored_tests_have_a_reason() {
        assert_eq!(found("//! A.\n#[ignore]\nfn f() {}"), 1);
        assert_eq!(found("//! A.\n#[cfg_attr(miri, ignore)]\nfn f() {}"), 1);
        assert_eq!(found("//! A.\n#[ignore = \"needs root\"]\nfn f() {}"), 0);
    }

    #[test]
    fn characters_count_and_not_bytes() {
        let found = |path: &str, line: String| {
            let mut tree = Tree::default();
            tree.files.push(File::new(path, line.into_bytes()).unwrap());
            wide(&tree).len()
        };
        assert_eq!(found("web/a.js", "é".repeat(100)), 0);
        assert_eq!(found("web/a.js", "é".repeat(101)), 1);
        assert_eq!(found("Cargo.toml", "x".repeat(101)), 1);
        assert_eq!(found("Cargo.lock", "x".repeat(101)), 0);
    }
}
