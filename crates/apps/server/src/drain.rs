//! The graceful end: clients are told to come back later, a few at a time.
//!
//! All clients at once would come back at once. So they are told over a while that
//! grows with their number, and each is given a wait of its own.

use throng_config::Config;
use throng_types::{ConnId, Millis};

/// Clients told in a second, as long as the time limit allows to be so gentle.
const CLIENTS_PER_S: u64 = 1000;
/// Between two handfuls, in milliseconds.
const STEP_MS: u64 = 50;

/// Bounds of a drain, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct DrainOptions {
    /// After this the server ends, even if clients are left.
    pub(crate) timeout_ms: u64,
    /// Clients are asked to wait up to this long before they come back.
    pub(crate) jitter_ms: u64,
}

impl DrainOptions {
    /// What the configuration says.
    pub(crate) const fn of(config: &Config) -> Self {
        Self {
            timeout_ms: config.drain.timeout_ms,
            jitter_ms: config.drain.jitter_ms,
        }
    }
}

/// Which ports take no more connections while a server drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Those of clients: operators and publishers still get in.
    Clients,
    /// All, because another process has them.
    All,
}

/// A drain in progress on one shard.
pub(crate) struct Drain {
    left: Vec<ConnId>,
    per_step: usize,
    next_at: Millis,
    ends_at: Millis,
    jitter_ms: u64,
    random: u64,
}

impl Drain {
    /// Plans to tell these clients, beginning now.
    pub(crate) fn new(clients: Vec<ConnId>, options: DrainOptions, now: Millis, seed: u64) -> Self {
        // Half of the time is for telling them, the rest for what they still have to get.
        let gentle_ms = clients.len() as u64 * 1000 / CLIENTS_PER_S;
        let span_ms = gentle_ms.min(options.timeout_ms / 2).max(1);
        let steps = span_ms.div_ceil(STEP_MS).max(1);
        Self {
            per_step: clients.len().div_ceil(steps as usize),
            left: clients,
            next_at: now,
            ends_at: now + options.timeout_ms,
            jitter_ms: options.jitter_ms,
            random: seed | 1,
        }
    }

    /// The clients to tell now, each with its wait in milliseconds.
    pub(crate) fn step(&mut self, now: Millis) -> Vec<(ConnId, u64)> {
        if now < self.next_at || self.left.is_empty() {
            return Vec::new();
        }
        self.next_at = now + STEP_MS;
        let from = self.left.len().saturating_sub(self.per_step);
        let told = self.left.split_off(from);
        told.into_iter()
            .map(|conn| (conn, self.wait_ms()))
            .collect()
    }

    fn wait_ms(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % (self.jitter_ms + 1)
    }

    /// When the next handful is due, or the end.
    pub(crate) fn deadline(&self) -> Millis {
        if self.left.is_empty() {
            self.ends_at
        } else {
            self.next_at.min(self.ends_at)
        }
    }

    /// Whether everybody has been told.
    pub(crate) fn all_told(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether the time is up.
    pub(crate) fn is_over(&self, now: Millis) -> bool {
        now >= self.ends_at
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ShardId;

    use super::*;

    fn run(clients: u32, timeout_ms: u64) -> (usize, u64) {
        let ids = (0..clients)
            .map(|index| ConnId::new(ShardId(0), index, 1))
            .collect();
        let options = DrainOptions {
            timeout_ms,
            jitter_ms: 100,
        };
        let mut drain = Drain::new(ids, options, Millis(1000), 7);
        let (mut told, mut now) = (0, Millis(1000));
        while !drain.all_told() {
            let step = drain.step(now);
            assert!(step.iter().all(|(_, wait_ms)| *wait_ms <= 100));
            told += step.len();
            now = drain.deadline();
        }
        (told, now.since(Millis(1000)))
    }

    #[test]
    fn everybody_is_told_within_half_the_time() {
        for (clients, timeout_ms) in [
            (0, 1000),
            (1, 1000),
            (10, 30_000),
            (15_000, 30_000),
            (1_000_000, 30_000),
        ] {
            let (told, _) = run(clients, timeout_ms);
            assert_eq!(told, clients as usize);
        }
    }

    #[test]
    fn a_crowd_is_told_over_a_while() {
        let ids = (0..10_000)
            .map(|index| ConnId::new(ShardId(0), index, 1))
            .collect();
        let options = DrainOptions {
            timeout_ms: 30_000,
            jitter_ms: 0,
        };
        let mut drain = Drain::new(ids, options, Millis(0), 7);
        assert!(drain.step(Millis(0)).len() <= 51);
        assert!(drain.step(Millis(10)).is_empty(), "a handful at a time");
        assert!(!drain.is_over(Millis(29_999)));
        assert!(drain.is_over(Millis(30_000)));
    }
}
