//! Items on their way to the homes of their channels, from there to the hub, and the number of
//! receivers on its way back to publishers that ask for it.
//!
//! Rule for "full": an item is refused while [`BEHIND_MAX`] drafts wait for the hub; accepted items
//! are published, however long that takes. Items of publishers that wait rather than being refused
//! are kept up to [`PATIENT_MAX`].
//!
//! The publication of an item whose receivers are counted carries a receipt as a tag. The item's
//! home reports the shards that the publication goes to; each of them counts the deliveries queued
//! for its sessions, and reports them after the last one; the publisher's shard adds up, and
//! answers after the last report. A number that is not known for certain is not sent.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use throng_broker::{Draft, Refusal};
use throng_grip::item::Item;
use throng_hub::{Answer, ReplyTo};
use throng_metrics::Counter;
use throng_session::{Event, Flow, PublishOutcome};
use throng_types::{ChannelName, Millis, SpanContext};

use crate::GripShard;
use crate::event::Session;
use crate::forms::{Receipt, home_of_item};
use crate::order::{ItemOffer, ItemProgress, Mail};
use crate::sequencer::{Offered, Sequencer};
use crate::shared::GripShared;
use crate::stats::published;

/// Drafts that may wait for the hub. Queue: `drafts`.
const BEHIND_MAX: usize = 4096;
/// Items that may wait for room. A publisher is not read while 256 of its items have no answer.
/// Queue: `patient`.
const PATIENT_MAX: usize = 65_536;

/// Sum of the reports about one item.
struct Open {
    reply_to: ReplyTo,
    shards: Option<u32>,
    reports: u32,
    receivers: u64,
}

/// Items whose receivers are counted, by the numbers of their receipts.
#[derive(Default)]
struct Receipts {
    /// Bound: one a request that publishes and awaits its answer.
    open: BTreeMap<u64, Open>,
    last: u64,
}

impl Receipts {
    fn begin(&mut self, reply_to: ReplyTo) -> u64 {
        self.last += 1;
        let open = Open {
            reply_to,
            shards: None,
            reports: 0,
            receivers: 0,
        };
        self.open.insert(self.last, open);
        self.last
    }

    /// Returns the publisher to answer, and the number of receivers, once that is certain.
    fn report(
        &mut self,
        number: u64,
        progress: ItemProgress,
    ) -> Option<(ReplyTo, Result<Option<u64>, Refusal>)> {
        let open = self.open.get_mut(&number)?;
        let result = match progress {
            ItemProgress::Refused(refusal) => Err(refusal),
            ItemProgress::Later => Ok(None),
            ItemProgress::Shards(shards) => {
                open.shards = Some(shards);
                Ok(Some(open.receivers))
            }
            ItemProgress::Count(count) => {
                open.reports += 1;
                open.receivers += count;
                Ok(Some(open.receivers))
            }
        };
        if matches!(result, Ok(Some(_))) && open.shards != Some(open.reports) {
            return None;
        }
        let open = self.open.remove(&number)?;
        Some((open.reply_to, result))
    }
}

/// Items of publishers on one shard, and the order of items in the channels at home there.
pub(crate) struct ItemQueue {
    shared: Rc<GripShared>,
    pub(crate) sequencer: Sequencer,
    /// Drafts that wait for the hub. Bound: `BEHIND_MAX` for new items of publishers; items taken
    /// before go in first.
    behind: VecDeque<Draft>,
    /// Items of publishers that wait until there is room in `behind`. Bound: `PATIENT_MAX`.
    patient: VecDeque<(ReplyTo, Box<Item>)>,
    receipts: Receipts,
}

