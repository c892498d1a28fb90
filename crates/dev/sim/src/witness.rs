//! The shadow model: what was accepted in each channel, in which order, and what follows.
//!
//! It sees what homes are told and what they answer, and knows by its own arithmetic what
//! the answers must be; clients then ask it whether what they got is what they had to get.
//!
//! Publications of a channel have places 1, 2, 3, … in the order in which they were accepted;
//! place 0 is before all. Offsets are the server's; places are the witness's.

mod clients;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use throng_broker::{ChannelOptions, Draft, Recovery, Subscribed, Ticket};
use throng_types::{ChannelName, ConnId, Epoch, Now, Position, Publication, ShardId};

use crate::payload;
use crate::rng::Rng;
use crate::setup::{CHANNELS, FEW, Setup};
use crate::trace::Trace;

/// A publication that was accepted.
struct Entry {
    n: u64,
    payload: Vec<u8>,
    position: Option<Position>,
    at_ms: u64,
}

/// One channel.
struct Channel {
    name: ChannelName,
    options: ChannelOptions,
    entries: Vec<Entry>,
    places: BTreeMap<u64, usize>,
    /// The life of the stream, once an answer has named it, and those before it.
    epoch: Option<Epoch>,
    epochs_before: Vec<Epoch>,
    /// The newest offset in this life.
    top: u64,
}

impl Channel {
    fn positioned(&self) -> impl DoubleEndedIterator<Item = (usize, &Entry, u64)> {
        let entries = self.entries.iter().enumerate();
        entries.filter_map(|(at, entry)| {
            let position = entry.position.filter(|p| Some(p.epoch) == self.epoch)?;
            Some((at + 1, entry, position.offset))
        })
    }

    /// Whether the home must still have what was accepted then, unless its bytes ran out.
    fn is_young(&self, entry: &Entry, now: Now) -> bool {
        now.mono.0 - entry.at_ms < self.options.retention.ttl_ms
    }

    /// Whether everything after an offset must still be there.
    fn has_all_after(&self, offset: u64, now: Now) -> bool {
        let missed = self.top - offset;
        let mut newer = self
            .positioned()
            .rev()
            .take_while(|(_, _, at)| *at > offset);
        missed <= u64::from(self.options.retention.publications_max)
            && newer.all(|(_, entry, _)| self.is_young(entry, now))
    }

    /// Takes notice of the life that an answer names. `top` is the newest offset before it.
    fn see_epoch(&mut self, epoch: Epoch, interest: u64, now: Now) {
        if self.epoch == Some(epoch) {
            return;
        }
        if let Some(before) = self.epoch
            && self.top > 0
        {
            assert_eq!(
                interest, 0,
                "{}: a stream with subscribers began anew",
                self.name
            );
            let young = self
                .positioned()
                .any(|(_, entry, _)| self.is_young(entry, now));
            assert!(!young, "{}: a stream with history began anew", self.name);
            assert!(
                !self.epochs_before.contains(&epoch),
                "{}: {epoch:?} is used twice",
                self.name
            );
            self.epochs_before.push(before);
        }
        assert!(
            !self.epochs_before.contains(&epoch),
            "{}: {epoch:?} came back",
            self.name
        );
        (self.epoch, self.top) = (Some(epoch), 0);
    }
}

/// See the module's head.
pub(crate) struct Witness {
    pub(crate) now: Now,
    pub(crate) step: usize,
    pub(crate) trace: Trace,
    channels: Vec<Channel>,
    by_name: BTreeMap<String, usize>,
    /// Whether one publication goes to several channels at once. Then protocols that do not
    /// name the channel have one channel only, so that it can be told what belongs where.
    pub(crate) broadcasts: bool,
    /// Whether the server API often ends connections and subscriptions.
    pub(crate) meddling: bool,
    /// Everybody is in the same few channels.
    crowded: bool,
    /// History may go before its time, because few bytes of it are kept.
    tight: bool,
    /// The newest place that each shard has taken, as far as it is subscribed.
    seen: BTreeMap<(ShardId, usize), usize>,
    /// Where subscriptions begin whose answers are on their way.
    starts: BTreeMap<(ShardId, u32), (usize, usize)>,
    /// Where subscriptions begin whose answers the sessions have been given.
    joined: BTreeMap<(ConnId, usize), VecDeque<usize>>,
    /// Subscriptions that the server API ended.
    ended: BTreeSet<(ConnId, usize)>,
    numbers: u64,
    /// Publications accepted, for the summary.
    pub(crate) accepted: u64,
    /// Publications that clients got.
    pub(crate) received: u64,
    /// Recoveries that were whole, and that were not.
    pub(crate) recoveries: (u64, u64),
    /// Deliveries that were forgotten for slow clients.
    pub(crate) dropped: u64,
}

