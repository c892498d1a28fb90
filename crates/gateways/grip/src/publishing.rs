//! Items on their way to the homes of their channels, and from there to the hub.
//!
//! Rule for "full": an item is refused while [`BEHIND_MAX`] drafts wait for the hub; accepted items
//! are published, however long that takes. Items of publishers that wait rather than being refused
//! are kept up to [`PATIENT_MAX`].

use throng_broker::Refusal;
use throng_grip::item::Item;
use throng_hub::ReplyTo;
use throng_metrics::Counter;
use throng_session::{Flow, PublishResult, Shard};
use throng_types::ChannelName;

use crate::forms::home_of_item;
use crate::grip::Grip;
use crate::mail::Mail;
use crate::receipt::Receipt;
use crate::receipts::Heard;
use crate::sequencer::Offered;
use crate::shard::answer;
use crate::statistics::Published;

/// Drafts that may wait for the hub. Queue: `drafts`.
const BEHIND_MAX: usize = 4096;
/// Items that may wait for room. A publisher is not read while 256 of its items have no answer.
/// Queue: `patient`.
const PATIENT_MAX: usize = 65_536;

impl Grip {
    pub(crate) fn publish_item(
        &mut self,
        (reply_to, counts): (ReplyTo, bool),
        item: Box<Item>,
        patient: bool,
        shard: &mut impl Shard<Self>,
    ) {
        let receipt = counts.then(|| Receipt {
            shard: shard.this(),
            number: self.receipts.begin(reply_to),
        });
        let home = home_of_item(&item, shard.shards());
        if home == shard.this() {
            self.offer((reply_to, receipt), item, patient, shard);
        } else if shard.has_room(home) {
            let mail = Mail::Publish {
                reply_to,
                item,
                patient,
                receipt,
            };
            shard.mail(home, mail);
        } else {
            self.refuse(reply_to, receipt, Refusal::Busy, shard);
        }
    }

    fn refuse(
        &mut self,
        reply_to: ReplyTo,
        receipt: Option<Receipt>,
        refusal: Refusal,
        shard: &mut impl Shard<Self>,
    ) {
        match receipt {
            Some(receipt) => self.tell_receipt(receipt, Heard::Refused(refusal), shard),
            None => answer_publisher(reply_to, Err(refusal), shard),
        }
    }

    /// Takes an item of a channel that is at home here, or keeps it waiting if its publisher is
    /// patient.
    pub(crate) fn offer(
        &mut self,
        (reply_to, receipt): (ReplyTo, Option<Receipt>),
        item: Box<Item>,
        patient: bool,
        shard: &mut impl Shard<Self>,
    ) {
        if patient && (self.behind.len() >= BEHIND_MAX || !self.patient.is_empty()) {
            if self.patient.len() < PATIENT_MAX {
                return self.patient.push_back((reply_to, item));
            }
            shard.shared().counters.count(Counter::GripWaitingFull);
            return self.refuse(reply_to, receipt, Refusal::Busy, shard);
        }
        let result = self.take_item(&item, receipt, shard);
        let Some(receipt) = receipt else {
            return answer_publisher(reply_to, result.map(|_| None), shard);
        };
        let heard = match result {
            // The home sends the count as soon as it is published.
            Ok(Offered::Due) => return,
            Ok(Offered::Waits) => Heard::Later,
            Ok(Offered::Duplicate | Offered::Nothing | Offered::BadChannel) => Heard::Shards(0),
            Err(refusal) => Heard::Refused(refusal),
        };
        self.tell_receipt(receipt, heard, shard);
    }

    /// Takes an item of a channel that is at home here.
    fn take_item(
        &mut self,
        item: &Item,
        receipt: Option<Receipt>,
        shard: &mut impl Shard<Self>,
    ) -> Result<Offered, Refusal> {
        if self.behind.len() >= BEHIND_MAX {
            return Err(Refusal::Busy);
        }
        let (hub, now) = (shard.hub(), shard.now().mono);
        let listened = |channel: &ChannelName| hub.interest(channel) != 0;
        let mut due = Vec::new();
        let offered = self.sequencer.offer(now, item, receipt, listened, &mut due);
        match offered {
            Offered::Due | Offered::Waits | Offered::Nothing => {}
            Offered::Duplicate => shard.shared().counters.count(Counter::GripDuplicates),
            Offered::BadChannel => return Err(Refusal::UnknownChannel),
        }
        self.behind.extend(due);
        self.publish_behind(shard);
        Ok(offered)
    }

    /// Publishes waiting drafts, as far as the hub takes them.
    fn publish_behind(&mut self, shard: &mut impl Shard<Self>) {
        while let Some(draft) = self.behind.pop_front() {
            let receipt = Receipt::from_tags(draft.tags.as_deref());
            let told = Published::of(&draft, &self.shared);
            let heard = match shard.publish(draft) {
                Err((Refusal::Busy, draft)) => return self.behind.push_front(draft),
                Err((refusal, _)) => Heard::Refused(refusal),
                Ok(published) => {
                    if let Some(told) = told {
                        told.tell(&self.shared);
                    }
                    Heard::Shards(published.shards.unwrap_or(0))
                }
            };
            if let Some(receipt) = receipt {
                self.tell_receipt(receipt, heard, shard);
            }
        }
    }

    /// Publishes items that are due; true if drafts still wait for the hub.
    pub(crate) fn publish_due(&mut self, shard: &mut impl Shard<Self>) -> bool {
        let now = shard.now().mono;
        if self.sequencer.deadline().is_some_and(|at| at <= now) {
            let hub = shard.hub();
            let mut due = Vec::new();
            let listened = |channel: &ChannelName| hub.interest(channel) != 0;
            self.sequencer.expire(now, listened, &mut due);
            self.behind.extend(due);
        }
        self.publish_behind(shard);
        while self.behind.len() < BEHIND_MAX
            && let Some((reply_to, item)) = self.patient.pop_front()
        {
            let result = self.take_item(&item, None, shard);
            answer_publisher(reply_to, result.map(|_| None), shard);
        }
        !self.behind.is_empty()
    }
}

impl Grip {
    /// Passes the progress of an item to the publisher's shard.
    pub(crate) fn tell_receipt(
        &mut self,
        receipt: Receipt,
        heard: Heard,
        shard: &mut impl Shard<Self>,
    ) {
        let number = receipt.number;
        if receipt.shard == shard.this() {
            self.hear_receipt(number, heard, shard);
        } else {
            shard.mail(receipt.shard, Mail::Receipt { number, heard });
        }
    }

    pub(crate) fn hear_receipt(&mut self, number: u64, heard: Heard, shard: &mut impl Shard<Self>) {
        let Some((reply_to, result)) = self.receipts.hear(number, heard) else {
            return;
        };
        if let Ok(Some(receivers)) = result {
            shard.with(reply_to.conn, |session, _| {
                session.received(receivers);
                Flow::Stay
            });
        }
        answer(reply_to, result.map(|_| None), shard);
    }
}

fn answer_publisher(reply_to: ReplyTo, result: PublishResult, shard: &mut impl Shard<Grip>) {
    let home = reply_to.conn.shard();
    if home == shard.this() {
        answer(reply_to, result, shard);
    } else {
        shard.mail(home, Mail::Published { reply_to, result });
    }
}
