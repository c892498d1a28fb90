//! History and keys of a home, and their removal for lack of room or by age.
//!
//! Rule for "full": what would expire first is forgotten first. Idempotency keys have a part of
//! their own, so that a full history does not make a retried publication a second one.

use throng_types::{ChannelName, Millis, Now, Position};

use super::{Home, STREAM_BYTES};
use crate::Retention;
use crate::memory::keys::{KEYS_MAX, Keys};
use crate::memory::stream::NEVER;

/// Share of an equal part of the budget that idempotency keys may use: one in so many.
const KEYS_PART: usize = 8;

impl Home {
    /// Takes bytes for one more publication of a channel, and forgets the oldest for it. False if
    /// there is no room even then.
    pub(super) fn make_room(
        &mut self,
        channel: &ChannelName,
        bytes: usize,
        retention: Retention,
        now: Millis,
    ) -> bool {
        self.give_to_others(now);
        if let Some(key) = self.streams.key(channel) {
            let kept = |home: &Self| home.streams.at(key).map_or(0, |(_, stream)| stream.kept());
            while kept(self) >= retention.publications_max as usize && self.drop_oldest(key) {}
            self.expire(key, retention, now);
        }
        self.share.fits(bytes) && self.take(bytes, now)
    }

    /// Takes bytes of the share, and forgets the oldest publications for it.
    fn take(&mut self, bytes: usize, now: Millis) -> bool {
        while !self.share.take(bytes) {
            if !self.evict(now) {
                return false;
            }
        }
        true
    }

    /// Frees what homes below an equal part of the budget lack, if this one has more.
    fn give_to_others(&mut self, now: Millis) {
        if let Some(target) = self.share.target() {
            while self.share.used() > target && self.evict(now) {}
            self.share.settle();
        }
    }

    /// Forgets a publication of the stream whose turn to expire comes first. False if there is
    /// none.
    fn evict(&mut self, now: Millis) -> bool {
        let Some(&(_, key)) = self.expiring.first() else {
            return false;
        };
        self.drop_oldest(key);
        self.reschedule(key, now);
        true
    }

    /// Forgets the oldest publication of a stream; false if it has none.
    pub(super) fn drop_oldest(&mut self, key: u32) -> bool {
        let Some((channel, stream)) = self.streams.entry_mut(key) else {
            return false;
        };
        let Some(mut bytes) = stream.forget_oldest() else {
            return false;
        };
        if stream.kept() == 0 {
            bytes += STREAM_BYTES + channel.as_str().len();
            self.expiring.remove(&(stream.due, key));
            stream.due = NEVER;
        }
        self.history_publications -= 1;
        self.share.give(bytes);
        true
    }

    /// Forgets a stream's publications that are too old.
    pub(super) fn expire(&mut self, key: u32, retention: Retention, now: Millis) {
        let is_old = |home: &Self| {
            let oldest_at = home.streams.at(key).and_then(|(_, it)| it.oldest_at());
            oldest_at.is_some_and(|at| now.since(at) >= retention.ttl_ms)
        };
        while is_old(self) && self.drop_oldest(key) {}
    }

    /// Sets the next time to look at a stream, after its oldest publications went.
    fn reschedule(&mut self, key: u32, now: Millis) {
        let Some((channel, stream)) = self.streams.at(key) else {
            return;
        };
        let Some(oldest_at) = stream.oldest_at() else {
            return self.rest(key, now);
        };
        let due = oldest_at + self.retention(channel).ttl_ms;
        if let Some(stream) = self.streams.at_mut(key) {
            self.expiring.remove(&(stream.due, key));
            stream.due = due;
            self.expiring.insert((due, key));
        }
    }

    /// Does what is due: forgets old publications, streams and keys. Looks at no more than `budget`
    /// streams; true if more are due.
    pub(in crate::memory) fn tick(&mut self, now: Now, budget: usize) -> bool {
        let now = self.shifted(now).mono;
        self.note_live();
        while let Some(bytes) = self.keys.forget_expired(now) {
            self.share.give(bytes);
        }
        self.give_to_others(now);
        for _ in 0..budget {
            if let Some(&(_, key)) = self.expiring.first().filter(|(due, _)| *due <= now) {
                let channel = self.streams.at(key).map(|(channel, _)| channel);
                let retention = channel.map(|channel| self.retention(channel));
                self.expire(key, retention.unwrap_or_default(), now);
                self.reschedule(key, now);
            } else if let Some(&(due, key)) = self.idle.first().filter(|(due, _)| *due <= now) {
                self.idle.remove(&(due, key));
                self.forget(key);
            } else {
                return false;
            }
        }
        true
    }

    /// Remembers an idempotency key. For its bytes the oldest keys go, then the oldest
    /// publications.
    pub(super) fn remember_key(&mut self, key: &str, position: Option<Position>, now: Millis) {
        let cost = Keys::cost_bytes(key);
        let bytes_max = self.options.history.equal() / KEYS_PART;
        while self.keys.len() >= KEYS_MAX || self.keys.bytes() + cost > bytes_max {
            let Some(bytes) = self.keys.forget_oldest() else {
                return;
            };
            self.share.give(bytes);
        }
        if self.take(cost, now) {
            self.keys.insert(key, position, now);
        }
    }
}
