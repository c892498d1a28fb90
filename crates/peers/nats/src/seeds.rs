//! Epochs of channels without publications: such a channel has no message.
//!
//! Its epoch is made of its name and the newest seed of its stream: a number in one message that
//! all nodes read and that is written only as its writer has read it. Two nodes give one epoch, and
//! a name that is only looked at leaves nothing. The first publication goes on in that epoch.
//!
//! No offset twice: messages live for as long as positions are kept, and a channel whose messages
//! are gone must not begin again in an epoch that it had. Hence a seed is replaced when an eighth
//! of that time has passed, and with every server process. Replaced ones are remembered, so that a
//! place before the first publication stays good, but for less than messages live. A node with
//! subscribers in the epoch of a replaced seed of this server process stores a message that says
//! so. The way to seeds is in `turns.rs`.

use aws_lc_rs::digest::{SHA256, digest};
use throng_types::{ChannelName, Epoch};

use crate::record::FORMERS_MAX;

/// Seeds that are replaced while a message lives.
const PARTS: u64 = 8;

/// A number of which epochs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed {
    pub(crate) number: u64,
    /// Process that stored it; see [`crate::link::NatsServer::server`].
    pub(crate) server: u64,
    /// Time at which it was made, in Unix milliseconds.
    pub(crate) time_ms: u64,
}

impl Seed {
    pub(crate) fn epoch(self, channel: &ChannelName) -> Epoch {
        let mut of = self.number.to_be_bytes().to_vec();
        of.extend_from_slice(channel.as_str().as_bytes());
        let hash = digest(&SHA256, &of);
        let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
        Epoch((u64::from_be_bytes(first) >> 1).max(1))
    }
}

/// Form `1`: each with a blank before it.
pub(crate) fn encode(list: &[Seed]) -> String {
    let seeds = list.iter().map(|seed| {
        let Seed {
            number,
            server,
            time_ms,
        } = seed;
        format!(" {number}.{server}.{time_ms}")
    });
    format!("1{}", seeds.collect::<String>())
}

/// Reads [`encode`]'s form; `None` for any other.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Seed>> {
    let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
    if words.next() != Some("1") {
        return None;
    }
    let seed = |word: &str| {
        let mut numbers = word.splitn(3, '.').map(|number| number.parse().ok());
        Some(Seed {
            number: numbers.next()??,
            server: numbers.next()??,
            time_ms: numbers.next()??,
        })
    };
    let list: Option<Vec<Seed>> = words.take(FORMERS_MAX + 1).map(seed).collect();
    list.filter(|list| list.len() <= FORMERS_MAX)
}

/// Seeds of today, newest first, and whether they differ from those that are stored.
pub(crate) fn renewed(mut list: Vec<Seed>, fresh: Seed, keep_ms: u64) -> (Vec<Seed>, bool) {
    let (now_ms, part_ms) = (fresh.time_ms, keep_ms / PARTS);
    list.retain(|seed| now_ms + part_ms < seed.time_ms + keep_ms);
    let is_good = list
        .first()
        .is_some_and(|newest| newest.server == fresh.server && now_ms < newest.time_ms + part_ms);
    if !is_good {
        list.insert(0, fresh);
        list.truncate(FORMERS_MAX);
    }
    (list, !is_good)
}

#[derive(Default)]
pub(crate) struct Seeds {
    /// Seeds as they were read last, newest first. Bound: [`FORMERS_MAX`].
    pub(crate) list: Vec<Seed>,
    /// Those that are being stored.
    pub(crate) next: Vec<Seed>,
    /// Channels whose turn needs them; while there is one, NATS is asked. Bound: one a channel
    /// with a turn.
    pub(crate) waiting: Vec<ChannelName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP_MS: u64 = 800;

    const fn seed(number: u64, server: u64, time_ms: u64) -> Seed {
        Seed {
            number,
            server,
            time_ms,
        }
    }

    #[test]
    fn seeds_are_read_as_they_are_written() {
        let many: Vec<Seed> = (0..9).map(|n| seed(u64::MAX - n, n, 7 * n)).collect();
        for count in 0..=FORMERS_MAX {
            let list = &many[..count];
            assert_eq!(decode(encode(list).as_bytes()).as_deref(), Some(list));
        }
        assert_eq!(decode(encode(&many).as_bytes()), None);
        for wrong in ["", "2", "1 ", "1 1.2", "1 1.2.3.4", "1 1.2.x", "1 -1.2.3"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    /// A channel that was published in when a seed was new loses its messages after `KEEP_MS`.
    #[test]
    fn a_seed_is_forgotten_before_the_messages_in_its_epochs() {
        let (mut list, mut given) = (Vec::new(), Vec::new());
        for now_ms in 0..2000 {
            let number = 1000 + now_ms;
            list = renewed(list, seed(number, 1, now_ms), KEEP_MS).0;
            assert!(list.len() <= FORMERS_MAX);
            let newest = list[0].time_ms;
            assert!(now_ms < newest + KEEP_MS / PARTS, "{now_ms}");
            for seed in &list {
                assert!(now_ms < seed.time_ms + KEEP_MS, "{now_ms}");
            }
            given.push(list[0].number);
            // A place in an epoch of it is good for three quarters of the time.
            let then = given[given.len().saturating_sub(KEEP_MS as usize * 3 / 4)];
            assert!(list.iter().any(|seed| seed.number == then), "{now_ms}");
        }
    }

    #[test]
    fn another_server_process_gets_another_seed() {
        let list = vec![seed(1, 1, 0)];
        let (list, is_new) = renewed(list, seed(2, 1, 50), KEEP_MS);
        assert_eq!((list.len(), is_new), (1, false));
        let (list, is_new) = renewed(list, seed(3, 2, 60), KEEP_MS);
        assert_eq!((list[0].number, list[1].number, is_new), (3, 1, true));
    }

    #[test]
    fn epochs_differ_by_name_and_seed() {
        let name = |name| ChannelName::new(name).expect("a name");
        let (a, b) = (name("a"), name("b"));
        assert_eq!(seed(1, 1, 0).epoch(&a), seed(1, 2, 9).epoch(&a));
        assert_ne!(seed(1, 1, 0).epoch(&a), seed(1, 1, 0).epoch(&b));
        assert_ne!(seed(1, 1, 0).epoch(&a), seed(2, 1, 0).epoch(&a));
    }
}
