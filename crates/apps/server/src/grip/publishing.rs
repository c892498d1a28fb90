//! Items on their way to the homes of their channels, and through them to the hub.

use throng_broker::Refusal;
use throng_engine::{Conns, Kernel};
use throng_grip::item::Item;
use throng_hub::{Answer, Asker};
use throng_metrics::Counter;
use throng_session::{LastItem, Offered, Receipt, Session};
use throng_types::{ChannelName, ConnId, Now, Position};

use super::receipts::News;
use super::{BEHIND_MAX, GripNote};
use crate::shard::ShardApp;

impl ShardApp {
    pub(super) fn publish_item(
        &mut self,
        (asker, counts): (Asker, bool),
        item: Box<Item>,
        patient: bool,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) {
        let receipt = self.grip.as_mut().filter(|_| counts).map(|grip| Receipt {
            shard: self.parts.shard,
            number: grip.receipts.begin(asker),
        });
        let home = throng_session::grip_home_of(&item, self.parts.shards);
        if home == self.parts.shard {
            self.offer((asker, receipt), item, patient, conns, now);
        } else {
            let note = GripNote::Publish {
                asker,
                item,
                patient,
                receipt,
            };
            self.note(home.index(), note);
        }
    }

    /// Takes an item of a channel that is at home here, or lets it wait if whoever asks does.
    pub(super) fn offer(
        &mut self,
        (asker, receipt): (Asker, Option<Receipt>),
        item: Box<Item>,
        patient: bool,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) {
        if patient
            && let Some(grip) = self.grip.as_mut()
            && (grip.behind.len() >= BEHIND_MAX || !grip.patient.is_empty())
        {
            return grip.patient.push_back((asker, item));
        }
        let result = self.take_item(&item, receipt, conns, now);
        let Some(receipt) = receipt else {
            return self.answer_publisher(asker, result.map(|_| None), conns);
        };
        let news = match result {
            // Its home says more as soon as it is published.
            Ok(Offered::Due) => return,
            Ok(Offered::Waits) => News::Later,
            Ok(Offered::Duplicate | Offered::Nothing | Offered::BadChannel) => News::Shards(0),
            Err(refusal) => News::Refused(refusal),
        };
        self.tell_receipt(receipt, news, conns);
    }

    fn answer_publisher(
        &mut self,
        asker: Asker,
        result: Result<Option<Position>, Refusal>,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        if asker.conn.shard() == self.parts.shard {
            self.published(asker, result, conns);
        } else {
            let note = GripNote::Published { asker, result };
            self.note(asker.conn.shard().index(), note);
        }
    }

    pub(super) fn published(
        &mut self,
        asker: Asker,
        result: Result<Option<Position>, Refusal>,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        let answer = Answer::Published { result };
        self.with(asker.conn, conns, |session, desk, fx| {
            session.answer(asker.conn, asker.token, answer, desk, fx);
        });
    }

    /// Takes an item of a channel that is at home here.
    fn take_item(
        &mut self,
        item: &Item,
        receipt: Option<Receipt>,
        conns: &mut Conns<Session, impl Kernel>,
        now: Now,
    ) -> Result<Offered, Refusal> {
        let Some(grip) = self.grip.as_mut() else {
            return Err(Refusal::NotAvailable);
        };
        if grip.behind.len() >= BEHIND_MAX {
            return Err(Refusal::Busy);
        }
        let hub = &self.parts.hub;
        let listened = |channel: &ChannelName| hub.interest(channel) != 0;
        let mut due = Vec::new();
        let offered = grip.home.offer(now.mono, item, receipt, listened, &mut due);
        match offered {
            Offered::Due | Offered::Waits | Offered::Nothing => {}
            Offered::Duplicate => self.parts.desk.board.count(Counter::GripDuplicates),
            Offered::BadChannel => return Err(Refusal::UnknownChannel),
        }
        grip.behind.extend(due);
        self.publish_behind(conns, now);
        Ok(offered)
    }

    /// Publishes what waits, as far as the hub takes it.
    fn publish_behind(&mut self, conns: &mut Conns<Session, impl Kernel>, now: Now) {
        while let Some(draft) = self.grip.as_mut().and_then(|grip| grip.behind.pop_front()) {
            let receipt = Receipt::from_tags(draft.tags.as_deref());
            let news = match (self.parts.hub.publish_here(draft, now), &mut self.grip) {
                (Err((Refusal::Busy, draft)), Some(grip)) => {
                    return grip.behind.push_front(draft);
                }
                (Err((refusal, _)), _) => News::Refused(refusal),
                (Ok(published), _) => News::Shards(published.shards.unwrap_or(0)),
            };
            if let Some(receipt) = receipt {
                self.tell_receipt(receipt, news, conns);
            }
        }
    }

    /// Once a turn; true if something waits.
    pub(crate) fn grip_turn(&mut self, conns: &mut Conns<Session, impl Kernel>, now: Now) -> bool {
        let is_more = self.settle(conns);
        self.sweep_topics(conns, now);
        self.wake_ghosts(now);
        let Some(grip) = self.grip.as_mut() else {
            return false;
        };
        if grip.home.deadline().is_some_and(|at| at <= now.mono) {
            let hub = &self.parts.hub;
            let mut due = Vec::new();
            let listened = |channel: &ChannelName| hub.interest(channel) != 0;
            grip.home.expire(now.mono, listened, &mut due);
            grip.behind.extend(due);
        }
        self.publish_behind(conns, now);
        while let Some(grip) = self.grip.as_mut()
            && grip.behind.len() < BEHIND_MAX
            && let Some((asker, item)) = grip.patient.pop_front()
        {
            let result = self.take_item(&item, None, conns, now);
            self.answer_publisher(asker, result.map(|_| None), conns);
        }
        let is_behind = self
            .grip
            .as_ref()
            .is_some_and(|grip| !grip.behind.is_empty());
        is_more || is_behind
    }

    pub(super) fn last_item(&mut self, channel: &ChannelName, now: Now) -> LastItem {
        let grip = self.grip.as_mut();
        grip.map_or(LastItem::Quiet, |grip| {
            grip.home.last_item(channel, now.mono)
        })
    }

    pub(super) fn tell_last_item(
        &mut self,
        conn: ConnId,
        channel: &ChannelName,
        last: &LastItem,
        conns: &mut Conns<Session, impl Kernel>,
    ) {
        self.with(conn, conns, |session, desk, fx| {
            session.last_item(conn, channel, last, desk, fx);
        });
    }
}
