//! The order of items in the channels that are at home on a shard: one value a shard.
//!
//! Owns: seen ids, the last id, items that wait for the one before them. Never: delivers; due items
//! go to the hub, draft by draft.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_grip::sequence::{ItemIds, OfferOutcome, Sequence, SequenceLimits};
use throng_types::{ChannelName, Load, Millis, Payload, Save, Saved, SpanContext, save_count};

use crate::forms::{Receipt, draft};

/// Channels of a shard whose order is kept. Items of others go out at once and in no order, their
/// ids are not remembered, and clients of theirs that ask for the last item are told that nothing
/// is known, so that they ask their backends. Queue: `order`.
const CHANNELS_MAX: usize = 65_536;

/// Outcome of an item offered to the sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offered {
    /// The item is in `out`, maybe with others that had waited for it.
    Due,
    /// The item is in `out`, as one without order: so many channels have one already.
    Unordered,
    /// The item was published before.
    Duplicate,
    /// The item waits for the one before it.
    Waits,
    /// No transport gets anything of it.
    Nothing,
    /// Its channel's name is too long.
    BadChannel,
}

/// Answer to the question for the last item of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastItem {
    Id(Box<str>),
    /// No item, and no question for a while: there was no subscriber, so a publisher that looks at
    /// subscriptions has sent nothing, and the client may have missed something.
    Unknown,
    /// No item, but this was already answered to another client.
    Quiet,
}

struct Channel {
    sequence: Sequence<Draft>,
    alarm_at: Millis,
    /// Whether a client was told that nothing is known.
    is_asked: bool,
}

impl Channel {
    fn new(limits: SequenceLimits) -> Self {
        Self {
            sequence: Sequence::new(limits),
            alarm_at: Millis(u64::MAX),
            is_asked: false,
        }
    }

    /// Makes [`Sequencer::expire`] look at it at a time, or earlier.
    fn wake_at(&mut self, at: Millis, name: ChannelName, alarms: &mut Alarms) {
        if at < self.alarm_at {
            self.alarm_at = at;
            alarms.push(Reverse((at, name)));
        }
    }
}

/// Times at which channels are looked at, with old ones. Bound: a few for each channel.
type Alarms = BinaryHeap<Reverse<(Millis, ChannelName)>>;

/// The order of items in the channels that are at home on this shard.
pub(crate) struct Sequencer {
    limits: SequenceLimits,
    /// Order of each channel that has one. Bound: `channels_max`.
    channels: HashMap<ChannelName, Channel>,
    channels_max: usize,
    alarms: Alarms,
}

impl Sequencer {
    /// Creates a sequencer without items.
    pub(crate) fn new(limits: SequenceLimits) -> Self {
        Self {
            limits,
            channels: HashMap::new(),
            channels_max: CHANNELS_MAX,
            alarms: BinaryHeap::new(),
        }
    }

    /// Takes an item; `listened` means that its channel has subscribers. Items to publish now are
    /// appended to `out`.
    pub(crate) fn offer(
        &mut self,
        now: Millis,
        item: &Item,
        (receipt, trace): (Option<Receipt>, Option<Box<SpanContext>>),
        listened: impl FnOnce(&ChannelName) -> bool,
        out: &mut Vec<Draft>,
    ) -> Offered {
        let Some(mut draft) = draft(item) else {
            let is_named = crate::forms::hub_channel("", item.channel.as_str()).is_some();
            return if is_named {
                Offered::Nothing
            } else {
                Offered::BadChannel
            };
        };
        (draft.tags, draft.trace) = (receipt.map(Receipt::to_tags), trace);
        let channel = draft.channel.clone();
        let has_order = item.id.is_some() || item.prev_id.is_some();
        let is_known = self.channels.contains_key(&channel);
        if !is_known && (!has_order || self.is_full()) {
            out.push(draft);
            return match has_order {
                true => Offered::Unordered,
                false => Offered::Due,
            };
        }
        let limits = self.limits;
        let known = self
            .channels
            .entry(channel.clone())
            .or_insert_with(|| Channel::new(limits));
        let ids = ItemIds {
            id: item.id.as_deref(),
            prev_id: item.prev_id.as_deref(),
        };
        let is_listened = listened(&channel);
        let in_order = is_listened && !item.no_seq;
        let verdict = known.sequence.offer(now, ids, in_order, draft, out);
        if !is_listened && !item.no_seq && verdict == OfferOutcome::Delivered {
            // A client with an older id than this has missed something.
            known.sequence.note_last(item.id.as_deref());
        }
        let due_at = known.sequence.next_timeout();
        let at = due_at.unwrap_or(now + limits.id_ttl_ms);
        known.wake_at(at, channel, &mut self.alarms);
        match verdict {
            OfferOutcome::Delivered => Offered::Due,
            OfferOutcome::Duplicate => Offered::Duplicate,
            OfferOutcome::Waiting => Offered::Waits,
        }
    }