impl Witness {
    pub(crate) fn new(setup: &Setup, trace: Trace) -> Self {
        let channel = |name: &&str| {
            let name = ChannelName::new(name).expect("a name");
            Channel {
                options: *setup.namespaces.find(&name).expect("configured"),
                name,
                entries: Vec::new(),
                places: BTreeMap::new(),
                epoch: None,
                epochs_before: Vec::new(),
                top: 0,
            }
        };
        Self {
            now: Now::default(),
            step: 0,
            trace,
            channels: CHANNELS.iter().map(channel).collect(),
            by_name: CHANNELS
                .iter()
                .enumerate()
                .map(|(at, name)| ((*name).to_owned(), at))
                .collect(),
            broadcasts: setup.broadcasts,
            meddling: setup.meddling,
            crowded: setup.crowded,
            tight: setup.tight,
            seen: BTreeMap::new(),
            starts: BTreeMap::new(),
            joined: BTreeMap::new(),
            ended: BTreeSet::new(),
            numbers: 0,
            accepted: 0,
            received: 0,
            recoveries: (0, 0),
            dropped: 0,
        }
    }

    /// Notes an event, if anybody wants to read it.
    pub(crate) fn note(&mut self, words: impl FnOnce() -> String) {
        self.trace.note(self.step, self.now, words);
    }

    /// A number for a new publication.
    pub(crate) const fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Some channel; with `open` one that takes no token of its own.
    pub(crate) fn draw_channel(&self, open: bool, rng: &mut Rng) -> usize {
        if self.crowded {
            return rng.pick(&FEW);
        }
        // The last one is private.
        rng.below(self.channels.len() - usize::from(open))
    }

    pub(crate) fn name(&self, channel: usize) -> &str {
        self.channels[channel].name.as_str()
    }

    pub(crate) fn options(&self, channel: usize) -> ChannelOptions {
        self.channels[channel].options
    }

    pub(crate) fn channel(&self, name: &str) -> usize {
        *self
            .by_name
            .get(name)
            .unwrap_or_else(|| panic!("nobody asked for channel {name:?}"))
    }

    /// The newest place of a channel.
    pub(crate) fn last_place(&self, channel: usize) -> usize {
        self.channels[channel].entries.len()
    }

    // ---- what homes do ----

    /// A home accepted a draft and gave it a position.
    pub(crate) fn accepted(&mut self, draft: &Draft, position: Option<Position>, interest: u64) {
        let at = self.channel(draft.channel.as_str());
        let now = self.now;
        let channel = &mut self.channels[at];
        let n = payload::number(&draft.payload.bytes).expect("data of ours");
        let keeps = channel.options.retention.keeps() && !draft.skip_history;
        assert_eq!(
            position.is_some(),
            keeps,
            "{}: positions are for history",
            channel.name
        );
        if let Some(position) = position {
            channel.see_epoch(position.epoch, interest, now);
            channel.top += 1;
            assert_eq!(
                position.offset, channel.top,
                "{}: offsets rise by one",
                channel.name
            );
        }
        channel.entries.push(Entry {
            n,
            payload: draft.payload.bytes.to_vec(),
            position,
            at_ms: now.mono.0,
        });
        let place = channel.entries.len();
        assert!(channel.places.insert(n, place).is_none(), "accepted twice");
        self.accepted += 1;
        self.note(|| {
            format!(
                "accept n={n} in {} at {position:?}, place {place}",
                draft.channel
            )
        });
    }

