//! What everybody must have seen. Knows nothing of the nodes' insides, nor of the broker's.
//!
//! A reader is *whole* from a moment on: from its first words, unless they say that it was
//! recovered, in which case since before. From that moment on it must get every publication that
//! is acknowledged later, once and in order, however often it moves between nodes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::net::Net;

/// A channel of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    pub(super) name: &'static str,
    /// Publications that are kept; none if zero.
    pub(super) history: usize,
}

pub(super) const CHANNELS: [Channel; 5] = [
    channel("plain:a", 0),
    channel("hist:a", 60),
    channel("hist:b", 60),
    channel("small:a", 2),
    channel("grip-a", 0),
];
/// The channel of GRIP, whose publications have no keys.
pub(super) const GRIP: usize = 4;

const fn channel(name: &'static str, history: usize) -> Channel {
    Channel { name, history }
}

/// Time for which publications and idempotency keys are kept, in milliseconds. No seed plays longer
/// without a word of it.
pub(super) const TTL_MS: u64 = 200_000;
/// Publications of one channel that may be under way.
const UNDER_WAY: usize = 12;
/// Time after which every node has heard of a start, in milliseconds.
const UNHEARD_MS: u64 = 15_000;
/// Epochs before its own that a stream remembers.
const EPOCHS: u64 = 8;

/// Publication, from its first attempt on.
struct Sent {
    channel: usize,
    /// Number of the first step that tried it.
    begun: u64,
    begun_ms: u64,
    /// Losses of the broker's before it.
    losses: u64,
    /// Number of hand-overs before it.
    handed_over: u64,
    /// Position, once acknowledged; none in channels without history.
    acknowledged: Option<Option<(String, u64)>>,
    /// Number of the step that did; none yet at the largest.
    acknowledged_at: u64,
}

/// Losses of a channel that the broker's faults explain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Excuses {
    /// Starts with less than all data.
    losses: u64,
    /// Starts of the broker, whatever it kept.
    starts: u64,
}

/// State of a reader, kept over its connections.
#[derive(Default)]
pub(super) struct Track {
    pub(super) name: String,
    channel: usize,
    /// Publications since it has been whole, in their order, with their offsets.
    got: Vec<(u64, Option<u64>)>,
    /// Step from which on it is whole. None: not now.
    whole_since: Option<u64>,
    /// Epoch of its position.
    epoch: String,
    heard_ms: u64,
    /// Behind no publication yet.
    is_at_start: bool,
    sent_until: usize,
}

/// Record of everything that was published and heard.
pub(super) struct Witness {
    net: Net,
    /// Publications by their numbers.
    sent: Vec<Sent>,
    /// Steps so far: which of two events came first.
    pub(super) step: u64,
    /// Messages of two publishers may come to two connections in different orders, so what has no
    /// position and is published at the cut of a hand-over may come from both processes.
    has_blurred_cuts: bool,
    excuses: Excuses,
    /// The broker's starts, and when they were.
    starts: Vec<(u64, Excuses)>,
    /// The broker's starts of which nodes had heard when an epoch was seen first.
    epochs: BTreeMap<String, Excuses>,
    /// Each publication's position in each epoch, as any reader had it.
    seen: BTreeMap<(usize, u64), BTreeSet<u64>>,
    /// Publications by their positions, as anybody told them, by channel and epoch.
    places: BTreeMap<(usize, String), BTreeMap<u64, u64>>,
    /// Nodes that handed over to another process.
    pub(super) handed_over: u64,
}

impl Track {
    /// Whether its channel keeps a history.
    pub(super) const fn keeps(&self) -> bool {
        CHANNELS[self.channel].history > 0
    }
}

impl Witness {
    pub(super) fn new(net: &Net, has_blurred_cuts: bool) -> Self {
        Self {
            net: net.clone(),
            sent: Vec::new(),
            step: 0,
            has_blurred_cuts,
            excuses: Excuses::default(),
            starts: Vec::new(),
            epochs: BTreeMap::new(),
            seen: BTreeMap::new(),
            places: BTreeMap::new(),
            handed_over: 0,
        }
    }

    fn now_ms(&self) -> u64 {
        self.net.now().unix_ms
    }

    /// A new publication; gives its number.
    pub(super) fn sends(&mut self, channel: usize) -> u64 {
        self.sent.push(Sent {
            channel,
            begun: self.step,
            begun_ms: self.now_ms(),
            losses: self.excuses.losses,
            handed_over: self.handed_over,
            acknowledged: None,
            acknowledged_at: u64::MAX,
        });
        self.sent.len() as u64 - 1
    }

