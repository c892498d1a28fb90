//! Checks of everything that was published and received, made at rest.

use std::collections::{BTreeMap, BTreeSet};

use throng_types::Epoch;

use super::{Place, Publication, Recovery, Start, Track, Witness};
use crate::setup::CHANNELS;

impl Witness {
    fn place(&self, n: u64, channel: usize) -> Option<Place> {
        self.publications[n as usize].place.get(&channel).copied()
    }

    fn start_of(&self, track: usize) -> Option<Place> {
        match self.tracks[track].start {
            Start::Unknown => None,
            Start::At(place) => Some(place),
            Start::After(before) => self.end_of(before),
        }
    }

    fn end_of(&self, track: usize) -> Option<Place> {
        let Track { got, channel, .. } = &self.tracks[track];
        let start = self.start_of(track);
        got.iter()
            .fold(start, |at, &n| self.behind(at, n, *channel))
    }

    /// The next place, after `before` and one publication.
    fn behind(&self, at: Option<Place>, n: u64, channel: usize) -> Option<Place> {
        let place = self.place(n, channel);
        // It has a place even if no client was told which.
        let keeps = u64::from(self.publications[n as usize].keeps);
        place.or_else(|| at.map(|(epoch, offset)| (epoch, offset + keeps)))
    }

    /// Checks everything, at rest.
    pub(crate) fn settle(&self) {
        for track in 0..self.tracks.len() {
            self.settle_places(track);
            self.settle_order(track);
            self.settle_whole(track);
        }
        self.settle_rows();
        self.settle_drops();
        for recovery in &self.recoveries {
            self.settle_recovery(recovery);
        }
    }

    /// Offsets rise by one from where the subscription began.
    fn settle_places(&self, at: usize) {
        let track = &self.tracks[at];
        let mut before = self.start_of(at);
        for &n in &track.got {
            if let (Some((epoch, offset)), Some(place)) = (before, self.place(n, track.channel)) {
                assert_eq!(epoch, place.0, "{}: the epoch changed at n={n}", track.who);
                let next = place.1 == offset + 1 || !track.lossless && place.1 > offset;
                assert!(next, "{}: n={n} at {} behind {offset}", track.who, place.1);
            }
            before = self.behind(before, n, track.channel);
        }
    }

    /// Checks order: a publication acknowledged before another was sent comes before it. With one
    /// shard, a subscription without recovery gets nothing acknowledged before it was asked for.
    fn settle_order(&self, at: usize) {
        let track = &self.tracks[at];
        let acked_us = |n: u64| self.publications[n as usize].acked_us.unwrap_or(u64::MAX);
        let mut newest_sent_us = 0;
        for &n in &track.got {
            let swapped = acked_us(n) < newest_sent_us;
            assert!(!swapped, "{}: n={n} comes behind later ones", track.who);
            newest_sent_us = newest_sent_us.max(self.publications[n as usize].sent_us);
            // A shard with subscribers may have it still on its way.
            let early = self.alone && !track.recovered && acked_us(n) < track.asked_us;
            assert!(!early, "{}: n={n} is from before", track.who);
        }
    }

    /// Everything came that was sent after the subscription stood.
    fn settle_whole(&self, at: usize) {
        let track = &self.tracks[at];
        let (Some(begun_us), true, true) = (track.begun_us, track.active, track.lossless) else {
            return;
        };
        let ended = |(user, channel, at_us): &(String, usize, u64)| {
            *user == track.user && *channel == track.channel && *at_us >= track.asked_us
        };
        if self.meddled.iter().any(ended) {
            return;
        }
        let got: BTreeSet<u64> = track.got.iter().copied().collect();
        for (n, publication) in self.publications.iter().enumerate() {
            let owed = publication.acked_us.is_some()
                && publication.sent_us > begun_us
                && publication.channels.contains(&track.channel);
            let came = got.contains(&(n as u64));
            let name = CHANNELS[track.channel].name;
            assert!(!owed || came, "{}: n={n} of {name} never came", track.who);
        }
    }

