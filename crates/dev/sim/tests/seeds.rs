//! Runs of the simulator, each from one seed.

use std::fmt::Debug;

use throng_sim::{
    BrokerKind, ClusterSummary, Failure, Fault, Hits, Outcome, Summary, Tally, run_backends,
    run_cluster, run_engine, run_hand_overs, run_secure_engine, run_server,
};

/// Steps of one run of the engine alone, and of the server.
const ENGINE_STEPS: usize = 1000;
const SERVER_STEPS: usize = 1500;
/// Steps of one run of backends.
const BACKEND_STEPS: usize = 2500;
/// Steps of one run of a cluster.
const CLUSTER_STEPS: usize = 3000;
/// Part of the product that a run plays.
#[derive(Clone, Copy)]
enum Kind {
    Engine,
    Server,
    HandOvers,
    Backends,
    Redis,
    Alone,
}

/// Seeds of runs that once failed, and what they showed.
const REGRESSIONS: &[(Kind, u64, &str)] = &[
    (
        Kind::Engine,
        4,
        "a shard slept on mail that had found no room",
    ),
    (
        Kind::Engine,
        59,
        "a write that ended with a frame was taken for a refused one",
    ),
    (
        Kind::Server,
        12,
        "what was held back followed the last chunk of a stream that ended",
    ),
    (Kind::Server, 13, "data followed the close of a WebSocket"),
    (
        Kind::Server,
        5,
        "what was held back followed a body that broke off",
    ),
    (
        Kind::Server,
        1,
        "a late item went out behind those that a link had brought",
    ),
    (
        Kind::Server,
        123,
        "a client that had gone was subscribed, and what its backend said meanwhile was lost",
    ),
    (
        Kind::Server,
        892,
        "a user who had left a team and come back heard what it had missed meanwhile",
    ),
    (
        Kind::Server,
        979,
        "the same, where nothing said that the user had left",
    ),
    (
        Kind::Server,
        719,
        "a user heard of a team's thing from before it had joined, by two changes that did not \
         say what they were",
    ),
    (
        Kind::Server,
        199,
        "the close of a slow client came in the midst of an event of Appwrite's",
    ),
    (
        Kind::HandOvers,
        833,
        "a session's own close was dropped where twice the bound of its queue waited",
    ),
    (
        Kind::Backends,
        946,
        "a write found that a backend had gone before its answer was read, so it was asked twice",
    ),
    (
        Kind::Backends,
        2,
        "a name without an address was remembered, and calls that came later failed by it",
    ),
    (
        Kind::Redis,
        633,
        "a stream of GRIP's that began in a process that had handed over heard nothing",
    ),
    (
        Kind::Alone,
        72,
        "events before the first connection to Appwrite's Redis were missing without a word",
    ),
    (
        Kind::Alone,
        253,
        "a process handed over before it had what Appwrite's Redis was slow to tell",
    ),
];
/// Seeds of an ordinary test.
const SEEDS: u64 = 256;
/// Seeds of an ordinary test of clusters, for each broker.
const CLUSTER_SEEDS: u64 = 500;
/// Seeds of an ordinary test of a node before Appwrite and GRIP's backend alone.
const ALONE_SEEDS: u64 = 260;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs every seed of a test, shared by two threads, or the one that the environment names.
#[track_caller]
fn sweep<T: Debug + Send>(run: impl Fn(u64, bool) -> Result<T, Failure> + Sync) -> Vec<T> {
    sweep_to(SEEDS, run)
}

/// Runs as [`sweep`] does, with so many seeds in an ordinary test.
#[track_caller]
fn sweep_to<T: Debug + Send>(
    seeds: u64,
    run: impl Fn(u64, bool) -> Result<T, Failure> + Sync,
) -> Vec<T> {
    let run = |seed, print| run(seed, print).unwrap_or_else(|failure| panic!("{failure}"));
    if let Some(seed) = number("THRONG_SIM_SEED") {
        println!("seed {seed} holds: {:?}", run(seed, true));
        return Vec::new();
    }
    let seeds = number("THRONG_SIM_SEEDS").unwrap_or(seeds);
    let part = |first: u64| -> Vec<T> {
        let seeds = (first..seeds).step_by(2);
        seeds.map(|seed| run(seed, false)).collect()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| part(1));
        let mut all = part(0);
        all.extend(other.join().expect("its seeds hold"));
        all
    })
}

#[test]
fn the_engine_loses_doubles_and_swaps_nothing() {
    sweep(|seed, print| run_engine(seed, ENGINE_STEPS, print));
}

/// Its lines are sealed and opened: whatever the kernel takes or gives at a time.
#[test]
fn the_engine_loses_doubles_and_swaps_nothing_over_tls() {
    sweep(|seed, print| run_secure_engine(seed, ENGINE_STEPS, print));
}

