//! The order of items in the channels that are at home on a shard: one value a shard.
//!
//! Owns: which ids were seen, the last id, items that wait for the one before them. Never:
//! delivers; what is due goes to the hub, draft by draft.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_grip::sequence::{ItemIds, Sequence, SequenceLimits, Verdict};
use throng_types::{ChannelName, Millis};

use super::forms::draft;
use super::receipt::Receipt;

/// What became of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is in `out`, maybe with others that had waited for it.
    Due,
    /// It was published before.
    Duplicate,
    /// It waits for the item before it.
    Waits,
    /// No transport gets anything of it.
    Nothing,
    /// Its channel's name is too long.
    BadChannel,
}

struct Channel {
    sequence: Sequence<Draft>,
    alarm_at: Millis,
}

/// See the module's head.
pub struct GripHome {
    limits: SequenceLimits,
    channels: HashMap<ChannelName, Channel>,
    alarms: BinaryHeap<Reverse<(Millis, ChannelName)>>,
}

impl GripHome {
    /// Knows no item.
    #[must_use]
    pub fn new(limits: SequenceLimits) -> Self {
        Self {
            limits,
            channels: HashMap::new(),
            alarms: BinaryHeap::new(),
        }
    }

    /// Takes an item; `listened` says whether its channel has subscribers. What is to be
    /// published now is appended to `out`.
    pub fn offer(
        &mut self,
        now: Millis,
        item: &Item,
        receipt: Option<Receipt>,
        listened: impl FnOnce(&ChannelName) -> bool,
        out: &mut Vec<Draft>,
    ) -> Offered {
        let Some(mut draft) = draft(item) else {
            let is_named = super::forms::hub_channel("", item.channel.as_str()).is_some();
            return if is_named {
                Offered::Nothing
            } else {
                Offered::BadChannel
            };
        };
        draft.tags = receipt.map(Receipt::to_tags);
        let channel = draft.channel.clone();
        let has_order = item.id.is_some() || item.prev_id.is_some();
        if !has_order && !self.channels.contains_key(&channel) {
            out.push(draft);
            return Offered::Due;
        }
        let limits = self.limits;
        let known = self
            .channels
            .entry(channel.clone())
            .or_insert_with(|| Channel {
                sequence: Sequence::new(limits),
                alarm_at: Millis(u64::MAX),
            });
        let ids = ItemIds {
            id: item.id.as_deref(),
            prev_id: item.prev_id.as_deref(),
        };
        let is_listened = listened(&channel);
        let in_order = is_listened && !item.no_seq;
        let verdict = known.sequence.offer(now, ids, in_order, draft, out);
        if !is_listened && !item.no_seq && verdict == Verdict::Delivered {
            // Who comes with an older id than this has missed something.
            known.sequence.note_last(item.id.as_deref());
        }
        let due_at = known.sequence.next_timeout();
        let at = due_at.unwrap_or(now + limits.id_ttl_ms);
        if at < known.alarm_at {
            known.alarm_at = at;
            self.alarms.push(Reverse((at, channel)));
        }
        match verdict {
            Verdict::Delivered => Offered::Due,
            Verdict::Duplicate => Offered::Duplicate,
            Verdict::Waiting => Offered::Waits,
        }
    }

    /// The id of the item that went out last, as far as that is remembered.
    #[must_use]
    pub fn last_id(&self, channel: &ChannelName) -> Option<&str> {
        self.channels.get(channel)?.sequence.last_id()
    }

    /// When [`GripHome::expire`] has something to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.alarms.peek().map(|Reverse((at, _))| *at)
    }

    /// Publishes what has waited long enough, and forgets what nobody needs.
    pub fn expire(
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
            known.alarm_at = at;
            self.alarms.push(Reverse((at, channel)));
        }
    }
}
