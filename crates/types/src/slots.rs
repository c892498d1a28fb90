//! A slab in chunks: grows without moving what it holds, and gives memory back.
//!
//! Owns its values. Never hands out generations: whoever keeps an index across a
//! removal must be able to tell a stranger ([`crate::ConnId`] does).
//!
//! Invariants
//! - A chunk is in `open` exactly while it has a vacant place or is not allocated
//!   although a higher chunk is.
//! - A chunk without values holds no memory, but for one spare.

use std::collections::BTreeSet;

/// A chunk has at least so many bytes, so that it comes straight from the kernel and goes straight
/// back to it: glibc maps allocations of 128 KiB and more. Smaller ones would lie in the heap, in
/// whose holes they do not fit.
const CHUNK_BYTES_MIN: usize = 128 << 10;
/// Values per chunk, at least and at most, whatever their size.
const VALUES_MIN: usize = 256;
const VALUES_MAX: usize = 4096;

enum Slot<T> {
    Vacant { next: u32 },
    Taken(T),
}

struct Chunk<T> {
    /// Those that were used before, in memory for [`Chunk::VALUES`] of them: what was never used is
    /// never touched, so the kernel gives no pages for it.
    places: Vec<Slot<T>>,
    taken: u32,
    /// The first of those that are vacant again.
    vacant_first: u32,
}

const END: u32 = u32::MAX;

impl<T> Chunk<T> {
    /// Values per chunk; a power of two.
    const VALUES: usize = {
        let fit = CHUNK_BYTES_MIN
            .div_ceil(size_of::<Slot<T>>())
            .next_power_of_two();
        if fit < VALUES_MIN {
            VALUES_MIN
        } else if fit > VALUES_MAX {
            VALUES_MAX
        } else {
            fit
        }
    };

    fn new() -> Self {
        Self {
            places: Vec::with_capacity(Self::VALUES),
            taken: 0,
            vacant_first: END,
        }
    }

    /// Puts a value into a vacant place, or one behind all that were ever used.
    fn put(&mut self, within: usize, value: T) -> bool {
        while self.places.len() <= within {
            let next = self.vacant_first;
            self.vacant_first = self.places.len() as u32;
            self.places.push(Slot::Vacant { next });
        }
        let Slot::Vacant { next } = self.places[within] else {
            return false;
        };
        let mut before = self.vacant_first;
        if before as usize == within {
            (self.vacant_first, before) = (next, END);
        }
        // Who names it in the list names the one behind it.
        while let Some(Slot::Vacant { next: named }) = self.places.get_mut(before as usize) {
            before = *named;
            if before as usize == within {
                (*named, before) = (next, END);
            }
        }
        self.places[within] = Slot::Taken(value);
        true
    }

    const fn is_full(&self) -> bool {
        self.taken as usize == Self::VALUES
    }
}

const fn place_of<T>(index: u32) -> (usize, usize) {
    let index = index as usize;
    (index / Chunk::<T>::VALUES, index % Chunk::<T>::VALUES)
}

pub struct Slots<T> {
    chunks: Vec<Option<Chunk<T>>>,
    open: BTreeSet<u32>,
    spare: Option<Chunk<T>>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            open: BTreeSet::new(),
            spare: None,
            len: 0,
        }
    }
}

impl<T> Slots<T> {
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One more than the highest index that may hold a value.
    #[must_use]
    pub fn bound(&self) -> u32 {
        (self.chunks.len() * Chunk::<T>::VALUES) as u32
    }

    /// Puts a value into the lowest chunk with room and returns its index.
    pub fn insert(&mut self, value: T) -> u32 {
        let at = match self.open.first() {
            Some(&at) => at,
            None => {
                self.chunks.push(None);
                let at = self.chunks.len() as u32 - 1;
                self.open.insert(at);
                at
            }
        };
        let spare = &mut self.spare;
        let chunk =
            self.chunks[at as usize].get_or_insert_with(|| spare.take().unwrap_or_else(Chunk::new));
        let mut index = chunk.vacant_first;
        // An open chunk has a vacant place: `vacant_first` names it, or it was never used.
        if let Some(place) = chunk.places.get_mut(index as usize) {
            if let Slot::Vacant { next } = *place {
                chunk.vacant_first = next;
            }
            *place = Slot::Taken(value);
        } else {
            index = chunk.places.len() as u32;
            chunk.places.push(Slot::Taken(value));
        }
        chunk.taken += 1;
        if chunk.is_full() {
            self.open.remove(&at);
        }
        self.len += 1;
        at * Chunk::<T>::VALUES as u32 + index
    }

