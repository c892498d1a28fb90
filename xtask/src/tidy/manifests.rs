//! What every crate has: the workspace's lints, and in a pure room the clippy file that bans its
//! vices.

use crate::finding::Finding;
use crate::plan::{self, PLAN};
use crate::tree::Tree;

/// The one copy that is edited; `tidy --update` puts it into each pure room.
const PURE_CLIPPY: &str = include_str!("../../pure-clippy.toml");

/// Checks the manifest of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let path = format!("{}/Cargo.toml", package.folder);
        let manifest = tree.text(&path).unwrap_or_default();
        let has_unsafe = plan::covers(&PLAN.with_unsafe, package.room());
        if let Some(message) = lints_fault(manifest, has_unsafe) {
            findings.push(Finding::new(path, message));
        }
    }
    for (path, text) in clippy_files(tree) {
        if tree.text(&path) != Some(text) {
            let message = "differs from xtask/pure-clippy.toml: run `cargo xtask tidy --update`";
            findings.push(Finding::new(path, message));
        }
    }
    findings
}

/// The clippy file that each pure room should have.
pub(super) fn clippy_files(tree: &Tree) -> impl Iterator<Item = (String, &'static str)> {
    tree.packages
        .iter()
        .filter(|package| plan::covers(&PLAN.pure, package.room()))
        .map(|package| (format!("{}/clippy.toml", package.folder), PURE_CLIPPY))
}

/// A room with `unsafe` has to write its own lints, since `forbid` cannot be lifted.
fn lints_fault(manifest: &str, has_unsafe: bool) -> Option<&'static str> {
    let table: toml::Table = match manifest.parse() {
        Ok(table) => table,
        Err(_) => return Some("is not TOML"),
    };
    let lints = table.get("lints");
    let inherits = lints
        .and_then(|lints| lints.get("workspace"))
        .and_then(toml::Value::as_bool)
        .unwrap_or(false);
    let denies = |lint: &str| {
        lints
            .and_then(|lints| lints.get("rust")?.get(lint)?.as_str())
            .is_some_and(|level| level == "deny")
    };
    match (has_unsafe, inherits) {
        (false, false) => Some("lacks `[lints] workspace = true`"),
        (true, false) if !denies("unsafe_op_in_unsafe_fn") => {
            Some("has its own lints, which must deny unsafe_op_in_unsafe_fn")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_are_inherited_or_as_strict() {
        assert_eq!(lints_fault("[lints]\nworkspace = true", false), None);
        assert!(lints_fault("[package]", false).is_some());
        assert!(lints_fault("[lints.rust]\nunsafe_code = \"allow\"", true).is_some());
        let own = "[lints.rust]\nunsafe_op_in_unsafe_fn = \"deny\"";
        assert_eq!(lints_fault(own, true), None);
        assert!(lints_fault(own, false).is_some());
        assert!(lints_fault("[", false).is_some());
    }
}