#[test]
fn the_server_loses_doubles_and_swaps_nothing() {
    let all = sweep(|seed, print| run_server(seed, SERVER_STEPS, print));
    if all.is_empty() {
        return;
    }
    let (mut hits, mut sum) = (Hits::default(), Summary::default());
    for Outcome {
        hits: more,
        sum: of_run,
        ..
    } in &all
    {
        hits.add(more);
        sum.add(of_run);
    }
    println!("{sum:?}");
    for fault in Fault::ALL {
        println!("{fault:?}: {}", hits.of(fault));
        let came = hits.of(fault) > 0;
        assert_eq!(came, !fault.is_of_hand_overs(), "{fault:?}");
    }
    let all_done = sum.parts().iter().all(|&part| part > 0);
    assert!(all_done, "the runs did not do everything: {sum:?}");
}

#[test]
fn nobody_notices_hand_overs() {
    let all = sweep(|seed, print| run_hand_overs(seed, SERVER_STEPS, print));
    let mut hits = Hits::default();
    all.iter().for_each(|outcome| hits.add(&outcome.hits));
    for fault in Fault::ALL.into_iter().filter(|it| it.is_of_hand_overs()) {
        println!("{fault:?}: {}", hits.of(fault));
        assert!(all.is_empty() || hits.of(fault) > 0, "{fault:?}");
    }
}

#[test]
fn backends_answer_once_and_nothing_is_left() {
    let all = sweep(|seed, print| run_backends(seed, BACKEND_STEPS, print));
    let mut tally = Tally::default();
    all.iter().for_each(|(_, of_run)| tally.add(of_run));
    println!("{tally:?}");
    for what in Tally::ALL {
        assert!(all.is_empty() || tally.of(what) > 0, "{what}");
    }
}

fn clusters(broker: BrokerKind, seeds: u64) {
    let all = sweep_to(seeds, |seed, print| {
        run_cluster(seed, CLUSTER_STEPS, broker, print)
    });
    let mut sum = ClusterSummary::default();
    all.iter().for_each(|(_, of_run)| sum.add(of_run));
    println!("{sum:?}");
    let all_done = |parts: [u64; 7]| parts.iter().all(|&part| part > 0);
    let is_alone = broker == BrokerKind::Memory;
    let all_done = (is_alone || all_done(sum.parts())) && all_done(sum.guests.parts());
    assert!(
        all.is_empty() || all_done,
        "not everything was done: {sum:?}"
    );
}

#[test]
fn clusters_on_redis_lose_and_double_nothing_in_silence() {
    clusters(BrokerKind::Redis, CLUSTER_SEEDS);
}

#[test]
fn clusters_on_nats_lose_and_double_nothing_in_silence() {
    clusters(BrokerKind::Nats, CLUSTER_SEEDS);
}

#[test]
fn nodes_before_appwrite_and_grip_lose_and_double_nothing_in_silence() {
    clusters(BrokerKind::Memory, ALONE_SEEDS);
}

#[test]
fn what_was_found_once_stays_mended() {
    for &(kind, seed, what) in REGRESSIONS {
        let ran = match kind {
            Kind::Engine => run_engine(seed, ENGINE_STEPS, false).map(drop),
            Kind::Server => run_server(seed, SERVER_STEPS, false).map(drop),
            Kind::HandOvers => run_hand_overs(seed, SERVER_STEPS, false).map(drop),
            Kind::Backends => run_backends(seed, BACKEND_STEPS, false).map(drop),
            Kind::Redis => run_cluster(seed, CLUSTER_STEPS, BrokerKind::Redis, false).map(drop),
            Kind::Alone => run_cluster(seed, CLUSTER_STEPS, BrokerKind::Memory, false).map(drop),
        };
        if let Err(failure) = ran {
            panic!("{failure}\nseed {seed} once showed that {what}");
        }
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 0..8 {
        let hash = |outcome: Outcome| outcome.hash;
        let once = run_server(seed, SERVER_STEPS, false).map(hash);
        let again = run_server(seed, SERVER_STEPS, false).map(hash);
        assert_eq!(once.ok(), again.ok(), "seed {seed} of the server");
        let once = run_engine(seed, ENGINE_STEPS, false).map(|(hash, _)| hash);
        let again = run_engine(seed, ENGINE_STEPS, false).map(|(hash, _)| hash);
        assert_eq!(once.ok(), again.ok(), "seed {seed} of the engine");
        let once = run_secure_engine(seed, ENGINE_STEPS, false).map(|(hash, _)| hash);
        let again = run_secure_engine(seed, ENGINE_STEPS, false).map(|(hash, _)| hash);
        assert_eq!(once.ok(), again.ok(), "seed {seed} of the engine over TLS");
        let once = run_backends(seed, BACKEND_STEPS, false).map(|(hash, _)| hash);
        let again = run_backends(seed, BACKEND_STEPS, false).map(|(hash, _)| hash);
        assert_eq!(once.ok(), again.ok(), "seed {seed} of backends");
        for kind in [BrokerKind::Redis, BrokerKind::Nats, BrokerKind::Memory] {
            let run = || run_cluster(seed, CLUSTER_STEPS, kind, false).map(|(hash, _)| hash);
            assert_eq!(
                run().ok(),
                run().ok(),
                "seed {seed} of a cluster on {kind:?}"
            );
        }
    }
}
