//! Containers of the index: values kept once under numbers that are used again, lists whose owners
//! know their places, connections by key in pages that come and go, and the buffers of one event.

use std::hash::Hasher;
use std::ops::{Index, IndexMut};

use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use hashbrown::HashTable;

use crate::index::ids::Ids;

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

/// Values of which an index keeps each once.
pub(super) trait Hashed {
    fn hash(&self, hashing: &Hashing) -> u64;
}

#[derive(Debug)]
pub(super) enum Slot<T> {
    Free(u32),
    Used(T),
}

/// Values under small numbers, found again by their hash. A number is the owner's to keep: asking
/// for one that was removed is a bug here, not something that a client can cause.
#[derive(Debug)]
pub(super) struct Interned<T> {
    pub(super) slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    pub(super) by_hash: HashTable<u32>,
}

const NONE: u32 = u32::MAX;

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            len: 0,
            by_hash: HashTable::new(),
        }
    }
}

impl<T: Hashed> Interned<T> {
    /// The value with this hash that `is_it` recognises.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        self.by_hash.find(hash, |&id| is_it(&self[id])).copied()
    }

    /// Keeps a value that is not there yet; its hash must be `hash` from now on.
    pub(super) fn insert(&mut self, hashing: &Hashing, hash: u64, value: T) -> u32 {
        let id = self.place(value);
        let slots = &self.slots;
        let hash_of = |&id: &u32| used(slots, id).hash(hashing);
        self.by_hash.insert_unique(hash, id, hash_of);
        id
    }

    fn place(&mut self, value: T) -> u32 {
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

    pub(super) fn remove(&mut self, hashing: &Hashing, id: u32) -> Option<T> {
        let slot = self.slots.get_mut(id as usize)?;
        if matches!(slot, Slot::Free(_)) {
            return None;
        }
        let Slot::Used(value) = std::mem::replace(slot, Slot::Free(self.free)) else {
            return None;
        };
        self.free = id;
        self.len -= 1;
        let is_it = |known: &u32| *known == id;
        if let Ok(entry) = self.by_hash.find_entry(value.hash(hashing), is_it) {
            entry.remove();
        }
        if self.len == 0 {
            // Everybody left: give the memory back.
            *self = Self::default();
        }
        Some(value)
    }
}

impl<T> Interned<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }
}

fn used<T>(slots: &[Slot<T>], id: u32) -> &T {
    match &slots[id as usize] {
        Slot::Used(value) => value,
        Slot::Free(_) => unreachable!("a number outlived its value"),
    }
}

impl<T> Index<u32> for Interned<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        used(&self.slots, id)
    }
}

impl<T> IndexMut<u32> for Interned<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match &mut self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free(_) => unreachable!("a number outlived its value"),
        }
    }
}

/// Numbers in no order. Adding and taking away cost the same at any length; whoever is moved by
/// the latter must be told its new place.
#[derive(Debug, Default)]
pub(super) enum Posting {
    #[default]
    Empty,
    One(u32),
    Many(Vec<u32>),
}

impl Posting {
    pub(super) fn push(&mut self, number: u32) -> u32 {
        match self {
            Self::Empty => {
                *self = Self::One(number);
                0
            }
            Self::One(first) => {
                *self = Self::Many(vec![*first, number]);
                1
            }
            Self::Many(all) => {
                all.push(number);
                (all.len() - 1) as u32
            }
        }
    }

    /// Takes away what stands at `place`. If another number moved there, gives that.
    pub(super) fn swap_remove(&mut self, place: u32) -> Option<u32> {
        let place = place as usize;
        let moved = match self {
            Self::Empty => None,
            Self::One(_) => {
                *self = Self::Empty;
                None
            }
            Self::Many(all) => {
                if place < all.len() {
                    all.swap_remove(place);
                }
                all.get(place).copied()
            }
        };
        self.shrink();
        moved
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::Empty => &[],
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(all) => all,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives memory back after a crowd has left, but not at every step back and forth.
    fn shrink(&mut self) {
        let Self::Many(all) = self else { return };
        match all.as_slice() {
            [] => *self = Self::Empty,
            [one] => *self = Self::One(*one),
            _ if all.len() < all.capacity() / 4 => all.shrink_to(all.len() * 2),
            _ => {}
        }
    }
}

/// Rows of one page: 256 of them keep a page near ten kilobytes.
const PAGE_ROWS: usize = 256;

#[derive(Debug)]
pub(super) struct Row {
    pub(super) project: u32,
    pub(super) profile: u32,
    /// Index in its profile's list.
    pub(super) place: u32,
    pub(super) ids: Ids,
}

#[derive(Debug)]
pub(super) struct Page {
    pub(super) rows: Box<[Option<Row>]>,
    used: usize,
}

/// Rows by key. Keys are a table's slots, so pages fill up; an empty page is given back, and
/// growing never copies.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) pages: Vec<Option<Page>>,
}

