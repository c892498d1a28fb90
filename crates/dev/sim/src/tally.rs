//! Counts of what happened in runs, and the table of what they are to show.

use std::collections::BTreeMap;

/// Table of what each kind of run is to show. A head names kinds; below it stand things that are
/// counted, a line each.
const SHOWN: &str = include_str!("shown.txt");

/// Number of times that each thing happened: faults, and what was done in spite of them.
#[derive(Clone, Debug, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    pub(crate) fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    pub(crate) fn add(&mut self, what: &'static str, times: u64) {
        *self.0.entry(what).or_default() += times;
    }

    /// Adds those of another run.
    pub fn add_all(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// Finds what the table asks of runs of this kind and never happened, and what was counted and
    /// is not in the table at all.
    #[must_use]
    pub fn missing(&self, kind: &str) -> Vec<String> {
        let (mut missing, mut known, mut is_asked) = (Vec::new(), Vec::new(), false);
        for line in SHOWN.lines().filter(|line| !line.is_empty()) {
            if let Some(kinds) = line.strip_prefix('[') {
                is_asked = { kinds.trim_end_matches(']').split(", ") }.any(|one| one == kind);
                continue;
            }
            known.push(line);
            if is_asked && self.of(line) == 0 {
                missing.push(line.to_owned());
            }
        }
        let strange = self.0.keys().filter(|what| !known.contains(what));
        missing.extend(strange.map(|what| format!("not in the table: {what}")));
        missing
    }
}
