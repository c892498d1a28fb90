//! Randomness from the kernel, for seeds and keys; everything else derives from a seed.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

thread_local! {
    /// The next seed of this thread, if its seeds are to repeat.
    static REPEATED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes the seeds of this thread a sequence that repeats, for the simulator; or random again
/// with `None`.
pub fn repeat(first: Option<u64>) {
    REPEATED.set(first);
}

/// 64 random bits from getrandom(2).
///
/// Where a sandbox forbids that call the standard library's hash keys stand in: they are drawn
/// from the system as well, and a server that starts with weaker luck beats one that does not.
pub fn seed() -> u64 {
    if let Some(seed) = REPEATED.get() {
        REPEATED.set(Some(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)));
        return seed;
    }
    let mut bytes = [0_u8; 8];
    match retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => RandomState::new().build_hasher().finish(),
    }
}

/// 32 random bytes, for a key; drawn as [`seed`] draws.
pub fn secret() -> [u8; 32] {
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&seed().to_ne_bytes()[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn seeds_differ() {
        let seeds: HashSet<u64> = (0..64).map(|_| super::seed()).collect();
        assert_eq!(seeds.len(), 64);
    }

    #[test]
    fn secrets_differ_in_every_part() {
        let (one, other) = (super::secret(), super::secret());
        for (one, other) in one.chunks(8).zip(other.chunks(8)) {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn seeds_repeat_where_they_are_told_to() {
        super::repeat(Some(5));
        let once = [super::seed(), super::seed()];
        super::repeat(Some(5));
        assert_eq!(once, [super::seed(), super::seed()]);
        assert_ne!(once[0], once[1]);
        super::repeat(None);
    }
}
