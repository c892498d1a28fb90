//! A connection of the index as bytes, for a process that takes over.
//!
//! What connections share (names, role sets, shapes) is found or made again as they come, so a
//! connection is saved by itself: its project, roles and subscriptions. One subscription may have
//! channels with different queries; each such part is saved with the subscription's id.

use throng_types::{Save, Saved};

use super::{ENTRIES_MAX, Index, SUBSCRIPTIONS_MAX, Subscription, ids};
use crate::Filter;

/// The channels of one subscription that have the same queries.
type Part = (String, (Vec<String>, Filter));

impl Index {
    /// Appends a connection; nothing and false if there is no such one.
    pub fn save(&self, connection: u32, out: &mut Vec<u8>) -> bool {
        let Some(row) = self.connections.get(connection) else {
            return false;
        };
        let project = &self.projects[row.project];
        project.name().to_owned().save(out);
        self.roles(connection).save(out);
        let names = row.ids.to_names();
        let mut entries = project.entries_of(row.profile).to_vec();
        entries.sort_by_key(|entry| (entry.ordinal, entry.filter, entry.channel));
        let mut parts: Vec<Part> = Vec::new();
        let same = |one: &super::Entry, other: &super::Entry| {
            (one.ordinal, one.filter) == (other.ordinal, other.filter)
        };
        for entries in entries.chunk_by(same) {
            let [first, ..] = entries else { continue };
            let channels = entries
                .iter()
                .map(|entry| project.channel_name(entry.channel).to_owned());
            let filter = self.filters.get(first.filter).clone();
            let id = names.get(usize::from(first.ordinal));
            let id = id.cloned().unwrap_or_default();
            parts.push((id, (channels.collect(), filter)));
        }
        parts.save(out);
        true
    }

    /// Takes a connection in that was saved; `None`, and it is not there, if the bytes are none of
    /// [`Index::save`], or it is here already. Gives its project.
    pub fn load(&mut self, connection: u32, from: &mut Saved<'_>) -> Option<Box<str>> {
        let project = Box::<str>::load(from)?;
        let roles = Vec::<String>::load(from)?;
        let parts = Vec::<Part>::load(from)?;
        let fits = |(id, _): &Part| id.len() <= ids::ID_BYTES_MAX;
        if parts.len() > ENTRIES_MAX || !parts.iter().all(fits) {
            return None;
        }
        self.insert(connection, &project, &roles).ok()?;
        let parts: Vec<Subscription<'_>> = parts
            .iter()
            .map(|(id, (channels, filter))| Subscription {
                id,
                channels,
                filter,
            })
            .collect();
        let subscribed = self.subscribe_all(connection, &parts);
        if subscribed.is_err() || self.subscriptions(connection) > SUBSCRIPTIONS_MAX {
            self.remove(connection);
            return None;
        }
        Some(project)
    }
}