    /// Checks that lossless clients of a channel all saw one sequence.
    fn settle_rows(&self) {
        let mut next: BTreeMap<(usize, u64), (u64, &str)> = BTreeMap::new();
        for track in &self.tracks {
            if !track.lossless || track.recovered {
                continue;
            }
            for pair in track.got.windows(2) {
                let (n, follows) = (pair[0], pair[1]);
                let seen = *next
                    .entry((track.channel, n))
                    .or_insert((follows, &track.who));
                assert_eq!(
                    seen.0, follows,
                    "{} and {} saw others behind n={n}",
                    seen.1, track.who
                );
            }
        }
    }

    /// Checks that the drops a client was told of are those it had, where both can be counted.
    fn settle_drops(&self) {
        for (&conn, &told) in &self.told {
            let mut tracks = (0..self.tracks.len()).filter(|&at| self.tracks[at].conn == conn);
            let Some(told) = told else { continue };
            let missing = tracks.try_fold(0, |sum, at| {
                let track = &self.tracks[at];
                if track.lossless {
                    return Some(sum);
                }
                let (epoch, from) = self.start_of(at).filter(|_| track.active)?;
                let kept = track
                    .got
                    .iter()
                    .filter_map(|&n| self.place(n, track.channel));
                let kept = kept.count() as u64;
                // Publications without a place cannot be counted.
                (kept == track.got.len() as u64).then_some(())?;
                let top = self.top(track.channel, epoch)?.max(from);
                Some(sum + top.checked_sub(from + kept)?)
            });
            if let Some(missing) = missing {
                assert_eq!(
                    missing, told,
                    "connection {conn}: what was dropped was told"
                );
            }
        }
    }

    /// The newest offset of a channel in an epoch; none if something of it is uncertain.
    fn top(&self, channel: usize, epoch: Epoch) -> Option<u64> {
        let all = || {
            let all = self.publications.iter();
            all.filter(|publication| publication.channels.contains(&channel))
        };
        let certain = all().all(|one| one.refused || one.place.contains_key(&channel));
        let newest = all().filter_map(|one| one.place.get(&channel));
        let newest = newest.filter(|place| place.0 == epoch);
        certain.then(|| newest.map(|&(_, offset)| offset).max().unwrap_or(0))
    }

    fn settle_recovery(&self, recovery: &Recovery) {
        let Recovery {
            who,
            channel,
            since,
            to,
            ..
        } = recovery;
        let options = CHANNELS[*channel];
        if let Some(got) = &recovery.got {
            assert_eq!(since.0, to.0, "{who}: recovered over an epoch");
            let offsets: Vec<u64> = got
                .iter()
                .filter_map(|&n| self.place(n, *channel))
                .map(|(_, offset)| offset)
                .collect();
            let expected: Vec<u64> = (since.1 + 1..=to.1).collect();
            assert_eq!(
                offsets, expected,
                "{who}: {}: what was missed",
                options.name
            );
            return;
        }
        if since.0 != to.0 || to.1 < since.1 || self.tight && since.1 < to.1 {
            return;
        }
        let missed: Vec<&Publication> = self
            .publications
            .iter()
            .filter(|publication| {
                let place = publication.place.get(channel);
                place.is_some_and(|at| at.0 == to.0 && at.1 > since.1 && at.1 <= to.1)
            })
            .collect();
        let known = missed.len() as u64 == to.1 - since.1;
        let few = to.1 - since.1 <= options.history.0;
        let is_young = |publication: &&Publication| {
            (recovery.at_us - publication.sent_us) / 1000 < options.history.1
        };
        let possible = known && few && missed.iter().all(is_young);
        assert!(
            !possible,
            "{who}: {}: {since:?} to {to:?} could be recovered",
            options.name
        );
    }
}