    /// A publication was acknowledged.
    pub(super) fn acknowledged(&mut self, n: u64, told: &Value) {
        let sent = &mut self.sent[n as usize];
        let offset = told["offset"].as_u64().filter(|offset| *offset > 0);
        let epoch = told["epoch"].as_str().unwrap_or_default().to_owned();
        let keeps = CHANNELS[sent.channel].history > 0;
        assert_eq!(offset.is_some(), keeps, "publication {n}: {told}");
        if let Some(offset) = offset {
            Self::is_at(&mut self.places, (sent.channel, &epoch, offset), n);
        }
        sent.acknowledged = Some(offset.map(|offset| (epoch, offset)));
        sent.acknowledged_at = self.step;
        self.net.count("a publication is acknowledged");
    }

    /// A publication is at a position, where no other may be.
    fn is_at(
        places: &mut BTreeMap<(usize, String), BTreeMap<u64, u64>>,
        (channel, epoch, offset): (usize, &str, u64),
        n: u64,
    ) {
        let of_epoch = places.entry((channel, epoch.to_owned())).or_default();
        let other = *of_epoch.entry(offset).or_insert(n);
        let name = CHANNELS[channel].name;
        assert_eq!(
            other, n,
            "two publications are at {offset} of {epoch} in {name}"
        );
    }

    /// The broker started anew.
    pub(super) fn broker_started(&mut self, is_less: bool) {
        self.excuses.starts += 1;
        self.excuses.losses += u64::from(is_less);
        self.starts.push((self.now_ms(), self.excuses));
    }

    pub(super) fn reader(&self, name: String, channel: usize) -> Track {
        Track {
            name,
            channel,
            ..Track::default()
        }
    }

    /// First words of a connection.
    pub(super) fn begins(&mut self, track: &mut Track, words: &Value) {
        let resuming = words["resuming"] == true;
        let recovered = words["recovered"] == true;
        assert!(resuming || !recovered, "{}: {words}", track.name);
        if recovered {
            self.net.count("a reader comes back and misses nothing");
            return self.hears(track, words);
        }
        if resuming {
            self.net.count("a reader is told of a gap");
            self.excuse(track);
        }
        track.is_at_start = { words["id"].as_str() }.is_none_or(|id| id.ends_with(".0"));
        track.got.clear();
        track.whole_since = Some(self.step);
        self.hears(track, words);
    }

    /// Notes where a reader is, by the id of a line.
    fn hears(&mut self, track: &mut Track, line: &Value) {
        if let Some(epoch) = line["id"].as_str().and_then(|id| id.split('.').nth(1)) {
            track.epoch = epoch.to_owned();
            // The node may not have heard of the broker's newest start.
            let since_ms = self.now_ms().saturating_sub(UNHEARD_MS);
            let heard = self
                .starts
                .iter()
                .rev()
                .find(|(at_ms, _)| *at_ms < since_ms);
            let heard = heard.map_or_else(Excuses::default, |(_, excuses)| *excuses);
            self.epochs.entry(epoch.to_owned()).or_insert(heard);
        }
        track.heard_ms = self.now_ms();
        track.sent_until = self.sent.len();
    }

    /// Nothing was recovered: there is a reason for it.
    fn excuse(&self, track: &Track) {
        let channel = CHANNELS[track.channel];
        let more = self.sent[track.sent_until..].iter();
        let more = more.filter(|sent| sent.channel == track.channel).count();
        // Those on their way at that moment come later, too.
        let is_full = more + UNDER_WAY >= channel.history;
        let is_old = self.now_ms() >= track.heard_ms + TTL_MS / 2;
        let begun = self.epochs.get(&track.epoch).copied().unwrap_or_default();
        let has_lost = self.excuses.losses != begun.losses;
        let is_forgotten = self.excuses.starts - begun.starts >= EPOCHS;
        // A stream without publications is forgotten after some seconds without subscribers.
        let is_empty = track.is_at_start;
        assert!(
            is_empty || is_full || is_old || has_lost || is_forgotten,
            "{} was told of a gap that nothing explains: {more} publications since",
            track.name
        );
    }