    /// A home answered a subscribe.
    pub(crate) fn subscribed(
        &mut self,
        name: &ChannelName,
        since: Option<Position>,
        interest: u64,
        result: &Subscribed,
    ) {
        let (at, now, tight) = (self.channel(name.as_str()), self.now, self.tight);
        let channel = &mut self.channels[at];
        if !channel.options.retention.keeps() {
            assert_eq!(result.position, None, "{name}: no history, no position");
            let recovery = if since.is_some() {
                Recovery::Lost
            } else {
                Recovery::NotAsked
            };
            assert_eq!(result.recovery, recovery, "{name}");
            return;
        }
        let position = result.position.expect("history has positions");
        channel.see_epoch(position.epoch, interest, now);
        assert_eq!(
            position.offset, channel.top,
            "{name}: where the stream stands"
        );
        let possible = |since: Position| {
            channel.options.recovery
                && since.epoch == position.epoch
                && since.offset <= position.offset
                && channel.has_all_after(since.offset, now)
        };
        match (&result.recovery, since) {
            (Recovery::NotAsked, None) => {}
            (Recovery::Whole(missed), Some(since)) => {
                assert!(
                    possible(since),
                    "{name}: {since:?} cannot be recovered from"
                );
                let offsets: Vec<u64> = missed
                    .iter()
                    .filter_map(|p| p.position)
                    .map(|p| p.offset)
                    .collect();
                let expected: Vec<u64> = (since.offset + 1..=position.offset).collect();
                assert_eq!(offsets, expected, "{name}: exactly what was missed");
                self.recoveries.0 += 1;
            }
            (Recovery::Lost, Some(since)) => {
                // What was missed is nothing: no byte of history is needed to say so.
                let excused = tight && since.offset < position.offset;
                assert!(
                    excused || !possible(since),
                    "{name}: {since:?} can be recovered from"
                );
                self.recoveries.1 += 1;
            }
            (recovery, since) => panic!("{name}: asked {since:?}, answered {recovery:?}"),
        }
    }

    // ---- what shards take ----

    /// A shard took a publication for its subscribers.
    pub(crate) fn took(&mut self, shard: ShardId, publication: &Publication) {
        let channel = self.channel(publication.channel.as_str());
        let n = payload::number(&publication.payload.bytes).expect("data of ours");
        let place = *self.channels[channel]
            .places
            .get(&n)
            .expect("accepted before it is delivered");
        self.seen.insert((shard, channel), place);
    }

    /// The home of a channel has taken everything there is.
    pub(crate) fn took_all(&mut self, shard: ShardId, name: &ChannelName) {
        let channel = self.channel(name.as_str());
        self.seen.insert((shard, channel), self.last_place(channel));
    }

    /// A home's answer to a subscribe is on its way.
    pub(crate) fn answers(&mut self, to: ShardId, ticket: Ticket, name: &ChannelName) {
        let channel = self.channel(name.as_str());
        let start = (channel, self.last_place(channel));
        assert!(
            self.starts.insert((to, ticket.0), start).is_none(),
            "a ticket is one question's"
        );
    }

    /// It has arrived.
    pub(crate) fn answer_arrives(&mut self, shard: ShardId, ticket: Ticket) {
        let (channel, place) = self
            .starts
            .remove(&(shard, ticket.0))
            .expect("it was asked");
        self.seen.insert((shard, channel), place);
    }

    /// A session was told that its subscription has begun.
    pub(crate) fn joined(&mut self, conn: ConnId, name: &ChannelName) {
        let channel = self.channel(name.as_str());
        let place = self
            .seen
            .get(&(conn.shard(), channel))
            .copied()
            .unwrap_or(0);
        self.joined
            .entry((conn, channel))
            .or_default()
            .push_back(place);
        self.note(|| format!("{conn:?} joins {name} at place {place}"));
    }

    /// The server API ended a subscription.
    pub(crate) fn ends(&mut self, conn: ConnId, name: &ChannelName) {
        let channel = self.channel(name.as_str());
        self.ended.insert((conn, channel));
        self.note(|| format!("{conn:?} is made to leave {name}"));
    }

    /// Whether it did; for a client whose protocol has no word for it.
    pub(crate) fn was_ended(&self, conn: ConnId, channel: usize) -> bool {
        self.ended.contains(&(conn, channel))
    }

    /// Where a client's next subscription to a channel begins.
    pub(crate) fn start(&mut self, conn: ConnId, channel: usize) -> Option<usize> {
        self.joined.get_mut(&(conn, channel))?.pop_front()
    }
}
