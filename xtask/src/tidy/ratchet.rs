//! The ratchet: numbers that may fall and not rise, by folder, in `xtask/ratchet.toml`.
//!
//! Owns: the file, and the comparison. Never: counts; each check that has a number hands it in as a
//! [`Count`]. `tidy --update` writes today's numbers, and one that rose shows in the diff.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use crate::finding::Finding;
use crate::tree::Tree;

/// Where the numbers are kept.
pub(super) const RATCHET: &str = "xtask/ratchet.toml";

/// What is counted: the section of the file, what the number means, and the number up to which
/// nothing is stored.
pub(super) struct Rule {
    pub(super) section: &'static str,
    pub(super) what: &'static str,
    pub(super) fine: usize,
}

/// Every rule, in the order of the file.
pub(super) const RULES: &[&Rule] = &[LARGEST, CIRCLES, WIDE, VAGUE, QUEUES];

/// Each crate's largest file; files of code aim at this many lines.
pub(super) const LARGEST: &Rule = &Rule {
    section: "largest",
    what: "lines in the largest file",
    fine: 400,
};
pub(super) const CIRCLES: &Rule = &Rule {
    section: "circles",
    what: "modules that use each other in a circle",
    fine: 0,
};
pub(super) const WIDE: &Rule = &Rule {
    section: "wide",
    what: "lines wider than 100 columns",
    fine: 0,
};
pub(super) const QUEUES: &Rule = &Rule {
    section: "queues",
    what: "queues that declare no bound",
    fine: 0,
};
pub(super) const VAGUE: &Rule = &Rule {
    section: "vague",
    what: "unclear sentences",
    fine: 0,
};

/// What a check found in one folder.
pub(super) struct Count {
    pub(super) rule: &'static Rule,
    pub(super) folder: String,
    pub(super) number: usize,
    /// What to show if the number is too high.
    pub(super) findings: Vec<Finding>,
}