    /// Puts a value where it was, in another slab or in this one. False, and nothing happens, if
    /// its place is taken. Cheap in order into new or empty chunks; in a chunk that has values, the
    /// list of its vacant places is searched.
    pub fn restore(&mut self, index: u32, value: T) -> bool {
        let (at, within) = place_of::<T>(index);
        for new in self.chunks.len()..=at {
            self.chunks.push(None);
            self.open.insert(new as u32);
        }
        let spare = &mut self.spare;
        let chunk = self.chunks[at].get_or_insert_with(|| spare.take().unwrap_or_else(Chunk::new));
        if !chunk.put(within, value) {
            return false;
        }
        chunk.taken += 1;
        if chunk.is_full() {
            self.open.remove(&(at as u32));
        }
        self.len += 1;
        true
    }

    pub fn remove(&mut self, index: u32) -> Option<T> {
        let (at, within) = place_of::<T>(index);
        let chunk = self.chunks.get_mut(at)?.as_mut()?;
        let place = chunk.places.get_mut(within)?;
        if matches!(place, Slot::Vacant { .. }) {
            return None;
        }
        let vacant = Slot::Vacant {
            next: chunk.vacant_first,
        };
        let Slot::Taken(value) = std::mem::replace(place, vacant) else {
            return None;
        };
        if chunk.is_full() {
            self.open.insert(at as u32);
        }
        chunk.vacant_first = within as u32;
        chunk.taken -= 1;
        self.len -= 1;
        if chunk.taken == 0 {
            chunk.places.clear();
            chunk.vacant_first = END;
            self.spare = self.chunks[at].take();
            self.forget_empty_tail();
        }
        Some(value)
    }

    fn forget_empty_tail(&mut self) {
        while let Some(None) = self.chunks.last() {
            self.chunks.pop();
            self.open.remove(&(self.chunks.len() as u32));
        }
    }

