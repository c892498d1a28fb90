//! A channel's order as bytes, for a process that takes over. What waits is saved by its owner.

use std::sync::Arc;

use throng_types::{Millis, Save, Saved, save_count};

use super::{Sequence, SequenceLimits, Waiting};

/// An item that waits: until when, its id, and the id before it.
type Saying = (Millis, (Option<Arc<str>>, Arc<str>));

impl<T> Sequence<T> {
    /// Appends it, with each item that waits by `save_item`.
    pub fn save(&self, out: &mut Vec<u8>, save_item: impl Fn(&T, &mut Vec<u8>)) {
        self.last_id.save(out);
        self.seen_order.save(out);
        save_count(self.waiting.len(), out);
        for waiting in &self.waiting {
            waiting.until.save(out);
            (waiting.id.clone(), waiting.prev_id.clone()).save(out);
            save_item(&waiting.item, out);
        }
    }

    /// Reads it back. What is more than the limits of now allow is left out: ids at once, and items
    /// as soon as another one comes.
    pub fn load(
        limits: SequenceLimits,
        from: &mut Saved<'_>,
        load_item: impl Fn(&mut Saved<'_>) -> Option<T>,
    ) -> Option<Self> {
        let mut this = Self::new(limits);
        this.last_id = Save::load(from)?;
        let seen = Vec::<(Millis, Arc<str>)>::load(from)?;
        let too_many = seen.len().saturating_sub(limits.ids_max);
        for (until, id) in seen.into_iter().skip(too_many) {
            if limits.id_ttl_ms > 0 && this.seen.insert(id.clone()) {
                this.seen_order.push_back((until, id));
            }
        }
        for _ in 0..from.count()? {
            let (until, (id, prev_id)) = Saying::load(from)?;
            let item = load_item(from)?;
            // One that follows on the last id would not have waited.
            let waits = this.last_id.as_ref() != Some(&prev_id);
            if waits && this.waiting.len() < limits.waiting_max {
                this.waiting.push_back(Waiting {
                    until,
                    id,
                    prev_id,
                    item,
                });
            }
        }
        Some(this)
    }
}
