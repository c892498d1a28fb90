//! The road to another shard: mail that waits for room in its mailbox.
//!
//! Rule for "full": whatever would need room that is not there is refused where it
//! began, as [`throng_broker::Refusal::Busy`], and nothing that was accepted is dropped.
//!
//! Why two shards cannot wait for each other: a shard asks at most [`REQUESTS_MAX`]
//! questions that are not answered yet, so answers need no more room than that and
//! always have it; deliveries are checked for room before a publication is accepted;
//! nothing else is mailed but `Leave`, at most one for each subscribe before it.

use std::collections::VecDeque;

use throng_broker::{Reply, Request};

use crate::Mail;

/// Questions to one shard that may be without an answer.
pub const REQUESTS_MAX: u32 = 8192;
/// Deliveries that may wait for one shard's mailbox.
pub const DELIVERIES_MAX: u32 = 16_384;
/// Bytes of deliveries that may wait for one shard's mailbox.
const DELIVERY_BYTES_MAX: usize = 64 << 20;

#[derive(Default)]
pub(crate) struct Link {
    outbox: VecDeque<Mail>,
    deliveries: u32,
    delivery_bytes: usize,
    pub(crate) unanswered: u32,
}

impl Link {
    /// Whether one more question may be asked.
    pub(crate) fn may_ask(&self) -> bool {
        self.unanswered < REQUESTS_MAX
            && self.outbox.len() < (DELIVERIES_MAX + REQUESTS_MAX) as usize
    }

    /// Whether one more delivery of that size has room.
    pub(crate) const fn may_deliver(&self, bytes: usize) -> bool {
        self.deliveries < DELIVERIES_MAX && self.delivery_bytes + bytes <= DELIVERY_BYTES_MAX
    }

    pub(crate) fn push(&mut self, mail: Mail) {
        if let Mail::Reply(Reply::Delivery(publication)) = &mail {
            self.deliveries += 1;
            self.delivery_bytes += publication.cost_bytes();
        }
        if matches!(&mail, Mail::Request(request) if !matches!(request, Request::Leave { .. })) {
            self.unanswered += 1;
        }
        self.outbox.push_back(mail);
    }

    pub(crate) fn pop(&mut self) -> Option<Mail> {
        let mail = self.outbox.pop_front()?;
        if let Mail::Reply(Reply::Delivery(publication)) = &mail {
            self.deliveries -= 1;
            self.delivery_bytes -= publication.cost_bytes();
        }
        if self.outbox.is_empty() && self.outbox.capacity() > 1024 {
            self.outbox = VecDeque::new();
        }
        Some(mail)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }
}
