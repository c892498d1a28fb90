//! Schedules: exact times, ramps against a numeric integral, properties.

use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

use super::*;

const S: u64 = 1_000_000;

const fn ramp(start_per_s: f64, end_per_s: f64, duration_us: u64) -> ArrivalPhase {
    ArrivalPhase {
        end_per_s,
        ..ArrivalPhase::constant(start_per_s, duration_us)
    }
}

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
    let schedule = Schedule::new(vec![ArrivalPhase::constant(30_000.0, 3600 * S)]);
    assert_eq!(schedule.count(), 108_000_000);
    assert_eq!(schedule.at(107_999_970), Some(3600 * S - 1000));
    assert_eq!(schedule.at(3), Some(100));
}

#[test]
fn a_ramp_has_the_area_under_its_rate() {
    // 0 to 100 per second in 10 s: 500 events, half of them in the last 2.93 s.
    let schedule = Schedule::new(vec![ramp(0.0, 100.0, 10 * S)]);
    assert_eq!(schedule.count(), 500);
    assert_eq!(schedule.at(0), Some(0));
    assert_eq!(schedule.at(250), Some(7_071_068));
    let down = Schedule::new(vec![ramp(100.0, 0.0, 10 * S)]);
    assert_eq!(down.count(), 500);
    assert_eq!(down.at(250), Some(10 * S - 7_071_068));
}

#[test]
fn phases_follow_each_other_and_bounds_leave_a_pause() {
    let bounded = ArrivalPhase {
        events_max: Some(3),
        ..ArrivalPhase::constant(10.0, 2 * S)
    };
    let schedule = Schedule::new(vec![
        bounded,
        ArrivalPhase::constant(0.0, S),
        ArrivalPhase::constant(1.0, 2 * S),
    ]);
    let times: Vec<_> = (0..6).map_while(|k| schedule.at(k)).collect();
    assert_eq!(times, [0, 100_000, 200_000, 3 * S, 4 * S]);
}

#[test]
fn an_empty_schedule_has_no_events() {
    for schedule in [
        Schedule::default(),
        Schedule::new(vec![ArrivalPhase::constant(0.0, S)]),
        Schedule::new(vec![ArrivalPhase::constant(5.0, 0)]),
    ] {
        assert_eq!((schedule.count(), schedule.at(0)), (0, None));
    }
}

#[test]
fn scaling_and_truncating_keep_the_shape() {
    let seed = Schedule::new(vec![ArrivalPhase {
        events_max: Some(2_000_000),
        ..ArrivalPhase::constant(2000.0, 10_000 * S)
    }]);
    assert_eq!(seed.count(), 2_000_000);
    let small = seed.scaled(0.001).truncated(10 * S);
    assert_eq!((small.count(), small.duration_us()), (20, 10 * S));
    let ramp = Schedule::new(vec![ramp(0.0, 100.0, 10 * S)]).truncated(5 * S);
    assert_eq!(ramp.phases[0].end_per_s, 50.0);
}

#[test]
fn trimming_removes_the_time_after_the_last_event() {
    let bounded = ArrivalPhase {
        events_max: Some(20),
        ..ArrivalPhase::constant(10.0, 60 * S)
    };
    let trimmed = Schedule::new(vec![bounded, ArrivalPhase::constant(0.0, S)]).trimmed();
    assert_eq!((trimmed.count(), trimmed.duration_us()), (20, 2 * S));
    let full = Schedule::new(vec![ramp(0.0, 10.0, S)]);
    assert_eq!(full.trimmed(), full);
    assert_eq!(
        Schedule::new(vec![ArrivalPhase::constant(0.0, S)]).trimmed(),
        Schedule::default()
    );
}

#[test]
fn poisson_arrivals_have_the_rate_and_repeat_with_the_seed() {
    let schedule = Schedule::new(vec![ramp(0.0, 2000.0, 10 * S)]);
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
            ArrivalPhase { duration_us, start_per_s, end_per_s, events_max }
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

mod stages {
    use super::*;

    #[test]
    fn stages_are_read() {
        for (text, clients, duration_us) in [
            ("10k:2m", 10_000, 120_000_000),
            ("1:500ms", 1, 500_000),
            ("0:1s", 0, 1_000_000),
        ] {
            let stage = Stage {
                clients,
                duration_us,
            };
            assert_eq!(Stage::parse(text), Ok(stage), "{text}");
        }
        for wrong in ["", "10k", "10k:", ":2m", "10k:0s", "10k:2m:3m", "2m:10k"] {
            assert!(Stage::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn connections_grow_to_the_number_of_each_stage_within_its_time() {
        let stages = ["100:1s", "100:2s", "1100:1s", "1101:10s"];
        let stages = stages.map(|text| Stage::parse(text).unwrap());
        let schedule = Stage::schedule(&stages).unwrap();
        assert_eq!(schedule.count(), 1_101);
        assert_eq!(schedule.duration_us(), 14_000_000);
        for (number, at_us) in [
            (0, 0),
            (50, 500_000),
            (99, 990_000),
            (100, 3_000_000),
            (600, 3_500_000),
            (1_099, 3_999_000),
            (1_100, 4_000_000),
        ] {
            assert_eq!(schedule.at(number), Some(at_us), "{number}");
        }
        let fewer = [stages[2], stages[0]];
        let why = Stage::schedule(&fewer).unwrap_err();
        assert!(
            why.contains("100 connections cannot follow one with 1,100"),
            "{why}"
        );
    }
}

mod steps {
    use super::*;

    /// Runs a search against a server that holds up to `limit`.
    fn search(mut stepper: Stepper, limit: f64) -> (Vec<f64>, Option<f64>) {
        let mut rates = Vec::new();
        while let Some(rate) = stepper.rate() {
            rates.push(rate);
            assert!(rates.len() < 100, "the search does not end: {rates:?}");
            stepper.on_result(rate <= limit);
        }
        (rates, stepper.best())
    }

    #[test]
    fn steps_are_read() {
        assert_eq!(Growth::parse("x2"), Ok(Growth::Multiply(2.0)));
        assert_eq!(Growth::parse("+500/s"), Ok(Growth::Add(500.0)));
        for wrong in ["2", "x1", "x101", "x", "+", "+x", "+0/s", ""] {
            assert!(Growth::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn multiplying_finds_the_limit_within_five_percent() {
        for limit in [100.0, 999.0, 12_345.0, 640_000.0] {
            let (_, best) = search(Stepper::new(100.0, 1e9, Growth::Multiply(2.0)), limit);
            let best = best.unwrap();
            assert!(best <= limit && best >= limit * 0.94, "{limit}: {best}");
        }
    }

    #[test]
    fn adding_stops_at_the_first_failure() {
        let (rates, best) = search(Stepper::new(1000.0, 1e9, Growth::Add(500.0)), 2200.0);
        assert_eq!(rates, [1000.0, 1500.0, 2000.0, 2500.0]);
        assert_eq!(best, Some(2000.0));
    }

    #[test]
    fn the_ends_are_respected() {
        let (rates, best) = search(Stepper::new(100.0, 300.0, Growth::Multiply(2.0)), 1e9);
        assert_eq!(rates, [100.0, 200.0, 300.0]);
        assert_eq!(best, Some(300.0));
        let (rates, best) = search(Stepper::new(100.0, 300.0, Growth::Multiply(2.0)), 1.0);
        assert_eq!((rates.len(), best), (1, None));
        let (rates, _) = search(Stepper::new(100.0, 300.0, Growth::Multiply(1.0)), 1e9);
        assert_eq!(rates, [100.0]);
    }
}
