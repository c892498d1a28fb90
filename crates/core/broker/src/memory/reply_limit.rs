//! Limits of one reply with history.

use std::sync::Arc;

use throng_types::Publication;

/// Limits of one reply. A single publication may be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimit {
    /// Members of a channel at most; longer lists are refused.
    pub members_max: usize,
    /// Maximum number of publications.
    pub publications_max: usize,
    /// Their cost at most, in bytes.
    pub bytes_max: usize,
}

impl ReplyLimit {
    /// The first `wanted` publications, as far as one reply may have them.
    pub(super) fn cut<'a>(
        self,
        publications: impl Iterator<Item = &'a Arc<Publication>>,
        wanted: usize,
    ) -> Vec<Arc<Publication>> {
        let mut bytes = 0;
        publications
            .take(wanted.min(self.publications_max))
            .take_while(|publication| {
                let is_first = bytes == 0;
                bytes += publication.cost_bytes();
                is_first || bytes <= self.bytes_max
            })
            .cloned()
            .collect()
    }
}
