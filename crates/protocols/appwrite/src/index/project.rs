//! One project's part of the index: names, role sets, shapes and profiles.

use crate::index::intern::{Filters, Names};
use crate::index::storage::{Hashed, Hashing, Interned, Posting};

/// A shape that the event at hand has not visited.
pub(super) const UNSEEN: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) channel: u32,
    /// Index among the connection's subscriptions.
    pub(super) ordinal: u16,
    pub(super) filter: u32,
}

/// A name and where in its list the group stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) name: u32,
    pub(super) place: u32,
}

/// The roles that some connections have, sorted by number.
#[derive(Debug)]
pub(super) struct RoleSet {
    pub(super) roles: Box<[Place]>,
    pub(super) profiles: Posting,
    /// The event at hand has been here.
    pub(super) visited: bool,
}

impl RoleSet {
    /// Tells whether one of these roles, sorted by number, is in the set.
    pub(super) fn has_any(&self, roles: &[u32]) -> bool {
        roles
            .iter()
            .any(|role| self.roles.binary_search_by_key(role, |p| p.name).is_ok())
    }
}

/// The subscriptions that some connections have, without ids.
#[derive(Debug)]
pub(super) struct Shape {
    /// Sorted by channel, then by ordinal.
    pub(super) entries: Box<[Entry]>,
    /// The channels to be visited for, sorted by number.
    pub(super) channels: Box<[Place]>,
    /// The keys to be visited for on the other channels, whose entries all have keys.
    pub(super) keys: Box<[Place]>,
    pub(super) profiles: Posting,
    /// Set of matching entries for the event at hand, or [`UNSEEN`].
    pub(super) verdict: u32,
}

impl Shape {
    pub(super) fn of_channel(&self, channel: u32) -> &[Entry] {
        let from = self.entries.partition_point(|e| e.channel < channel);
        let rest = &self.entries[from..];
        let len = rest.iter().take_while(|e| e.channel == channel).count();
        &rest[..len]
    }
}

/// The connections that share roles and subscriptions.
#[derive(Debug)]
pub(super) struct Profile {
    pub(super) role_set: u32,
    pub(super) shape: u32,
    pub(super) place_in_role_set: u32,
    pub(super) place_in_shape: u32,
    pub(super) connections: Posting,
}

#[derive(Debug)]
pub(super) struct Project {
    name: Box<str>,
    pub(super) channels: Names,
    /// A channel with one value of an attribute each.
    pub(super) keys: Names,
    pub(super) roles: Names,
    pub(super) role_sets: Interned<RoleSet>,
    pub(super) shapes: Interned<Shape>,
    pub(super) profiles: Interned<Profile>,
}

impl Hashed for RoleSet {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hashing.numbers(self.roles.iter().map(|p| p.name))
    }
}

impl Hashed for Shape {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hash_entries(hashing, &self.entries)
    }
}

impl Hashed for Profile {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hashing.numbers([self.role_set, self.shape])
    }
}

impl Hashed for Project {
    fn hash(&self, hashing: &Hashing) -> u64 {
        hashing.text(&self.name)
    }
}

impl Project {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            channels: Names::default(),
            keys: Names::default(),
            roles: Names::default(),
            role_sets: Interned::default(),
            shapes: Interned::default(),
            profiles: Interned::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_empty(&self) -> bool {
        self.profiles.len() == 0
    }

    pub(super) fn entries_of(&self, profile: u32) -> &[Entry] {
        &self.shapes[self.shape_of(profile)].entries
    }

    pub(super) fn shape_of(&self, profile: u32) -> u32 {
        self.profiles[profile].shape
    }

    pub(super) fn role_set_of(&self, profile: u32) -> u32 {
        self.profiles[profile].role_set
    }

    pub(super) fn roles_of(&self, profile: u32) -> impl Iterator<Item = &str> {
        let set = &self.role_sets[self.role_set_of(profile)];
        set.roles.iter().map(|place| &*self.roles[place.name].text)
    }

    pub(super) fn channel(&mut self, hashing: &Hashing, name: &str) -> u32 {
        self.channels.named_or_new(hashing, name)
    }

    pub(super) fn channel_name(&self, channel: u32) -> &str {
        &self.channels[channel].text
    }

    /// The role set with these roles. A new one belongs to no profile yet: whoever asked makes it.
    pub(super) fn role_set<S: AsRef<str>>(&mut self, hashing: &Hashing, roles: &[S]) -> u32 {
        let mut ids: Vec<u32> = roles
            .iter()
            .map(|role| self.roles.named_or_new(hashing, role.as_ref()))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        let hash = hashing.numbers(ids.iter().copied());
        let same = |set: &RoleSet| set.roles.iter().map(|p| &p.name).eq(&ids);
        if let Some(known) = self.role_sets.find(hash, same) {
            return known;
        }
        let new = RoleSet {
            roles: Box::default(),
            profiles: Posting::Empty,
            visited: false,
        };
        let id = self.role_sets.insert(hashing, hash, new);
        self.role_sets[id].roles = enlist(&mut self.roles, &ids, id);
        id
    }

    /// The shape with these sorted entries; as with role sets, a new one is for its asker to use.
    pub(super) fn shape(
        &mut self,
        hashing: &Hashing,
        filters: &mut Filters,
        entries: &[Entry],
    ) -> u32 {
        let hash = hash_entries(hashing, entries);
        if let Some(known) = self.shapes.find(hash, |shape| *shape.entries == *entries) {
            return known;
        }
        let new = Shape {
            entries: entries.into(),
            channels: Box::default(),
            keys: Box::default(),
            profiles: Posting::Empty,
            verdict: UNSEEN,
        };
        let id = self.shapes.insert(hashing, hash, new);
        let (mut channels, mut keys) = (Vec::new(), Vec::new());
        for of_channel in entries.chunk_by(|a, b| a.channel == b.channel) {
            let channel = of_channel[0].channel;
            self.channels.hold(channel);
            if !self.find_keys(hashing, filters, of_channel, &mut keys) {
                channels.push(channel);
            }
        }
        keys.sort_unstable();
        keys.dedup();
        for entry in entries {
            filters.retain(entry.filter);
        }
        self.shapes[id].channels = enlist(&mut self.channels, &channels, id);
        self.shapes[id].keys = enlist(&mut self.keys, &keys, id);
        id
    }

