//! Subscriptions of each connection of the shard, with their places among the members.
//!
//! Invariants
//! - For each entry `Place::Member(at)` of connection `c` in channel `k`, member `at`
//!   of channel `k` is connection `c`.
//! - A slot's entries belong to one generation of it; a stale [`ConnId`] finds nothing.
//! - Each list in `lists` is that of one slot, and has two entries or more.

use throng_types::{ConnId, ShardId, Slots};

/// Place of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this place among the channel's members.
    Member(u32),
    /// Joined while older publications were on their way: in the fan-out's list.
    Joining,
    /// Sent to the broker, no reply yet; the number is the ticket.
    Requested(u32),
}

/// One subscription of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) channel: u32,
    pub(crate) place: Place,
}

#[derive(Default)]
enum Entries {
    #[default]
    None,
    One(Entry),
    /// In the list with this number: 4 bytes instead of a list's 24 in every connection.
    Many(u32),
}

#[derive(Default)]
struct Slot {
    generation: u32,
    entries: Entries,
}

/// The subscriptions of every connection, by its slot.
#[derive(Default)]
pub(crate) struct Subscriptions {
    slots: Vec<Slot>,
    /// Bound: one for each connection with several subscriptions.
    lists: Slots<Vec<Entry>>,
    total: usize,
}

impl Subscriptions {
    /// Subscriptions of all connections.
    pub(crate) const fn total(&self) -> usize {
        self.total
    }

    /// Entries of a slot, for any generation.
    pub(crate) fn of_index(&self, index: u32) -> &[Entry] {
        match self.slots.get(index as usize).map(|slot| &slot.entries) {
            None | Some(Entries::None) => &[],
            Some(Entries::One(entry)) => std::slice::from_ref(entry),
            Some(Entries::Many(list)) => self.lists.get(*list).map_or(&[], Vec::as_slice),
        }
    }

    fn of_index_mut(&mut self, index: u32) -> &mut [Entry] {
        match self
            .slots
            .get_mut(index as usize)
            .map(|slot| &mut slot.entries)
        {
            None | Some(Entries::None) => &mut [],
            Some(Entries::One(entry)) => std::slice::from_mut(entry),
            Some(Entries::Many(list)) => match self.lists.get_mut(*list) {
                Some(list) => list,
                None => &mut [],
            },
        }
    }

    /// The entries of a connection; none if it is not the one in its slot.
    pub(crate) fn of(&self, conn: ConnId) -> &[Entry] {
        match self.slots.get(conn.index() as usize) {
            Some(slot) if slot.generation == conn.generation() => self.of_index(conn.index()),
            _ => &[],
        }
    }

    /// The connection that has a slot of this shard; none if it subscribes to nothing.
    pub(crate) fn conn_at(&self, index: u32, shard: ShardId) -> Option<ConnId> {
        let slot = self.slots.get(index as usize)?;
        Some(ConnId::new(shard, index, slot.generation))
    }

    pub(crate) fn find(&self, conn: ConnId, channel: u32) -> Option<Place> {
        let entry = self
            .of(conn)
            .iter()
            .find(|entry| entry.channel == channel)?;
        Some(entry.place)
    }

    /// Adds an entry. The caller has checked that the channel has none of this connection.
    pub(crate) fn add(&mut self, conn: ConnId, entry: Entry) {
        let index = conn.index() as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, Slot::default);
        }
        let slot = &mut self.slots[index];
        debug_assert!(
            slot.generation == conn.generation() || matches!(slot.entries, Entries::None),
            "a slot is emptied before it is reused"
        );
        slot.generation = conn.generation();
        self.total += 1;
        match slot.entries {
            Entries::None => slot.entries = Entries::One(entry),
            Entries::One(first) => {
                slot.entries = Entries::Many(self.lists.insert(vec![first, entry]));
            }
            Entries::Many(list) => {
                if let Some(list) = self.lists.get_mut(list) {
                    list.push(entry);
                }
            }
        }
    }

    /// Notes that a subscription moved to another place.
    pub(crate) fn set_place(&mut self, index: u32, channel: u32, place: Place) {
        let entry = self
            .of_index_mut(index)
            .iter_mut()
            .find(|entry| entry.channel == channel);
        debug_assert!(entry.is_some(), "a member has an entry");
        if let Some(entry) = entry {
            entry.place = place;
        }
    }

    /// Takes one entry out.
    pub(crate) fn remove(&mut self, conn: ConnId, channel: u32) -> Option<Entry> {
        let slot = self.slots.get_mut(conn.index() as usize)?;
        if slot.generation != conn.generation() {
            return None;
        }
        let removed = match slot.entries {
            Entries::None => return None,
            Entries::One(entry) if entry.channel == channel => {
                slot.entries = Entries::None;
                entry
            }
            Entries::One(_) => return None,
            Entries::Many(list) => {
                let entries = self.lists.get_mut(list)?;
                let at = entries.iter().position(|entry| entry.channel == channel)?;
                let entry = entries.swap_remove(at);
                if let [last] = entries[..] {
                    slot.entries = Entries::One(last);
                    self.lists.remove(list);
                }
                entry
            }
        };
        self.removed(1);
        Some(removed)
    }

    /// Takes any one entry of a connection out; for a connection that leaves.
    pub(crate) fn remove_any(&mut self, conn: ConnId) -> Option<Entry> {
        let channel = self.of(conn).last()?.channel;
        self.remove(conn, channel)
    }

    fn removed(&mut self, count: usize) {
        self.total -= count;
        if self.total == 0 {
            self.slots = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn(index: u32, generation: u32) -> ConnId {
        ConnId::new(ShardId(0), index, generation)
    }

    fn entry(channel: u32) -> Entry {
        Entry {
            channel,
            place: Place::Member(channel * 10),
        }
    }

    #[test]
    fn a_slot_is_small() {
        assert!(size_of::<Slot>() <= 16, "{}", size_of::<Slot>());
    }

    #[test]
    fn a_stale_connection_finds_nothing() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.add(conn(5, 1), entry(1));
        subscriptions.add(conn(5, 1), entry(2));
        assert_eq!(subscriptions.find(conn(5, 1), 2), Some(Place::Member(20)));
        assert_eq!(subscriptions.find(conn(5, 2), 2), None);
        assert!(subscriptions.remove(conn(5, 2), 2).is_none());
        assert_eq!(subscriptions.total(), 2);
    }

    #[test]
    fn entries_come_and_go() {
        let mut subscriptions = Subscriptions::default();
        for channel in 0..5 {
            subscriptions.add(conn(0, 0), entry(channel));
        }
        assert_eq!(subscriptions.remove(conn(0, 0), 3).unwrap().channel, 3);
        assert!(subscriptions.remove(conn(0, 0), 3).is_none());
        let mut left: Vec<u32> = std::iter::from_fn(|| subscriptions.remove_any(conn(0, 0)))
            .map(|e| e.channel)
            .collect();
        left.sort_unstable();
        assert_eq!(left, [0, 1, 2, 4]);
        assert!(subscriptions.slots.is_empty(), "memory is given back");
        assert!(subscriptions.lists.is_empty());
    }
}