impl Table {
    pub(super) fn get(&self, key: u32) -> Option<&Row> {
        let (page, row) = split(key);
        self.pages.get(page)?.as_ref()?.rows[row].as_ref()
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Row> {
        let (page, row) = split(key);
        self.pages.get_mut(page)?.as_mut()?.rows[row].as_mut()
    }

    pub(super) fn insert(&mut self, key: u32, row: Row) {
        let (page, at) = split(key);
        if self.pages.len() <= page {
            self.pages.resize_with(page + 1, || None);
        }
        let page = self.pages[page].get_or_insert_with(|| Page {
            rows: std::iter::repeat_with(|| None).take(PAGE_ROWS).collect(),
            used: 0,
        });
        if page.rows[at].replace(row).is_none() {
            page.used += 1;
        }
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Row> {
        let (at, row) = split(key);
        let page = self.pages.get_mut(at)?.as_mut()?;
        let row = page.rows[row].take()?;
        page.used -= 1;
        if page.used == 0 {
            self.pages[at] = None;
            while matches!(self.pages.last(), Some(None)) {
                self.pages.pop();
            }
            if self.pages.is_empty() {
                self.pages = Vec::new();
            }
        }
        Some(row)
    }

    /// The key behind the last page.
    pub(super) fn end(&self) -> u32 {
        (self.pages.len() * PAGE_ROWS) as u32
    }
}

fn split(key: u32) -> (usize, usize) {
    let key = key as usize;
    (key / PAGE_ROWS, key % PAGE_ROWS)
}

#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) channels: Vec<u32>,
    pub(super) keys: Vec<u32>,
    pub(super) roles: Vec<u32>,
    pub(super) shapes: Vec<u32>,
    pub(super) role_sets: Vec<u32>,
    pub(super) key: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<T> Interned<T> {
        pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
            self.slots
                .iter()
                .enumerate()
                .filter_map(|(id, slot)| match slot {
                    Slot::Used(value) => Some((id as u32, value)),
                    Slot::Free(_) => None,
                })
        }
    }

    impl Hashed for u32 {
        fn hash(&self, hashing: &Hashing) -> u64 {
            hashing.numbers([*self])
        }
    }

    #[test]
    fn numbers_are_used_again_and_memory_returns() {
        let hashing = Hashing::new(1);
        let mut kept = Interned::default();
        let insert = |kept: &mut Interned<u32>, n: u32| kept.insert(&hashing, n.hash(&hashing), n);
        let ids: Vec<u32> = (0..4).map(|n| insert(&mut kept, n)).collect();
        assert_eq!(kept.remove(&hashing, ids[1]), Some(1));
        assert_eq!(kept.remove(&hashing, ids[1]), None);
        assert_eq!(insert(&mut kept, 9), ids[1]);
        assert_eq!(kept[ids[1]], 9);
        let find = |n: u32| kept.find(n.hash(&hashing), |known| *known == n);
        assert_eq!((find(1), find(9)), (None, Some(ids[1])));
        assert_eq!(kept.iter().count(), 4);
        for id in ids {
            kept.remove(&hashing, id);
        }
        assert_eq!((kept.len(), kept.heap_bytes()), (0, 0));
        assert_eq!(kept.remove(&hashing, 0), None);
    }

    #[test]
    fn places_follow_moves() {
        let mut posting = Posting::default();
        for number in 0..100 {
            assert_eq!(posting.push(number), number);
        }
        assert_eq!(posting.swap_remove(3), Some(99));
        assert_eq!(posting.as_slice()[3], 99);
        assert_eq!(posting.swap_remove(98), None);
        while posting.len() > 1 {
            posting.swap_remove(0);
        }
        assert!(matches!(posting, Posting::One(_)));
        assert_eq!(posting.heap_bytes(), 0);
        posting.swap_remove(0);
        assert!(posting.is_empty());
    }

    #[test]
    fn a_row_stays_small() {
        assert!(
            size_of::<Option<Row>>() <= 40,
            "{}",
            size_of::<Option<Row>>()
        );
    }

    #[test]
    fn pages_come_and_go() {
        let row = || Row {
            project: 0,
            profile: 0,
            place: 0,
            ids: Ids::default(),
        };
        let mut table = Table::default();
        for key in [0, 255, 256, 10_000] {
            table.insert(key, row());
        }
        assert_eq!(table.len(), 4);
        assert!(table.get(255).is_some() && table.get(257).is_none());
        assert!(table.get(u32::MAX).is_none());
        for key in [10_000, 0, 255, 256] {
            assert!(table.remove(key).is_some());
            assert!(table.remove(key).is_none());
        }
        assert_eq!((table.len(), table.heap_bytes()), (0, 0));
    }
}
