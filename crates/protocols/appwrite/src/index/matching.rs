//! From an event to its receivers.
//!
//! Where all queries of a shape on a channel ask for certain values (`equal`), the shape is listed
//! under channel, attribute and value, so that a room of ten among a million subscribers of one
//! channel costs ten visits.
//!
//! An event visits a shape at most once and notes there what it found, and judges a filter at most
//! once; both notes are taken back at the end, so no walk over the index is ever needed.

use crate::FeedMessage;
use crate::filter::payload_keys;
use crate::index::Index;
use crate::index::intern::{Filters, Names};
use crate::index::project::{Project, UNSEEN};
use crate::index::storage::{Hashing, Scratch};

/// A shape without a matching subscription.
const NOTHING: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    pub connection: u32,
    /// Set of its subscriptions that match, for [`Matches::ordinals`]. Receivers with the same
    /// number match in the same way, though their ids differ.
    pub set: u32,
}

/// The receivers of one event. A caller keeps one and uses it again.
#[derive(Debug, Default)]
pub struct Matches {
    /// Each receiver once, in no order.
    pub receivers: Vec<Match>,
    /// Number of shapes and profiles looked at to find them: the cost of the event.
    pub visits: usize,
    sets: Vec<(u32, u32)>,
    ordinals: Vec<u16>,
}

impl Matches {
    /// The ordinals of the subscriptions that match, rising: their places in the order in which
    /// the connection made them.
    #[must_use]
    pub fn ordinals(&self, found: &Match) -> &[u16] {
        let Some(&(from, to)) = self.sets.get(found.set as usize) else {
            return &[];
        };
        self.ordinals
            .get(from as usize..to as usize)
            .unwrap_or_default()
    }

    /// Makes a set of the ordinals since `from`. Many shapes match in the same way, one after the
    /// other, and share a set then.
    fn close_set(&mut self, from: usize) -> u32 {
        let to = self.ordinals.len();
        if from == to {
            return NOTHING;
        }
        self.ordinals[from..].sort_unstable();
        if let Some(&(last_from, last_to)) = self.sets.last()
            && self.ordinals[last_from as usize..last_to as usize] == self.ordinals[from..]
        {
            self.ordinals.truncate(from);
        } else {
            self.sets.push((from as u32, to as u32));
        }
        (self.sets.len() - 1) as u32
    }

    /// Empties it and keeps its memory.
    pub fn clear(&mut self) {
        self.receivers.clear();
        self.visits = 0;
        self.sets.clear();
        self.ordinals.clear();
    }
}

impl Index {
    /// Finds who receives an event: connections of its project that have one of its roles (or any,
    /// if `any` is among them) and a subscription to one of its channels whose queries the payload
    /// passes. `out` is emptied first, and holds until the index changes.
    ///
    /// Costs the number of profiles below the event's channels or below its roles, whichever is
    /// less, and the receivers.
    pub fn matches(&mut self, event: &FeedMessage, out: &mut Matches) {
        out.clear();
        let Some(project) = self.project(&event.project) else {
            return;
        };
        let scratch = &mut self.scratch;
        let project = &mut self.projects[project];
        resolve(
            &project.channels,
            &self.hashing,
            &event.channels,
            &mut scratch.channels,
        );
        if scratch.channels.is_empty() {
            return;
        }
        resolve_keys(project, &self.hashing, event, scratch);
        let mut walk = Walk {
            event,
            project,
            filters: &mut self.filters,
            channels: &scratch.channels,
            keys: &scratch.keys,
            seen_shapes: &mut scratch.shapes,
            seen_role_sets: &mut scratch.role_sets,
            out,
        };
        if event.for_everyone() {
            walk.by_channel(None);
        } else {
            let roles = &mut scratch.roles;
            resolve(&walk.project.roles, &self.hashing, &event.roles, roles);
            let below_roles = profiles_below(&walk.project.roles, roles);
            let below_channels = profiles_below(&walk.project.channels, walk.channels)
                + profiles_below(&walk.project.keys, walk.keys);
            if below_channels <= below_roles {
                walk.by_channel(Some(roles));
            } else {
                walk.by_role(roles);
            }
        }
        walk.forget();
        self.filters.forget_verdicts();
    }

    /// As [`Index::matches`] for one connection alone, for those that must hear of an event later
    /// than the others: at most one receiver, at the cost of its own subscriptions.
    pub fn matches_for(&mut self, connection: u32, event: &FeedMessage, out: &mut Matches) {
        out.clear();
        let Some(row) = self.connections.get(connection) else {
            return;
        };
        let profile = row.profile;
        let project = &mut self.projects[row.project];
        if project.name() != &*event.project {
            return;
        }
        let scratch = &mut self.scratch;
        if !event.for_everyone() {
            let roles = &mut scratch.roles;
            resolve(&project.roles, &self.hashing, &event.roles, roles);
            let role_set = project.role_set_of(profile);
            if !project.role_sets[role_set].has_any(roles) {
                return;
            }
        }
        let channels = &mut scratch.channels;
        resolve(&project.channels, &self.hashing, &event.channels, channels);
        let shape = project.shape_of(profile);
        let mut walk = Walk {
            event,
            project,
            filters: &mut self.filters,
            channels: &scratch.channels,
            // Keys only lead to shapes, and this one is known.
            keys: &[],
            seen_shapes: &mut scratch.shapes,
            seen_role_sets: &mut scratch.role_sets,
            out,
        };
        let set = walk.visit(shape);
        if set != NOTHING {
            receive(walk.out, &[connection], set);
        }
        walk.forget();
        self.filters.forget_verdicts();
    }

