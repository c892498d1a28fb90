//! Pages that are made from the code, so that they cannot disagree with it.
//!
//! `cargo xtask docs --pages` writes them; `tidy` finds those that are not what the code would
//! write today.

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::tree::{self, Tree};

/// One generated page of the documentation.
struct Page {
    /// Path from the workspace root.
    path: &'static str,
    /// Its text, from the crate that owns the facts.
    text: fn() -> String,
}

const PAGES: &[Page] = &[
    Page {
        path: "docs/config.md",
        text: throng_config::reference_text,
    },
    Page {
        path: "docs/metrics.md",
        text: throng_metrics::reference_text,
    },
];

/// Writes all generated pages.
pub(crate) fn write() -> Result<()> {
    let root = tree::root()?;
    for page in PAGES {
        std::fs::write(root.join(page.path), (page.text)())
            .with_context(|| format!("cannot write {}", page.path))?;
    }
    Ok(())
}

/// Finds stale and missing pages.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    PAGES
        .iter()
        .filter(|page| tree.text(page.path) != Some((page.text)().as_str()))
        .map(|page| {
            let message = "is not what the code says: run `cargo xtask docs --pages`";
            Finding::new(page.path, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    fn tree(text: Option<String>) -> Tree {
        let file = |text: String| File::new(PAGES[0].path, text.into_bytes()).unwrap();
        Tree {
            root: "".into(),
            files: text.into_iter().map(file).collect(),
            packages: Vec::new(),
        }
    }

    #[test]
    fn stale_and_missing_pages_are_found() {
        let fresh = (PAGES[0].text)();
        let found = |text| check(&tree(text)).len();
        assert_eq!(found(Some(fresh.clone())), PAGES.len() - 1);
        assert_eq!(found(Some(fresh + "x")), PAGES.len());
        assert_eq!(found(None), PAGES.len());
    }
}
