//! Receivers of an event: the subscriptions of one shard, found through an index.
//!
//! Owns: each connection's project, roles, subscriptions and their ids. Never: sends, or knows
//! what a connection is beyond its key.
//!
//! ```text
//! channel ─┐                          ┌─ role
//!          ├─ shape ── profile ── role set
//! channel ─┘              │           └─ role
//!                    connections
//! ```
//!
//! A *role set* is the roles of a connection, a *shape* its channels and queries without ids, and
//! a *profile* one of each with the connections that share them. All are interned per project, so
//! that a million guests on one channel are one profile and a dense list, and a connection owns a
//! table entry, its place in that list and its ids.
//!
//! A shape whose queries on a channel all ask for certain values of an attribute stands below the
//! channel's *keys* for those values instead of the channel itself.
//!
//! An event visits either the profiles below its channels and keys or those below its roles,
//! whichever are fewer, and never a connection that does not receive it.
//!
//! Invariants
//! - A connection is in the list of exactly one profile, at the place that its entry names.
//! - A name, role set, shape or profile lives as long as something below it in the picture does.
//! - The `profiles` count of a channel, key or role is the number of profiles that it leads to.

mod ids;
mod intern;
mod matching;
mod project;
mod storage;
#[cfg(test)]
mod tests;

use ids::Ids;
use intern::Filters;
use project::{Entry, Project};
use storage::{Hashing, Interned, Row, Scratch, Table};
use throng_types::{Load, Save, Saved};

use crate::{QueryFilter, RealtimeError, channel};

pub use matching::{Match, Matches};

/// Subscriptions of one connection; ordinals take 16 bits.
const SUBSCRIPTIONS_MAX: usize = 4096;
/// Channels of one connection, counted in each of its subscriptions.
const ENTRIES_MAX: usize = 16_384;

#[derive(Debug)]
pub struct Index {
    hashing: Hashing,
    connections: Table,
    projects: Interned<Project>,
    filters: Filters,
    scratch: Scratch,
}

