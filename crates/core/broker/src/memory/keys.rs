//! Idempotency keys that were used in the last minutes, and the positions they got.
//!
//! Rule for "full": the oldest key goes early. The bytes come out of the home's share of the
//! history budget; the home takes and gives them, and this file counts them.

use std::collections::VecDeque;
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use throng_types::{ChannelName, Millis, Position};

/// Milliseconds that a key is remembered (Centrifugo: five minutes).
pub(super) const TTL_MS: u64 = 300_000;
/// Maximum number of remembered keys. Queue: `idempotency keys`.
pub(super) const KEYS_MAX: usize = 65_536;
/// Bytes that a key costs besides its text: its entries in the map and in the queue.
const ENTRY_BYTES: usize = 112;

pub(super) struct Keys {
    /// Positions of the publications by their keys. Bound: [`KEYS_MAX`].
    by_key: HashMap<Arc<str>, Option<Position>, FixedState>,
    /// Keys, oldest first. Bound: [`KEYS_MAX`].
    by_age: VecDeque<(Millis, Arc<str>)>,
    bytes: usize,
    /// Number of forgotten keys, which is the number of the oldest one here.
    gone: u64,
}

impl Keys {
    pub(super) fn new(hash_seed: u64) -> Self {
        Self {
            by_key: HashMap::with_hasher(FixedState::with_seed(hash_seed)),
            by_age: VecDeque::new(),
            bytes: 0,
            gone: 0,
        }
    }

    /// The position that the publication with this key got, if the key was used.
    pub(super) fn find(&self, key: &str) -> Option<Option<Position>> {
        self.by_key.get(key).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.by_age.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) const fn cost_bytes(key: &str) -> usize {
        key.len() + ENTRY_BYTES
    }

    pub(super) fn insert(&mut self, key: &str, position: Option<Position>, now: Millis) {
        let key: Arc<str> = key.into();
        self.bytes += Self::cost_bytes(&key);
        self.by_key.insert(key.clone(), position);
        self.by_age.push_back((now, key));
    }

    /// All keys with their times and positions, the oldest first.
    pub(super) fn all(&self) -> impl Iterator<Item = (Millis, &Arc<str>, Option<Position>)> {
        self.by_age
            .iter()
            .map(|(at, key)| (*at, key, self.find(key).flatten()))
    }

    /// The first key of this number or a later one, with its number; they are numbered as they
    /// come.
    pub(super) fn after(&self, number: u64) -> Option<(u64, Millis, &str, Option<Position>)> {
        let number = number.max(self.gone);
        let (at, key) = self.by_age.get((number - self.gone) as usize)?;
        Some((number, *at, key, self.find(key).flatten()))
    }

    /// Forgets the oldest key; gives the bytes that this freed, or nothing if there is no key.
    pub(super) fn forget_oldest(&mut self) -> Option<usize> {
        let (_, key) = self.by_age.pop_front()?;
        self.gone += 1;
        self.by_key.remove(&key);
        if self.by_age.is_empty() {
            self.by_age = VecDeque::new();
            self.by_key.shrink_to_fit();
        }
        let bytes = Self::cost_bytes(&key);
        self.bytes -= bytes;
        Some(bytes)
    }

    /// Forgets a key whose time has passed; gives the bytes that this freed.
    pub(super) fn forget_expired(&mut self, now: Millis) -> Option<usize> {
        let (at, _) = self.by_age.front()?;
        if now.since(*at) < TTL_MS {
            return None;
        }
        self.forget_oldest()
    }
}

/// A key of one channel. No channel name has a control character, so the pair is unambiguous.
pub(super) fn key_of(channel: &ChannelName, key: &str) -> Box<str> {
    format!("{channel}\n{key}").into()
}
