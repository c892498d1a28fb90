//! A home's connection to its store, and the progress of a copy of everything.
//!
//! Never: the home's state; `home/writing.rs` decides what is written of it.

use crate::Store;

/// Record size in bytes up to which the buffer is reused; a larger buffer is freed.
const RECORD_KEPT_BYTES: usize = 64 << 10;

pub(super) struct Copy {
    pub(super) round: u64,
    /// The next key of an idempotency key, by its number.
    pub(super) next_used: u64,
    /// Key of the next stream.
    pub(super) next: u32,
    /// The offset that was written last of the stream before `next`, while it is not finished.
    pub(super) inside: Option<(u32, u64)>,
}

/// Connection of a home to its store.
pub(super) struct Journal {
    pub(super) store: Box<dyn Store>,
    record: Vec<u8>,
    /// The last copy that is complete.
    pub(super) done: u64,
    pub(super) copy: Option<Copy>,
}

impl Journal {
    /// A journal without records yet.
    pub(super) fn new(store: Box<dyn Store>) -> Self {
        Self {
            store,
            record: Vec::new(),
            done: 0,
            copy: None,
        }
    }

    /// Appends a record; gives its bytes.
    pub(super) fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.record.clear();
        write(&mut self.record);
        self.store.append(&self.record);
        let bytes = self.record.len();
        if bytes > RECORD_KEPT_BYTES {
            self.record = Vec::new();
        }
        bytes
    }

    /// Whether the copy is inside this stream.
    pub(super) fn is_inside(&self, key: u32) -> bool {
        let inside = self.copy.as_ref().and_then(|copy| copy.inside);
        inside.is_some_and(|(at, _)| at == key)
    }

    /// Ends the copy's part of a stream: new publications are written one by one again.
    pub(super) fn leave(&mut self, key: u32) {
        if self.is_inside(key)
            && let Some(copy) = &mut self.copy
        {
            copy.inside = None;
        }
    }
}
