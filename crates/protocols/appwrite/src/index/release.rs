//! The way out of a project: a connection leaves, and everything that nobody else needs goes.

use hashbrown::HashTable;

use super::Hashing;
use super::intern::{Filters, Names};
use super::project::{Place, Project, hash_entries};

impl Project {
    /// Takes a connection out of a profile's list, and the profile with all that nobody else
    /// needs if it was the last. Gives the connection that took its place.
    pub(super) fn leave(
        &mut self,
        hashing: &Hashing,
        filters: &mut Filters,
        profile: u32,
        place: u32,
    ) -> Option<u32> {
        let connections = &mut self.profiles[profile].connections;
        let moved = connections.swap_remove(place);
        if connections.is_empty() {
            self.drop_profile(hashing, filters, profile);
        }
        moved
    }

    fn drop_profile(&mut self, hashing: &Hashing, filters: &mut Filters, id: u32) {
        let Some(profile) = self.profiles.remove(id) else {
            return;
        };
        let (role_set, shape) = (profile.role_set, profile.shape);
        unlink(&mut self.by_pair, hashing.numbers([role_set, shape]), id);
        let profiles = &mut self.role_sets[role_set].profiles;
        if let Some(moved) = profiles.swap_remove(profile.place_in_role_set) {
            self.profiles[moved].place_in_role_set = profile.place_in_role_set;
        }
        let profiles = &mut self.shapes[shape].profiles;
        if let Some(moved) = profiles.swap_remove(profile.place_in_shape) {
            self.profiles[moved].place_in_shape = profile.place_in_shape;
        }
        for role in &self.role_sets[role_set].roles {
            self.roles.get_mut(role.name).profiles -= 1;
        }
        for channel in &self.shapes[shape].channels {
            self.channels.get_mut(channel.name).profiles -= 1;
        }
        for key in &self.shapes[shape].keys {
            self.keys.get_mut(key.name).profiles -= 1;
        }
        if self.role_sets[role_set].profiles.is_empty() {
            self.drop_role_set(hashing, role_set);
        }
        if self.shapes[shape].profiles.is_empty() {
            self.drop_shape(hashing, filters, shape);
        }
    }

    fn drop_role_set(&mut self, hashing: &Hashing, id: u32) {
        let Some(role_set) = self.role_sets.remove(id) else {
            return;
        };
        let hash = hashing.numbers(role_set.roles.iter().map(|p| p.name));
        unlink(&mut self.by_roles, hash, id);
        for &listed in &role_set.roles {
            if let Some(moved) = delist(&mut self.roles, hashing, listed) {
                replace_place(&mut self.role_sets[moved].roles, listed);
            }
        }
    }

    fn drop_shape(&mut self, hashing: &Hashing, filters: &mut Filters, id: u32) {
        let Some(shape) = self.shapes.remove(id) else {
            return;
        };
        unlink(
            &mut self.by_entries,
            hash_entries(hashing, &shape.entries),
            id,
        );
        for entry in &shape.entries {
            filters.release(hashing, entry.filter);
        }
        for &listed in &shape.channels {
            if let Some(moved) = delist(&mut self.channels, hashing, listed) {
                replace_place(&mut self.shapes[moved].channels, listed);
            }
        }
        for &listed in &shape.keys {
            if let Some(moved) = delist(&mut self.keys, hashing, listed) {
                replace_place(&mut self.shapes[moved].keys, listed);
            }
        }
        for of_channel in shape.entries.chunk_by(|a, b| a.channel == b.channel) {
            self.channels.release(hashing, of_channel[0].channel);
        }
    }
}

fn unlink(table: &mut HashTable<u32>, hash: u64, id: u32) {
    if let Ok(entry) = table.find_entry(hash, |&known| known == id) {
        entry.remove();
    }
    if table.is_empty() {
        *table = HashTable::new();
    }
}

/// Takes a group off one list, and gives the group that took its place.
fn delist(names: &mut Names, hashing: &Hashing, listed: Place) -> Option<u32> {
    let moved = names.get_mut(listed.name).groups.swap_remove(listed.place);
    names.release(hashing, listed.name);
    moved
}

/// Notes the new place of a group that a removal moved within a name's list.
fn replace_place(places: &mut [Place], moved: Place) {
    if let Ok(at) = places.binary_search_by_key(&moved.name, |p| p.name) {
        places[at].place = moved.place;
    }
}

#[cfg(test)]
mod invariants {
    use super::super::project::{Shape, UNSEEN};
    use super::*;

    impl Project {
        /// Checks the header of `index`; `row` checks what the table knows of a connection.
        pub(crate) fn check_invariants(&self, row: impl Fn(u32, u32, u32)) {
            for (id, profile) in self.profiles.iter() {
                assert!(!profile.connections.is_empty());
                for (place, &connection) in profile.connections.as_slice().iter().enumerate() {
                    row(connection, id, place as u32);
                }
                let places = &self.role_sets[profile.role_set].profiles;
                assert_eq!(places.as_slice()[profile.place_in_role_set as usize], id);
                let places = &self.shapes[profile.shape].profiles;
                assert_eq!(places.as_slice()[profile.place_in_shape as usize], id);
            }
            for (id, set) in self.role_sets.iter() {
                assert!(!set.profiles.is_empty());
                check_places(&self.roles, &set.roles, id);
            }
            for (id, shape) in self.shapes.iter() {
                assert!(!shape.profiles.is_empty());
                assert_eq!(shape.verdict, UNSEEN);
                check_places(&self.channels, &shape.channels, id);
                check_places(&self.keys, &shape.keys, id);
            }
            for (_, role) in self.roles.iter() {
                let below = role.groups.as_slice().iter();
                let profiles: usize = below.map(|&id| self.role_sets[id].profiles.len()).sum();
                assert!(profiles > 0 && profiles == role.profiles as usize);
            }
            for (_, name) in self.channels.iter().chain(self.keys.iter()) {
                let below = name.groups.as_slice().iter();
                let profiles: usize = below.map(|&id| self.shapes[id].profiles.len()).sum();
                assert_eq!(profiles, name.profiles as usize);
            }
            for (id, _) in self.channels.iter() {
                let used = |shape: &Shape| !shape.of_channel(id).is_empty();
                assert!(self.shapes.iter().any(|(_, shape)| used(shape)));
            }
        }
    }

    fn check_places(names: &Names, places: &[Place], group: u32) {
        for &Place { name, place } in places {
            assert_eq!(names.get(name).groups.as_slice()[place as usize], group);
        }
    }
}
