use std::collections::BTreeSet;

use proptest::prelude::{prop_assert_eq, proptest};

use super::*;

fn run(first: Option<u64>, heard: &[u64], last: Option<u64>) -> DeliveryCounts {
    let mut counts = DeliveryCounts::default();
    let mut tracker =
        Tracker::from_number(first.unwrap_or_else(|| heard.first().copied().unwrap_or(1)));
    for &sequence in heard {
        tracker.on(sequence, &mut counts);
    }
    tracker.finish(last, &mut counts);
    counts
}

#[track_caller]
fn check(first: Option<u64>, heard: &[u64], last: Option<u64>, expected: [u64; 6]) {
    let counts = run(first, heard, last);
    assert_eq!(
        [
            counts.distinct,
            counts.missing,
            counts.duplicates,
            counts.out_of_order,
            counts.too_late,
            counts.before_join
        ],
        expected,
        "{heard:?}"
    );
}

#[test]
fn each_fate_is_told_apart() {
    // distinct, missing, duplicates, out of order, too late, before join
    check(Some(1), &[1, 2, 3], Some(3), [3, 0, 0, 0, 0, 0]);
    check(Some(1), &[1, 3], Some(3), [2, 1, 0, 0, 0, 0]);
    check(Some(1), &[1, 3, 2], Some(3), [3, 0, 0, 1, 0, 0]);
    check(Some(1), &[1, 2, 2, 1], Some(2), [2, 0, 2, 0, 0, 0]);
    check(Some(1), &[2, 3], Some(3), [2, 1, 0, 0, 0, 0]);
    check(Some(1), &[1, 2], Some(5), [2, 3, 0, 0, 0, 0]);
    check(Some(1), &[], Some(5), [0, 5, 0, 0, 0, 0]);
    check(Some(1), &[], None, [0, 0, 0, 0, 0, 0]);
    check(None, &[100, 101], Some(101), [2, 0, 0, 0, 0, 0]);
    check(None, &[100, 99, 102], Some(102), [2, 1, 0, 0, 0, 1]);
    check(Some(1), &[1, 200, 2], Some(200), [2, 198, 0, 0, 1, 0]);
    check(Some(1), &[1000], Some(1000), [1, 999, 0, 0, 0, 0]);
    check(Some(0), &[1], Some(1), [1, 0, 0, 0, 0, 0]);
    check(Some(5), &[5], Some(2), [1, 0, 0, 0, 0, 0]);
}

#[test]
fn trackers_are_small() {
    assert_eq!(size_of::<Tracker>(), 24);
    assert_eq!(size_of::<Track>(), 32);
}

#[test]
fn pairs_are_followed_apart_and_their_number_is_bounded() {
    let mut tracks = Tracks::default();
    let mut counts = DeliveryCounts::default();
    let message = |channel, publisher, sequence| Message {
        publisher,
        channel,
        sequence,
        due_us: 0,
    };
    tracks.expect(1, 0, 1);
    assert_eq!(
        tracks.on(&message(1, 0, 2), &mut counts),
        Some(SequenceOutcome::Ahead)
    );
    assert_eq!(
        tracks.on(&message(1, 1, 7), &mut counts),
        Some(SequenceOutcome::InOrder)
    );
    assert_eq!(
        tracks.on(&message(0, 0, 3), &mut counts),
        Some(SequenceOutcome::InOrder)
    );
    assert_eq!(tracks.entries.len(), 3);
    for channel in 10..10 + TRACKS_MAX as u32 {
        tracks.on(&message(channel, 0, 1), &mut counts);
    }
    assert_eq!(tracks.entries.len(), TRACKS_MAX);
    assert_eq!(counts.untracked, 3);
    tracks.finish(|channel, _| (channel == 1).then_some(8), &mut counts);
    // Number 1 and 3 to 8 of (1, 0), and number 8 of (1, 1).
    assert_eq!(counts.missing, 8);
}

proptest! {
    #[test]
    fn within_the_window_the_counts_are_those_of_a_set(
        heard in proptest::collection::vec(1_u64..=60, 0..150),
    ) {
        let counts = run(Some(1), &heard, Some(60));
        let distinct: BTreeSet<_> = heard.iter().copied().collect();
        prop_assert_eq!(counts.distinct, distinct.len() as u64);
        prop_assert_eq!(counts.missing, 60 - distinct.len() as u64);
        prop_assert_eq!(counts.duplicates, (heard.len() - distinct.len()) as u64);
        prop_assert_eq!(counts.received, heard.len() as u64);
    }

    #[test]
    fn what_was_due_is_heard_or_missing(
        heard in proptest::collection::vec(1_u64..=1000, 0..300),
    ) {
        let counts = run(Some(1), &heard, Some(1000));
        prop_assert_eq!(counts.expected(), 1000);
        let apart = counts.duplicates + counts.too_late + counts.before_join;
        prop_assert_eq!(counts.received, counts.distinct + apart);
    }
}
