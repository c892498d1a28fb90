//! Seeded hashes, since clients choose what is hashed.

use std::hash::Hasher;

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;

/// The hash of everything in an index.
#[derive(Debug)]
pub(super) struct Hashing {
    seed: u64,
    shared: SharedSeed,
}

impl Hashing {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            shared: SharedSeed::from_u64(seed),
        }
    }

    pub(super) fn text(&self, text: &str) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        hasher.write(text.as_bytes());
        hasher.finish()
    }

    pub(super) fn numbers(&self, numbers: impl IntoIterator<Item = u32>) -> u64 {
        let mut hasher = FoldHasher::with_seed(self.seed, &self.shared);
        for number in numbers {
            hasher.write_u32(number);
        }
        hasher.finish()
    }
}