    /// Adds the keys of a channel's entries, unless one of them has none.
    fn find_keys(
        &mut self,
        hashing: &Hashing,
        filters: &Filters,
        entries: &[Entry],
        out: &mut Vec<u32>,
    ) -> bool {
        let mut texts: Vec<String> = Vec::new();
        let all_keyed = entries.iter().all(|entry| {
            let channel = &self.channels[entry.channel].text;
            let filter = filters.get(entry.filter);
            filter.keys(channel, |key| texts.push(key.to_owned()))
        });
        if all_keyed {
            out.extend(texts.iter().map(|key| self.keys.named_or_new(hashing, key)));
        }
        all_keyed
    }

    /// The profile of a role set and a shape; a new one is for its asker to join.
    pub(super) fn profile(&mut self, hashing: &Hashing, role_set: u32, shape: u32) -> u32 {
        let hash = hashing.numbers([role_set, shape]);
        let same = |known: &Profile| (known.role_set, known.shape) == (role_set, shape);
        if let Some(known) = self.profiles.find(hash, same) {
            return known;
        }
        let new = Profile {
            role_set,
            shape,
            place_in_role_set: 0,
            place_in_shape: 0,
            connections: Posting::Empty,
        };
        let id = self.profiles.insert(hashing, hash, new);
        let place_in_role_set = self.role_sets[role_set].profiles.push(id);
        let place_in_shape = self.shapes[shape].profiles.push(id);
        let profile = &mut self.profiles[id];
        profile.place_in_role_set = place_in_role_set;
        profile.place_in_shape = place_in_shape;
        self.count_profile(role_set, shape, |profiles| *profiles += 1);
        id
    }

    /// Counts a profile in, or out, for each name that leads to it.
    fn count_profile(&mut self, role_set: u32, shape: u32, count: impl Fn(&mut u32)) {
        let (roles, shape) = (&self.role_sets[role_set].roles, &self.shapes[shape]);
        for (names, places) in [
            (&mut self.roles, roles),
            (&mut self.channels, &shape.channels),
            (&mut self.keys, &shape.keys),
        ] {
            for place in places {
                count(&mut names[place.name].profiles);
            }
        }
    }

    /// Puts a connection into a profile's list and says where.
    pub(super) fn join(&mut self, profile: u32, connection: u32) -> u32 {
        self.profiles[profile].connections.push(connection)
    }

    pub(super) fn with_role(&self, hashing: &Hashing, role: &str, out: &mut Vec<u32>) {
        let Some(role) = self.roles.named(hashing, role) else {
            return;
        };
        for &role_set in self.roles[role].groups.as_slice() {
            for &profile in self.role_sets[role_set].profiles.as_slice() {
                out.extend_from_slice(self.profiles[profile].connections.as_slice());
            }
        }
    }
}

fn hash_entries(hashing: &Hashing, entries: &[Entry]) -> u64 {
    let numbers = entries
        .iter()
        .flat_map(|e| [e.channel, u32::from(e.ordinal), e.filter]);
    hashing.numbers(numbers)
}

/// Puts a group on the lists of these names, which are sorted.
fn enlist(names: &mut Names, ids: &[u32], group: u32) -> Box<[Place]> {
    ids.iter()
        .map(|&name| {
            names.hold(name);
            let place = names[name].groups.push(group);
            Place { name, place }
        })
        .collect()
}

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
        let Some(profile) = self.profiles.remove(hashing, id) else {
            return;
        };
        let (role_set, shape) = (profile.role_set, profile.shape);
        let profiles = &mut self.role_sets[role_set].profiles;
        if let Some(moved) = profiles.swap_remove(profile.place_in_role_set) {
            self.profiles[moved].place_in_role_set = profile.place_in_role_set;
        }
        let profiles = &mut self.shapes[shape].profiles;
        if let Some(moved) = profiles.swap_remove(profile.place_in_shape) {
            self.profiles[moved].place_in_shape = profile.place_in_shape;
        }
        self.count_profile(role_set, shape, |profiles| *profiles -= 1);
        if self.role_sets[role_set].profiles.is_empty() {
            self.drop_role_set(hashing, role_set);
        }
        if self.shapes[shape].profiles.is_empty() {
            self.drop_shape(hashing, filters, shape);
        }
    }

    fn drop_role_set(&mut self, hashing: &Hashing, id: u32) {
        let Some(role_set) = self.role_sets.remove(hashing, id) else {
            return;
        };
        for &listed in &role_set.roles {
            if let Some(moved) = delist(&mut self.roles, hashing, listed) {
                replace_place(&mut self.role_sets[moved].roles, listed);
            }
        }
    }

    fn drop_shape(&mut self, hashing: &Hashing, filters: &mut Filters, id: u32) {
        let Some(shape) = self.shapes.remove(hashing, id) else {
            return;
        };
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

/// Takes a group off one list, and gives the group that took its place.
fn delist(names: &mut Names, hashing: &Hashing, listed: Place) -> Option<u32> {
    let moved = names[listed.name].groups.swap_remove(listed.place);
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
mod tests {
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
            assert_eq!(names[name].groups.as_slice()[place as usize], group);
        }
    }
}
