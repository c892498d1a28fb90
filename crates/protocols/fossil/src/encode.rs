//! Makes a delta of two texts.
//!
//! What the two begin and end with is compared first: mostly that is nearly everything. For what
//! is between, the base's blocks are looked up at every place, and the longest run that a look-up
//! leads to is copied if that is shorter than to insert it.

use std::ops::Range;

/// The longest base and the longest target that are compared, in bytes.
pub const BYTES_MAX: usize = 256 << 10;
/// Runs that one look-up compares.
const PLACES_MAX: usize = 8;
/// Bytes that are compared for each byte of the two texts, before the rest is inserted as it is.
const COMPARED_PER_BYTE: usize = 16;
/// Bytes that a command may cost besides its numbers: its letters, and another insert after it.
const COMMAND_BYTES: usize = 5;

/// Unit between which a delta may cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaUnit {
    /// Between any two bytes.
    Byte,
    /// Between characters: a delta of two texts in UTF-8 is a text in UTF-8.
    Char,
}

/// The delta that makes `target` of `base`; nothing if it would not be shorter than `target`, or if
/// one of the two is longer than [`BYTES_MAX`].
///
/// [`DeltaUnit::Char`] only for texts in UTF-8; other bytes give a delta that is right but no text.
#[must_use]
pub fn encode(base: &[u8], target: &[u8], unit: DeltaUnit) -> Option<Vec<u8>> {
    if base.len() > BYTES_MAX || target.len() > BYTES_MAX {
        return None;
    }
    let mut delta = Delta {
        target,
        unit,
        out: Vec::new(),
        inserted: 0,
    };
    append_number(target.len(), &mut delta.out);
    delta.out.push(b'\n');
    let start = common(base, target);
    let end = common_end(&base[start..], &target[start..]);
    let middle = start..target.len() - end;
    delta.copy(0, 0..start)?;
    search(base, middle.clone(), &mut delta)?;
    delta.copy(base.len() - end, middle.end..target.len())?;
    delta.finish()
}

/// Number of bytes that two texts have in common where they begin.
fn common(a: &[u8], b: &[u8]) -> usize {
    // Word by word while words are equal.
    let words = a.chunks_exact(16).zip(b.chunks_exact(16));
    let same = words.take_while(|(a, b)| a == b).count() * 16;
    let rest = a[same..].iter().zip(&b[same..]);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Number of bytes that two texts have in common where they end.
fn common_end(a: &[u8], b: &[u8]) -> usize {
    let words = a.rchunks_exact(16).zip(b.rchunks_exact(16));
    let same = words.take_while(|(a, b)| a == b).count() * 16;
    let (a, b) = (&a[..a.len() - same], &b[..b.len() - same]);
    let rest = a.iter().rev().zip(b.iter().rev());
    same + rest.take_while(|(a, b)| a == b).count()
}

/// Copies what is found of a part of the target.
fn search(base: &[u8], part: Range<usize>, delta: &mut Delta<'_>) -> Option<()> {
    let target = delta.target;
    if part.len() < BLOCK || base.len() < BLOCK {
        return Some(());
    }
    let index = Index::new(base);
    let mut budget = COMPARED_PER_BYTE * (base.len() + target.len());
    let mut at = part.start;
    while at + BLOCK <= part.end
        && let Some(wanted) = block(target, at)
    {
        let mut best: Option<(usize, Range<usize>)> = None;
        for place in index.places(wanted).take(PLACES_MAX) {
            if budget == 0 {
                return Some(());
            }
            let ahead = common(&base[place..], &target[at..part.end]);
            budget = budget.saturating_sub(BLOCK + ahead);
            if ahead < BLOCK {
                continue;
            }
            let behind = common_end(&base[..place], &target[delta.inserted..at]);
            budget = budget.saturating_sub(behind);
            if best
                .as_ref()
                .is_none_or(|(_, run)| run.len() < behind + ahead)
            {
                best = Some((place - behind, at - behind..at + ahead));
            }
        }
        at += 1;
        if let Some((place, run)) = best {
            at = at.max(run.end);
            delta.copy(place, run)?;
        }
    }
    Some(())
}

/// A delta under construction.
struct Delta<'a> {
    target: &'a [u8],
    unit: DeltaUnit,
    out: Vec<u8>,
    /// Bytes of the target that the commands make so far; the rest is still to come.
    inserted: usize,
}

impl Delta<'_> {
    /// Copies a run of the target from a place of the base, if that is worth a command. Nothing if
    /// the delta is too long already.
    fn copy(&mut self, place: usize, run: Range<usize>) -> Option<()> {
        let whole = self.whole_chars(run.clone());
        let place = place + (whole.start - run.start);
        let cost = COMMAND_BYTES + digits(whole.len()) + digits(place);
        if whole.len() <= cost {
            return Some(());
        }
        self.insert(whole.start)?;
        append_number(whole.len(), &mut self.out);
        self.out.push(b'@');
        append_number(place, &mut self.out);
        self.out.push(b',');
        self.inserted = whole.end;
        Some(())
    }

    /// A run without the characters at its ends that are not whole.
    fn whole_chars(&self, run: Range<usize>) -> Range<usize> {
        let Range { mut start, mut end } = run;
        if self.unit == DeltaUnit::Char {
            let continues = |at: usize| self.target.get(at).is_some_and(|byte| byte >> 6 == 0b10);
            while start < end && continues(start) {
                start += 1;
            }
            while start < end && continues(end) {
                end -= 1;
            }
        }
        start..end
    }

    /// Inserts what the commands have not made before a place of the target.
    fn insert(&mut self, end: usize) -> Option<()> {
        let bytes = self.target.get(self.inserted..end)?;
        if self.out.len() + bytes.len() >= self.target.len() {
            return None;
        }
        if !bytes.is_empty() {
            append_number(bytes.len(), &mut self.out);
            self.out.push(b':');
            self.out.extend_from_slice(bytes);
            self.inserted = end;
        }
        Some(())
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        self.insert(self.target.len())?;
        append_number(checksum(self.target) as usize, &mut self.out);
        self.out.push(b';');
        (self.out.len() < self.target.len()).then_some(self.out)
    }
}

/// The sum of the text's numbers of four bytes, the highest first; the last one is filled up with
/// zeros.
fn checksum(text: &[u8]) -> u32 {
    let (words, rest) = text.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]);
    words.fold(0, |sum: u32, word| {
        sum.wrapping_add(u32::from_be_bytes(*word))
    })
}

/// The digits of a number, from 0 to 63.
const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~";

const fn digits(number: usize) -> usize {
    match number {
        0 => 1,
        _ => number.ilog2() as usize / 6 + 1,
    }
}

fn append_number(number: usize, out: &mut Vec<u8>) {
    for place in (0..digits(number)).rev() {
        out.push(DIGITS[number >> (6 * place) & 63]);
    }
}

/// Bytes of a block.
pub(crate) const BLOCK: usize = 8;
const NONE: u32 = u32::MAX;

/// Blocks of one base, by their hash. They begin at every multiple of [`BLOCK`], so a run of the
/// base that is found for certain has nearly twice that length.
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
