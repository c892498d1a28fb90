//! Which copy of everything is under way, and when it is complete.

/// A copy that shards are asked for.
struct Round {
    number: u64,
    /// First segment of the round: those before it go when it is complete.
    first: u64,
    /// Whether anything was lost since it began.
    is_whole: bool,
}

/// The copies of a writer.
#[derive(Default)]
pub(crate) struct Rounds {
    last: u64,
    current: Option<Round>,
    /// Something that shards said is not in the log.
    pub(crate) has_hole: bool,
}

impl Rounds {
    pub(crate) const fn is_under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Begins a copy with a segment; gives its number.
    pub(crate) fn begin(&mut self, first: u64) -> u64 {
        self.last += 1;
        self.current = Some(Round {
            number: self.last,
            first,
            is_whole: true,
        });
        self.last
    }

    /// Notes that records were lost, so that a new round of copies is due.
    pub(crate) fn lost(&mut self) {
        self.has_hole = true;
        if let Some(round) = &mut self.current {
            round.is_whole = false;
        }
    }

    /// Nothing is written at present, so no copy is.
    pub(crate) fn give_up(&mut self) {
        self.has_hole = true;
        self.current = None;
    }

    /// Each shard has written the copy of its number, and it is on the disk. Gives the segment
    /// before which all may go, if that completes the current one.
    pub(crate) fn copied(&mut self, mut shards: impl Iterator<Item = u64>) -> Option<u64> {
        let round = self.current.as_ref()?;
        if !shards.all(|number| number >= round.number) {
            return None;
        }
        let Round {
            first, is_whole, ..
        } = self.current.take()?;
        is_whole.then(|| {
            self.has_hole = false;
            first
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_when_every_shard_has_made_it_and_nothing_was_lost() {
        let mut rounds = Rounds::default();
        rounds.lost();
        assert_eq!(rounds.begin(7), 1);
        assert_eq!(rounds.copied([1, 0].into_iter()), None);
        assert!(rounds.has_hole && rounds.is_under_way());
        assert_eq!(rounds.copied([1, 1].into_iter()), Some(7));
        assert!(!rounds.has_hole && !rounds.is_under_way());
        assert_eq!(rounds.copied([1, 1].into_iter()), None);
        assert_eq!(rounds.begin(9), 2);
        rounds.lost();
        assert_eq!(rounds.copied([2, 2].into_iter()), None);
        assert!(
            rounds.has_hole && !rounds.is_under_way(),
            "it is made again"
        );
    }
}
