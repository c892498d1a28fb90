//! Has the broker take a batch, in order.
//!
//! Rule for "full": a batch is what waits, [`crate::FeedOptions::batch_max`] events of it, and
//! nothing more is taken from the source meanwhile. What is refused for want of room is offered
//! again, and later events of its channel wait behind it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use throng_broker::{Acknowledge, Draft, Refusal, home_of};

use crate::inlet::{Inlet, Results, Round};
use crate::status::Status;

/// The first pause after a refusal, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// Between two looks whether the server ends, while an answer is waited for.
const LOOK: Duration = Duration::from_millis(200);
/// How long refusals may last until the batch goes back to its source, which may hold locks for it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A draft by its place in the batch, and what became of it this time.
type Offered = (usize, Result<(), Refusal>);

/// Why a batch was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTaken {
    /// The server ends, or hands over.
    Over,
    /// The broker refuses, for long.
    Refused(Refusal),
}

/// Offers drafts until each is accepted, or refused for good.
pub(crate) struct Publisher {
    pub(crate) inlet: Arc<dyn Inlet>,
    pub(crate) status: Arc<Status>,
    /// As in [`crate::FeedOptions`].
    pub(crate) is_on_disk: bool,
}

impl Publisher {
    /// Gives what became of each draft: a refusal here is for good. What was accepted before an
    /// error has been published; to offer the same again is safe. Calls `keep` about every
    /// [`LOOK`] meanwhile.
    pub(crate) fn publish(
        &self,
        drafts: &[Draft],
        keep: &mut dyn FnMut(),
    ) -> Result<Results, NotTaken> {
        let results = self.offer_all(drafts, keep)?;
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
            self.offer_all(&newest, keep)?;
        }
        Ok(results)
    }

    fn offer_all(&self, drafts: &[Draft], keep: &mut dyn FnMut()) -> Result<Results, NotTaken> {
        let mut results: Vec<Option<Result<(), Refusal>>> = vec![None; drafts.len()];
        let mut refused_since = None;
        let mut pause = PAUSES.0;
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
            for (n, result) in self.offer(drafts, &next, keep)? {
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
                pause = PAUSES.0;
                continue;
            };
            let since = *refused_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= PATIENCE {
                return Err(NotTaken::Refused(why));
            }
            thread::sleep(pause);
            keep();
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Offers these once, all shards at the same time.
    fn offer(
        &self,
        drafts: &[Draft],
        which: &[usize],
        keep: &mut dyn FnMut(),
    ) -> Result<Vec<Offered>, NotTaken> {
        let shards = self.inlet.shards();
        let mut parts: Vec<Vec<usize>> = vec![Vec::new(); usize::from(shards)];
        for &n in which {
            parts[home_of(&drafts[n].channel, shards).index()].push(n);
        }
        let (answer, answers) = channel();
        let mut waiting = 0;
        for (shard, part) in parts.iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let mut round = Some(Round {
                drafts: part.iter().map(|&n| drafts[n].clone()).collect(),
                number: shard as u32,
                answer: answer.clone(),
            });
            while let Some(offered) = round.take() {
                round = self.inlet.send(shard as u8, offered).err();
                if round.is_some() {
                    self.go_on()?;
                    thread::sleep(PAUSES.0);
                    keep();
                }
            }
            waiting += 1;
        }
        let mut found = Vec::with_capacity(which.len());
        while waiting > 0 {
            match answers.recv_timeout(LOOK) {
                Ok((number, results)) => {
                    waiting -= 1;
                    let part = parts[number as usize].iter().copied();
                    found.extend(part.zip(results));
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.go_on()?;
                    keep();
                }
                Err(RecvTimeoutError::Disconnected) => return Err(NotTaken::Over),
            }
        }
        Ok(found)
    }

    fn go_on(&self) -> Result<(), NotTaken> {
        match self.status.is_over() || self.status.is_paused() {
            true => Err(NotTaken::Over),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use throng_types::{ChannelName, Payload, PayloadKind};

    use super::*;

    /// Refuses each channel's first offers, and notes what it takes.
    #[derive(Default)]
    struct Moody {
        refusals_left: Mutex<u32>,
        taken: Mutex<Vec<String>>,
        synced: Mutex<Vec<String>>,
    }

    impl Inlet for Moody {
        fn shards(&self) -> u8 {
            2
        }

        fn send(&self, shard: u8, round: Round) -> Result<(), Round> {
            let mut names = HashSet::new();
            let take = |draft: &Draft| {
                assert_eq!(home_of(&draft.channel, 2).0, shard);
                assert!(names.insert(draft.channel.clone()), "one of each channel");
                let mut left = self.refusals_left.lock().unwrap();
                if *left > 0 {
                    *left -= 1;
                    return Err(Refusal::Busy);
                }
                if draft.channel.as_str() == "none:x" {
                    return Err(Refusal::UnknownChannel);
                }
                let key = draft.idempotency_key.as_deref().unwrap();
                if draft.acknowledge == Acknowledge::Synced {
                    let taken = self.taken.lock().unwrap();
                    assert!(taken.iter().any(|known| known == key), "a repeat");
                    self.synced.lock().unwrap().push(key.to_owned());
                    return Ok(());
                }
                self.taken.lock().unwrap().push(key.to_owned());
                Ok(())
            };
            let results = round.drafts.iter().map(take).collect();
            let _ = round.answer.send((round.number, results));
            Ok(())
        }
    }

    fn draft(channel: &str, key: &str) -> Draft {
        Draft {
            channel: ChannelName::new(channel).unwrap(),
            payload: Payload {
                bytes: b"1".as_slice().into(),
                kind: PayloadKind::Json,
            },
            publisher: None,
            tags: None,
            skip_history: false,
            idempotency_key: Some(key.into()),
            version: None,
            acknowledge: Acknowledge::Memory,
        }
    }

    #[test]
    fn order_holds_in_each_channel_while_some_is_refused() {
        for refusals in 0..6 {
            let inlet = Arc::new(Moody::default());
            *inlet.refusals_left.lock().unwrap() = refusals;
            let publisher = Publisher {
                inlet: inlet.clone(),
                status: Arc::new(Status::new("x", "postgres")),
                is_on_disk: refusals % 2 == 1,
            };
            let drafts = [
                draft("a", "a1"),
                draft("b", "b1"),
                draft("a", "a2"),
                draft("none:x", "n"),
                draft("a", "a3"),
                draft("b", "b2"),
            ];
            let results = publisher.publish(&drafts, &mut || {}).unwrap();
            for (draft, result) in drafts.iter().zip(&results) {
                let is_known = draft.channel.as_str() != "none:x";
                assert_eq!(result.is_ok(), is_known, "{result:?}");
            }
            let taken = inlet.taken.lock().unwrap();
            let of = |name: &str| {
                let theirs = taken.iter().filter(|key| key.starts_with(name));
                theirs.cloned().collect::<Vec<_>>()
            };
            assert_eq!(of("a"), ["a1", "a2", "a3"]);
            assert_eq!(of("b"), ["b1", "b2"]);
            let mut synced = inlet.synced.lock().unwrap().clone();
            synced.sort();
            let newest: &[&str] = if refusals % 2 == 1 {
                &["a3", "b2"]
            } else {
                &[]
            };
            assert_eq!(synced, newest, "the newest of each channel, behind all");
        }
    }
}
