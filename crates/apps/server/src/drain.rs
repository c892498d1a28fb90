//! The graceful end: clients are asked to reconnect later, a few at a time.
//!
//! All clients at once would come back at once. So they are told over a while that
//! grows with their number, and each is given a wait of its own.
//!
//! Calls of the server API may need any shard. So all shards stay until no client is left anywhere,
//! and then until every call is answered.

use throng_config::Config;
use throng_types::{ConnId, Millis};

/// Clients told in a second, as long as the time limit allows to be so gentle.
const CLIENTS_PER_S: u64 = 1000;
/// Between two handfuls, in milliseconds.
const STEP_MS: u64 = 50;
/// Milliseconds between two counts of the clients that are left.
const LOOK_MS: u64 = 10;
/// Time for calls that have begun after the last client has gone, in milliseconds.
const CALLERS_MS: u64 = 5_000;

/// Progress of a shard's drain, told to the other shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// No client is left.
    Clients,
    /// No caller is left either.
    Callers,
}

/// Shards that have said so, this one among them.
#[derive(Default)]
pub(crate) struct Ends {
    without_clients: usize,
    without_callers: usize,
}

impl Ends {
    pub(crate) const fn note(&mut self, gone: Gone) {
        match gone {
            Gone::Clients => self.without_clients += 1,
            Gone::Callers => self.without_callers += 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Clients are asked to reconnect, and leave.
    Clients,
    /// This shard has none; another one has.
    OtherShards,
    /// No shard has clients; calls that have begun are answered.
    Callers,
    /// No client is left here; another shard may still answer calls.
    Over,
}

/// Bounds of a drain, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct DrainOptions {
    /// After this the server ends, even if clients are left.
    pub(crate) timeout_ms: u64,
    /// Clients are asked to wait up to this long before they come back.
    pub(crate) jitter_ms: u64,
}

impl DrainOptions {
    pub(crate) const fn of(config: &Config) -> Self {
        Self {
            timeout_ms: config.drain.timeout_ms,
            jitter_ms: config.drain.jitter_ms,
        }
    }
}

/// Ports that take no more connections while a server drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Those of clients: operators and publishers still get in.
    Clients,
    /// All, because another process has them.
    All,
}

pub(crate) struct Drain {
    left: Vec<ConnId>,
    per_step: usize,
    next_at: Millis,
    ends_at: Millis,
    jitter_ms: u64,
    random: u64,
    stage: Stage,
    look_at: Millis,
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
            stage: Stage::Clients,
            look_at: now,
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

    /// When the next handful or look is due, or the end.
    pub(crate) fn deadline(&self) -> Millis {
        let next_at = match self.left.is_empty() {
            true => self.look_at,
            false => self.next_at,
        };
        next_at.min(self.ends_at)
    }

    /// Whether it is time to count the clients that are left; notes the time of this count.
    pub(crate) fn looks(&mut self, now: Millis) -> bool {
        let is_due = self.all_told() && self.look_at <= now;
        if is_due {
            self.look_at = now + LOOK_MS;
        }
        is_due
    }

    pub(crate) const fn stage(&self) -> Stage {
        self.stage
    }

    /// No client whom this stage waits for is left on this shard. What to tell all shards, if that
    /// is news.
    pub(crate) const fn is_left(&mut self) -> Option<Gone> {
        let (next, gone) = match self.stage {
            Stage::Clients => (Stage::OtherShards, Gone::Clients),
            Stage::Callers => (Stage::Over, Gone::Callers),
            Stage::OtherShards | Stage::Over => return None,
        };
        self.stage = next;
        Some(gone)
    }

    /// Whether callers are next, since no shard of so many has clients.
    pub(crate) fn turns_to_callers(&mut self, ends: &Ends, shards: usize, now: Millis) -> bool {
        let is_next = self.stage == Stage::OtherShards && ends.without_clients >= shards;
        if is_next {
            self.stage = Stage::Callers;
            self.ends_at = self.ends_at.min(now + CALLERS_MS);
            self.look_at = now;
        }
        is_next
    }

    /// Whether every client has been asked to leave.
    pub(crate) const fn all_told(&self) -> bool {
        self.left.is_empty()
    }

    /// Whether no client is left on any shard, or the time is up.
    pub(crate) fn is_over(&self, ends: &Ends, shards: usize, now: Millis) -> bool {
        let all_over = self.stage == Stage::Over && ends.without_callers >= shards;
        now >= self.ends_at || all_over
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ShardId;

    use super::*;

    /// Begins at zero; clients wait up to 100 ms.
    fn drain(clients: u32, timeout_ms: u64) -> Drain {
        let ids = (0..clients).map(|index| ConnId::new(ShardId(0), index, 1));
        let options = DrainOptions {
            timeout_ms,
            jitter_ms: 100,
        };
        Drain::new(ids.collect(), options, Millis(0), 7)
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
            let mut drain = drain(clients, timeout_ms);
            let (mut told, mut now) = (0, Millis(0));
            while !drain.all_told() {
                let step = drain.step(now);
                assert!(step.iter().all(|(_, wait_ms)| *wait_ms <= 100));
                told += step.len();
                assert!(now.0 <= timeout_ms / 2, "{clients}");
                now = drain.deadline();
            }
            assert_eq!(told, clients as usize);
        }
    }

    /// As docs/OPERATING.md says; and no longer than the whole drain may take.
    #[test]
    fn calls_that_have_begun_have_five_seconds_once_the_last_client_has_gone() {
        for (timeout_ms, ends_ms) in [(30_000, 12_000), (9_000, 9_000)] {
            let (mut drain, mut ends, now) = (drain(0, timeout_ms), Ends::default(), Millis(7_000));
            let gone = drain.is_left();
            assert_eq!(gone, Some(Gone::Clients));
            ends.note(Gone::Clients);
            assert!(!drain.turns_to_callers(&ends, 2, now), "another shard has");
            ends.note(Gone::Clients);
            assert!(drain.turns_to_callers(&ends, 2, now));
            assert!(!drain.is_over(&ends, 2, Millis(ends_ms - 1)));
            assert!(drain.is_over(&ends, 2, Millis(ends_ms)));
            // Sooner if every call is answered.
            for _ in 0..2 {
                assert!(!drain.is_over(&ends, 2, now));
                ends.note(Gone::Callers);
            }
            assert_eq!(drain.is_left(), Some(Gone::Callers));
            assert!(drain.is_over(&ends, 2, now));
        }
    }

    #[test]
    fn a_crowd_is_told_over_a_while() {
        let mut drain = drain(10_000, 30_000);
        assert!(drain.step(Millis(0)).len() <= 51);
        assert!(drain.step(Millis(10)).is_empty(), "a handful at a time");
        assert!(!drain.is_over(&Ends::default(), 1, Millis(29_999)));
        assert!(drain.is_over(&Ends::default(), 1, Millis(30_000)));
    }
}
