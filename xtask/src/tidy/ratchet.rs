//! The ratchet: numbers of each crate that may fall and not rise, in `xtask/ratchet.toml`.
//!
//! Owns: the file, and the comparison. Never: counts; others hand the numbers in as [`Count`]s.
//! `tidy --update` writes today's numbers, and one that rose shows in the diff.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use crate::finding::Finding;
use crate::tree::Tree;

/// Path of the file with the numbers.
pub(super) const RATCHET: &str = "xtask/ratchet.toml";

/// Kinds of numbers: a section of the file each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Measure {
    /// Lines in the largest file.
    Largest,
    /// Docs of items that say little.
    Vague,
}

impl Measure {
    const ALL: [Self; 2] = [Self::Largest, Self::Vague];

    const fn section(self) -> &'static str {
        match self {
            Self::Largest => "largest",
            Self::Vague => "vague",
        }
    }

    /// Up to it nothing is stored.
    const fn fine(self) -> usize {
        match self {
            Self::Largest => 600,
            Self::Vague => 0,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Largest => "lines in the largest file",
            Self::Vague => "docs that say little",
        }
    }
}

/// A number of one crate.
pub(super) struct Count {
    pub(super) measure: Measure,
    pub(super) folder: String,
    pub(super) number: usize,
    /// Shown if the number is too high.
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ratchet {
    numbers: BTreeMap<(Measure, String), usize>,
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
            let measure = { Measure::ALL.into_iter() }.find(|measure| measure.section() == name);
            for (key, value) in section.as_table().context("not a table")?.clone() {
                if name == "reasons" {
                    let reason = value.as_str().context("the reason is not a text")?;
                    ratchet.reasons.insert(key, reason.to_owned());
                } else if let Some(measure) = measure {
                    let number = value.as_integer().map(usize::try_from);
                    let number = number.with_context(|| format!("{key}: not a number"))??;
                    ratchet.numbers.insert((measure, key), number);
                } else {
                    bail!("there is no section {name}");
                }
            }
        }
        Ok(ratchet)
    }

    /// Compares today's numbers with those that are stored.
    pub(super) fn compare(&self, today: Vec<Count>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for ((measure, folder), stored) in &self.numbers {
            let is_it = |count: &&Count| (count.measure, &count.folder) == (*measure, folder);
            let now = today.iter().find(is_it).map_or(0, |count| count.number);
            if now < *stored {
                let words = measure.words();
                let message = format!(
                    "{folder}: {words} fell from {stored} to {now}: run `cargo xtask tidy --update`"
                );
                findings.push(Finding::new(RATCHET, message));
            }
        }
        for count in today {
            let key = (count.measure, count.folder.clone());
            let stored = self.numbers.get(&key).copied().unwrap_or(0);
            let held = stored.max(count.measure.fine());
            if count.number > held {
                findings.extend(count.findings);
                let (number, words) = (count.number, count.measure.words());
                let message = format!("{number} {words}; held to {held}");
                findings.push(Finding::new(count.folder, message));
            }
        }
        findings
    }

    /// The text of the file with today's numbers.
    pub(super) fn updated(&self, today: &[Count]) -> String {
        let mut lines = vec![
            "# Numbers that may fall and not rise; `cargo xtask tidy --update` writes them."
                .to_owned(),
        ];
        for measure in Measure::ALL {
            let (section, fine) = (measure.section(), measure.fine());
            let words = measure.words();
            lines.push(format!(
                "\n# By crate: {words}, if above {fine}.\n[{section}]"
            ));
            let above = today
                .iter()
                .filter(|it| it.measure == measure && it.number > fine);
            let above: BTreeMap<_, _> = above.map(|it| (&it.folder, it.number)).collect();
            let above = above.iter();
            lines.extend(above.map(|(folder, number)| format!("\"{folder}\" = {number}")));
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

    fn ratchet() -> Ratchet {
        Ratchet::parse("[largest]\n\"a\" = 700\n[reasons]\n\"a/t.rs\" = \"a table\"").unwrap()
    }

    fn count(folder: &str, number: usize) -> Count {
        Count {
            measure: Measure::Largest,
            folder: folder.to_owned(),
            number,
            findings: vec![Finding::new("a.rs", "here")],
        }
    }

    #[test]
    fn numbers_may_stay_and_not_rise_and_a_fall_is_kept() {
        for (counts, expect) in [
            (vec![("a", 700), ("b", 600)], vec![]),
            (vec![("a", 701)], vec!["a.rs", "a"]),
            (vec![("a", 700), ("b", 601)], vec!["a.rs", "b"]),
            (vec![("a", 699)], vec![RATCHET]),
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
        let written = ratchet().updated(&[count("a", 700), count("b", 600)]);
        let again = Ratchet::parse(&written).unwrap();
        assert_eq!(again, ratchet());
    }

    #[test]
    fn a_broken_file_is_refused() {
        for text in [
            "[",
            "a = 1",
            "[largest]\na = \"x\"",
            "[largest]\na = -1",
            "[circles]\na = 1",
            "[reasons]\na = 1",
        ] {
            assert!(Ratchet::parse(text).is_err(), "{text}");
        }
    }
}
