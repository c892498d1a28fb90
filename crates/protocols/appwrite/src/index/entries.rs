//! A connection's subscriptions as sorted entries, before they become a shape.

use super::hashing::Hashing;
use super::project::{Entry, Project};
use super::types::Rebind;
use crate::channel;

/// The entries of a profile with the account channels of another user. A channel that is there
/// already keeps its filter.
pub(super) fn rebound(
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
pub(super) fn sort_latest(entries: &mut Vec<Entry>) {
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
