//! Numbered storage that uses numbers again.

use std::ops::{Index, IndexMut};

#[derive(Debug)]
enum Slot<T> {
    Free(u32),
    Used(T),
}

/// Values under small numbers. A number is the owner's to keep: asking for one that was removed
/// is a bug here, not something that a client can cause.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
}

const NONE: u32 = u32::MAX;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let id = self.free;
            if let Slot::Free(next) = *slot {
                self.free = next;
            }
            *slot = Slot::Used(value);
            return id;
        }
        self.slots.push(Slot::Used(value));
        (self.slots.len() - 1) as u32
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let slot = self.slots.get_mut(id as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(self.free)) else {
            return None;
        };
        self.free = id;
        self.len -= 1;
        if self.len == 0 {
            // Everybody left: give the memory back.
            *self = Self::default();
        }
        Some(value)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| match slot {
                Slot::Used(value) => Some((id as u32, value)),
                Slot::Free(_) => None,
            })
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T>>()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        match &self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free(_) => unreachable!("a number outlived its value"),
        }
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match &mut self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free(_) => unreachable!("a number outlived its value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_memory_returns() {
        let mut slab = Slab::default();
        let ids: Vec<u32> = (0..4).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.remove(ids[1]), Some(1));
        assert_eq!(slab.remove(ids[1]), None);
        assert_eq!(slab.insert(9), ids[1]);
        assert_eq!(slab[ids[1]], 9);
        assert_eq!(slab.iter().count(), 4);
        for id in ids {
            slab.remove(id);
        }
        assert_eq!((slab.len(), slab.heap_bytes()), (0, 0));
        assert_eq!(slab.remove(0), None);
    }
}
