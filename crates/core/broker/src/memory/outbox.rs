//! BrokerMail that waits for room in another shard's mailbox.
//!
//! Rule for "full": what would need room that is not there is refused where it began, as
//! [`crate::Refusal::Busy`]. Nothing that was accepted is dropped.
//!
//! Why two shards cannot wait for each other: a shard has at most [`REQUESTS_MAX`] requests
//! without a reply (of publications that go together each counts), so replies need no more room
//! than that and always have it; deliveries are checked for room before a publication is accepted;
//! nothing else is sent but `Leave` and `Quit`, at most one each for each subscribe before them.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_types::{Publication, ShardId};

use crate::{Acknowledge, Draft, Published, Reached, Refusal, Reply, Request, Ticket};

/// Answers that may wait. Queue: `unwritten`.
pub(super) const HELD_MAX: usize = 65_536;

/// A message between the parts of two shards.
#[derive(Debug)]
pub enum BrokerMail {
    Request(Request),
    Reply(Reply),
    Delivery(Arc<Publication>),
    /// Publications that were asked for together, to the home of their channels.
    Publications(Vec<(Ticket, Draft)>),
    /// Results of publications that travel together.
    Published(Vec<(Ticket, Result<Published, Refusal>)>),
}

/// Requests to one shard that may be without a reply. Queue: `outbox`.
pub const REQUESTS_MAX: u32 = 8192;
/// Deliveries that may wait for one shard's mailbox. Queue: `outbox`.
pub const DELIVERIES_MAX: u32 = 16_384;
/// Bytes of deliveries that may wait for one shard's mailbox. Queue: `outbox`.
const DELIVERY_BYTES_MAX: usize = 64 << 20;
/// Comings and goings may wait while at most one part in so many of the room is taken.
const NEWS_PART: u32 = 16;
/// Places that an empty outbox keeps.
const CAPACITY_KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct Outbox {
    /// Bound: [`DELIVERIES_MAX`] and [`REQUESTS_MAX`]; replies always have room.
    mail: VecDeque<BrokerMail>,
    deliveries: u32,
    delivery_bytes: usize,
    /// Requests that were sent or wait here, and have no reply yet.
    unanswered: u32,
}

impl Outbox {
    /// Whether there is room for so many more requests.
    pub(super) fn may_ask(&self, more: usize) -> bool {
        self.unanswered as usize + more <= REQUESTS_MAX as usize
            && self.mail.len() < (DELIVERIES_MAX + REQUESTS_MAX) as usize
    }

    /// Whether there is room for one more delivery of that size. One of any size has room while
    /// no other waits.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        self.deliveries == 0
            || self.deliveries < DELIVERIES_MAX && self.delivery_bytes + bytes <= DELIVERY_BYTES_MAX
    }

    /// Whether there is room for a coming or going, which must not take that of publications.
    pub(super) const fn has_spare_room(&self) -> bool {
        self.deliveries < DELIVERIES_MAX / NEWS_PART && self.delivery_bytes < DELIVERY_BYTES_MAX / 4
    }

    pub(super) const fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    pub(super) fn push(&mut self, mail: BrokerMail) {
        match &mail {
            BrokerMail::Delivery(publication) => {
                self.deliveries += 1;
                self.delivery_bytes += publication.cost_bytes();
            }
            BrokerMail::Reply(_)
            | BrokerMail::Published(_)
            | BrokerMail::Request(Request::Leave { .. } | Request::Quit { .. }) => {}
            BrokerMail::Request(_) => self.unanswered += 1,
            BrokerMail::Publications(drafts) => self.unanswered += drafts.len() as u32,
        }
        self.mail.push_back(mail);
    }

    pub(super) fn pop(&mut self) -> Option<BrokerMail> {
        let mail = self.mail.pop_front()?;
        if let BrokerMail::Delivery(publication) = &mail {
            self.deliveries -= 1;
            self.delivery_bytes -= publication.cost_bytes();
        }
        if self.mail.is_empty() && self.mail.capacity() > CAPACITY_KEPT {
            self.mail = VecDeque::new();
        }
        Some(mail)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.mail.is_empty()
    }
}

pub(super) struct Held {
    pub(super) to: ShardId,
    pub(super) ticket: Ticket,
    pub(super) published: Published,
    pub(super) level: Acknowledge,
    /// Number of the publication's record, or of a later one.
    pub(super) record: u64,
    /// The stream, while a copy that is inside it has yet to write the record.
    pub(super) inside: Option<u32>,
}

impl Held {
    /// The answer, if the store has got far enough to know it.
    pub(super) fn result(&self, reached: Reached) -> Option<Result<Published, Refusal>> {
        let there = match self.level {
            Acknowledge::Synced => reached.synced,
            Acknowledge::Memory | Acknowledge::Written => reached.written,
        };
        // What earlier processes wrote has no number here.
        if self.record > 0 && reached.failed >= self.record {
            return Some(Err(Refusal::NotOnDisk));
        }
        (there >= self.record).then_some(Ok(self.published))
    }
}

/// All answers that wait at one home, in the order of their publications. Bound: [`HELD_MAX`].
pub(super) type Holding = VecDeque<Held>;
