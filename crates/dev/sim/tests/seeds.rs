//! Runs of the simulator, each from one seed.

use throng_sim::{Run, Tally};

/// Seeds of runs that once failed, and what they showed.
const REGRESSIONS: &[(Run, u64, &str)] = &[
    (
        Run::Engine,
        4,
        "a shard slept on mail that had found no room",
    ),
    (
        Run::Engine,
        59,
        "a write that ended with a frame was taken for a refused one",
    ),
    (
        Run::HandOvers,
        833,
        "a session's own close was dropped where twice the bound of its queue waited",
    ),
    (
        Run::Backends,
        946,
        "a write found that a backend had gone before its answer was read, so it was asked twice",
    ),
    (
        Run::Backends,
        2,
        "a name without an address was remembered, and calls that came later failed by it",
    ),
    (
        Run::Redis,
        633,
        "a stream of GRIP's that began in a process that had handed over heard nothing",
    ),
    (
        Run::Alone,
        72,
        "events before the first connection to Appwrite's Redis were missing without a word",
    ),
    (
        Run::Alone,
        253,
        "a process handed over before it had what Appwrite's Redis was slow to tell",
    ),
    (
        Run::FeedRedis,
        4,
        "a reader asked Redis without a pause, where another had read behind its last entry",
    ),
    (
        Run::FeedNats,
        21,
        "a message was taken for another that NATS had lost and whose number it had got",
    ),
];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[track_caller]
fn play(run: Run, seed: u64, print: bool) -> (u64, Tally) {
    let played = run.seed(seed, print);
    played.unwrap_or_else(|failure| panic!("{failure}"))
}

/// Plays every seed of an ordinary test, shared by two threads, or the one that the environment
/// names. All together they show what runs of their kind are to show.
#[track_caller]
fn sweep(run: Run) {
    if let Some(seed) = number("THRONG_SIM_SEED") {
        let (_, tally) = play(run, seed, true);
        return println!("seed {seed} holds: {tally:#?}");
    }
    let seeds = number("THRONG_SIM_SEEDS").unwrap_or_else(|| run.seeds());
    let part = |first: u64| {
        let mut all = Tally::default();
        for seed in (first..seeds).step_by(2) {
            all.add_all(&play(run, seed, false).1);
        }
        all
    };
    let all = std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        let mut all = part(0);
        all.add_all(&other.join().expect("its seeds hold"));
        all
    });
    println!("{all:#?}");
    assert_eq!(all.missing(run.name()), [""; 0], "what never happened");
}

#[test]
fn the_engine_loses_doubles_and_swaps_nothing() {
    sweep(Run::Engine);
}

/// Its lines are sealed and opened: whatever the kernel takes or gives at a time.
#[test]
fn the_engine_loses_doubles_and_swaps_nothing_over_tls() {
    sweep(Run::SecureEngine);
}

#[test]
fn the_server_loses_doubles_and_swaps_nothing() {
    sweep(Run::Server);
}

#[test]
fn nobody_notices_hand_overs() {
    sweep(Run::HandOvers);
}

#[test]
fn backends_answer_once_and_nothing_is_left() {
    sweep(Run::Backends);
}

#[test]
fn clusters_on_redis_lose_and_double_nothing_in_silence() {
    sweep(Run::Redis);
}

#[test]
fn clusters_on_nats_lose_and_double_nothing_in_silence() {
    sweep(Run::Nats);
}

#[test]
fn nodes_before_appwrite_and_grip_lose_and_double_nothing_in_silence() {
    sweep(Run::Alone);
}

#[test]
fn nothing_of_redis_is_lost_or_out_of_order() {
    sweep(Run::FeedRedis);
}

#[test]
fn nothing_of_postgres_is_lost_or_out_of_order() {
    sweep(Run::FeedPostgres);
}

#[test]
fn nothing_of_kafka_is_lost_or_out_of_order() {
    sweep(Run::FeedKafka);
}

#[test]
fn nothing_of_nats_is_lost_or_out_of_order() {
    sweep(Run::FeedNats);
}

#[test]
fn what_was_found_once_stays_mended() {
    for &(run, seed, what) in REGRESSIONS {
        if let Err(failure) = run.seed(seed, false) {
            panic!("{failure}\nthis seed once showed that {what}");
        }
    }
}

#[test]
fn a_seed_is_a_run() {
    for run in Run::all() {
        for seed in 0..8 {
            let hash = || run.seed(seed, false).map(|(hash, _)| hash).ok();
            assert_eq!(hash(), hash(), "seed {seed} of {}", run.name());
        }
    }
}
