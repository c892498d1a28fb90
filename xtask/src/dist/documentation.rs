//! The documentation in archives and packages: an installed README leads to all that it names.
//!
//! Owns the choice of files, which keep their places. Links to what is not among them become plain
//! text, as on the site.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::site::moved;
use crate::tree::Tree;

const FOLDERS: [&str; 3] = ["docs/", "examples/", "deploy/"];
/// Parts that make the site and the packages.
const LEFT_OUT: [&str; 3] = ["docs/site/", "deploy/check", "deploy/packages/"];

fn is_kept(path: &str) -> bool {
    let is_page = path.ends_with(".md") && !path.contains('/');
    let is_below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    is_page || path == "LICENSE" || is_below(&FOLDERS) && !is_below(&LEFT_OUT)
}

/// Copies it into a folder, for everybody to read: packages take the modes as they are.
pub(crate) fn copy(tree: &Tree, to: &Path) -> Result<()> {
    let paths = tree.files.iter().map(|file| &*file.path);
    let kept: BTreeSet<&str> = paths.filter(|path| is_kept(path)).collect();
    for path in &kept {
        let target = to.join(path);
        let folder = target.parent().context("a file has a folder")?;
        fs::create_dir_all(folder)?;
        for folder in folder
            .ancestors()
            .take_while(|folder| folder.starts_with(to))
        {
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
        match tree.text(path).filter(|_| path.ends_with(".md")) {
            Some(text) => fs::write(&target, page(path, text, &kept)),
            None => fs::copy(tree.root.join(path), &target).map(drop),
        }
        .with_context(|| format!("cannot write {}", target.display()))?;
        fs::set_permissions(&target, Permissions::from_mode(0o644))?;
    }
    Ok(())
}

fn page(path: &str, text: &str, kept: &BTreeSet<&str>) -> String {
    let is_there = |target: &str| {
        let folder = format!("{target}/");
        let mut below = kept.range(&*folder..);
        kept.contains(target) || below.next().is_some_and(|path| path.starts_with(&folder))
    };
    moved(path, text, &is_there, str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_what_is_there() {
        let kept = BTreeSet::from(["README.md", "docs/a.md", "examples/x/y.js"]);
        let text = "[r](../README.md#h) [x](../examples/x) [e](../example) [c](../src/c.rs)";
        let expected = "[r](../README.md#h) [x](../examples/x) e c";
        assert_eq!(page("docs/a.md", text, &kept), expected);
    }

    #[test]
    fn what_makes_packages_is_not_in_them() {
        for (path, expected) in [
            ("README.md", true),
            ("docs/guides/chat.md", true),
            ("deploy/docker/compose.yaml", true),
            ("deploy/checks/running", false),
            ("deploy/check-install", false),
            ("docs/site/book.toml", false),
            ("crates/types/README.md", false),
            ("Cargo.toml", false),
        ] {
            assert_eq!(is_kept(path), expected, "{path}");
        }
    }
}
