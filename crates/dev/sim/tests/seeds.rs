//! The ordinary runs of the simulator, and those that once found something.
//!
//! `THRONG_SIM_SEED` replays one seed and prints what happens; `THRONG_SIM_SEEDS` runs more.

use std::sync::atomic::{AtomicU64, Ordering};

use throng_sim::{Failure, Summary, run};

const SEEDS: u64 = 256;
const STEPS: usize = 3000;

/// Seeds that once found something, and what it was.
const REGRESSIONS: [(u64, &str); 4] = [
    (11, "a subscribe that was taken back was never answered"),
    (
        638,
        "what was held back for a stream followed its last chunk",
    ),
    (
        19,
        "what was held back for a WebSocket followed its close frame",
    ),
    (
        694,
        "first words named a channel whose subscription had been ended",
    ),
];

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {value}")),
    )
}

/// Runs seeds on two threads; the sum of what they did, or the failure of one.
fn run_all(seeds: u64) -> Result<Summary, Failure> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut sum = Summary::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return Ok(sum);
            }
            let done =
                run(seed, STEPS, false).inspect_err(|_| next.store(seeds, Ordering::Relaxed))?;
            sum.accepted += done.accepted;
            sum.received += done.received;
            sum.recovered += done.recovered;
            sum.lost += done.lost;
            sum.dropped += done.dropped;
        }
    };
    std::thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        let mut all = Summary::default();
        for thread in threads {
            let sum = thread.join().expect("a run catches its panics")?;
            all.accepted += sum.accepted;
            all.received += sum.received;
            all.recovered += sum.recovered;
            all.lost += sum.lost;
            all.dropped += sum.dropped;
        }
        Ok(all)
    })
}

#[test]
fn nothing_is_lost_doubled_or_out_of_order() {
    if let Some(seed) = number("THRONG_SIM_SEED") {
        match run(seed, STEPS, true) {
            Ok(summary) => println!("{summary:?}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    let sum = match run_all(number("THRONG_SIM_SEEDS").unwrap_or(SEEDS)) {
        Ok(sum) => sum,
        Err(failure) => panic!("{failure}"),
    };
    println!("{sum:?}");
    let parts = [
        sum.accepted,
        sum.received,
        sum.recovered,
        sum.lost,
        sum.dropped,
    ];
    assert!(
        parts.iter().all(|&part| part > 0),
        "the runs did not do everything: {sum:?}"
    );
}

#[test]
fn what_was_found_once_stays_mended() {
    for (seed, what) in REGRESSIONS {
        if let Err(failure) = run(seed, STEPS, false) {
            panic!("{failure}\nseed {seed} once showed that {what}");
        }
    }
}
