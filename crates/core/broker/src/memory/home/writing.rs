//! Writes a home's state to its store, and writes all of it again in a copy.
//!
//! A copy goes through the streams by their keys, some in each step. A stream with a long history
//! is cut: while the copy is inside one, its new publications are not written by themselves, since
//! the copy comes to them; so a reader finds them in their order.
//!
//! Invariant: at any time, the records say everything that the home keeps, except what a copy that
//! is inside a stream has yet to write of it.

use throng_types::{ChannelName, Now, Position, Publication};

use super::{Copy, Home, Journal};
use crate::memory::stream::place_of;
use crate::store::{write_base, write_count, write_forgotten, write_key, write_published};
use crate::{Acknowledge, Draft, Reached, Store};

/// Bytes after which a step of a copy ends.
const STEP_BYTES: usize = 256 << 10;
/// Keys looked at after which a step of a copy ends.
const STEP_PLACES: usize = 4096;
/// Room in the store for a publication, besides its bytes: of its record, and of its key's.
const RECORD_BYTES: usize = 1024;

impl Home {
    /// With the shift of this home.
    pub(super) fn shifted(&self, now: Now) -> Now {
        Now {
            mono: now.mono + self.shift,
            ..now
        }
    }

    /// Writes all changes to this store from now on.
    pub(in crate::memory) fn write_to(&mut self, store: Box<dyn Store>) {
        self.journal = Some(Journal::new(store));
    }

    pub(super) fn note_lineage(&mut self) {
        let lineage = self.lineage();
        if let Some(journal) = &mut self.journal {
            journal.store.lineage(&lineage);
        }
    }

