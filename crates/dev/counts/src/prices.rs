//! Prices beside what is counted: [`Work::cpu_us`] is about what a piece of work costs.
//!
//! A price is a time, and what is counted are instructions without those of the kernel. So both are
//! compared by a band: a core carries out up to some thousand instructions in a microsecond, and
//! fewer where system calls are a part of the work.

use std::mem::discriminant;

use throng_auth::Algorithm;
use throng_session::Work;

use crate::asked;
use crate::record::Counts;
use crate::requests::Kind;

/// Instructions for each microsecond of a price, at least: below, the price is far too high.
const PER_US_MIN: u64 = 150;
/// At most: above, a stranger gets more than he pays for.
const PER_US_MAX: u64 = 3_000;

/// Whether a kind of work is in an operation that is counted. A new kind does not compile without a
/// line here.
const fn is_counted(work: Work) -> bool {
    match work {
        Work::Message
        | Work::Command
        | Work::Subscribe
        | Work::Request
        | Work::Arrival
        | Work::Session
        | Work::Answer { .. }
        | Work::Delta { .. }
        | Work::Token { .. } => true,
        // Arithmetic with long numbers: `throng bench` measures it as time.
        Work::SecureArrival => false,
        // Only where there are several nodes.
        Work::Carry { .. } => false,
    }
}

/// One of each kind.
const KINDS: &[Work] = &[
    Work::Message,
    Work::Command,
    Work::Subscribe,
    Work::Request,
    Work::Arrival,
    Work::SecureArrival,
    Work::Session,
    Work::Carry { bytes: 1 },
    Work::Answer { items: 1, bytes: 1 },
    Work::Delta { bytes: 1 },
    Work::Token {
        algorithm: Algorithm::Hs256,
        is_good: true,
    },
];

/// Operations and what they are charged for.
fn rows() -> Vec<(String, Vec<Work>)> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        let mut works = vec![Work::Arrival, Work::Request, Work::Session];
        // These clients identify themselves in a message.
        if matches!(kind, Kind::Centrifuge | Kind::Protobuf | Kind::UniWs) {
            works.push(Work::Message);
        }
        rows.push((format!("{} accept", kind.name()), works));
        if kind.subscribe("").is_some() {
            rows.push((format!("{} subscribe", kind.name()), vec![Work::Subscribe]));
        }
    }
    for way in ["c1", "own:c1"] {
        let name = format!("publish pub {way}");
        rows.push((format!("{name}, pipelined"), vec![Work::Request]));
        rows.push((name, vec![Work::Request]));
    }
    rows.push(("asked native ping".to_owned(), vec![Work::Message]));
    for asked in asked::all() {
        // One without works has no price, and that is out of the band.
        rows.push((asked.operation(), asked.works().unwrap_or_default()));
    }
    let (name, works) = asked::DIFFERENCE;
    rows.push((name.to_owned(), works.to_vec()));
    rows
}

fn price_us(works: &[Work]) -> u64 {
    works.iter().map(|work| u64::from(work.cpu_us())).sum()
}

/// Lists operations that are priced wrong or not counted, a sentence each.
pub(crate) fn faults(found: &[(String, Counts)]) -> Vec<String> {
    let rows = rows();
    let mut faults = Vec::new();
    for (operation, works) in &rows {
        let price_us = price_us(works);
        let Some((_, counts)) = found.iter().find(|(name, _)| name == operation) else {
            faults.push(format!("{operation}: it has a price and is not counted"));
            continue;
        };
        let instructions = counts.instructions;
        if !(PER_US_MIN * price_us..=PER_US_MAX * price_us).contains(&instructions) {
            faults.push(format!(
                "{operation}: {instructions} instructions for a price of {price_us} µs; right \
                 are {PER_US_MIN} to {PER_US_MAX} for each µs"
            ));
        }
    }
    for kind in KINDS.iter().filter(|kind| is_counted(**kind)) {
        let mut all = rows.iter().flat_map(|(_, works)| works);
        if !all.any(|work| discriminant(work) == discriminant(kind)) {
            faults.push(format!("{kind:?}: no operation is charged for it"));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many instructions a microsecond of each operation's price.
    fn counts(per_us: impl Fn(&str) -> u64) -> Vec<(String, Counts)> {
        let count = |(name, works): (String, Vec<Work>)| {
            let counts = Counts {
                instructions: price_us(&works) * per_us(&name),
                allocations: 0.0,
            };
            (name, counts)
        };
        rows().into_iter().map(count).collect()
    }

    #[test]
    fn each_kind_of_work_is_known() {
        for kind in KINDS {
            let same = KINDS
                .iter()
                .filter(|it| discriminant(*it) == discriminant(kind));
            assert_eq!(same.count(), 1, "{kind:?}");
        }
        assert_eq!(faults(&counts(|_| 1_000)), [""; 0]);
    }

    #[test]
    fn too_cheap_too_dear_and_not_counted_are_told() {
        for (operation, per_us, faulty) in [
            ("asked presence", 3_001, true),
            ("asked presence", 3_000, false),
            ("ws accept", 149, true),
            ("ws accept", 150, false),
        ] {
            let told = faults(&counts(|name| match name == operation {
                true => per_us,
                false => 1_000,
            }));
            assert_eq!(!told.is_empty(), faulty, "{operation} {per_us}: {told:?}");
            assert!(
                told.iter().all(|told| told.starts_with(operation)),
                "{told:?}"
            );
        }
        let missing = faults(&counts(|_| 1_000)[1..]);
        assert_eq!(missing.len(), 1, "{missing:?}");
    }
}
