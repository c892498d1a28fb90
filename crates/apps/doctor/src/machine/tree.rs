//! Files of `/proc` and `/sys` below a root, and how lists of numbers are written there.

use std::path::{Path, PathBuf};

/// A root below which paths are looked up.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// The first `N` numbers of a file.
    pub(super) fn numbers<const N: usize>(&self, path: &str) -> Option<[u64; N]> {
        let text = self.text(path)?;
        let mut words = text.split_ascii_whitespace();
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        Some(numbers)
    }

    /// Names in a directory, sorted; empty when it is missing.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

/// The ranges of a list such as `0-3,8`; what is malformed is skipped.
pub(super) fn ranges(list: &str) -> impl Iterator<Item = (u64, u64)> {
    list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < u64::MAX).then_some((first, last))
    })
}

/// How many numbers a list such as `0-3,8` names.
pub(super) fn list_len(list: &str) -> u64 {
    ranges(list).fold(0, |sum, (first, last)| sum.saturating_add(last - first + 1))
}
