//! Runs of the simulator, each from one seed.

use throng_sim::{Run, Tally};

/// Seeds of runs that once failed, and what they showed.
const REGRESSIONS: &str = include_str!("regressions.txt");

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

/// A test for each kind of run, named by what holds in it.
macro_rules! sweeps {
    ($($name:ident: $run:ident;)+) => {
        $(#[test]
        fn $name() {
            sweep(Run::$run);
        })+
    };
}

sweeps! {
    the_engine_loses_doubles_and_swaps_nothing: Engine;
    // Its lines are sealed and opened: whatever the kernel takes or gives at a time.
    the_engine_loses_doubles_and_swaps_nothing_over_tls: SecureEngine;
    the_engine_loses_doubles_and_swaps_nothing_on_streams: StreamEngine;
    the_server_loses_doubles_and_swaps_nothing: Server;
    nobody_notices_hand_overs: HandOvers;
    backends_answer_once_and_nothing_is_left: Backends;
    clusters_on_redis_lose_and_double_nothing_in_silence: Redis;
    clusters_on_nats_lose_and_double_nothing_in_silence: Nats;
    nodes_before_appwrite_and_grip_lose_and_double_nothing_in_silence: Alone;
    nothing_of_redis_is_lost_or_out_of_order: FeedRedis;
    nothing_of_postgres_is_lost_or_out_of_order: FeedPostgres;
    nothing_of_kafka_is_lost_or_out_of_order: FeedKafka;
    nothing_of_nats_is_lost_or_out_of_order: FeedNats;
    webhooks_lose_nothing_and_what_they_tell_last_is_true: Hooks;
    webhooks_of_nodes_are_true_in_the_end: HookNodes;
}

#[test]
fn what_was_found_once_stays_mended() {
    for line in REGRESSIONS.lines().skip(1) {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().expect("a kind, a seed, what it showed");
        let (kind, seed, what) = (word(), word().parse().expect("a seed"), word());
        let run = Run::all().find(|run| run.name() == kind);
        if let Err(failure) = run.expect("a kind of run").seed(seed, false) {
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
