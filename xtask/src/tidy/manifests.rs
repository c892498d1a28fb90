//! What every crate has: the workspace's lints, above a pure room the clippy file that bans its
//! vices, and no test program without tests.

use crate::finding::Finding;
use crate::plan::{self, PLAN};
use crate::tree::Tree;

/// The original; each floor of pure rooms has a copy, which clippy finds above its crates.
const PURE_CLIPPY: &str = include_str!("../../pure-clippy.toml");

/// Checks the manifest of every crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &tree.packages {
        let path = format!("{}/Cargo.toml", package.folder);
        let manifest = tree.text(&path).unwrap_or_default();
        let has_unsafe = plan::covers(&PLAN.with_unsafe, package.room());
        let lib = tree.text(&format!("{}/src/lib.rs", package.folder));
        let sources = format!("{}/src/", package.folder);
        let mut own = { tree.files.iter() }.filter(|file| file.path.starts_with(&sources));
        let has_tests =
            own.any(|file| { file.text.as_ref() }.is_some_and(|it| it.contains("#[cfg(test)]")));
        let faults = [
            lints_fault(manifest, has_unsafe),
            lib.and_then(|_| tests_fault(manifest, has_tests)),
        ];
        let found = faults.into_iter().flatten();
        findings.extend(found.map(|message| Finding::new(path.as_str(), message)));
    }
    findings.extend(clippy_faults(tree));
    findings
}

/// Checks that clippy finds the pure rooms' file for them, and for no other room.
fn clippy_faults(tree: &Tree) -> impl Iterator<Item = Finding> {
    let floors = PLAN.pure.iter().map(|floor| floor.trim_end_matches("/*"));
    let places: Vec<_> = floors
        .map(|floor| format!("crates/{floor}/clippy.toml"))
        .collect();
    let missing = places
        .clone()
        .into_iter()
        .filter(|path| tree.text(path) != Some(PURE_CLIPPY));
    let missing = missing.map(|path| Finding::new(path, "differs from xtask/pure-clippy.toml"));
    let is_other =
        move |path: &&str| path.ends_with("/clippy.toml") && !places.iter().any(|it| it == path);
    let others = tree
        .files
        .iter()
        .map(|file| file.path.as_str())
        .filter(is_other);
    missing.chain(others.map(|path| Finding::new(path, "hides the clippy file of its floor")))
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

/// A library without tests in it would be built once more, for a test program that does nothing.
fn tests_fault(manifest: &str, has_tests: bool) -> Option<&'static str> {
    let is_off = manifest.lines().any(|line| line == "test = false");
    match (is_off, has_tests) {
        (false, false) => Some("lacks `test = false` under [lib], and its sources have no tests"),
        (true, true) => Some("says `test = false`, and its sources have tests"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_have_tests() {
        let off = "[lib]\ntest = false\n";
        assert_eq!(tests_fault("[lib]\n", true), None);
        assert_eq!(tests_fault(off, false), None);
        assert!(tests_fault(off, true).is_some());
        assert!(tests_fault("", false).is_some());
    }

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
