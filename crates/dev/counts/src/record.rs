//! The recorded numbers, and the comparison with new ones.
//!
//! They stand in the crate's `recorded.txt`, `operation | instructions | allocations` on each line.
//! An operation that became dearer is a fault; one that became cheaper is only told. Its
//! instructions may rise by 6 % ([`TOLERANCE_PERCENT`]), or by 40 ([`TOLERANCE_MIN`]) if that is
//! more, and its allocations by 0.15 ([`TOLERANCE_ALLOCATIONS`]). Numbers are those of one
//! time of the operation.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// Instructions that may come on top, in percent: compilers move code about.
const TOLERANCE_PERCENT: u64 = 6;
/// Instructions that may always come on top: one more branch in a small operation is no news.
const TOLERANCE_MIN: u64 = 40;
/// Allocations that may come on top.
const TOLERANCE_ALLOCATIONS: f64 = 0.15;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: u64,
    pub(crate) allocations: f64,
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded.txt")
}

const HEAD: &str = "\
# Instructions and allocations of each operation, as `cargo xtask counts --update` found them.
# operation | instructions | allocations
";

pub(crate) fn write(found: &[(String, Counts)]) -> Result<()> {
    Ok(std::fs::write(path(), HEAD.to_owned() + &text(found))?)
}

pub(crate) fn text(found: &[(String, Counts)]) -> String {
    let mut text = String::new();
    for (name, counts) in found {
        let Counts {
            instructions,
            allocations,
        } = counts;
        let _ = writeln!(text, "{name} | {instructions} | {allocations:.2}");
    }
    text
}

pub(crate) fn read() -> Result<Vec<(String, Counts)>> {
    let text = std::fs::read_to_string(path()).context("nothing is recorded")?;
    parse(&text)
}

fn parse(text: &str) -> Result<Vec<(String, Counts)>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split(" | ");
            let mut next = || parts.next().with_context(|| format!("half a line: {line}"));
            let name = next()?.to_owned();
            let counts = Counts {
                instructions: next()?.parse()?,
                allocations: next()?.parse()?,
            };
            Ok((name, counts))
        })
        .collect()
}

/// Result of a comparison, a sentence for each difference.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    /// Dearer than recorded, or without a counterpart.
    pub(crate) faults: Vec<String>,
    /// Cheaper by as much.
    pub(crate) gains: Vec<String>,
}

/// Lists operations that have become dearer or cheaper, or have no counterpart.
pub(crate) fn compare(recorded: &[(String, Counts)], found: &[(String, Counts)]) -> Differences {
    let mut differences = Differences::default();
    let Differences { faults, gains } = &mut differences;
    for (name, now) in found {
        let Some((_, then)) = recorded.iter().find(|(known, _)| known == name) else {
            faults.push(format!("{name}: not recorded yet"));
            continue;
        };
        let tolerance = (then.instructions * TOLERANCE_PERCENT / 100).max(TOLERANCE_MIN);
        let mut tell = |is_dearer: bool, words: String| {
            let list = if is_dearer { &mut *faults } else { &mut *gains };
            list.push(format!("{name}: {words}"));
        };
        let (is, was) = (now.instructions, then.instructions);
        if is.abs_diff(was) > tolerance {
            tell(is > was, format!("{is} instructions, recorded are {was}"));
        }
        let (is, was) = (now.allocations, then.allocations);
        if (is - was).abs() > TOLERANCE_ALLOCATIONS {
            tell(
                is > was,
                format!("{is:.2} allocations, recorded are {was:.2}"),
            );
        }
    }
    for (name, _) in recorded {
        if !found.iter().any(|(known, _)| known == name) {
            faults.push(format!("{name}: recorded, but not counted any more"));
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: u64, allocations: f64) -> Vec<(String, Counts)> {
        vec![(
            "x y".to_owned(),
            Counts {
                instructions,
                allocations,
            },
        )]
    }

    #[test]
    fn what_was_written_is_read_again() {
        let found = counts(1234, 2.5);
        assert_eq!(parse(&(HEAD.to_owned() + &text(&found))).unwrap(), found);
        assert!(parse("x | 1\n").is_err());
    }

    #[test]
    fn dearer_is_a_fault_and_cheaper_is_told() {
        let recorded = counts(1000, 2.0);
        let told = |recorded: &[_], found: &[_]| {
            let Differences { faults, gains } = compare(recorded, found);
            (faults.len(), gains.len())
        };
        for (now, expected) in [
            (counts(1000, 2.0), (0, 0)),
            (counts(1060, 2.1), (0, 0)),
            (counts(1061, 2.0), (1, 0)),
            (counts(900, 2.0), (0, 1)),
            (counts(2000, 3.0), (2, 0)),
            (counts(2000, 1.0), (1, 1)),
        ] {
            assert_eq!(told(&recorded, &now), expected, "{now:?}");
        }
        assert_eq!(told(&recorded, &[]), (1, 0));
        assert_eq!(told(&[], &recorded), (1, 0));
    }
}
