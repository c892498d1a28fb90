//! Has the broker take a batch, in order.
//!
//! Rule for "full": a batch is what waits, [`crate::FeedOptions::batch_max`] events of it, and
//! nothing more is taken from the source meanwhile. What is refused for want of room is offered
//! again, and later events of its channel wait behind it.

use std::collections::HashSet;

use throng_broker::{Acknowledge, Draft, Refusal, home_of};
use throng_types::Millis;

use crate::inlet::{Inlet, Over, PublishResults};
use crate::source::{LOOK_MS, Source};

/// The first pause after a refusal, and the longest, in milliseconds.
const PAUSES_MS: (u64, u64) = (5, 1_000);
/// Time for which refusals may last until the batch goes back to its source, which may hold locks
/// for it, in milliseconds.
const PATIENCE_MS: u64 = 5_000;

/// A draft by its place in the batch, and its outcome this time.
type Offered = (usize, Result<(), Refusal>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The server ends, or hands over.
    Over,
    /// The broker refuses, for long.
    Refused(Refusal),
}

impl From<Over> for NotTaken {
    fn from(_: Over) -> Self {
        Self::Over
    }
}

/// Offers drafts until each is accepted, or refused for good.
pub(crate) struct Publisher {
    pub(crate) inlet: Inlet,
    is_on_disk: bool,
    keep_at: Millis,
}

impl Publisher {
    pub(crate) fn new(inlet: Inlet, is_on_disk: bool) -> Self {
        Self {
            keep_at: inlet.now(),
            inlet,
            is_on_disk,
        }
    }

    /// Returns the outcome of each draft: a refusal here is for good. What was accepted before an
    /// error has been published; to offer the same again is safe. Keeps the source about every
    /// [`LOOK_MS`] meanwhile.
    pub(crate) async fn publish(
        &mut self,
        drafts: &[Draft],
        source: &mut impl Source,
    ) -> Result<PublishResults, NotTaken> {
        self.keep_at = self.inlet.now() + LOOK_MS;
        let results = self.offer_all(drafts, source).await?;
        if self.is_on_disk {
            // The newest of each channel is repeated: by its key it is published no second time,
            // and the answer comes when the disk has all. One sync is enough for a batch so.
            let taken = drafts.iter().zip(&results).rev();
            let mut channels = HashSet::new();
            let newest: Vec<Draft> = { taken }
                .filter(|(draft, result)| result.is_ok() && channels.insert(&draft.channel))
                .map(|(draft, _)| Draft {
                    acknowledge: Acknowledge::Synced,
                    ..draft.clone()
                })
                .collect();
            self.offer_all(&newest, source).await?;
        }
        Ok(results)
    }

    async fn offer_all(
        &mut self,
        drafts: &[Draft],
        source: &mut impl Source,
    ) -> Result<PublishResults, NotTaken> {
        let mut results: Vec<Option<Result<(), Refusal>>> = vec![None; drafts.len()];
        let mut refused_since = None;
        let mut pause_ms = PAUSES_MS.0;
        loop {
            let open = (0..drafts.len()).filter(|&n| results[n].is_none());
            // The first of each channel.
            let mut channels = HashSet::new();
            let next: Vec<usize> = open
                .filter(|&n| channels.insert(&drafts[n].channel))
                .collect();
            if next.is_empty() {
                return Ok(results.into_iter().flatten().collect());
            }
            let mut busy = None;
            for (n, result) in self.offer(drafts, &next, source).await? {
                match result {
                    Err(
                        why @ (Refusal::Busy
                        | Refusal::Unavailable
                        | Refusal::Unknown
                        | Refusal::NotWritten
                        | Refusal::NotOnDisk),
                    ) => busy = Some(why),
                    result => results[n] = Some(result),
                }
            }
            let Some(why) = busy else {
                refused_since = None;
                pause_ms = PAUSES_MS.0;
                continue;
            };
            let now = self.inlet.now();
            if now - *refused_since.get_or_insert(now) >= PATIENCE_MS {
                return Err(NotTaken::Refused(why));
            }
            self.pause(now + pause_ms, source).await?;
            pause_ms = (pause_ms * 2).min(PAUSES_MS.1);
        }
    }

    /// Offers these once, all shards at the same time.
    async fn offer(
        &mut self,
        drafts: &[Draft],
        which: &[usize],
        source: &mut impl Source,
    ) -> Result<Vec<Offered>, Over> {
        let shards = self.inlet.shards;
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); usize::from(shards)];
        for &n in which {
            parts[home_of(&drafts[n].channel, shards).index()].push(n);
        }
        let part = |part: &Vec<usize>| part.iter().map(|&n| drafts[n].clone()).collect();
        let mut waiting = self.inlet.offer(parts.iter().map(part));
        let mut found = Vec::with_capacity(which.len());
        while waiting > 0 {
            if let Some((shard, results)) = self.inlet.next(self.keep_at).await? {
                waiting -= 1;
                let part = parts[usize::from(shard)].iter().copied();
                found.extend(part.zip(results));
            }
            self.keep(source).await;
        }
        Ok(found)
    }

    pub(crate) async fn pause(
        &mut self,
        until: Millis,
        source: &mut impl Source,
    ) -> Result<(), Over> {
        while self.inlet.now() < until {
            self.inlet.rest(until.min(self.keep_at)).await?;
            self.keep(source).await;
        }
        Ok(())
    }

    async fn keep(&mut self, source: &mut impl Source) {
        if self.keep_at <= self.inlet.now() {
            source.keep().await;
            self.keep_at = self.inlet.now() + LOOK_MS;
        }
    }
}
