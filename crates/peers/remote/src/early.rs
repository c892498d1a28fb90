//! Publications of a channel that are kept aside while an answer about it is on its way.
//!
//! Only where deliveries and answers take different roads through the broker, so that either may
//! come first.

use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_types::{Position, Publication};

/// Publications of one channel that wait for an answer, and their bytes. More of them are
/// forgotten, and looked for in the history.
const EARLY_MAX: usize = 256;
const EARLY_BYTES_MAX: usize = 1 << 20;

/// Publications that were delivered before the answer that they follow.
#[derive(Default)]
pub(crate) struct Early {
    /// In order, without a gap. Bound: [`EARLY_MAX`], [`EARLY_BYTES_MAX`].
    publications: Vec<Arc<Publication>>,
    bytes: usize,
}

impl Early {
    pub(crate) fn push(&mut self, publication: &Arc<Publication>) {
        let after = self.publications.last().and_then(|last| last.position);
        let follows = after
            .zip(publication.position)
            .is_none_or(|(last, it)| last.epoch == it.epoch && last.offset + 1 == it.offset);
        if !follows || self.publications.len() >= EARLY_MAX || self.bytes > EARLY_BYTES_MAX {
            self.publications.clear();
            self.bytes = 0;
        }
        self.bytes += publication.cost_bytes();
        self.publications.push(publication.clone());
    }

    /// Those behind a position.
    pub(crate) fn behind(&self, position: Position) -> Vec<Arc<Publication>> {
        let is_behind = |it: &&Arc<Publication>| {
            it.position
                .is_some_and(|at| at.epoch != position.epoch || at.offset > position.offset)
        };
        self.publications
            .iter()
            .filter(is_behind)
            .cloned()
            .collect()
    }
}

/// Makes an answer reach up to a position, by the publications in between.
pub(crate) fn continue_to(
    result: &mut Subscribed,
    top: Position,
    mut more: Vec<Arc<Publication>>,
    is_cache: bool,
) {
    result.position = Some(top);
    if let Recovery::Whole(missed) = &mut result.recovery {
        if is_cache {
            missed.clear();
            missed.extend(more.pop());
        } else {
            missed.append(&mut more);
        }
    }
}
