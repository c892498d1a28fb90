//! Telling of everything again within a period, a little at a time.

use std::collections::BTreeMap;
use std::ops::Bound;

use throng_types::Millis;

/// Between two steps, in milliseconds.
pub(crate) const STEP_MS: u64 = 100;
/// Milliseconds of a late step, at most, so that it does not report a crowd that has just come.
const STEP_MS_MAX: u64 = 1000;

/// A walk round a table, in the order of its keys.
pub(crate) struct Lap<K> {
    period_ms: u64,
    /// When the last step was.
    at: Millis,
    /// Entries that are due, times the period.
    owed: u64,
    last: Option<K>,
}

impl<K: Ord + Clone> Lap<K> {
    /// A walk that comes past each entry once in a period, and once more in a second one where
    /// many entries leave meanwhile.
    pub(crate) fn new(period_ms: u64) -> Self {
        Self {
            period_ms: period_ms.max(1),
            at: Millis::default(),
            owed: 0,
            last: None,
        }
    }

    pub(crate) fn next_at(&self) -> Millis {
        self.at + STEP_MS
    }

    /// Takes a step: the entries that are due now.
    pub(crate) fn step<V>(&mut self, table: &BTreeMap<K, V>, now: Millis) -> Vec<K> {
        let passed_ms = now.0.saturating_sub(self.at.0).min(STEP_MS_MAX);
        self.at = now;
        if table.is_empty() {
            return Vec::new();
        }
        self.owed += passed_ms * table.len() as u64;
        let due = usize::try_from(self.owed / self.period_ms).unwrap_or(usize::MAX);
        self.owed %= self.period_ms;
        let due = due.min(table.len());
        let after = self.last.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let tail = table.range((after, Bound::Unbounded)).map(|(key, _)| key);
        let keys: Vec<K> = tail.chain(table.keys()).take(due).cloned().collect();
        if let Some(last) = keys.last() {
            self.last = Some(last.clone());
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps for so long; how often each of the entries was due.
    fn walk(entries: u32, period_ms: u64, for_ms: u64) -> Vec<usize> {
        let table: BTreeMap<u32, ()> = (0..entries).map(|entry| (entry, ())).collect();
        let mut lap = Lap::new(period_ms);
        let mut seen = vec![0; entries as usize];
        for step in 0..=for_ms / STEP_MS {
            for key in lap.step(&table, Millis(step * STEP_MS)) {
                seen[key as usize] += 1;
            }
        }
        seen
    }

    #[test]
    fn each_entry_is_due_once_a_period() {
        for entries in [1, 2, 7, 600, 5000] {
            let seen = walk(entries, 60_000, 60_000);
            assert!(seen.iter().all(|times| *times == 1), "{entries}: {seen:?}");
        }
        assert_eq!(walk(1, 60_000, 59_900), [0]);
        assert_eq!(walk(3, 60_000, 180_000), [3, 3, 3]);
    }

    #[test]
    fn a_late_step_does_not_tell_of_those_who_have_just_come() {
        let mut lap = Lap::new(60_000);
        let mut table: BTreeMap<u32, ()> = BTreeMap::new();
        assert!(lap.step(&table, Millis(10)).is_empty());
        table.insert(1, ());
        assert!(lap.step(&table, Millis(3_600_000)).is_empty());
        assert_eq!(lap.next_at(), Millis(3_600_100));
    }
}
