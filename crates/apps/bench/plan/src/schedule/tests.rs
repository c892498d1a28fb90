//! Schedules: exact times, ramps against a numeric integral, properties.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::*;

const S: u64 = 1_000_000;

#[test]
fn a_constant_rate_is_evenly_spaced() {
    let schedule = Schedule::of_count(5, 2.0);
    let times: Vec<_> = (0..6).map(|k| schedule.at(k)).collect();
    assert_eq!(
        times,
        [
            Some(0),
            Some(500_000),
            Some(S),
            Some(1_500_000),
            Some(2 * S),
            None
        ]
    );
    assert_eq!(schedule.count(), 5);
    assert_eq!(schedule.duration_us(), 2_500_000);
}

#[test]
fn a_million_events_do_not_drift() {
    let schedule = Schedule::new(vec![Phase::constant(30_000.0, 3600 * S)]);
    assert_eq!(schedule.count(), 108_000_000);
    assert_eq!(schedule.at(107_999_970), Some(3600 * S - 1000));
    assert_eq!(schedule.at(3), Some(100));
}

#[test]
fn a_ramp_has_the_area_under_its_rate() {
    // 0 to 100 per second in 10 s: 500 events, half of them in the last 2.93 s.
    let schedule = Schedule::new(vec![Phase::ramp(0.0, 100.0, 10 * S)]);
    assert_eq!(schedule.count(), 500);
    assert_eq!(schedule.at(0), Some(0));
    assert_eq!(schedule.at(250), Some(7_071_068));
    let down = Schedule::new(vec![Phase::ramp(100.0, 0.0, 10 * S)]);
    assert_eq!(down.count(), 500);
    assert_eq!(down.at(250), Some(10 * S - 7_071_068));
}

#[test]
fn phases_follow_each_other_and_bounds_leave_a_pause() {
    let bounded = Phase {
        events_max: Some(3),
        ..Phase::constant(10.0, 2 * S)
    };
    let schedule = Schedule::new(vec![
        bounded,
        Phase::constant(0.0, S),
        Phase::constant(1.0, 2 * S),
    ]);
    let times: Vec<_> = (0..6).map_while(|k| schedule.at(k)).collect();
    assert_eq!(times, [0, 100_000, 200_000, 3 * S, 4 * S]);
}

#[test]
fn an_empty_schedule_has_no_events() {
    for schedule in [
        Schedule::default(),
        Schedule::new(vec![Phase::constant(0.0, S)]),
        Schedule::new(vec![Phase::constant(5.0, 0)]),
    ] {
        assert_eq!((schedule.count(), schedule.at(0)), (0, None));
    }
}

#[test]
fn scaling_and_truncating_keep_the_shape() {
    let seed = Schedule::new(vec![Phase {
        events_max: Some(2_000_000),
        ..Phase::constant(2000.0, 10_000 * S)
    }]);
    assert_eq!(seed.count(), 2_000_000);
    let small = seed.scaled(0.001).truncated(10 * S);
    assert_eq!((small.count(), small.duration_us()), (20, 10 * S));
    let ramp = Schedule::new(vec![Phase::ramp(0.0, 100.0, 10 * S)]).truncated(5 * S);
    assert_eq!(ramp.phases()[0].end_per_s, 50.0);
}

#[test]
fn trimming_removes_the_time_after_the_last_event() {
    let bounded = Phase {
        events_max: Some(20),
        ..Phase::constant(10.0, 60 * S)
    };
    let trimmed = Schedule::new(vec![bounded, Phase::constant(0.0, S)]).trimmed();
    assert_eq!((trimmed.count(), trimmed.duration_us()), (20, 2 * S));
    let full = Schedule::new(vec![Phase::ramp(0.0, 10.0, S)]);
    assert_eq!(full.trimmed(), full);
    assert_eq!(
        Schedule::new(vec![Phase::constant(0.0, S)]).trimmed(),
        Schedule::default()
    );
}

#[test]
fn poisson_arrivals_have_the_rate_and_repeat_with_the_seed() {
    let schedule = Schedule::new(vec![Phase::ramp(0.0, 2000.0, 10 * S)]);
    let take = |seed| Pacer::new(&schedule, Spread::Poisson, seed).collect::<Vec<_>>();
    let times = take(5);
    assert_eq!(times, take(5));
    assert_ne!(times, take(6));
    // 10,000 expected; four standard deviations are 400.
    assert!((9600..10_400).contains(&times.len()), "{}", times.len());
    assert!(times.is_sorted());
    let early = times.iter().filter(|&&at| at < 5 * S).count();
    assert!((2300..2700).contains(&early), "{early}");
}

proptest! {
    #[test]
    fn due_times_rise_and_agree_with_counts(
        phases in proptest::collection::vec(
            (0_u64..5 * S, 0.0..500.0, 0.0..500.0, proptest::option::of(0_u64..300)),
            0..5,
        )
    ) {
        let phases = phases.into_iter().map(|(duration_us, start_per_s, end_per_s, events_max)| {
            Phase { duration_us, start_per_s, end_per_s, events_max }
        });
        let schedule = Schedule::new(phases.collect());
        let times: Vec<_> = Pacer::new(&schedule, Spread::Even, 0).collect();
        prop_assert_eq!(times.len() as u64, schedule.count());
        prop_assert!(times.is_sorted());
        if let Some(&last) = times.last() {
            prop_assert!(last <= schedule.duration_us());
        }
    }
}
