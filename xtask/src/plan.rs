//! Rules of the workspace: `plan.toml`, as questions.
//!
//! Owns: every rule about dependencies, names and queues, and the reasons for exceptions. Never:
//! reads a manifest; `tidy/edges.rs` does and asks here.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// The file `plan.toml`, table by table.
#[derive(Deserialize)]
pub(crate) struct Plan {
    pub(crate) for_tests: Vec<String>,
    pub(crate) pure: Vec<String>,
    #[serde(rename = "unsafe")]
    pub(crate) with_unsafe: Vec<String>,
    pub(crate) queued: Vec<String>,
    pub(crate) from_strangers: Vec<String>,
    /// Rooms that each room may name in its manifest, by its name or that of its floor.
    pub(crate) rooms: BTreeMap<String, Vec<String>>,
    pub(crate) fences: Vec<Fence>,
    pub(crate) bans: Vec<Ban>,
    /// Words of the field, by the private word that they replace.
    pub(crate) dialect: BTreeMap<String, String>,
    /// Reasons, by path, of files that are longer than a file should be.
    pub(crate) long_files: BTreeMap<String, String>,
    /// Reasons, by name, of public types that several rooms have.
    pub(crate) shared_names: BTreeMap<String, String>,
}

/// Packages from outside that only some rooms may name.
#[derive(Deserialize)]
pub(crate) struct Fence {
    /// Package names; a final `*` stands for any ending.
    pub(crate) packages: Vec<String>,
    pub(crate) rooms: Vec<String>,
    pub(crate) why: String,
}

/// Paths that pure code may not name, and what to do instead.
#[derive(Deserialize)]
pub(crate) struct Ban {
    pub(crate) paths: Vec<String>,
    pub(crate) instead: String,
}

pub(crate) static PLAN: LazyLock<Plan> =
    LazyLock::new(|| toml::from_str(include_str!("../plan.toml")).expect("plan.toml is a plan"));

/// The row for a room, the exact one before the one for its floor.
pub(crate) fn row(name: &str) -> Option<(&'static str, &'static [String])> {
    let rows = &PLAN.rooms;
    let exact = rows.get_key_value(name);
    let found = exact.or_else(|| rows.iter().find(|(row, _)| matches(row, name)))?;
    Some((found.0, found.1))
}

/// Whether any of the patterns covers the name.
pub(crate) fn covers(patterns: &[impl AsRef<str>], name: &str) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(pattern.as_ref(), name))
}

/// `core/*` matches `core/hub`, `*` matches all, and anything else only itself.
fn matches(pattern: &str, name: &str) -> bool {
    pattern
        .strip_suffix('*')
        .map_or(pattern == name, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_a_floor_or_one_room() {
        assert!(covers(&["core/*"], "core/hub"));
        assert!(!covers(&["core/*"], "protocols/ws"));
        assert!(covers(&["core/hub"], "core/hub"));
        assert!(!covers(&["core/hub"], "core/hubs"));
        assert!(covers(&["tokio-*"], "tokio-util"));
        assert!(covers(&["*"], "anything"));
    }

    #[test]
    fn exact_rows_come_before_their_floor() {
        assert_eq!(row("types").unwrap().1, ["types/derive"]);
        assert_eq!(row("protocols/ws").unwrap().0, "protocols/*");
        assert!(row("attic/box").is_none());
    }

    /// Names the promise that a weaker plan would break.
    #[test]
    fn the_plan_keeps_its_promises() {
        let may = |from: &str, to: &str| covers(row(from).unwrap().1, to);
        for stranger in [
            "core/hub",
            "core/session",
            "core/broker",
            "apps/server",
            "gateways/grip",
        ] {
            for part in ["plan", "measure", "worker", "report", "fleet"] {
                let part = format!("apps/bench/{part}");
                assert!(!may(&part, stranger), "{part} uses {stranger}");
            }
            assert!(!may("runtime/engine", stranger), "engine uses {stranger}");
        }
        assert!(!may("protocols/ws", "protocols/http1"));
        assert!(!may("core/hub", "core/session"));
        assert!(!may("gateways/grip", "gateways/plain"));
        assert!(!may("core/broker", "core/metrics"));
        assert!(may("core/session", "core/hub"));
    }
}