impl Index {
    /// An empty index. `seed` should be random, because clients choose the names it hashes.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            hashing: Hashing::new(seed),
            connections: Table::default(),
            projects: Interned::default(),
            filters: Filters::default(),
            scratch: Scratch::default(),
        }
    }

    /// Takes a connection in, without subscriptions yet. Keys are slots of a table: small numbers
    /// that are used again.
    ///
    /// # Errors
    /// [`IndexError::Known`].
    pub fn insert<S: AsRef<str>>(
        &mut self,
        connection: u32,
        project: &str,
        roles: &[S],
    ) -> Result<(), IndexError> {
        if self.connections.get(connection).is_some() {
            return Err(IndexError::Known);
        }
        let project_id = self.project_or_new(project);
        let project = &mut self.projects[project_id];
        let role_set = project.role_set(&self.hashing, roles);
        let shape = project.shape(&self.hashing, &mut self.filters, &[]);
        let profile = project.profile(&self.hashing, role_set, shape);
        let place = project.join(profile, connection);
        self.connections.insert(
            connection,
            Row {
                project: project_id,
                profile,
                place,
                ids: Ids::default(),
            },
        );
        Ok(())
    }

    /// Makes subscriptions, or changes those whose ids the connection already has. As in stock, a
    /// known id gets the new queries on the channels named now and keeps its other channels; a
    /// subscription without channels is not made. Of two with one id, the later wins.
    ///
    /// # Errors
    /// [`IndexError`], and then nothing has changed.
    pub fn subscribe(
        &mut self,
        connection: u32,
        subscriptions: &[IndexedSubscription<'_>],
    ) -> Result<(), IndexError> {
        let row = self
            .connections
            .get(connection)
            .ok_or(IndexError::Unknown)?;
        if subscriptions.iter().any(|s| s.id.len() > ids::ID_BYTES_MAX) {
            return Err(IndexError::IdTooLong);
        }
        if row.ids.len() + subscriptions.len() > SUBSCRIPTIONS_MAX {
            return Err(IndexError::TooMany);
        }
        self.subscribe_all(connection, subscriptions)
    }

    fn subscribe_all(
        &mut self,
        connection: u32,
        subscriptions: &[IndexedSubscription<'_>],
    ) -> Result<(), IndexError> {
        let row = self
            .connections
            .get(connection)
            .ok_or(IndexError::Unknown)?;
        let project = &mut self.projects[row.project];
        let asked: usize = subscriptions.iter().map(|s| s.channels.len()).sum();
        if project.entries_of(row.profile).len() + asked > ENTRIES_MAX {
            return Err(IndexError::TooMany);
        }
        let mut names = row.ids.to_names();
        let mut entries = project.entries_of(row.profile).to_vec();
        let mut held = Vec::new();
        for subscription in subscriptions {
            if subscription.channels.is_empty() {
                continue;
            }
            let ordinal = match names.iter().position(|known| known == subscription.id) {
                Some(ordinal) => ordinal,
                None => {
                    names.push(subscription.id.to_owned());
                    names.len() - 1
                }
            };
            let filter = self.filters.acquire(&self.hashing, subscription.filter);
            held.push(filter);
            entries.extend(subscription.channels.iter().map(|channel| Entry {
                channel: project.channel(&self.hashing, channel),
                ordinal: ordinal as u16,
                filter,
            }));
        }
        sort_latest(&mut entries);
        self.reshape(connection, &entries, Ids::from_names(&names));
        for filter in held {
            self.filters.release(&self.hashing, filter);
        }
        Ok(())
    }

    pub fn unsubscribe(&mut self, connection: u32, id: &str) -> bool {
        let Some(row) = self.connections.get(connection) else {
            return false;
        };
        let mut names = row.ids.to_names();
        let Some(ordinal) = names.iter().position(|known| known == id) else {
            return false;
        };
        names.remove(ordinal);
        let mut entries = self.projects[row.project].entries_of(row.profile).to_vec();
        entries.retain(|entry| usize::from(entry.ordinal) != ordinal);
        for entry in &mut entries {
            if usize::from(entry.ordinal) > ordinal {
                entry.ordinal -= 1;
            }
        }
        self.reshape(connection, &entries, Ids::from_names(&names));
        true
    }

    /// Gives a connection other roles and keeps its subscriptions. With `rebind`, channels of the
    /// old user's account become those of the new one's. False if there is no such connection.
    pub fn set_roles<S: AsRef<str>>(
        &mut self,
        connection: u32,
        roles: &[S],
        rebind: Option<Rebind<'_>>,
    ) -> bool {
        let Some(row) = self.connections.get(connection) else {
            return false;
        };
        let project = &mut self.projects[row.project];
        let mut shape = project.shape_of(row.profile);
        if let Some(rebind) = rebind {
            let entries = rebound(project, &self.hashing, row.profile, rebind);
            shape = project.shape(&self.hashing, &mut self.filters, &entries);
        }
        let role_set = project.role_set(&self.hashing, roles);
        let profile = project.profile(&self.hashing, role_set, shape);
        self.move_to(connection, profile, None);
        true
    }

    pub fn remove(&mut self, connection: u32) -> bool {
        let Some(row) = self.connections.remove(connection) else {
            return false;
        };
        self.leave(row.project, row.profile, row.place);
        if self.projects[row.project].is_empty() {
            self.projects.remove(&self.hashing, row.project);
        }
        true
    }

    #[must_use]
    pub fn contains(&self, connection: u32) -> bool {
        self.connections.get(connection).is_some()
    }

    #[must_use]
    pub fn subscriptions(&self, connection: u32) -> usize {
        self.connections
            .get(connection)
            .map_or(0, |row| row.ids.len())
    }

    /// Appends the connections of a project that have a role, in no order: those of
    /// `user:ID` are the ones to look at when that user changes.
    pub fn with_role(&self, project: &str, role: &str, out: &mut Vec<u32>) {
        if let Some(project) = self.project(project) {
            self.projects[project].with_role(&self.hashing, role, out);
        }
    }

    /// The roles of a connection, in no order; none if it is not there.
    #[must_use]
    pub fn roles(&self, connection: u32) -> Vec<String> {
        self.connections
            .get(connection)
            .map_or_else(Vec::new, |row| {
                let project = &self.projects[row.project];
                project.roles_of(row.profile).map(str::to_owned).collect()
            })
    }

    /// No key of a connection is as high.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.connections.end()
    }

    fn reshape(&mut self, connection: u32, entries: &[Entry], ids: Ids) {
        let Some(row) = self.connections.get(connection) else {
            return;
        };
        let project = &mut self.projects[row.project];
        let role_set = project.role_set_of(row.profile);
        let shape = project.shape(&self.hashing, &mut self.filters, entries);
        let profile = project.profile(&self.hashing, role_set, shape);
        self.move_to(connection, profile, Some(ids));
    }

    /// Moves a connection to another profile of its project. The new one is joined before the old
    /// one is left, so that nothing shared by both dies in between.
    fn move_to(&mut self, connection: u32, profile: u32, ids: Option<Ids>) {
        let Some(row) = self.connections.get_mut(connection) else {
            return;
        };
        if let Some(ids) = ids {
            row.ids = ids;
        }
        let (project, old_profile, old_place) = (row.project, row.profile, row.place);
        if old_profile == profile {
            return;
        }
        row.profile = profile;
        row.place = self.projects[project].join(profile, connection);
        self.leave(project, old_profile, old_place);
    }

    fn leave(&mut self, project: u32, profile: u32, place: u32) {
        let moved = self.projects[project].leave(&self.hashing, &mut self.filters, profile, place);
        if let Some(row) = moved.and_then(|moved| self.connections.get_mut(moved)) {
            row.place = place;
        }
    }

    fn project(&self, name: &str) -> Option<u32> {
        let hash = self.hashing.text(name);
        self.projects.find(hash, |project| project.name() == name)
    }

    fn project_or_new(&mut self, name: &str) -> u32 {
        if let Some(known) = self.project(name) {
            return known;
        }
        let (new, hash) = (Project::new(name), self.hashing.text(name));
        self.projects.insert(&self.hashing, hash, new)
    }
}

