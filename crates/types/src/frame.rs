//! Bytes encoded once and queued on many connections of one shard.

use std::ops::Deref;
use std::rc::Rc;

/// A delivery in its wire form, shared by reference inside one shard.
///
/// Cloning counts a reference without an atomic operation, which is why a frame
/// never leaves its shard; what crosses shards is the publication.
#[derive(Clone, Debug)]
pub struct Frame(Rc<[u8]>);

impl Frame {
    /// Copies encoded bytes into a shared frame.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Whether both are the same frame, not merely equal bytes.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