    /// Returns the last item, as far as remembered, for a new subscriber that has an older id, or
    /// the same.
    pub(crate) fn last_item(&mut self, channel: &ChannelName, now: Millis) -> LastItem {
        let limits = self.limits;
        if self.is_full() && !self.channels.contains_key(channel) {
            return LastItem::Unknown;
        }
        let known = self.channels.entry(channel.clone());
        let known = known.or_insert_with(|| Channel::new(limits));
        if let Some(id) = known.sequence.last_id() {
            return LastItem::Id(id.into());
        }
        if known.is_asked {
            return LastItem::Quiet;
        }
        known.is_asked = true;
        let at = now + limits.id_ttl_ms;
        known.wake_at(at, channel.clone(), &mut self.alarms);
        LastItem::Unknown
    }

    /// Whether no other channel gets an order.
    fn is_full(&self) -> bool {
        self.channels.len() >= self.channels_max
    }

    /// Appends all channels. Receipts of waiting items are dropped.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        save_count(self.channels.len(), out);
        for (name, channel) in &self.channels {
            (name, channel.alarm_at, channel.is_asked).save(out);
            let save_draft = |draft: &Draft, out: &mut Vec<u8>| draft.payload.save(out);
            channel.sequence.save(out, save_draft);
        }
    }

    /// Restores the sequences from their saved bytes.
    pub(crate) fn load(&mut self, from: &mut Saved<'_>) -> Option<()> {
        for _ in 0..from.count()? {
            let (name, alarm_at, is_asked) = <(ChannelName, _, _)>::load(from)?;
            let load_draft = |from: &mut Saved<'_>| {
                Payload::load(from).map(|payload| Draft::new(name.clone(), payload))
            };
            let sequence = Sequence::load(self.limits, from, load_draft)?;
            if self.is_full() {
                continue;
            }
            self.alarms.push(Reverse((alarm_at, name.clone())));
            let channel = Channel {
                sequence,
                alarm_at,
                is_asked,
            };
            self.channels.insert(name, channel);
        }
        Some(())
    }

    /// When [`Sequencer::expire`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// Publishes items that have waited long enough, and drops unused channels.
    pub(crate) fn expire(
        &mut self,
        now: Millis,
        listened: impl Fn(&ChannelName) -> bool,
        out: &mut Vec<Draft>,
    ) {
        while let Some(Reverse((at, _))) = self.alarms.peek()
            && *at <= now
            && let Some(Reverse((at, channel))) = self.alarms.pop()
        {
            let Some(known) = self.channels.get_mut(&channel) else {
                continue;
            };
            if known.alarm_at != at {
                continue;
            }
            known.sequence.expire(now, out);
            if known.sequence.next_timeout().is_none() && !listened(&channel) {
                known.sequence.forget_order();
            }
            if known.sequence.is_idle() {
                self.channels.remove(&channel);
                continue;
            }
            let due_at = known.sequence.next_timeout();
            let at = due_at.unwrap_or(now + self.limits.id_ttl_ms);
            known.alarm_at = Millis(u64::MAX);
            known.wake_at(at, channel, &mut self.alarms);
        }
    }
}

#[cfg(test)]
mod tests {
    use throng_grip::item::zmq_pull_item;

    use super::*;
    use crate::forms::hub_channel;