    /// Notes a publication that a reader got.
    pub(super) fn gets(&mut self, track: &mut Track, n: u64, line: &Value) {
        let offset = line["offset"].as_u64();
        let sent = &self.sent[n as usize];
        let name = &track.name;
        assert_eq!(sent.channel, track.channel, "{name} got {n}");
        assert!(track.whole_since.is_some(), "{name} got {n} before a word");
        let is_known = track.got.iter().any(|(known, _)| *known == n);
        // A broker that has lost a key publishes it once more.
        let has_lost = self.excuses.losses != sent.losses;
        let is_at_cut = self.has_blurred_cuts && self.handed_over != sent.handed_over;
        if is_known && CHANNELS[track.channel].history == 0 && (has_lost || is_at_cut) {
            return;
        }
        assert!(!is_known, "{name} got {n} twice: {:?}", track.got);
        if let (Some((last, Some(before))), Some(now)) = (track.got.last(), offset) {
            let follows = now == before + 1;
            assert!(follows, "{name} got {n} at {now} behind {last} at {before}");
        }
        track.is_at_start = false;
        track.got.push((n, offset));
        self.net.count("a reader gets a publication");
        self.hears(track, line);
        if let Some(offset) = offset {
            let at = (track.channel, &*track.epoch, offset);
            Self::is_at(&mut self.places, at, n);
            self.seen
                .entry((track.channel, n))
                .or_default()
                .insert(offset);
        }
    }

    /// A reader's connection ended; it may come back.
    pub(super) fn leaves(track: &mut Track) {
        if CHANNELS[track.channel].history == 0 {
            // Nothing is kept for it.
            track.whole_since = None;
        }
    }

    /// Everything has come to rest, and all readers are connected.
    pub(super) fn settle<'a>(&self, tracks: impl Iterator<Item = &'a Track>) {
        for track in tracks {
            let name = &track.name;
            if CHANNELS[track.channel].history == 0 {
                // A node without a connection misses what nobody keeps.
                continue;
            }
            assert!(track.whole_since.is_some(), "{name} rests without a word");
            self.has_all(track);
        }
        if self.excuses.losses == 0 {
            self.offsets_agree();
        }
    }

    /// A reader has all that was acknowledged since it has been whole, but for what the broker may
    /// have lost before the reader had it: offsets show that nothing else is missing.
    pub(super) fn has_all(&self, track: &Track) {
        let Some(since) = track.whole_since else {
            return;
        };
        for (n, sent) in self.sent.iter().enumerate() {
            let is_due = sent.channel == track.channel && sent.begun > since;
            let is_lost = sent.losses != self.excuses.losses;
            if sent.acknowledged.is_none() || !is_due || is_lost {
                continue;
            }
            let has = track.got.iter().any(|(known, _)| *known == n as u64);
            let (name, at, got) = (&track.name, &sent.acknowledged, &track.got);
            assert!(
                has,
                "{name} has no {n}, acknowledged as {at:?}; whole since {since}, got {got:?}"
            );
        }
    }

    /// A publication has one offset for everybody: that with which it was acknowledged.
    fn offsets_agree(&self) {
        for ((channel, n), offsets) in &self.seen {
            let name = CHANNELS[*channel].name;
            assert_eq!(offsets.len(), 1, "{n} in {name} has several: {offsets:?}");
            if let Some(Some((_, offset))) = &self.sent[*n as usize].acknowledged {
                assert!(
                    offsets.contains(offset),
                    "{n} in {name}: {offset}, {offsets:?}"
                );
            }
        }
    }

    /// Whether nobody may know what became of a publication: something was lost, or as many others
    /// as its channel keeps, and those beside, may have come behind it.
    pub(super) fn may_wait(&self, n: u64, beside: impl Fn(bool) -> Option<usize>) -> bool {
        let Sent {
            channel,
            begun,
            losses,
            ..
        } = self.sent[n as usize];
        let Some(beside) = beside(CHANNELS[channel].history > 0) else {
            return false;
        };
        if losses != self.excuses.losses {
            return true;
        }
        let others = self.sent.iter().enumerate();
        let others = others.filter(|(other, _)| *other as u64 != n);
        let others = others.filter(|(_, sent)| sent.channel == channel);
        let others = others
            .filter(|(_, sent)| sent.acknowledged_at >= begun)
            .count();
        others >= CHANNELS[channel].history + beside
    }

    /// Whether a publication may be repeated by its key for some time.
    pub(super) fn may_repeat(&self, n: u64) -> bool {
        self.now_ms() < self.sent[n as usize].begun_ms + TTL_MS
    }
}
