//! Masking (RFC 6455 section 5.3), which is its own inverse.

/// Four bytes that a client's payload is XORed with, the next byte's first.
///
/// All zeros mask nothing, so a frame without a mask needs no second path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask(pub(crate) [u8; 4]);

impl Mask {
    pub(crate) const NONE: Self = Self([0; 4]);

    /// Masks or unmasks `data`, and steps on so that the next call continues after it.
    pub(crate) fn apply(&mut self, data: &mut [u8]) {
        if *self == Self::NONE {
            return;
        }
        let [a, b, c, d] = self.0;
        let word_mask = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
        // Eight bytes at a time, in a shape that the compiler turns into vectors.
        let (words, tail) = data.as_chunks_mut::<8>();
        for word in words {
            *word = (u64::from_ne_bytes(*word) ^ word_mask).to_ne_bytes();
        }
        for (byte, mask) in tail.iter_mut().zip([a, b, c, d, a, b, c]) {
            *byte ^= mask;
        }
        // Whole words leave the phase where it was.
        self.0.rotate_left(tail.len() % 4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cut_masks_like_the_definition() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let plain: Vec<u8> = (0..61).map(|i: u8| i.wrapping_mul(37)).collect();
        let expected: Vec<u8> = plain
            .iter()
            .zip(key.iter().cycle())
            .map(|(p, k)| p ^ k)
            .collect();
        for cut in 0..=plain.len() {
            let mut data = plain.clone();
            let mut mask = Mask(key);
            let (head, tail) = data.split_at_mut(cut);
            mask.apply(head);
            mask.apply(tail);
            assert_eq!(data, expected, "cut at {cut}");
        }
    }

    #[test]
    fn no_mask_changes_nothing() {
        let mut data = *b"untouched";
        let mut mask = Mask::NONE;
        mask.apply(&mut data);
        assert_eq!(&data, b"untouched");
    }
}