    fn item_in(channel: &str, id: &str) -> Item {
        let ids = format!(r#""channel":"{channel}","id":"{id}""#);
        let json = format!(r#"J{{{ids},"http-stream":{{"content":"x"}}}}"#);
        zmq_pull_item(&[json.into_bytes()]).unwrap()
    }

    fn item(id: &str) -> Item {
        item_in("a", id)
    }

    /// Beyond the bound items go out, and nothing is remembered of them; room comes with time.
    #[test]
    fn so_many_channels_have_an_order() {
        let limits = SequenceLimits::default();
        let mut home = Sequencer::new(limits);
        home.channels_max = 2;
        let mut out = Vec::new();
        let mut offer = |home: &mut Sequencer, channel: &str, id: &str| {
            let offered = home.offer(
                Millis(0),
                &item_in(channel, id),
                (None, None),
                |_| true,
                &mut out,
            );
            (offered, out.drain(..).len())
        };
        let unknown = hub_channel("", "c").unwrap();
        assert_eq!(offer(&mut home, "a", "1"), (Offered::Due, 1));
        assert_eq!(offer(&mut home, "b", "1"), (Offered::Due, 1));
        for _ in 0..2 {
            assert_eq!(offer(&mut home, "c", "1"), (Offered::Unordered, 1));
            assert_eq!(home.last_item(&unknown, Millis(0)), LastItem::Unknown);
        }
        assert_eq!(offer(&mut home, "a", "1"), (Offered::Duplicate, 0));
        assert_eq!(home.channels.len(), 2);
        // So it is in another process, with less room.
        let mut bytes = Vec::new();
        home.save(&mut bytes);
        let mut other = Sequencer::new(limits);
        other.channels_max = 1;
        other.load(&mut Saved::new(&bytes)).unwrap();
        assert_eq!((other.channels.len(), other.alarms.len()), (1, 1));
        home.expire(Millis(limits.id_ttl_ms), |_| false, &mut Vec::new());
        assert_eq!(offer(&mut home, "c", "1"), (Offered::Due, 1));
        assert_eq!(offer(&mut home, "c", "1"), (Offered::Duplicate, 0));
    }

    #[test]
    fn one_who_asks_is_told_that_nothing_is_known() {
        let limits = SequenceLimits::default();
        let mut home = Sequencer::new(limits);
        let channel = hub_channel("", "a").unwrap();
        assert_eq!(home.last_item(&channel, Millis(0)), LastItem::Unknown);
        assert_eq!(home.last_item(&channel, Millis(1)), LastItem::Quiet);
        // Kept for a while, with or without subscribers.
        let over = Millis(limits.id_ttl_ms);
        assert_eq!(home.deadline(), Some(over));
        home.expire(over, |_| true, &mut Vec::new());
        assert_eq!(home.deadline(), None);
        assert_eq!(home.last_item(&channel, over), LastItem::Unknown);
        // Published items are known from then on.
        let mut out = Vec::new();
        let offered = home.offer(over, &item("7"), (None, None), |_| true, &mut out);
        assert_eq!((offered, out.len()), (Offered::Due, 1));
        assert_eq!(home.last_item(&channel, over), LastItem::Id("7".into()));
    }

    #[test]
    fn what_waits_for_an_item_that_never_comes_goes_out_in_the_end() {
        let limits = SequenceLimits::default();
        let mut home = Sequencer::new(limits);
        let mut out = Vec::new();
        home.offer(Millis(0), &item("1"), (None, None), |_| true, &mut out);
        let json = r#"J{"channel":"a","id":"3","prev-id":"2","http-stream":{"content":"x"}}"#;
        let third = zmq_pull_item(&[json]).unwrap();
        let offered = home.offer(Millis(0), &third, (None, None), |_| true, &mut out);
        assert_eq!((offered, out.len()), (Offered::Waits, 1));
        assert_eq!(home.deadline(), Some(Millis(limits.wait_ms)));
        home.expire(Millis(limits.wait_ms - 1), |_| true, &mut out);
        assert_eq!(out.len(), 1);
        home.expire(Millis(limits.wait_ms), |_| true, &mut out);
        assert_eq!(out.len(), 2);
    }
}
