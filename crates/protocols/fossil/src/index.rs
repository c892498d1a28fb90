//! Where short blocks stand in the base.
//!
//! Blocks begin at every multiple of [`BLOCK`], so a run of the base that is found for certain has
//! nearly twice that length.

/// Bytes of a block.
pub(crate) const BLOCK: usize = 8;
/// No block.
const NONE: u32 = u32::MAX;

/// The blocks of one base, by their hash.
pub(crate) struct Index {
    /// The last block with a hash, by the hash's upper bits.
    heads: Vec<u32>,
    /// The block before it with the same upper bits.
    earlier: Vec<u32>,
    shift: u32,
}

/// The block that begins at a place, as a number.
pub(crate) fn block(bytes: &[u8], at: usize) -> Option<u64> {
    let block = bytes.get(at..)?.first_chunk::<BLOCK>()?;
    Some(u64::from_le_bytes(*block))
}

impl Index {
    /// Bound: four bytes for each block, and as many again for its hash, rounded up.
    pub(crate) fn new(base: &[u8]) -> Self {
        let count = base.len() / BLOCK;
        let places = count.next_power_of_two().max(2);
        let mut index = Self {
            heads: vec![NONE; places],
            earlier: vec![NONE; count],
            shift: u64::BITS - places.ilog2(),
        };
        // From the end, so that the first of equal blocks is found first.
        for number in (0..count).rev() {
            if let Some(block) = block(base, number * BLOCK) {
                let hash = index.hash(block);
                index.earlier[number] = index.heads[hash];
                index.heads[hash] = number as u32;
            }
        }
        index
    }

    const fn hash(&self, block: u64) -> usize {
        // Fibonacci hashing: an odd number near 2^64 divided by the golden ratio.
        (block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    /// Places in the base where this block may stand.
    pub(crate) fn places(&self, block: u64) -> impl Iterator<Item = usize> {
        let mut next = self.heads[self.hash(block)];
        std::iter::from_fn(move || {
            let number = (next != NONE).then_some(next as usize)?;
            next = self.earlier[number];
            Some(number * BLOCK)
        })
    }
}