impl ItemQueue {
    pub(crate) fn new(shared: Rc<GripShared>) -> Self {
        Self {
            sequencer: Sequencer::new(shared.options.order),
            shared,
            behind: VecDeque::new(),
            patient: VecDeque::new(),
            receipts: Receipts::default(),
        }
    }

    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.sequencer.deadline()
    }

    /// Takes an item of a publisher on this shard, for whatever channel.
    pub(crate) fn publish(
        &mut self,
        (reply_to, counts): (ReplyTo, bool),
        (item, trace): (Box<Item>, Option<Box<SpanContext>>),
        patient: bool,
        shard: &mut impl GripShard,
    ) {
        let receipt = counts.then(|| Receipt {
            shard: shard.this(),
            number: self.receipts.begin(reply_to),
        });
        let home = home_of_item(&item, shard.shards());
        let offer = ItemOffer {
            reply_to,
            item,
            patient,
            receipt,
            trace,
        };
        if home == shard.this() {
            self.offer(offer, shard);
        } else if shard.has_room(home) {
            shard.mail(home, Mail::Publish(offer));
        } else {
            self.refuse(reply_to, receipt, Refusal::Busy, shard);
        }
    }

    fn refuse(
        &mut self,
        reply_to: ReplyTo,
        receipt: Option<Receipt>,
        refusal: Refusal,
        shard: &mut impl GripShard,
    ) {
        match receipt {
            Some(receipt) => self.report(receipt, ItemProgress::Refused(refusal), shard),
            None => answer_publisher(reply_to, Err(refusal), shard),
        }
    }

    /// Takes an item of a channel that is at home here, or keeps it waiting if its publisher is
    /// patient.
    pub(crate) fn offer(&mut self, offer: ItemOffer, shard: &mut impl GripShard) {
        let ItemOffer {
            reply_to,
            item,
            patient,
            receipt,
            trace,
        } = offer;
        if patient && (self.behind.len() >= BEHIND_MAX || !self.patient.is_empty()) {
            if self.patient.len() < PATIENT_MAX {
                return self.patient.push_back((reply_to, item));
            }
            shard.shared().counters.count(Counter::GripWaitingFull);
            return self.refuse(reply_to, receipt, Refusal::Busy, shard);
        }
        let result = self.take(&item, (receipt, trace), shard);
        let Some(receipt) = receipt else {
            return answer_publisher(reply_to, result.map(|_| None), shard);
        };
        let progress = match result {
            // The home sends the count as soon as it is published.
            Ok(Offered::Due | Offered::Unordered) => return,
            Ok(Offered::Waits) => ItemProgress::Later,
            Ok(Offered::Duplicate | Offered::Nothing | Offered::BadChannel) => {
                ItemProgress::Shards(0)
            }
            Err(refusal) => ItemProgress::Refused(refusal),
        };
        self.report(receipt, progress, shard);
    }

    fn take(
        &mut self,
        item: &Item,
        of: (Option<Receipt>, Option<Box<SpanContext>>),
        shard: &mut impl GripShard,
    ) -> Result<Offered, Refusal> {
        if self.behind.len() >= BEHIND_MAX {
            return Err(Refusal::Busy);
        }
        let (hub, now) = (shard.hub(), shard.now().mono);
        let listened = |channel: &ChannelName| hub.broker.interest(channel) != 0;
        let mut due = Vec::new();
        let offered = self.sequencer.offer(now, item, of, listened, &mut due);
        match offered {
            Offered::Due | Offered::Waits | Offered::Nothing => {}
            Offered::Duplicate => shard.shared().counters.count(Counter::GripDuplicates),
            Offered::Unordered => shard.shared().counters.count(Counter::GripWaitingFull),
            Offered::BadChannel => return Err(Refusal::UnknownChannel),
        }
        self.behind.extend(due);
        self.publish_behind(shard);
        Ok(offered)
    }

    /// Publishes waiting drafts, as far as the hub takes them.
    fn publish_behind(&mut self, shard: &mut impl GripShard) {
        while let Some(draft) = self.behind.pop_front() {
            let receipt = Receipt::from_tags(draft.tags.as_deref());
            let news = published(&draft, &self.shared);
            let progress = match shard.publish(draft) {
                Err((Refusal::Busy, draft)) => return self.behind.push_front(draft),
                Err((refusal, _)) => ItemProgress::Refused(refusal),
                Ok(published) => {
                    if let Some(news) = news {
                        self.shared.stats(|book| book.note(news));
                    }
                    ItemProgress::Shards(published.shards.unwrap_or(0))
                }
            };
            if let Some(receipt) = receipt {
                self.report(receipt, progress, shard);
            }
        }
    }

    /// Publishes items that are due; true if drafts still wait for the hub.
    pub(crate) fn run(&mut self, shard: &mut impl GripShard) -> bool {
        let now = shard.now().mono;
        if self.deadline().is_some_and(|at| at <= now) {
            let hub = shard.hub();
            let mut due = Vec::new();
            let listened = |channel: &ChannelName| hub.broker.interest(channel) != 0;
            self.sequencer.expire(now, listened, &mut due);
            self.behind.extend(due);
        }
        self.publish_behind(shard);
        while self.behind.len() < BEHIND_MAX
            && let Some((reply_to, item)) = self.patient.pop_front()
        {
            let result = self.take(&item, (None, None), shard);
            answer_publisher(reply_to, result.map(|_| None), shard);
        }
        !self.behind.is_empty()
    }

    /// Passes the progress of an item to the publisher's shard.
    pub(crate) fn report(
        &mut self,
        receipt: Receipt,
        progress: ItemProgress,
        shard: &mut impl GripShard,
    ) {
        let number = receipt.number;
        if receipt.shard == shard.this() {
            self.reported(number, progress, shard);
        } else {
            shard.mail(receipt.shard, Mail::Receipt { number, progress });
        }
    }

    /// Takes a report about an item of a publisher on this shard.
    pub(crate) fn reported(
        &mut self,
        number: u64,
        progress: ItemProgress,
        shard: &mut impl GripShard,
    ) {
        let Some((reply_to, result)) = self.receipts.report(number, progress) else {
            return;
        };
        if let Ok(Some(receivers)) = result {
            shard.with(reply_to.conn, |session, _| {
                if let Session::Publishing(publishing) = session {
                    publishing.received(receivers);
                }
                Flow::Stay
            });
        }
        answer(reply_to, result.map(|_| None), shard);
    }
}

