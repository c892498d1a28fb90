//! Links between pages, to files and to headings: whether there is something at their end.

use crate::finding::Finding;
use crate::markdown::{anchors, is_outside, links, resolved};
use crate::tree::Tree;

/// The table of contents of the site.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Dead links in every page, and pages of the documentation that the site does not list.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let pages = tree.files.iter().filter(|file| file.path.ends_with(".md"));
    for file in pages.clone() {
        for link in links(file.text.as_deref().unwrap_or_default()) {
            if let Some(message) = fault(tree, &file.path, &link.target) {
                found.push(Finding::at(&file.path, link.line, message));
            }
        }
    }
    let listed: Vec<String> = links(tree.text(SUMMARY).unwrap_or_default())
        .iter()
        .filter_map(|link| Some(resolved(SUMMARY, &link.target)?.0))
        .collect();
    for file in pages.filter(|file| file.path.starts_with("docs/") && file.path != SUMMARY) {
        if !listed.contains(&file.path) {
            let message = "is not in docs/SUMMARY.md, so the site does not have it";
            found.push(Finding::new(&file.path, message));
        }
    }
    found
}

fn fault(tree: &Tree, page: &str, target: &str) -> Option<String> {
    if is_outside(target) {
        return None;
    }
    let Some((path, heading)) = resolved(page, target) else {
        return Some(format!("`{target}` leaves the repository"));
    };
    let folder = format!("{path}/");
    let is_there = |file: &str| file == path || file.starts_with(&folder);
    if !tree.files.iter().any(|file| is_there(&file.path)) {
        return Some(format!("`{target}`: there is no {path}"));
    }
    let heading = heading.filter(|_| path.ends_with(".md"))?;
    let known = anchors(tree.text(&path).unwrap_or_default());
    let is_known = known.iter().any(|anchor| anchor == heading);
    (!is_known).then(|| format!("`{target}`: {path} has no such heading"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn dead_links_and_unlisted_pages_are_found() {
        let file = |path: &str, text: &str| File::new(path, text.as_bytes().to_vec()).unwrap();
        let tree = Tree {
            files: vec![
                file(SUMMARY, "[a](a.md)"),
                file(
                    "docs/a.md",
                    "# A\n[b](b.md) [c](c.md) [d](#a) [e](#e) [f](../x) [g](https://g)",
                ),
                file("docs/b.md", "[out](../../y)"),
                file("x/y.txt", ""),
            ],
            ..Tree::default()
        };
        let places: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        assert_eq!(
            places,
            [
                "docs/a.md:2: `c.md`: there is no docs/c.md",
                "docs/a.md:2: `#e`: docs/a.md has no such heading",
                "docs/b.md:1: `../../y` leaves the repository",
                "docs/b.md: is not in docs/SUMMARY.md, so the site does not have it",
            ]
        );
    }
}
