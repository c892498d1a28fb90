//! Pages that are made from the code, so that they cannot disagree with it.
//!
//! `cargo xtask docs --pages` writes them; `tidy` finds those that are not what the code would
//! write today.

use anyhow::{Context, Result};

use crate::api;
use crate::chart;
use crate::finding::Finding;
use crate::tree::Tree;

/// Path of a page, and its text from the crate or from the pages that own the facts.
type Page = (&'static str, fn(&Tree) -> Result<String>);

const PAGES: [Page; 6] = [
    ("docs/api.md", |_| api::page()),
    ("docs/openapi.json", |_| api::document()),
    ("docs/config.md", |_| Ok(throng_config::reference_text())),
    ("docs/metrics.md", |_| Ok(throng_metrics::reference_text())),
    ("docs/pictures/peers-dark.svg", |tree| {
        chart::draw(tree, &chart::DARK)
    }),
    ("docs/pictures/peers-light.svg", |tree| {
        chart::draw(tree, &chart::LIGHT)
    }),
];

/// Writes all generated pages.
pub(crate) fn write() -> Result<()> {
    let tree = Tree::read()?;
    for (path, text) in PAGES {
        std::fs::write(tree.root.join(path), text(&tree)?)
            .with_context(|| format!("cannot write {path}"))?;
    }
    Ok(())
}

/// Finds stale and missing pages, and those that cannot be made.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let stale = "is not what the code says: run `cargo xtask docs --pages`";
    let findings = PAGES.iter().map(|(path, text)| match text(tree) {
        Ok(text) if tree.text(path) == Some(&text) => None,
        Ok(_) => Some(Finding::new(*path, stale)),
        Err(error) => Some(Finding::new(*path, format!("cannot be made: {error:#}"))),
    });
    findings.flatten().collect()
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
        let fresh = PAGES[0].1(&tree(None)).unwrap();
        let found = |text| check(&tree(text)).len();
        assert_eq!(found(Some(fresh.clone())), PAGES.len() - 1);
        assert_eq!(found(Some(fresh + "x")), PAGES.len());
        assert_eq!(found(None), PAGES.len());
    }
}
