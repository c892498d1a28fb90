//! The size of files: a ratchet, not a wall.
//!
//! Files aim at 400 lines. A crate whose largest file is longer may not let it grow; `tidy
//! --update` writes today's sizes, and a number that rose shows in the diff. Above 800 lines a file
//! needs a reason. Files of tests are held to the 800 alone: nobody should hesitate to add a case.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::{Finding, is_test_file};
use crate::tree::Tree;

/// Where the sizes are kept.
pub(super) const RATCHET: &str = "xtask/ratchet.toml";

/// Files of code aim at this many lines, and below it nothing is stored.
const AIM_LINES: usize = 400;
/// Longer than this needs a reason.
const MAX_LINES: usize = 800;
/// Endings of what people write by hand.
const CODE: &[&str] = &[".rs", ".js", ".mjs", ".py", ".sh", ".css", ".html"];

#[derive(Debug, Default, PartialEq, Eq)]
struct Ratchet {
    /// Lines of the largest file, by the crate's folder, if that is above [`AIM_LINES`].
    largest: BTreeMap<String, usize>,
    /// Reasons, by path, of files above [`MAX_LINES`].
    reasons: BTreeMap<String, String>,
}

/// Checks every file of code against the ratchet.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let ratchet = Ratchet::read(tree)?;
    let largest = largest(tree);
    let mut findings: Vec<_> = largest
        .iter()
        .filter_map(|(folder, &(path, lines))| ratchet.growth(folder, path, lines))
        .collect();
    findings.extend(ratchet.largest.keys().filter_map(|folder| {
        ratchet.slack(folder, largest.get(folder).map_or(0, |(_, lines)| *lines))
    }));
    for (path, lines) in sizes(tree) {
        findings.extend(ratchet.giant(path, lines));
    }
    for path in ratchet.reasons.keys() {
        if !sizes(tree).any(|(other, lines)| other == path && lines > MAX_LINES) {
            let message = format!("{path} is short or gone: remove its reason");
            findings.push(Finding::new(RATCHET, message));
        }
    }
    Ok(findings)
}

/// The text of the ratchet with today's sizes.
pub(super) fn updated(tree: &Tree) -> Result<String> {
    let mut ratchet = Ratchet::read(tree)?;
    ratchet.largest = largest(tree)
        .into_iter()
        .filter(|(_, (_, lines))| *lines > AIM_LINES)
        .map(|(folder, (_, lines))| (folder, lines))
        .collect();
    Ok(ratchet.to_text())
}

fn sizes(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    tree.files
        .iter()
        .filter(|file| CODE.iter().any(|ending| file.path.ends_with(ending)))
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?.lines().count())))
}

/// The largest file of each crate, tests aside.
fn largest(tree: &Tree) -> BTreeMap<String, (&str, usize)> {
    let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for (path, lines) in sizes(tree).filter(|(path, _)| !is_test_file(path)) {
        if let Some(package) = tree.package_of(path) {
            let entry = found.entry(package.folder.clone()).or_insert((path, lines));
            if entry.1 < lines {
                *entry = (path, lines);
            }
        }
    }
    found
}

impl Ratchet {
    fn read(tree: &Tree) -> Result<Self> {
        tree.text(RATCHET)
            .map_or_else(|| Ok(Self::default()), Self::parse)
            .with_context(|| format!("cannot read {RATCHET}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let section = |name: &str| {
            let section = table.get(name).and_then(toml::Value::as_table).cloned();
            section.unwrap_or_default()
        };
        let mut ratchet = Self::default();
        for (folder, lines) in section("largest") {
            let lines = lines
                .as_integer()
                .and_then(|lines| usize::try_from(lines).ok())
                .with_context(|| format!("{folder}: not a number of lines"))?;
            ratchet.largest.insert(folder, lines);
        }
        for (path, reason) in section("reasons") {
            let reason = reason
                .as_str()
                .with_context(|| format!("{path}: the reason is not a text"))?;
            ratchet.reasons.insert(path, reason.to_owned());
        }
        Ok(ratchet)
    }

    fn to_text(&self) -> String {
        let largest = self
            .largest
            .iter()
            .map(|(folder, lines)| format!("\"{folder}\" = {lines}\n"));
        let reasons = self
            .reasons
            .iter()
            .map(|(path, reason)| format!("\"{path}\" = {}\n", toml::Value::from(reason.as_str())));
        format!(
            "# Lines of each crate's largest file, where that is above the aim of {AIM_LINES}: it may shrink, not grow.\n\
             # Written by `cargo xtask tidy --update`.\n\
             [largest]\n\
             {}\n\
             # Files above {MAX_LINES} lines, each with the reason why it is better whole. Written by hand.\n\
             [reasons]\n\
             {}",
            largest.collect::<String>(),
            reasons.collect::<String>(),
        )
    }

    fn growth(&self, folder: &str, path: &str, lines: usize) -> Option<Finding> {
        let stored = self.largest.get(folder).copied().unwrap_or(0);
        (lines > stored.max(AIM_LINES)).then(|| {
            let message = format!(
                "{lines} lines; {folder} is held to {}. Split it, or run `cargo xtask tidy --update` and say why in the commit",
                stored.max(AIM_LINES)
            );
            Finding::new(path, message)
        })
    }

    /// What shrank is held at its new size.
    fn slack(&self, folder: &str, lines: usize) -> Option<Finding> {
        (self.largest.get(folder).copied().unwrap_or(0) > lines).then(|| {
            let message = format!(
                "{folder} shrank to {lines} lines: keep that with `cargo xtask tidy --update`"
            );
            Finding::new(RATCHET, message)
        })
    }

    fn giant(&self, path: &str, lines: usize) -> Option<Finding> {
        let reason = self.reasons.get(path).map_or("", |reason| reason.trim());
        (lines > MAX_LINES && reason.is_empty()).then(|| {
            let message = format!("{lines} lines, above {MAX_LINES} without a reason in {RATCHET}");
            Finding::new(path, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet() -> Ratchet {
        Ratchet::parse(
            "[largest]\n\"crates/a\" = 500\n[reasons]\n\"crates/a/src/t.rs\" = \"a table\"",
        )
        .unwrap()
    }

    #[test]
    fn files_may_reach_the_aim_or_what_is_stored() {
        for (folder, lines, fine) in [
            ("crates/a", 500, true),
            ("crates/a", 501, false),
            ("crates/b", 400, true),
            ("crates/b", 401, false),
        ] {
            let found = ratchet().growth(folder, "x.rs", lines);
            assert_eq!(found.is_none(), fine, "{folder} {lines}");
        }
    }

    #[test]
    fn what_shrank_is_held() {
        assert!(ratchet().slack("crates/a", 499).is_some());
        assert!(ratchet().slack("crates/a", 500).is_none());
        assert!(ratchet().slack("crates/b", 100).is_none());
    }

    #[test]
    fn giants_need_a_reason() {
        assert!(ratchet().giant("crates/a/src/t.rs", 900).is_none());
        assert!(ratchet().giant("crates/a/src/u.rs", 801).is_some());
        assert!(ratchet().giant("crates/a/src/u.rs", 800).is_none());
    }

    #[test]
    fn the_file_survives_writing() {
        assert_eq!(Ratchet::parse(&ratchet().to_text()).unwrap(), ratchet());
    }

    #[test]
    fn a_broken_file_is_refused() {
        for text in [
            "[",
            "[largest]\na = \"x\"",
            "[largest]\na = -1",
            "[reasons]\na = 1",
        ] {
            assert!(Ratchet::parse(text).is_err(), "{text}");
        }
    }
}
