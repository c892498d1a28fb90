//! Events that both processes receive while one hands over to the other.
//!
//! Redis sends all its subscribers the same events in the same order, and keeps nothing for them.
//! So the new process subscribes before the old one stops, and each of its shards gets some events
//! that the old shard of its number has taken. The old one lists those it took lately, and the new
//! one leaves them out: nothing is doubled, and nothing is missing in between.
//!
//! Rule for "full": the oldest goes. An event that the old process took earlier than [`LATELY_MS`]
//! before it stopped, or more than [`TAKEN_MAX`] events before, would come twice.

use std::collections::VecDeque;

use throng_types::{Load, Millis, Save, Saved};

/// Milliseconds that a taken event is remembered; longer than a hand-over lasts.
const LATELY_MS: u64 = 30_000;
const TAKEN_MAX: usize = 8_192;
/// Rounds, about a second apart, after which the old process's events are forgotten: an equal
/// event, byte for byte, is another one then.
const LOOKS: u8 = 2;

/// Fingerprints of recent events: those this shard took, and those that the shard took which handed
/// over to it.
#[derive(Default)]
pub(crate) struct Overlap {
    /// Fingerprints of events, in order. Bound: [`TAKEN_MAX`], [`LATELY_MS`].
    taken: VecDeque<(Millis, u64)>,
    /// Fingerprints from the other shard, from the next on that may come again.
    before: Vec<u64>,
    next: usize,
    /// Rounds since everything received was taken.
    looks: Option<u8>,
}

impl Overlap {
    /// An event is at hand; true if the other shard has taken it.
    pub(crate) fn is_taken(&mut self, fingerprint: u64) -> bool {
        let rest = self.before.get(self.next..).unwrap_or_default();
        let Some(at) = rest.iter().position(|taken| *taken == fingerprint) else {
            return false;
        };
        self.next += at + 1;
        if self.next == self.before.len() {
            self.before = Vec::new();
        }
        true
    }

    pub(crate) fn take(&mut self, fingerprint: u64, now: Millis) {
        if self.taken.len() == TAKEN_MAX {
            self.taken.pop_front();
        }
        self.taken.push_back((now, fingerprint));
    }

    /// Forgets old events, once a second.
    pub(crate) fn forget(&mut self, now: Millis) {
        while let Some((at, _)) = self.taken.front()
            && now.since(*at) > LATELY_MS
        {
            self.taken.pop_front();
        }
        if self.taken.capacity() > 4 * self.taken.len() {
            self.taken.shrink_to(2 * self.taken.len());
        }
        if let Some(looks) = self.looks.as_mut() {
            *looks += 1;
            if *looks == LOOKS {
                (self.before, self.looks) = (Vec::new(), None);
            }
        }
    }

    /// Notes that everything received so far is taken: soon no event comes any more that the other
    /// shard has taken.
    pub(crate) fn rests(&mut self) {
        if !self.before.is_empty() && self.looks.is_none() {
            self.looks = Some(0);
        }
    }

    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        let fingerprints = self.taken.iter().map(|(_, fingerprint)| *fingerprint);
        Vec::from_iter(fingerprints).save(out);
    }

    pub(crate) fn load(&mut self, from: &mut Saved<'_>) -> Option<()> {
        let before = Vec::<u64>::load(from)?;
        (before.len() <= TAKEN_MAX).then_some(())?;
        (self.before, self.next, self.looks) = (before, 0, None);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(taken: &[u64]) -> Overlap {
        let mut old = Overlap::default();
        for (at, fingerprint) in taken.iter().enumerate() {
            old.take(*fingerprint, Millis(at as u64));
        }
        let (mut bytes, mut new) = (Vec::new(), Overlap::default());
        old.save(&mut bytes);
        new.load(&mut Saved::new(&bytes)).expect("what was saved");
        for cut in 0..bytes.len() {
            let damaged = &bytes[..cut];
            assert!(Overlap::default().load(&mut Saved::new(damaged)).is_none());
        }
        new
    }

    #[test]
    fn what_was_taken_is_left_out_once_and_in_order() {
        let mut new = after(&[1, 2, 3, 2, 5]);
        let heard = [2, 3, 2, 9, 5, 5, 1];
        let taken = heard.map(|event| new.is_taken(event));
        assert_eq!(taken, [true, true, true, false, true, false, false]);
        let mut new = after(&[1, 2, 3]);
        assert!(!new.is_taken(9));
        new.forget(Millis(0));
        assert!(new.is_taken(1), "there is much to be taken");
        new.rests();
        new.forget(Millis(0));
        assert!(new.is_taken(2));
        new.forget(Millis(0));
        assert!(!new.is_taken(3), "long after");
    }

    #[test]
    fn what_was_taken_is_bounded() {
        let mut old = Overlap::default();
        for event in 0..TAKEN_MAX as u64 + 10 {
            old.take(event, Millis(event));
        }
        assert_eq!(old.taken.len(), TAKEN_MAX);
        assert_eq!(old.taken.front(), Some(&(Millis(10), 10)));
        old.forget(Millis(LATELY_MS + 100));
        assert_eq!(old.taken.front(), Some(&(Millis(100), 100)));
    }
}