    /// Whether publications to be kept are refused, since they cannot be written.
    pub(in crate::memory) fn refuses(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.store.refuses())
    }

    /// Storage that a publication must reach before it is answered.
    #[inline]
    pub(in crate::memory) fn acknowledge(&self, draft: &Draft) -> Acknowledge {
        match self.journal {
            Some(_) => self.acknowledge_written(draft),
            None => Acknowledge::Memory,
        }
    }

    fn acknowledge_written(&self, draft: &Draft) -> Acknowledge {
        let options = { self.options.live.namespaces.find(&draft.channel) }
            .filter(|options| options.retention.keeps() && !draft.skip_history);
        let level = options.map(|options| options.acknowledge.max(draft.acknowledge));
        level.unwrap_or_default()
    }

    /// Whether the store has room for the records of a draft.
    pub(in crate::memory) fn has_place_for(&mut self, draft: &Draft) -> bool {
        let key = draft.idempotency_key.as_ref().map_or(0, |key| key.len());
        let bytes = draft.cost_bytes() + draft.channel.as_str().len() * 2 + key + RECORD_BYTES;
        let journal = self.journal.as_mut();
        journal.is_none_or(|journal| journal.store.takes(bytes))
    }

    /// The newest record, which covers everything published in a channel, and the stream's key if a
    /// copy has yet to come to it.
    pub(in crate::memory) fn written_by(
        &mut self,
        channel: &ChannelName,
        level: Acknowledge,
    ) -> (u64, Option<u32>) {
        let key = self.streams.key(channel);
        let inside = key.filter(|key| self.is_copied_inside(*key));
        (self.newest_record(level), inside)
    }

    /// Number of the newest record; asks the store to bring it to `level` soon.
    pub(in crate::memory) fn newest_record(&mut self, level: Acknowledge) -> u64 {
        let Some(journal) = &mut self.journal else {
            return 0;
        };
        journal.store.hurry(level);
        journal.store.newest()
    }

    /// Whether a copy is inside this stream.
    pub(in crate::memory) fn is_copied_inside(&self, key: u32) -> bool {
        let journal = self.journal.as_ref();
        journal.is_some_and(|journal| journal.is_inside(key))
    }

    /// Progress of records towards the disk.
    pub(in crate::memory) fn reached(&self) -> Reached {
        let journal = self.journal.as_ref();
        journal.map_or_else(Reached::default, |journal| journal.store.reached())
    }

    pub(super) fn note_live(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.store.live(self.share.used());
        }
    }

    /// Writes down the newest publication of a stream.
    pub(super) fn note_published(&mut self, key: u32, publication: &Publication) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        if !journal.is_inside(key)
            && let Some(position) = publication.position
        {
            let version = self.versions.get(&key);
            journal.write(|out| write_published(publication, place_of(position), version, out));
        }
    }

    /// Writes where a stream stands that keeps nothing.
    pub(super) fn note_base(&mut self, key: u32) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let Some((channel, stream)) = self.streams.at(key).filter(|(_, it)| it.top > 0) else {
            return;
        };
        journal.leave(key);
        let place = (channel, stream.generation, stream.top);
        let version = self.versions.get(&key);
        let tops = self.ancestry.tops(key, stream.start());
        journal.write(|out| write_base(place, version, &tops, out));
    }

    /// Writes that a stream was forgotten, and which generation comes next.
    pub(super) fn note_forgotten(&mut self, key: u32, channel: &ChannelName) {
        if let Some(journal) = &mut self.journal {
            journal.leave(key);
            journal.write(|out| write_forgotten(channel, self.forgotten, out));
        }
    }

    pub(super) fn note_key(&mut self, text: &str, position: Option<Position>, at_unix_ms: u64) {
        if let Some(journal) = &mut self.journal {
            journal.write(|out| write_key(text, at_unix_ms, position.map(place_of), out));
        }
    }

    /// Continues a copy, if one is due; true if there is more to do now.
    pub(in crate::memory) fn copy(&mut self, now: Now) -> bool {
        let Some(mut journal) = self.journal.take() else {
            return false;
        };
        let more = self.copy_to(&mut journal, self.shifted(now));
        self.journal = Some(journal);
        more
    }

    fn copy_to(&mut self, journal: &mut Journal, now: Now) -> bool {
        let round = journal.store.round();
        if round == journal.done {
            return false;
        }
        let mut copy = match journal.copy.take() {
            Some(copy) if copy.round == round => copy,
            before => {
                journal.write(|out| write_count(self.forgotten, out));
                Copy {
                    round,
                    next_used: 0,
                    next: 0,
                    // The copy's pending records are stored nowhere else.
                    inside: before.and_then(|copy| copy.inside),
                }
            }
        };
        let mut bytes = 0;
        for _ in 0..STEP_PLACES {
            if bytes >= STEP_BYTES || !journal.store.has_room() {
                let goes_on = bytes > 0;
                journal.copy = Some(copy);
                return goes_on;
            }
            match self.copy_one(journal, &mut copy, now) {
                Some(written) => bytes += written,
                None => {
                    journal.done = round;
                    journal.store.copied(round);
                    return false;
                }
            }
        }
        journal.copy = Some(copy);
        true
    }

    /// Writes one more record, or passes one place; `None` at the end.
    fn copy_one(&self, journal: &mut Journal, copy: &mut Copy, now: Now) -> Option<usize> {
        if let Some((number, at, text, position)) = self.keys.after(copy.next_used) {
            copy.next_used = number + 1;
            let at_unix_ms = now.unix_ms.saturating_sub(now.mono.since(at));
            let position = position.map(place_of);
            return Some(journal.write(|out| write_key(text, at_unix_ms, position, out)));
        }
        if let Some((key, written)) = copy.inside {
            return Some(self.copy_inside(journal, copy, (key, written)));
        }
        if copy.next >= self.streams.bound() {
            return None;
        }
        let key = copy.next;
        copy.next += 1;
        let Some((_, stream)) = self.streams.at(key).filter(|(_, it)| it.top > 0) else {
            return Some(0);
        };
        Some(self.copy_base(journal, copy, key, stream.first() - 1))
    }

    /// Writes where a stream stands, before the publications that follow.
    fn copy_base(&self, journal: &mut Journal, copy: &mut Copy, key: u32, before: u64) -> usize {
        let Some((channel, stream)) = self.streams.at(key) else {
            return 0;
        };
        // Positions before the kept publications are of no use.
        let mut tops = self.ancestry.tops(key, stream.start());
        tops.retain(|(_, top)| *top >= before);
        copy.inside = Some((key, before));
        let place = (channel, stream.generation, before);
        journal.write(|out| write_base(place, self.versions.get(&key), &tops, out))
    }

    fn copy_inside(
        &self,
        journal: &mut Journal,
        copy: &mut Copy,
        (key, written): (u32, u64),
    ) -> usize {
        let Some((_, stream)) = self.streams.at(key) else {
            copy.inside = None;
            return 0;
        };
        let first = stream.first();
        if written + 1 < first || written > stream.top {
            // The pending publications have gone meanwhile, or another stream has the key.
            return self.copy_base(journal, copy, key, first - 1);
        }
        let at = (written + 1 - first) as usize;
        let Some(kept) = stream.log.as_ref().and_then(|log| log.get(at)) else {
            copy.inside = None;
            return 0;
        };
        copy.inside = Some((key, written + 1));
        let place = (stream.generation, written + 1);
        let version = self.versions.get(&key);
        journal.write(|out| write_published(&kept.publication, place, version, out))
    }

    /// Stops a copy; first writes what only it would have written.
    pub(super) fn end_copy(&mut self) {
        let Some(mut journal) = self.journal.take() else {
            return;
        };
        if let Some(mut copy) = journal.copy.take() {
            while let Some(inside) = copy.inside {
                self.copy_inside(&mut journal, &mut copy, inside);
            }
        }
        self.journal = Some(journal);
    }
}

/// Writes the publications that a copy has pending when the server ends.
impl Drop for Home {
    fn drop(&mut self) {
        self.end_copy();
    }
}
