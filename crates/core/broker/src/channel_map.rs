//! A map from channel names to values, compact for a million of them.
//!
//! Values live in a chunked slab and keep their key as long as they stay; the table of
//! names holds four bytes a channel, so its spare room costs little. Names come from
//! strangers, so the hash is seeded.
//!
//! Invariant: every name in the slab is in the table exactly once, under its key.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use throng_types::{ChannelName, Slots};

/// Values by channel name, or by a key that is good until the channel is removed.
pub struct ChannelMap<T> {
    values: Slots<(ChannelName, T)>,
    keys: HashTable<u32>,
    hasher: FixedState,
}

impl<T> ChannelMap<T> {
    /// An empty map whose hash cannot be predicted without the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            values: Slots::default(),
            keys: HashTable::new(),
            hasher: FixedState::with_seed(seed),
        }
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.values.len()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    fn hash(&self, name: &ChannelName) -> u64 {
        self.hasher.hash_one(name.as_str())
    }

    /// The key of a channel, good until it is removed.
    #[must_use]
    pub fn key(&self, name: &ChannelName) -> Option<u32> {
        let same = |key: &u32| {
            self.values
                .get(*key)
                .is_some_and(|(known, _)| known == name)
        };
        self.keys.find(self.hash(name), same).copied()
    }

    /// The key of a channel, which is added if it is not there.
    pub fn key_or_insert(&mut self, name: &ChannelName, make: impl FnOnce() -> T) -> u32 {
        if let Some(key) = self.key(name) {
            return key;
        }
        let hash = self.hash(name);
        let key = self.values.insert((name.clone(), make()));
        let (values, hasher) = (&self.values, &self.hasher);
        self.keys.insert_unique(hash, key, |key| {
            values
                .get(*key)
                .map_or(0, |(name, _)| hasher.hash_one(name.as_str()))
        });
        key
    }

    #[must_use]
    pub fn at(&self, key: u32) -> Option<(&ChannelName, &T)> {
        self.values.get(key).map(|(name, value)| (name, value))
    }

    /// A channel's value, by its key, to change it.
    #[must_use]
    pub fn at_mut(&mut self, key: u32) -> Option<&mut T> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    #[must_use]
    pub fn entry_mut(&mut self, key: u32) -> Option<(&ChannelName, &mut T)> {
        self.values
            .get_mut(key)
            .map(|(name, value)| (&*name, value))
    }

    #[must_use]
    pub fn get(&self, name: &ChannelName) -> Option<&T> {
        self.key(name)
            .and_then(|key| self.at(key))
            .map(|(_, value)| value)
    }

    #[must_use]
    pub fn get_mut(&mut self, name: &ChannelName) -> Option<&mut T> {
        self.key(name).and_then(|key| self.at_mut(key))
    }

    /// A channel's value, which is made if it is not there.
    pub fn get_or_insert(&mut self, name: &ChannelName, make: impl FnOnce() -> T) -> &mut T {
        let key = self.key_or_insert(name, make);
        // The key was found or given in the line above.
        self.at_mut(key).expect("a key that was just given")
    }

    pub fn remove(&mut self, key: u32) -> Option<(ChannelName, T)> {
        let hash = self.hash(&self.values.get(key)?.0);
        if let Ok(entry) = self.keys.find_entry(hash, |known| *known == key) {
            entry.remove();
        }
        if self.keys.is_empty() {
            self.keys = HashTable::new();
        }
        self.values.remove(key)
    }

    /// All keys are below this.
    #[must_use]
    pub fn bound(&self) -> u32 {
        self.values.bound()
    }

    pub fn entries(&self) -> impl Iterator<Item = (u32, &ChannelName, &T)> {
        self.values
            .iter()
            .map(|(key, (name, value))| (key, name, value))
    }

    /// Iterates all channels, without their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ChannelName, &T)> {
        self.values.iter().map(|(_, (name, value))| (name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_keys_lead_to_the_same_value() {
        let name = |n: u32| ChannelName::new(&format!("c{n}")).unwrap();
        let mut map = ChannelMap::new(7);
        let keys: Vec<u32> = (0..5000)
            .map(|n| map.key_or_insert(&name(n), || n))
            .collect();
        assert_eq!(map.key_or_insert(&name(3), || 99), keys[3]);
        for n in (0..5000).step_by(2) {
            assert_eq!(map.remove(keys[n as usize]), Some((name(n), n)));
            assert_eq!(map.remove(keys[n as usize]), None);
        }
        for n in 0..5000 {
            assert_eq!(map.get(&name(n)).copied(), (n % 2 == 1).then_some(n));
        }
        assert_eq!((map.len(), map.iter().count()), (2500, 2500));
        assert!(!map.is_empty() && ChannelMap::<u32>::new(7).is_empty());
        assert_eq!(map.entry_mut(keys[3]), Some((&name(3), &mut 3)));
        assert_eq!(map.entry_mut(keys[2]), None);
        *map.get_or_insert(&name(4), || 0) += 5;
        assert_eq!(map.get(&name(4)), Some(&5));
        *map.get_mut(&name(4)).unwrap() += 1;
        assert_eq!(map.get(&name(4)), Some(&6));
        assert_eq!(map.get_mut(&name(6)), None);
        // Each is found by the key that came with it, and all keys are below the bound.
        assert_eq!(map.entries().count(), map.len());
        let highest = map.entries().map(|(key, ..)| key).max();
        assert!(map.bound() > highest.unwrap());
        for (key, name, value) in map.entries() {
            assert_eq!(map.at(key), Some((name, value)));
            assert_eq!(map.key(name), Some(key));
        }
    }
}
