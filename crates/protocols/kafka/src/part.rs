//! Bytes of an answer, shared and not copied.

use std::ops::Range;
use std::sync::Arc;

/// Some of the bytes that somebody else has too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) whole: Arc<[u8]>,
    pub(crate) range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.whole[self.range.clone()]
    }
}