    #[must_use]
    pub fn get(&self, index: u32) -> Option<&T> {
        let (at, within) = place_of::<T>(index);
        let chunk = self.chunks.get(at)?.as_ref()?;
        match chunk.places.get(within)? {
            Slot::Taken(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    #[must_use]
    pub fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let (at, within) = place_of::<T>(index);
        let chunk = self.chunks.get_mut(at)?.as_mut()?;
        match chunk.places.get_mut(within)? {
            Slot::Taken(value) => Some(value),
            Slot::Vacant { .. } => None,
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = self.chunks.iter().enumerate().flat_map(|(at, chunk)| {
            let places = chunk
                .iter()
                .flat_map(|chunk| chunk.places.iter().enumerate());
            places.map(move |(within, place)| (at * Chunk::<T>::VALUES + within, place))
        });
        places.filter_map(|(index, place)| match place {
            Slot::Taken(value) => Some((index as u32, value)),
            Slot::Vacant { .. } => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u32 = Chunk::<u32>::VALUES as u32;

    #[test]
    fn a_chunk_is_mapped_by_itself_unless_its_values_are_tiny() {
        assert_eq!(Chunk::<u32>::VALUES, VALUES_MAX);
        assert_eq!(Chunk::<[u64; 1000]>::VALUES, VALUES_MIN);
        for (values, bytes) in [
            (Chunk::<[u64; 7]>::VALUES, size_of::<Slot<[u64; 7]>>()),
            (Chunk::<[u64; 10]>::VALUES, size_of::<Slot<[u64; 10]>>()),
        ] {
            assert!(values.is_power_of_two());
            let chunk = values * bytes;
            assert!(
                (CHUNK_BYTES_MIN..2 * CHUNK_BYTES_MIN).contains(&chunk),
                "{chunk}"
            );
        }
    }

    #[test]
    fn a_slab_is_rebuilt_with_its_holes() {
        let places = [3, 4, CHUNK - 1, CHUNK, 5000, 5001];
        let mut slots = Slots::default();
        for index in places {
            assert!(slots.restore(index, index));
            assert!(!slots.restore(index, 0), "it is taken");
        }
        let held: Vec<u32> = slots.iter().map(|(_, value)| *value).collect();
        assert_eq!((held.as_slice(), slots.len()), (places.as_slice(), 6));
        // The holes are filled before anything grows, and every value is found.
        let bound = slots.bound();
        for _ in 0..bound - 6 {
            let index = slots.insert(u32::MAX);
            assert!(!places.contains(&index) && index < bound);
        }
        assert_eq!(slots.insert(0), bound);
        for index in places {
            assert_eq!(slots.remove(index), Some(index));
        }
    }

    #[test]
    fn values_return_to_where_they_were() {
        let (mut slots, all) = (Slots::default(), 0..3 * CHUNK);
        all.clone().for_each(|n| assert_eq!(slots.insert(n), n));
        // Some stay; a whole chunk goes; the rest returns in order.
        let gone = all.filter(|&n| n >= CHUNK || n % 7 != 3);
        let removed: Vec<u32> = gone.filter_map(|n| slots.remove(n)).collect();
        for &n in &removed {
            assert!(slots.restore(n, n) && !slots.restore(n, 0), "{n}");
        }
        assert!(slots.iter().all(|(index, &value)| index == value));
        assert_eq!((slots.insert(0), slots.open.len()), (3 * CHUNK, 1));
    }

    #[test]
    fn values_stay_where_they_were_put() {
        let mut slots = Slots::default();
        let indices: Vec<u32> = (0..3 * CHUNK).map(|n| slots.insert(n)).collect();
        assert_eq!(indices, (0..3 * CHUNK).collect::<Vec<u32>>());
        for n in (0..3 * CHUNK).step_by(3) {
            assert_eq!(slots.remove(n), Some(n));
            assert_eq!(slots.remove(n), None);
        }
        assert_eq!(slots.len() as u32, 2 * CHUNK);
        assert!(
            slots
                .iter()
                .all(|(index, &value)| index == value && value % 3 != 0)
        );
        assert_eq!(slots.get(3), None);
        assert!(
            slots.insert(9999) < CHUNK,
            "the lowest chunk is filled first"
        );
    }

    #[test]
    fn an_empty_slab_holds_at_most_one_chunk() {
        let mut slots = Slots::default();
        for n in 0..10_000_u32 {
            slots.insert(n);
        }
        for n in 0..10_000 {
            slots.remove(n);
        }
        assert!(slots.is_empty() && slots.chunks.is_empty() && slots.open.is_empty());
        assert!(slots.spare.is_some());
        assert!(slots.insert(1) < CHUNK);
    }

    #[test]
    fn what_was_never_used_is_never_touched() {
        let mut slots = Slots::default();
        assert_eq!(slots.insert(1), 0);
        let used = |slots: &Slots<u32>| {
            let chunk = slots.chunks[0].as_ref();
            chunk.map(|chunk| (chunk.places.len(), chunk.places.capacity()))
        };
        assert_eq!(used(&slots), Some((1, CHUNK as usize)));
        assert_eq!(slots.get(1), None);
        assert_eq!(slots.get_mut(5), None);
        assert_eq!(slots.remove(7), None);
        // A place that is vacant again comes before one that was never used.
        assert_eq!((slots.insert(2), slots.insert(3)), (1, 2));
        assert_eq!((slots.remove(1), slots.insert(4)), (Some(2), 1));
        assert_eq!(slots.insert(5), 3);
        assert_eq!(used(&slots), Some((4, CHUNK as usize)));
        for index in 0..4 {
            slots.remove(index);
        }
        assert_eq!(slots.insert(6), 0);
        assert_eq!(used(&slots), Some((1, CHUNK as usize)));
    }

    #[test]
    fn a_hole_in_the_middle_is_filled_again() {
        let mut slots = Slots::default();
        for n in 0..3 * CHUNK {
            slots.insert(n);
        }
        for n in CHUNK..2 * CHUNK {
            slots.remove(n);
        }
        assert!(slots.chunks[1].is_none());
        let index = slots.insert(7);
        assert!((CHUNK..2 * CHUNK).contains(&index));
        assert_eq!(slots.get(index), Some(&7));
        assert_eq!(slots.get(4 * CHUNK), None);
    }
}
