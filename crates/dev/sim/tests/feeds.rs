//! Runs of feeds, each from one seed.

use std::time::Instant;

use throng_sim::{FeedKind, FeedSummary, run_feeds};

/// Steps of one run.
const STEPS: usize = 1500;
/// Seeds of an ordinary test, for each kind of source.
const SEEDS: u64 = 260;

/// Seeds of runs that once failed, and what they showed.
const REGRESSIONS: &[(FeedKind, u64, &str)] = &[
    (
        FeedKind::Redis,
        4,
        "a reader asked Redis without a pause, where another had read behind its last entry",
    ),
    (
        FeedKind::Nats,
        21,
        "a message was taken for another that NATS had lost and whose number it had got",
    ),
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn run(kind: FeedKind, seed: u64, print: bool) -> (u64, FeedSummary) {
    let name = format!("{kind:?}").to_lowercase();
    run_feeds(seed, STEPS, kind, print).unwrap_or_else(|failure| {
        panic!("{failure} {name}");
    })
}

/// Runs every seed, or the one that the environment names.
fn sweep(kind: FeedKind) {
    if let Some(seed) = number("THRONG_SIM_SEED") {
        println!("seed {seed} holds: {:?}", run(kind, seed, true).1);
        return;
    }
    let began = Instant::now();
    let mut sum = FeedSummary::default();
    for seed in 0..number("FEED_SEEDS").unwrap_or(SEEDS) {
        sum.add(&run(kind, seed, false).1);
    }
    println!("{:?}: {sum:?}", began.elapsed());
    let all_done = sum.parts().iter().all(|&part| part > 0);
    assert!(all_done, "the runs did not do everything: {sum:?}");
}

#[test]
fn nothing_of_redis_is_lost_or_out_of_order() {
    sweep(FeedKind::Redis);
}

#[test]
fn nothing_of_postgres_is_lost_or_out_of_order() {
    sweep(FeedKind::Postgres);
}

#[test]
fn nothing_of_kafka_is_lost_or_out_of_order() {
    sweep(FeedKind::Kafka);
}

#[test]
fn nothing_of_nats_is_lost_or_out_of_order() {
    sweep(FeedKind::Nats);
}

#[test]
fn what_was_found_once_stays_mended() {
    for &(kind, seed, what) in REGRESSIONS {
        println!("seed {seed} of {kind:?} once showed that {what}");
        run(kind, seed, false);
    }
}

#[test]
fn a_seed_is_a_run() {
    for kind in [
        FeedKind::Redis,
        FeedKind::Postgres,
        FeedKind::Kafka,
        FeedKind::Nats,
    ] {
        for seed in 0..4 {
            let (once, again) = (run(kind, seed, false).0, run(kind, seed, false).0);
            assert_eq!(once, again, "seed {seed} of {kind:?}");
        }
    }
}
