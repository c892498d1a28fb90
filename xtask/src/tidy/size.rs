//! The size of files: a crate's largest file is held by the ratchet, and a giant needs a reason.
//!
//! Files may have 600 lines, and above 800 one needs a reason in the ratchet. Files of tests have
//! only the limit of 800, so that adding a case stays easy.

use std::collections::BTreeMap;

use super::ratchet::{Count, Measure, RATCHET, Ratchet};
use crate::finding::Finding;
use crate::tree::{Tree, is_test_file};

/// Longer than this needs a reason.
const MAX_LINES: usize = 800;
/// Endings of what people write by hand.
const CODE: &[&str] = &[".rs", ".js", ".mjs", ".py", ".sh", ".css", ".html"];

/// The largest file of each crate, tests aside.
pub(super) fn count(tree: &Tree) -> Vec<Count> {
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for (path, lines) in sizes(tree).filter(|(path, _)| !is_test_file(path)) {
        if let Some(package) = tree.package_of(path) {
            let entry = found.entry(&package.folder).or_default();
            *entry = (*entry).max((lines, path));
        }
    }
    let count = |(folder, (number, path)): (&str, (usize, &str))| Count {
        measure: Measure::Largest,
        key: folder.to_owned(),
        number,
        findings: vec![Finding::new(path, format!("{number} lines: split it"))],
    };
    found.into_iter().map(count).collect()
}

/// Checks that giants have a reason, and reasons a giant.
pub(super) fn check(tree: &Tree, ratchet: &Ratchet) -> Vec<Finding> {
    let reason = |path: &str| ratchet.reasons.get(path).map_or("", |reason| reason.trim());
    let mut findings: Vec<Finding> = sizes(tree)
        .filter(|(path, lines)| *lines > MAX_LINES && reason(path).is_empty())
        .map(|(path, lines)| {
            let message = format!("{lines} lines, above {MAX_LINES} without a reason in {RATCHET}");
            Finding::new(path, message)
        })
        .collect();
    for path in ratchet.reasons.keys() {
        if !sizes(tree).any(|(other, lines)| other == path && lines > MAX_LINES) {
            let message = format!("{path} is short or gone: remove its reason");
            findings.push(Finding::new(RATCHET, message));
        }
    }
    findings
}

fn sizes(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.files
        .iter()
        .filter(|file| CODE.iter().any(|ending| file.path.ends_with(ending)))
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?.lines().count())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn giants_need_a_reason_and_reasons_a_giant() {
        let found = |path: &str, lines: usize| {
            let mut tree = Tree::default();
            tree.files
                .push(File::new("a/t.py", "\n".repeat(lines).into_bytes()).unwrap());
            let mut ratchet = Ratchet::default();
            ratchet
                .reasons
                .insert(path.to_owned(), "a table".to_owned());
            check(&tree, &ratchet).len()
        };
        assert_eq!(found("a/t.py", 801), 0);
        assert_eq!(found("a/t.py", 800), 1);
        assert_eq!(found("b.py", 801), 2);
    }
}
