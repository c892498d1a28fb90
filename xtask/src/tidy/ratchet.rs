//! The ratchet: numbers of each crate that may fall and not rise, in `xtask/ratchet.toml`.
//!
//! Owns: the file, and the comparison. Never: counts; others hand the numbers in as [`Count`]s.
//! `tidy --update` writes today's numbers, and one that rose shows in the diff.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

use super::words::COLUMNS;
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
    /// A public name of a type that another crate has too; the key has the name and one crate.
    Twin,
    /// Names of types with a word of the old dialect.
    Dialect,
    /// Collections that grow and name no bound.
    Growing,
}

impl Measure {
    const ALL: [Self; 5] = [
        Self::Largest,
        Self::Vague,
        Self::Twin,
        Self::Dialect,
        Self::Growing,
    ];

    /// The section of the file, up to which number nothing is stored, and what is counted.
    const fn row(self) -> (&'static str, usize, &'static str) {
        match self {
            Self::Largest => ("largest", 600, "lines in the largest file"),
            Self::Vague => ("vague", 0, "docs that say little"),
            Self::Twin => (
                "twins",
                0,
                "public names of types that another crate has too",
            ),
            Self::Dialect => ("dialect", 0, "names of types in private words"),
            Self::Growing => ("growing", 0, "collections that grow and name no bound"),
        }
    }
}

/// A number of one crate, or of one name.
pub(super) struct Count {
    pub(super) measure: Measure,
    pub(super) key: String,
    pub(super) number: usize,
    /// Shown if the number is too high.
    pub(super) findings: Vec<Finding>,
}

/// The findings of one kind, counted by crate.
pub(super) fn by_crate(measure: Measure, found: BTreeMap<&str, Vec<Finding>>) -> Vec<Count> {
    let count = |(folder, findings): (&str, Vec<Finding>)| Count {
        measure,
        key: folder.to_owned(),
        number: findings.len(),
        findings,
    };
    found.into_iter().map(count).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ratchet {
    /// By crate, or by what a number counts.
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
            let measure = Measure::ALL
                .into_iter()
                .find(|measure| measure.row().0 == name);
            for (key, value) in section.as_table().context("not a table")?.clone() {
                if name == "reasons" {
                    let reason = value.as_str().context("the reason is not a text")?;
                    ratchet.reasons.insert(key, reason.to_owned());
                } else if let (Some(measure), Some(rooms)) = (measure, value.as_array()) {
                    let rooms = rooms.iter().filter_map(toml::Value::as_str);
                    let rooms = rooms.map(|room| ((measure, format!("{key} {room}")), 1));
                    ratchet.numbers.extend(rooms);
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
        for ((measure, key), stored) in &self.numbers {
            let is_it = |count: &&Count| (count.measure, &count.key) == (*measure, key);
            let now = today.iter().find(is_it).map_or(0, |count| count.number);
            if now < *stored {
                let (.., words) = measure.row();
                let message = format!(
                    "{key}: {words} fell from {stored} to {now}: run `cargo xtask tidy --update`"
                );
                findings.push(Finding::new(RATCHET, message));
            }
        }
        for count in today {
            let (_, fine, words) = count.measure.row();
            let key = (count.measure, count.key.clone());
            let held = self
                .numbers
                .get(&key)
                .map_or(fine, |stored| *stored.max(&fine));
            if count.number > held {
                findings.extend(count.findings);
                let message = format!("{} {words}; held to {held}", count.number);
                findings.push(Finding::new(count.key, message));
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
            let (section, fine, words) = measure.row();
            lines.push(format!(
                "\n# By crate: {words}, if above {fine}.\n[{section}]"
            ));
            let today = today.iter().filter(|it| it.measure == measure);
            let above = today.filter(|it| it.number > fine);
            let above: BTreeMap<_, _> = above.map(|it| (&it.key, it.number)).collect();
            if measure == Measure::Twin {
                lines.extend(by_name(above.into_keys()));
                continue;
            }
            let above = above.iter();
            lines.extend(above.map(|(key, number)| format!("\"{key}\" = {number}")));
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

/// Lines that list, for each name, the crates behind it.
fn by_name<'a>(keys: impl Iterator<Item = &'a String>) -> impl Iterator<Item = String> {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, room) in keys.filter_map(|key| key.split_once(' ')) {
        names.entry(name).or_default().push(room);
    }
    let names = names.into_iter();
    names.map(|(name, rooms)| match format!("\"{name}\" = {rooms:?}") {
        line if line.len() <= COLUMNS => line,
        _ => format!("\"{name}\" = {rooms:#?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratchet() -> Ratchet {
        let names = "[twins]\n\"N\" = [\"a\", \"b\"]";
        let reasons = "[reasons]\n\"a/t.rs\" = \"a table\"";
        Ratchet::parse(&format!("[largest]\n\"a\" = 700\n{names}\n{reasons}")).unwrap()
    }

    fn twin(room: &str) -> Count {
        Count {
            measure: Measure::Twin,
            ..count(&format!("N {room}"), 1)
        }
    }

    fn count(key: &str, number: usize) -> Count {
        Count {
            measure: Measure::Largest,
            key: key.to_owned(),
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
                .map(|(key, number)| count(key, *number))
                .chain([twin("a"), twin("b")])
                .collect();
            let found = ratchet().compare(today);
            let places: Vec<_> = found.iter().map(|finding| finding.place.as_str()).collect();
            assert_eq!(places, expect, "{counts:?}");
        }
    }

    #[test]
    fn a_name_may_leave_a_crate_and_not_enter_another() {
        let found = |rooms: &[&str]| {
            let today = rooms.iter().map(|room| twin(room));
            let found = ratchet().compare(today.chain([count("a", 700)]).collect());
            found.into_iter().map(|it| it.place).collect::<Vec<_>>()
        };
        assert_eq!(found(&["a", "b"]), [""; 0]);
        assert_eq!(found(&["a", "b", "c"]), ["a.rs", "N c"]);
        assert_eq!(found(&[]), [RATCHET, RATCHET]);
    }

    #[test]
    fn the_file_survives_writing() {
        let written = ratchet().updated(&[count("a", 700), count("b", 600), twin("a"), twin("b")]);
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
