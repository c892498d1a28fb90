//! The model: what was published, what each client got, and whether that is what it had to get.
//!
//! Knows nothing of the server's insides: only what publishers sent and were answered, and what
//! clients asked and saw, each with its time. So it holds for one shard and for many, and for
//! whatever stands behind them.
//!
//! What must hold, for each subscription:
//! - what came was published in that channel, unchanged, each publication once;
//! - with one shard, nothing came that was answered to its publisher before the client asked for
//!   the channel, but what was recovered;
//! - all clients agree on the order: who sees `x` and then `y` at once, and loses nothing, sees
//!   what everybody sees; and what was answered before another was sent comes before it;
//! - offsets rise by one from where the server said that the subscription begins;
//! - a recovery is exactly what was missed, or nothing of it, and never fails without need;
//! - at the end, everything is there that was sent after the subscription stood. Only channels
//!   that may drop are excused, and then as many as are missing were told.

mod settle;

use std::collections::BTreeMap;

use throng_types::Epoch;

use crate::net::Net;
use crate::payload::{self, Got};
use crate::setup::CHANNELS;

/// An epoch and an offset.
pub(crate) type Place = (Epoch, u64);

#[derive(Default)]
struct Publication {
    channels: Vec<usize>,
    bytes: Vec<u8>,
    sent_us: u64,
    /// Time at which its publisher got the acknowledgement.
    acked_us: Option<u64>,
    /// Whether the server refused it.
    refused: bool,
    /// Whether it may have a place in history.
    keeps: bool,
    place: BTreeMap<usize, Place>,
}

/// Where a subscription began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Start {
    /// The server gave no place.
    #[default]
    Unknown,
    /// Begins behind this place.
    At(Place),
    /// Recovered from where another subscription ended.
    After(usize),
}

/// One subscription of one connection.
#[derive(Default)]
struct Track {
    who: String,
    channel: usize,
    conn: usize,
    user: String,
    asked_us: u64,
    begun_us: Option<u64>,
    start: Start,
    /// Numbers, as they came.
    got: Vec<u64>,
    /// Whether it was recovered: its first deliveries came from history, which lacks publications
    /// without a place.
    recovered: bool,
    active: bool,
    /// Nothing may be dropped in its connection.
    lossless: bool,
}

/// A recovery that was asked for.
struct Recovery {
    who: String,
    channel: usize,
    since: Place,
    to: Place,
    /// The numbers, if it succeeded.
    got: Option<Vec<u64>>,
    at_us: u64,
}

/// Knows what was published and what each client got, and checks it.
pub(crate) struct Witness {
    net: Net,
    tight: bool,
    /// There is one shard only: nothing is on its way between shards.
    alone: bool,
    publications: Vec<Publication>,
    tracks: Vec<Track>,
    recoveries: Vec<Recovery>,
    /// Dropped deliveries reported to each connection; none if it cannot be counted.
    told: BTreeMap<usize, Option<u64>>,
    /// Users whose subscriptions the server API ended, and when.
    meddled: Vec<(String, usize, u64)>,
}

impl Witness {
    pub(crate) fn new(net: &Net, tight: bool, alone: bool) -> Self {
        Self {
            net: net.clone(),
            tight,
            alone,
            publications: Vec::new(),
            tracks: Vec::new(),
            recoveries: Vec::new(),
            told: BTreeMap::new(),
            meddled: Vec::new(),
        }
    }

    fn now_us(&self) -> u64 {
        self.net.now_us()
    }

    pub(crate) fn channel(&self, name: &str) -> usize {
        let at = CHANNELS.iter().position(|channel| channel.name == name);
        at.unwrap_or_else(|| panic!("nobody asked for channel {name:?}"))
    }

    // ---- publishers ----

    /// The number of a publication that is about to be sent.
    pub(crate) const fn next_number(&self) -> u64 {
        self.publications.len() as u64
    }

    /// Records that a publication is sent now; its number was given by [`Self::next_number`].
    pub(crate) fn sends(&mut self, channels: &[usize], bytes: &[u8], keeps: bool) -> u64 {
        let n = self.next_number();
        self.publications.push(Publication {
            channels: channels.to_vec(),
            bytes: bytes.to_vec(),
            sent_us: self.now_us(),
            keeps,
            ..Publication::default()
        });
        n
    }

    /// Records the answer to its publisher: accepted or not.
    pub(crate) fn answered(&mut self, n: u64, accepted: bool) {
        let now_us = self.now_us();
        let publication = &mut self.publications[n as usize];
        if accepted {
            publication.acked_us = Some(now_us);
            self.net.count("a publication is accepted");
        } else {
            publication.refused = true;
        }
    }

    /// Records that a publication is accepted without an answer; it may still be on its way.
    pub(crate) fn accepts(&mut self, n: u64) {
        self.publications[n as usize].acked_us = Some(u64::MAX);
        self.net.count("a publication is accepted");
    }

