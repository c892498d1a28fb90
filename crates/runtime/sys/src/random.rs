//! Randomness from the kernel, for seeds only; everything else derives from a seed.

use std::hash::{BuildHasher, Hasher, RandomState};

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// 64 random bits from getrandom(2).
///
/// Where a sandbox forbids that call the standard library's hash keys stand in: they are drawn
/// from the system as well, and a server that starts with weaker luck beats one that does not.
#[must_use]
pub fn seed() -> u64 {
    let mut bytes = [0_u8; 8];
    match retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())) {
        Ok(8) => u64::from_ne_bytes(bytes),
        _ => RandomState::new().build_hasher().finish(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn seeds_differ() {
        let seeds: HashSet<u64> = (0..64).map(|_| super::seed()).collect();
        assert_eq!(seeds.len(), 64);
    }
}
