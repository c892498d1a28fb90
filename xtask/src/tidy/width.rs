//! The width of lines: 100 characters in every file that people edit.

use crate::finding::Finding;
use crate::tree::Tree;

/// The longest line, in characters.
pub(super) const COLUMNS: usize = 100;
/// Endings of what people write by hand.
const ENDINGS: &[&str] = &[".rs", ".toml", ".py", ".sh", ".js", ".mjs", ".css", ".html"];

/// Finds lines that are too wide.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn characters_count_and_not_bytes() {
        let found = |path: &str, line: String| {
            let mut tree = Tree::default();
            tree.files.push(File::new(path, line.into_bytes()).unwrap());
            check(&tree).len()
        };
        assert_eq!(found("web/a.js", "é".repeat(100)), 0);
        assert_eq!(found("web/a.js", "é".repeat(101)), 1);
        assert_eq!(found("Cargo.toml", "x".repeat(101)), 1);
        assert_eq!(found("Cargo.lock", "x".repeat(101)), 0);
    }
}
