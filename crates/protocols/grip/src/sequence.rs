//! The order of items in one channel: de-duplication, waiting for what comes before, and
//! what a reliable stream does with an item that does not follow.
//!
//! Owns: the ids that were seen, the last id, and the items that wait. Never: reads a clock,
//! delivers, or drops an item in silence: all that is offered comes out again, or its
//! verdict says that it was a duplicate.
//!
//! Invariants
//! - At most `waiting_max` items wait, each at most `wait_ms`.
//! - No waiting item follows the last id.
//! - `seen` and `seen_order` hold the same ids, at most `ids_max`, oldest first.

mod moving;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use throng_types::Millis;

/// Bounds of a [`Sequence`]. The defaults are Pushpin's, but for `ids_max`, which it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceLimits {
    /// How long an item waits for the one before it (`message_wait`).
    pub wait_ms: u64,
    /// How many items wait; when one more would, the oldest goes out first.
    pub waiting_max: usize,
    /// How long an id is remembered (`id_cache_ttl`); 0 remembers none.
    pub id_ttl_ms: u64,
    /// How many ids are remembered; when one more would be, the oldest is forgotten.
    pub ids_max: usize,
}

impl Default for SequenceLimits {
    fn default() -> Self {
        Self {
            wait_ms: 5000,
            waiting_max: 100,
            id_ttl_ms: 60_000,
            ids_max: 10_000,
        }
    }
}

/// What became of an item that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It is in `out`, maybe with others that had waited for it.
    Delivered,
    /// Its id was seen; it is gone.
    Duplicate,
    /// It waits until the item before it comes, or until its time is over.
    Waiting,
}

/// The order of one channel's items.
#[derive(Clone, Debug)]
pub struct Sequence<T> {
    limits: SequenceLimits,
    last_id: Option<Arc<str>>,
    /// In the order of arrival. Bound: [`SequenceLimits::waiting_max`].
    waiting: VecDeque<Waiting<T>>,
    seen: BTreeSet<Arc<str>>,
    /// Bound: [`SequenceLimits::ids_max`].
    seen_order: VecDeque<(Millis, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    until: Millis,
    id: Option<Arc<str>>,
    prev_id: Arc<str>,
    item: T,
}

/// The ids of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemIds<'i> {
    /// Its own.
    pub id: Option<&'i str>,
    /// That of the item before it.
    pub prev_id: Option<&'i str>,
}

impl<T> Sequence<T> {
    /// A channel of which nothing is known.
    #[must_use]
    pub fn new(limits: SequenceLimits) -> Self {
        Self {
            limits,
            last_id: None,
            waiting: VecDeque::new(),
            seen: BTreeSet::new(),
            seen_order: VecDeque::new(),
        }
    }

    /// The id of the item that went out last, if it had one: what a response hold with
    /// another `prev-id` has missed.
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Takes an item. `in_order` is false for an item with `no-seq` and for a channel that
    /// nobody listens to: then only duplicates are looked for.
    /// What is to be delivered now is appended to `out`, in order.
    pub fn offer(
        &mut self,
        now: Millis,
        ids: ItemIds<'_>,
        in_order: bool,
        item: T,
        out: &mut Vec<T>,
    ) -> Verdict {
        self.forget_old_ids(now);
        if let Some(id) = ids.id
            && !self.remember(now, id)
        {
            return Verdict::Duplicate;
        }
        if !in_order {
            out.push(item);
            return Verdict::Delivered;
        }
        let id = ids.id.map(Arc::from);
        match (self.last_id.as_deref(), ids.prev_id) {
            (Some(last), Some(prev)) if last != prev && self.limits.waiting_max > 0 => {
                self.waiting.push_back(Waiting {
                    until: now + self.limits.wait_ms,
                    id,
                    prev_id: prev.into(),
                    item,
                });
                if self.waiting.len() > self.limits.waiting_max {
                    self.release_oldest(out);
                }
                self.check_invariants();
                Verdict::Waiting
            }
            _ => {
                self.deliver(id, item, out);
                self.check_invariants();
                Verdict::Delivered
            }
        }
    }