    /// Appends the ids of a receiver's matching subscriptions, as they stand in an event's frame,
    /// before [`FeedMessage::encode_tail`](crate::FeedMessage::encode_tail).
    pub fn write_ids(&self, matches: &Matches, found: &Match, out: &mut Vec<u8>) {
        if let Some(row) = self.connections.get(found.connection) {
            row.ids.write(matches.ordinals(found), out);
        }
    }
}

struct Walk<'w> {
    event: &'w FeedMessage,
    project: &'w mut Project,
    filters: &'w mut Filters,
    channels: &'w [u32],
    keys: &'w [u32],
    seen_shapes: &'w mut Vec<u32>,
    seen_role_sets: &'w mut Vec<u32>,
    out: &'w mut Matches,
}

impl Walk<'_> {
    /// Visits everything below the event's channels; with `roles`, keeps who has one of them.
    fn by_channel(&mut self, roles: Option<&[u32]>) {
        if roles.is_some_and(<[u32]>::is_empty) {
            return;
        }
        for &channel in self.channels {
            // A place in the list, since the visit needs the project for itself.
            for at in 0..self.project.channels[channel].groups.len() {
                let shape = self.project.channels[channel].groups.as_slice()[at];
                self.visit_and_receive(shape, roles);
            }
        }
        for &key in self.keys {
            for at in 0..self.project.keys[key].groups.len() {
                let shape = self.project.keys[key].groups.as_slice()[at];
                self.visit_and_receive(shape, roles);
            }
        }
    }

    fn visit_and_receive(&mut self, shape: u32, roles: Option<&[u32]>) {
        if self.project.shapes[shape].verdict != UNSEEN {
            return;
        }
        let set = self.visit(shape);
        if set != NOTHING {
            self.receive_shape(shape, set, roles);
        }
    }

    fn receive_shape(&mut self, shape: u32, set: u32, roles: Option<&[u32]>) {
        let profiles = self.project.shapes[shape].profiles.as_slice();
        self.out.visits += profiles.len();
        for &profile in profiles {
            let profile = &self.project.profiles[profile];
            let allowed =
                roles.is_none_or(|roles| self.project.role_sets[profile.role_set].has_any(roles));
            if allowed {
                receive(self.out, profile.connections.as_slice(), set);
            }
        }
    }

    fn by_role(&mut self, roles: &[u32]) {
        for &role in roles {
            for at in 0..self.project.roles[role].groups.len() {
                let role_set = self.project.roles[role].groups.as_slice()[at];
                if std::mem::replace(&mut self.project.role_sets[role_set].visited, true) {
                    continue;
                }
                self.seen_role_sets.push(role_set);
                self.receive_role_set(role_set);
            }
        }
    }

    fn receive_role_set(&mut self, role_set: u32) {
        let profiles = self.project.role_sets[role_set].profiles.len();
        self.out.visits += profiles;
        for at in 0..profiles {
            let profile = self.project.role_sets[role_set].profiles.as_slice()[at];
            let shape = self.project.profiles[profile].shape;
            let set = match self.project.shapes[shape].verdict {
                UNSEEN => self.visit(shape),
                set => set,
            };
            if set != NOTHING {
                let connections = self.project.profiles[profile].connections.as_slice();
                receive(self.out, connections, set);
            }
        }
    }

    /// Finds the matching subscriptions of a shape and notes the set.
    fn visit(&mut self, shape_id: u32) -> u32 {
        self.out.visits += 1;
        let shape = &mut self.project.shapes[shape_id];
        let from = self.out.ordinals.len();
        for &channel in self.channels {
            for entry in shape.of_channel(channel) {
                let known = self.out.ordinals[from..].contains(&entry.ordinal);
                if !known
                    && self
                        .filters
                        .passes(entry.filter, |f| f.wants(self.event.attributes()))
                {
                    self.out.ordinals.push(entry.ordinal);
                }
            }
        }
        let set = self.out.close_set(from);
        shape.verdict = set;
        self.seen_shapes.push(shape_id);
        set
    }

    fn forget(&mut self) {
        for shape in self.seen_shapes.drain(..) {
            self.project.shapes[shape].verdict = UNSEEN;
        }
        for role_set in self.seen_role_sets.drain(..) {
            self.project.role_sets[role_set].visited = false;
        }
    }
}

fn receive(out: &mut Matches, connections: &[u32], set: u32) {
    let receivers = connections.iter();
    out.receivers
        .extend(receivers.map(|&connection| Match { connection, set }));
}

/// The numbers of those names that somebody uses, sorted, each once.
fn resolve(names: &Names, hashing: &Hashing, texts: &[Box<str>], out: &mut Vec<u32>) {
    out.clear();
    out.extend(texts.iter().filter_map(|text| names.named(hashing, text)));
    out.sort_unstable();
    out.dedup();
}

/// The keys that the event's payload has on its channels, of those that somebody uses.
fn resolve_keys(project: &Project, hashing: &Hashing, event: &FeedMessage, scratch: &mut Scratch) {
    let Scratch { keys, key, .. } = scratch;
    keys.clear();
    if project.keys.len() == 0 {
        return;
    }
    for channel in &event.channels {
        if project.channels.named(hashing, channel).is_some() {
            payload_keys(channel, event.attributes(), key, |key| {
                keys.extend(project.keys.named(hashing, key));
            });
        }
    }
    keys.sort_unstable();
    keys.dedup();
}

fn profiles_below(names: &Names, ids: &[u32]) -> u64 {
    ids.iter().map(|&id| u64::from(names[id].profiles)).sum()
}