/// Findings of one rule, sorted into folders and counted one by one.
pub(super) fn counted(
    rule: &'static Rule,
    found: impl IntoIterator<Item = (String, Finding)>,
) -> Vec<Count> {
    let mut folders: BTreeMap<String, Vec<Finding>> = BTreeMap::new();
    for (folder, finding) in found {
        folders.entry(folder).or_default().push(finding);
    }
    let count = |(folder, findings): (String, Vec<Finding>)| Count {
        rule,
        folder,
        number: findings.len(),
        findings,
    };
    folders.into_iter().map(count).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ratchet {
    /// By section, then by folder.
    numbers: BTreeMap<String, BTreeMap<String, usize>>,
    /// Reasons, by path, of files that are longer than a file should be.
    pub(super) reasons: BTreeMap<String, String>,
}

impl Ratchet {
    pub(super) fn read(tree: &Tree) -> Result<Self> {
        tree.text(RATCHET)
            .map_or_else(|| Ok(Self::default()), Self::parse)
            .with_context(|| format!("cannot read {RATCHET}"))
    }

    fn parse(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse()?;
        let mut ratchet = Self::default();
        for (name, section) in table {
            for (key, value) in section.as_table().context("not a table")?.clone() {
                if name == "reasons" {
                    let reason = value.as_str().context("the reason is not a text")?;
                    ratchet.reasons.insert(key, reason.to_owned());
                } else {
                    let number = value.as_integer().map(usize::try_from);
                    let number = number.with_context(|| format!("{key}: not a number"))??;
                    ratchet
                        .numbers
                        .entry(name.clone())
                        .or_default()
                        .insert(key, number);
                }
            }
        }
        Ok(ratchet)
    }

    /// Compares today's numbers with those that are stored.
    pub(super) fn compare(&self, today: Vec<Count>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for rule in RULES {
            for (folder, stored) in self.numbers.get(rule.section).into_iter().flatten() {
                let found = today
                    .iter()
                    .find(|count| count.rule.section == rule.section && count.folder == *folder);
                let now = found.map_or(0, |count| count.number);
                if now < *stored {
                    let message = format!(
                        "{folder} fell from {stored} to {now} {}: run `cargo xtask tidy --update`",
                        rule.what
                    );
                    findings.push(Finding::new(RATCHET, message));
                }
            }
        }
        for count in today {
            let held = self.held(count.rule, &count.folder);
            if count.number > held {
                findings.extend(count.findings);
                let message = format!("{} {}; it is held to {held}", count.number, count.rule.what);
                findings.push(Finding::new(count.folder, message));
            }
        }
        findings
    }

    fn held(&self, rule: &Rule, folder: &str) -> usize {
        let stored = self
            .numbers
            .get(rule.section)
            .and_then(|section| section.get(folder));
        stored.copied().unwrap_or(0).max(rule.fine)
    }

    /// The text of the file with today's numbers.
    pub(super) fn updated(&self, today: &[Count]) -> String {
        let mut lines = vec![
            "# Numbers that may fall and not rise; `cargo xtask tidy --update` writes them."
                .to_owned(),
        ];
        for rule in RULES {
            lines.push(format!(
                "\n# By folder: {}, if above {}.",
                rule.what, rule.fine
            ));
            lines.push(format!("[{}]", rule.section));
            let counts = today
                .iter()
                .filter(|count| count.rule.section == rule.section && count.number > rule.fine);
            let numbers: BTreeMap<_, _> =
                counts.map(|count| (&count.folder, count.number)).collect();
            lines.extend(
                numbers
                    .iter()
                    .map(|(folder, number)| format!("\"{folder}\" = {number}")),
            );
        }
        lines.push("\n# Why a file that is too long is better whole; written by hand.".to_owned());
        lines.push("[reasons]".to_owned());
        let reasons = self.reasons.iter();
        lines.extend(
            reasons.map(|(path, reason)| {
                format!("\"{path}\" = {}", toml::Value::from(reason.as_str()))
            }),
        );
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: &Rule = RULES[0];

    fn ratchet() -> Ratchet {
        Ratchet::parse("[largest]\n\"a\" = 500\n[reasons]\n\"a/t.rs\" = \"a table\"").unwrap()
    }

    fn count(folder: &str, number: usize) -> Count {
        Count {
            rule: RULE,
            folder: folder.to_owned(),
            number,
            findings: vec![Finding::new("a.rs", "here")],
        }
    }

    #[test]
    fn numbers_may_stay_and_not_rise_and_a_fall_is_kept() {
        for (counts, expect) in [
            (vec![("a", 500), ("b", 400)], vec![]),
            (vec![("a", 501)], vec!["a.rs", "a"]),
            (vec![("a", 500), ("b", 401)], vec!["a.rs", "b"]),
            (vec![("a", 499)], vec![RATCHET]),
            (vec![], vec![RATCHET]),
        ] {
            let today = counts
                .iter()
                .map(|(folder, number)| count(folder, *number))
                .collect();
            let found = ratchet().compare(today);
            let places: Vec<_> = found.iter().map(|finding| finding.place.as_str()).collect();
            assert_eq!(places, expect, "{counts:?}");
        }
    }

    #[test]
    fn the_file_survives_writing() {
        let written = ratchet().updated(&[count("a", 500), count("b", 400)]);
        let again = Ratchet::parse(&written).unwrap();
        assert_eq!(
            again.numbers.get("largest"),
            ratchet().numbers.get("largest")
        );
        assert_eq!(again.reasons, ratchet().reasons);
    }

    #[test]
    fn a_broken_file_is_refused() {
        for text in [
            "[",
            "a = 1",
            "[largest]\na = \"x\"",
            "[largest]\na = -1",
            "[reasons]\na = 1",
        ] {
            assert!(Ratchet::parse(text).is_err(), "{text}");
        }
    }
}