/// Why the index refuses a change. The caller's fault, except for `TooMany`, which is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("the connection is already in the index")]
    Known,
    #[error("the connection is not in the index")]
    Unknown,
    #[error("the subscription id is too long")]
    IdTooLong,
    /// The connection would have more than 4096 subscriptions, or more than 16,384 channels in
    /// them.
    #[error("the connection has too many subscriptions")]
    TooMany,
}

impl From<IndexError> for RealtimeError {
    /// Converts to the client's error. Only the limits are its own doing.
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::TooMany => Self::Field("items", "Too many subscriptions.".into()),
            IndexError::IdTooLong => {
                Self::Field("items", "subscriptionId is not a valid id.".into())
            }
            IndexError::Known | IndexError::Unknown => Self::Server,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct IndexedSubscription<'s> {
    pub id: &'s str,
    /// Channels under the connection's identity.
    pub channels: &'s [String],
    pub filter: &'s QueryFilter,
}

/// Change of the user whose account channels a connection has.
#[derive(Clone, Copy, Debug)]
pub struct Rebind<'r> {
    /// The user until now, empty for a guest.
    pub from: &'r str,
    pub to: &'r str,
}

/// The entries of a profile with the account channels of another user. A channel that is there
/// already keeps its filter.
fn rebound(
    project: &mut Project,
    hashing: &Hashing,
    profile: u32,
    rebind: Rebind<'_>,
) -> Vec<Entry> {
    let mut kept = Vec::new();
    let mut renamed = Vec::new();
    for entry in project.entries_of(profile) {
        let name = project.channel_name(entry.channel);
        match channel::rebind(name, rebind.from, rebind.to) {
            None => kept.push(*entry),
            Some(name) => renamed.push((name, *entry)),
        }
    }
    let mut entries: Vec<Entry> = renamed
        .into_iter()
        .map(|(name, entry)| Entry {
            channel: project.channel(hashing, &name),
            ..entry
        })
        .collect();
    entries.extend(kept);
    sort_latest(&mut entries);
    entries
}

/// Sorts entries and keeps the latest of those with the same channel and subscription.
fn sort_latest(entries: &mut Vec<Entry>) {
    let place = |entry: &Entry| (entry.channel, entry.ordinal);
    entries.sort_by_key(place);
    entries.dedup_by(|later, kept| {
        let same = place(later) == place(kept);
        if same {
            *kept = *later;
        }
        same
    });
}

/// The channels of one subscription that have the same queries.
type Part = (String, Vec<String>, QueryFilter);

impl Index {
    /// Appends a connection; nothing and false if there is no such one. Names, role sets and shapes
    /// that connections share are found or made again as they come. One subscription may have
    /// channels with different queries; each such part is saved with its id.
    pub fn save(&self, connection: u32, out: &mut Vec<u8>) -> bool {
        let Some(row) = self.connections.get(connection) else {
            return false;
        };
        let project = &self.projects[row.project];
        (project.name(), self.roles(connection)).save(out);
        let names = row.ids.to_names();
        let mut entries = project.entries_of(row.profile).to_vec();
        entries.sort_by_key(|entry| (entry.ordinal, entry.filter, entry.channel));
        let mut parts: Vec<Part> = Vec::new();
        let same =
            |one: &Entry, other: &Entry| (one.ordinal, one.filter) == (other.ordinal, other.filter);
        for entries in entries.chunk_by(same) {
            let [first, ..] = entries else { continue };
            let channels = entries
                .iter()
                .map(|entry| project.channel_name(entry.channel).to_owned());
            let filter = self.filters.get(first.filter).clone();
            let id = names.get(usize::from(first.ordinal));
            let id = id.cloned().unwrap_or_default();
            parts.push((id, channels.collect(), filter));
        }
        parts.save(out);
        true
    }

    /// Takes a connection in that was saved; `None`, and it is not there, if the bytes are none of
    /// [`Index::save`], or it is here already. Gives its project.
    pub fn load(&mut self, connection: u32, from: &mut Saved<'_>) -> Option<Box<str>> {
        let (project, roles, parts) = <(Box<str>, Vec<String>, Vec<Part>)>::load(from)?;
        let fits = |(id, ..): &Part| id.len() <= ids::ID_BYTES_MAX;
        if parts.len() > ENTRIES_MAX || !parts.iter().all(fits) {
            return None;
        }
        self.insert(connection, &project, &roles).ok()?;
        let parts: Vec<IndexedSubscription<'_>> = parts
            .iter()
            .map(|(id, channels, filter)| IndexedSubscription {
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
