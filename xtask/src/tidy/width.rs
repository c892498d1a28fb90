//! The width of lines: 100 characters in every file that people edit.

use super::ratchet::{Count, WIDE, counted};
use crate::finding::Finding;
use crate::tree::Tree;

/// The longest line, in characters.
const COLUMNS: usize = 100;
/// Endings of what people write by hand.
const ENDINGS: &[&str] = &[".rs", ".toml", ".py", ".sh", ".js", ".mjs", ".css", ".html"];

/// The wide lines, by crate, or by the first folder outside crates.
pub(super) fn count(tree: &Tree) -> Vec<Count> {
    let files = tree
        .files
        .iter()
        .filter(|file| ENDINGS.iter().any(|ending| file.path.ends_with(ending)));
    let wide = files.flat_map(|file| {
        let lines = file.text.iter().flat_map(|text| text.lines()).enumerate();
        lines.filter_map(|(n, line)| {
            let columns = line.chars().count();
            let message = format!("{columns} columns wide");
            (columns > COLUMNS).then(|| {
                (
                    tree.folder_of(&file.path),
                    Finding::at(&file.path, n + 1, message),
                )
            })
        })
    });
    counted(WIDE, wide)
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
            count(&tree).iter().map(|count| count.number).sum::<usize>()
        };
        assert_eq!(found("web/a.js", "é".repeat(100)), 0);
        assert_eq!(found("web/a.js", "é".repeat(101)), 1);
        assert_eq!(found("Cargo.toml", "x".repeat(101)), 1);
        assert_eq!(found("Cargo.lock", "x".repeat(101)), 0);
    }
}