    /// Records the place that a client was given for a publication; all must be given the same.
    pub(crate) fn stands(&mut self, n: u64, channel: usize, place: Place) {
        let publication = &mut self.publications[n as usize];
        assert!(publication.keeps, "n={n} was not to be kept");
        let known = *publication.place.entry(channel).or_insert(place);
        assert_eq!(known, place, "n={n} stands at two places");
    }

    /// A server API call ended the subscriptions of a user to a channel, maybe.
    pub(crate) fn meddles(&mut self, user: &str, channel: usize) {
        let now_us = self.now_us();
        self.meddled.push((user.to_owned(), channel, now_us));
    }

    // ---- clients ----

    /// A client asks for a channel. With `lossless`, nothing may be dropped in its connection.
    pub(crate) fn asks(
        &mut self,
        who: String,
        conn: usize,
        user: &str,
        channel: usize,
        lossless: bool,
    ) -> usize {
        self.told.entry(conn).or_insert(Some(0));
        self.tracks.push(Track {
            who,
            channel,
            conn,
            user: user.to_owned(),
            asked_us: self.now_us(),
            lossless,
            ..Track::default()
        });
        self.tracks.len() - 1
    }

    /// Another channel of the connection may drop, or drops can no longer be counted.
    pub(crate) fn blurs(&mut self, conn: usize) {
        self.told.insert(conn, None);
    }

    pub(crate) fn loses_sharpness(&mut self, track: usize) {
        self.tracks[track].lossless = false;
    }

    /// The client was told that its subscription has begun.
    pub(crate) fn begins(&mut self, track: usize, start: Start) {
        let now_us = self.now_us();
        let track = &mut self.tracks[track];
        assert!(track.begun_us.is_none(), "{}: subscribed twice", track.who);
        track.begun_us = Some(now_us);
        track.active = true;
        track.start = start;
        track.recovered = matches!(start, Start::After(_));
    }

    pub(crate) fn has_begun(&self, track: usize) -> bool {
        self.tracks[track].begun_us.is_some()
    }

    pub(crate) fn is_active(&self, track: usize) -> bool {
        self.tracks[track].active
    }

    /// The subscription has ended, or its connection has.
    pub(crate) fn ends(&mut self, track: usize) {
        self.tracks[track].active = false;
    }

    pub(crate) fn told_dropped(&mut self, conn: usize, count: u64) {
        self.net.add("a delivery is dropped", count);
        if let Some(told) = self.told.entry(conn).or_insert(Some(0)) {
            *told += count;
        }
    }

    /// A recovery was asked for, and answered. Of one that succeeded, what it brought.
    pub(crate) fn recovers(
        &mut self,
        who: String,
        channel: usize,
        since: Place,
        to: Place,
        got: Option<Vec<u64>>,
    ) {
        self.resumes(got.is_some());
        let at_us = self.now_us();
        self.recoveries.push(Recovery {
            who,
            channel,
            since,
            to,
            got,
            at_us,
        });
    }

    /// A client that came back was told whether it has missed nothing.
    pub(crate) fn resumes(&self, is_whole: bool) {
        self.net.count(match is_whole {
            true => "a recovery is whole",
            false => "a recovery is refused",
        });
    }

    /// Checks what a client got, wherever it came from; returns its number.
    pub(crate) fn checks(&self, who: &str, channel: usize, got: &Got<'_>) -> u64 {
        let name = CHANNELS[channel].name;
        let n = payload::number_of(got);
        let n = n.unwrap_or_else(|| panic!("{who}: {name}: data of nobody: {got:?}"));
        let publication = self.publications.get(n as usize);
        let publication = publication.unwrap_or_else(|| panic!("{who}: {name}: n={n}: never sent"));
        assert!(
            publication.channels.contains(&channel),
            "{who}: n={n} was not sent to {name}"
        );
        assert!(!publication.refused, "{who}: {name}: n={n} was refused");
        let same = payload::is_same(&publication.bytes, got);
        assert!(same, "{who}: {name}: n={n}: the data changed on their way");
        n
    }

    /// The channels of a publication, for protocols that do not name the channel.
    pub(crate) fn channels_of(&self, got: &Got<'_>) -> &[usize] {
        let n = payload::number_of(got).unwrap_or_else(|| panic!("data of nobody: {got:?}"));
        &self.publications[n as usize].channels
    }

    /// A subscription got a publication; with its offset if the protocol shows it.
    pub(crate) fn gets(&mut self, track: usize, got: &Got<'_>, offset: Option<u64>) {
        let Track { who, channel, .. } = &self.tracks[track];
        let channel = *channel;
        let n = self.checks(who, channel, got);
        let at = &mut self.tracks[track];
        assert!(at.active, "{}: n={n} without a subscription", at.who);
        assert!(!at.got.contains(&n), "{}: n={n} came twice", at.who);
        at.got.push(n);
        if let (Some(offset), Start::At((epoch, _))) = (offset, at.start) {
            self.stands(n, channel, (epoch, offset));
        }
        self.net.count(match channel {
            crate::setup::APPWRITE.. => "a client of Appwrite gets a publication",
            crate::setup::GRIP.. => "a client of GRIP gets a publication",
            _ => "a client gets a publication",
        });
    }
}
