//! Forbidden edges: what a manifest names against the plan of the house.

use crate::finding::Finding;
use crate::plan::{self, PLAN};
use crate::tree::{Dependency, Package, Tree};

/// Checks every line of every manifest, and that the plan and the folders are the same.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<Finding> = tree.packages.iter().flat_map(of_package).collect();
    let rooms: Vec<&str> = tree.packages.iter().map(Package::room).collect();
    findings.extend(empty_rows(&rooms).map(|row| {
        let message = format!("the row {row:?} has no crate: remove it");
        Finding::new("xtask/plan.toml", message)
    }));
    let manifests = tree
        .files
        .iter()
        .filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let strays = manifests.filter(|folder| {
        let inside = folder.starts_with("crates/") || folder.starts_with("tests/");
        inside
            && !tree
                .packages
                .iter()
                .any(|package| package.folder == *folder)
    });
    findings.extend(strays.map(|folder| Finding::new(folder, "is no member of the workspace")));
    findings
}

/// Rows that no crate has.
fn empty_rows<'a>(rooms: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
    PLAN.rooms.keys().map(String::as_str).filter(|name| {
        let mut rows = rooms.iter().filter_map(|room| plan::row(room));
        !rows.any(|(row, _)| row == *name)
    })
}

fn of_package(package: &Package) -> Vec<Finding> {
    let manifest = format!("{}/Cargo.toml", package.folder);
    let room = package.room();
    let Some((_, uses)) = plan::row(room) else {
        let message = format!("{room} has no row in xtask/plan.toml: decide what it may use");
        return vec![Finding::new(manifest, message)];
    };
    package
        .dependencies
        .iter()
        .filter_map(|dependency| match &dependency.folder {
            Some(folder) => own(uses, room, folder, dependency.for_tests),
            None => foreign(room, dependency),
        })
        .map(|message| Finding::new(manifest.clone(), message))
        .collect()
}

/// An edge between two rooms.
fn own(uses: &[String], room: &str, folder: &str, for_tests: bool) -> Option<String> {
    let to = folder.strip_prefix("crates/").unwrap_or(folder);
    let allowed = plan::covers(uses, to) || (for_tests && plan::covers(&PLAN.for_tests, to));
    (!allowed).then(|| {
        format!(
            "{room} may not use {to}; it may use: {} (xtask/plan.toml)",
            if uses.is_empty() {
                "nothing of ours".to_owned()
            } else {
                uses.join(", ")
            }
        )
    })
}

/// An edge to a package from outside.
fn foreign(room: &str, dependency: &Dependency) -> Option<String> {
    let package = &dependency.name;
    let fence = { PLAN.fences.iter() }.find(|fence| plan::covers(&fence.packages, package))?;
    (!plan::covers(&fence.rooms, room)).then(|| {
        format!(
            "{room} may not use {package}, only {} may: {} (xtask/plan.toml)",
            fence.rooms.join(", "),
            fence.why
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `to` is a folder if it has a `/`, else a package from outside; `#` in front means "for
    /// tests".
    fn edge(from: &str, to: &str) -> Vec<Finding> {
        let name = to.trim_start_matches('#');
        of_package(&Package {
            folder: from.to_owned(),
            dependencies: vec![Dependency {
                name: name.to_owned(),
                folder: name.contains('/').then(|| name.to_owned()),
                for_tests: to.starts_with('#'),
            }],
        })
    }

    #[track_caller]
    fn allowed(from: &str, to: &[&str]) {
        for to in to {
            assert_eq!(edge(from, to), [], "{from} -> {to}");
        }
    }

    #[track_caller]
    fn forbidden(from: &str, to: &[&str]) {
        for to in to {
            assert_eq!(edge(from, to).len(), 1, "{from} -> {to}");
        }
    }

    #[test]
    fn rooms_use_what_is_below_them() {
        allowed(
            "crates/core/session",
            &["crates/core/hub", "crates/protocols/ws", "serde"],
        );
        forbidden(
            "crates/core/session",
            &["crates/runtime/engine", "crates/apps/server", "tokio"],
        );
        forbidden("crates/core/hub", &["crates/core/session"]);
        forbidden("crates/protocols/ws", &["crates/protocols/http1"]);
        forbidden(
            "crates/apps/bench/worker",
            &["crates/core/hub", "crates/apps/server"],
        );
    }

    #[test]
    fn tests_may_use_the_testkit_and_code_may_not() {
        allowed("crates/core/hub", &["#crates/dev/testkit"]);
        forbidden("crates/core/hub", &["crates/dev/testkit"]);
    }

    #[test]
    fn fences_hold_for_tests_too() {
        forbidden("crates/peers/redis", &["tokio", "hyper-util"]);
        allowed(
            "crates/dev/testkit",
            &["tokio-tungstenite", "crates/apps/server"],
        );
        allowed("crates/runtime/engine", &["mio"]);
        forbidden("crates/apps/server", &["tokio", "mio", "hyper-util"]);
        forbidden("crates/core/broker", &["#tokio", "#rand", "rand_core"]);
    }

    #[test]
    fn a_row_without_a_room_is_found() {
        let all: Vec<&str> = PLAN.rooms.keys().map(String::as_str).collect();
        assert_eq!(empty_rows(&all).next(), None, "they are there");
        assert_eq!(empty_rows(&[]).count(), PLAN.rooms.len());
    }

    #[test]
    fn a_room_without_a_row_is_found() {
        assert_eq!(edge("crates/attic/box", "serde").len(), 1);
    }
}
