//! Randomness that a run can repeat: a seed comes in, a sequence comes out.
//!
//! Not for secrets. Two runs with the same seed choose the same channels at the same moments,
//! which is what makes a comparison of two servers a comparison.

/// Stirs 64 bits: different numbers stay different, and look unlike each other. The last step of
/// `SplitMix64`.
#[must_use]
pub const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Hashes by FNV-1a, 64 bits: the same in every process, version and run. Not for tables that
/// others can fill.
#[must_use]
pub fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `SplitMix64`: eight bytes of state, every seed is a good one.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of one member (a connection, a worker) of a seeded run.
    #[must_use]
    pub const fn for_member(seed: u64, member: u64) -> Self {
        let mut rng = Self(seed ^ member.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.0 = rng.next_u64();
        rng
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next `N` bytes, at most 8 of each number: a masking key, or a handshake's.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        for chunk in bytes.chunks_mut(8) {
            let next = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&next[..chunk.len()]);
        }
        bytes
    }

    /// A number from 0 to `bound - 1`; 0 when `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // Multiply and shift: the bias is below bound / 2^64, far under what a run could notice.
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// A number from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with mean 1: the gap between arrivals of a Poisson
    /// process.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of the function's authors (isthe.com/chongo/tech/comp/fnv).
    #[test]
    fn names_have_the_hash_that_others_give_them() {
        for (text, expected) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("foobar", 0x8594_4171_f739_67e8),
        ] {
            assert_eq!(fnv1a(text), expected, "{text}");
        }
    }

    #[test]
    fn a_seed_repeats_and_members_differ() {
        let take = |mut rng: Rng| [rng.next_u64(), rng.next_u64()];
        assert_eq!(take(Rng::new(7)), take(Rng::new(7)));
        assert_ne!(take(Rng::for_member(7, 0)), take(Rng::for_member(7, 1)));
    }

    #[test]
    fn bytes_are_those_of_the_numbers() {
        let mut rng = Rng::new(7);
        let numbers = [rng.next_u64(), rng.next_u64()].map(u64::to_le_bytes);
        assert_eq!(Rng::new(7).bytes::<12>(), numbers.as_flattened()[..12]);
        assert_eq!(Rng::new(7).bytes::<0>(), [0; 0]);
    }

    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        // The reference implementation's first numbers for the seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let numbers = [rng.next_u64(), rng.next_u64()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[rng.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn exponential_has_mean_one() {
        let mut rng = Rng::new(3);
        let mean = (0..20_000).map(|_| rng.exponential()).sum::<f64>() / 20_000.0;
        assert!((0.97..1.03).contains(&mean), "{mean}");
    }
}