    /// Notes the id of an item that went out past the order, because nobody listens: who comes
    /// with an older one has missed something.
    pub fn note_last(&mut self, id: Option<&str>) {
        if self.waiting.is_empty() {
            self.last_id = id.map(Arc::from);
        }
    }

    /// When [`Sequence::expire`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Millis> {
        self.waiting.front().map(|waiting| waiting.until)
    }

    /// Delivers the items whose time to wait is over, and what had waited for them.
    pub fn expire(&mut self, now: Millis, out: &mut Vec<T>) {
        self.forget_old_ids(now);
        while self.next_timeout().is_some_and(|until| until <= now) {
            self.release_oldest(out);
        }
        self.check_invariants();
    }

    /// The last subscriber has left: the order begins anew, and what waited has no receiver.
    /// Ids that were seen stay known. Returns how many items had waited.
    pub fn forget_order(&mut self) -> usize {
        self.last_id = None;
        let waited = self.waiting.len();
        self.waiting.clear();
        waited
    }

    /// Forgets the last id, so that the next item goes out whatever it follows. For a reliable
    /// stream that saw a gap.
    pub fn forget_last_id(&mut self) {
        self.last_id = None;
    }

    /// Whether nothing at all is known: the channel's entry can go.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.last_id.is_none() && self.waiting.is_empty() && self.seen_order.is_empty()
    }

    /// Notes an id; false if it was noted already.
    fn remember(&mut self, now: Millis, id: &str) -> bool {
        if self.limits.id_ttl_ms == 0 || self.limits.ids_max == 0 {
            return true;
        }
        if self.seen.contains(id) {
            return false;
        }
        if self.seen.len() >= self.limits.ids_max {
            self.forget_oldest_id();
        }
        let id: Arc<str> = id.into();
        self.seen.insert(Arc::clone(&id));
        self.seen_order.push_back((now + self.limits.id_ttl_ms, id));
        true
    }

    fn forget_old_ids(&mut self, now: Millis) {
        while self
            .seen_order
            .front()
            .is_some_and(|(until, _)| *until <= now)
        {
            self.forget_oldest_id();
        }
    }

    fn forget_oldest_id(&mut self) {
        if let Some((_, id)) = self.seen_order.pop_front() {
            self.seen.remove(&id);
        }
    }

    fn release_oldest(&mut self, out: &mut Vec<T>) {
        if let Some(waiting) = self.waiting.pop_front() {
            self.deliver(waiting.id, waiting.item, out);
        }
    }

    /// Delivers an item and the chain of items that waited for it.
    fn deliver(&mut self, id: Option<Arc<str>>, item: T, out: &mut Vec<T>) {
        self.last_id = id;
        out.push(item);
        while let Some(last) = &self.last_id {
            let Some(at) = self
                .waiting
                .iter()
                .position(|waiting| waiting.prev_id == *last)
            else {
                break;
            };
            let Some(next) = self.waiting.remove(at) else {
                break;
            };
            self.last_id = next.id;
            out.push(next.item);
        }
    }

    fn check_invariants(&self) {
        debug_assert!(self.waiting.len() <= self.limits.waiting_max);
        debug_assert!(self.seen.len() == self.seen_order.len());
        debug_assert!(
            self.waiting
                .iter()
                .all(|waiting| self.last_id.as_ref() != Some(&waiting.prev_id))
        );
    }
}

/// What a held client does with an item of a channel whose last id it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Follow {
    /// Deliver, and note the item's id as the client's last one.
    Deliver,
    /// The item does not follow: ask the backend (response), fetch the next link (stream)
    /// with the client's last ids, drop what is queued, and forget the channel's last id
    /// ([`Sequence::forget_last_id`]).
    Recover,
}

/// Whether an item follows what a held client has. A client without a last id takes all.
pub fn follow(client_last_id: Option<&str>, item_prev_id: Option<&str>) -> Follow {
    match client_last_id {
        Some(last) if item_prev_id != Some(last) => Follow::Recover,
        _ => Follow::Deliver,
    }
}