/// Answers a publisher like the hub does.
pub(crate) fn answer(reply_to: ReplyTo, result: PublishOutcome, shard: &mut impl GripShard) {
    let answer = Answer::Published { result };
    let token = reply_to.token;
    shard.with(reply_to.conn, |session, cx| {
        session.event(Event::Answer { token, answer }, cx)
    });
}

fn answer_publisher(reply_to: ReplyTo, result: PublishOutcome, shard: &mut impl GripShard) {
    let home = reply_to.conn.shard();
    if home == shard.this() {
        answer(reply_to, result, shard);
    } else {
        shard.mail(home, Mail::Published { reply_to, result });
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ConnId;

    use super::*;

    #[track_caller]
    fn check(reports: &[ItemProgress], expected: Option<Result<Option<u64>, Refusal>>) {
        let mut receipts = Receipts::default();
        let reply_to = ReplyTo {
            conn: ConnId::from_bits(7),
            token: 3,
        };
        let number = receipts.begin(reply_to);
        let mut result = None;
        for &progress in reports {
            assert_eq!(result, None, "answered early");
            assert_eq!(receipts.report(number + 1, progress), None, "a stranger");
            result = receipts.report(number, progress);
        }
        assert_eq!(result, expected.map(|result| (reply_to, result)));
        assert_eq!(receipts.open.is_empty(), expected.is_some());
    }

    #[test]
    fn a_publisher_is_told_only_what_all_shards_have_reported() {
        use ItemProgress::{Count, Later, Refused, Shards};
        check(&[Shards(0)], Some(Ok(Some(0))));
        check(&[Shards(2), Count(3)], None);
        check(&[Shards(2), Count(3), Count(0)], Some(Ok(Some(3))));
        // A shard may be faster than the home.
        check(&[Count(3), Count(4)], None);
        check(&[Count(3), Count(4), Shards(2)], Some(Ok(Some(7))));
        check(&[Later], Some(Ok(None)));
        check(&[Refused(Refusal::Busy)], Some(Err(Refusal::Busy)));
    }
}
