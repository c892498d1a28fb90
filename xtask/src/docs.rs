//! Pages that are made from the code, so that they cannot disagree with it.
//!
//! `cargo xtask docs --pages` writes them; `tidy` finds those that are not what the code would
//! write today.

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::tree::{self, Tree};

/// Path of a page, and its text from the crate that owns the facts.
type Page = (&'static str, fn() -> String);

const PAGES: [Page; 2] = [
    ("docs/config.md", throng_config::reference_text),
    ("docs/metrics.md", throng_metrics::reference_text),
];

/// Writes all generated pages.
pub(crate) fn write() -> Result<()> {
    let root = tree::root()?;
    for (path, text) in PAGES {
        std::fs::write(root.join(path), text()).with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// Finds stale and missing pages.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let message = "is not what the code says: run `cargo xtask docs --pages`";
    let stale = PAGES
        .iter()
        .filter(|(path, text)| tree.text(path) != Some(&text()));
    stale
        .map(|(path, _)| Finding::new(*path, message))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn tree(text: Option<String>) -> Tree {
        let file = |text: String| File::new(PAGES[0].0, text.into_bytes()).unwrap();
        Tree {
            files: text.into_iter().map(file).collect(),
            ..Tree::default()
        }
    }

    #[test]
    fn stale_and_missing_pages_are_found() {
        let fresh = PAGES[0].1();
        let found = |text| check(&tree(text)).len();
        assert_eq!(found(Some(fresh.clone())), PAGES.len() - 1);
        assert_eq!(found(Some(fresh + "x")), PAGES.len());
        assert_eq!(found(None), PAGES.len());
    }
}
