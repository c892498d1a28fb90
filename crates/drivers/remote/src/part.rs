//! The shard's ends of what lies between it and the driver: its part of the broker, and its way to
//! other nodes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::Thread;

use throng_broker::{Draft, LiveOptions, Refusal, Remote, Reply, Request, Ticket};

use crate::desk::NOBODY;
use crate::lane::{Lane, REQUEST_BYTES_MAX, REQUESTS_MAX};
use crate::peer::{Asker, PeerEvent, ToPeers};
use crate::status::Status;

/// One shard's way to the other nodes.
pub struct Peers {
    pub(crate) lane: Arc<Lane>,
    pub(crate) driver: Thread,
}

impl Peers {
    /// Asks every other node; [`PeerEvent::Answered`] follows for certain.
    pub fn ask(&self, ticket: u32, question: Vec<u8>) {
        self.lane.tell_peers(ToPeers::Ask(ticket, question));
        self.driver.unpark();
    }

    /// Answers a question.
    pub fn answer(&self, asker: Asker, answer: Vec<u8>) {
        self.lane.tell_peers(ToPeers::Answer(asker, answer));
        self.driver.unpark();
    }

    /// The next of what other nodes want or say.
    #[must_use]
    pub fn next(&self) -> Option<PeerEvent> {
        self.lane.next_from_peers()
    }
}

/// One shard's part of a broker on the other side of a network.
pub struct RemoteBroker {
    lane: Arc<Lane>,
    driver: Thread,
    status: Arc<Status>,
    /// Taken from the lane, and not by the hub yet. Bound: what was in the lane.
    taken: VecDeque<Reply>,
    /// The bytes of each request without an answer.
    unanswered: HashMap<Ticket, usize>,
    unanswered_bytes: usize,
}

impl RemoteBroker {
    pub(crate) fn new(lane: Arc<Lane>, driver: Thread, status: Arc<Status>) -> Self {
        Self {
            lane,
            driver,
            status,
            taken: VecDeque::new(),
            unanswered: HashMap::new(),
            unanswered_bytes: 0,
        }
    }

    /// The shard's way to the other nodes.
    #[must_use]
    pub fn peers(&self) -> Peers {
        Peers {
            lane: self.lane.clone(),
            driver: self.driver.clone(),
        }
    }

    fn push(&self, request: Request) {
        self.lane.push(request);
        self.driver.unpark();
    }

    fn answered(&mut self, reply: &Reply) {
        let ticket = match reply {
            Reply::Subscribed { ticket, .. }
            | Reply::Published { ticket, .. }
            | Reply::History { ticket, .. }
            | Reply::Present { ticket, .. } => ticket,
            Reply::Delivery(_) | Reply::Broken(_) => return,
        };
        if let Some(bytes) = self.unanswered.remove(ticket) {
            self.unanswered_bytes -= bytes;
        }
    }
}

/// The ticket of a request that is answered, and its bytes.
fn ticket_of(request: &Request) -> Option<(Ticket, usize)> {
    match request {
        Request::Leave { .. } | Request::Quit { .. } => None,
        Request::Publish { ticket, draft } => Some((*ticket, draft.cost_bytes())),
        Request::Subscribe { ticket, .. }
        | Request::Present { ticket, .. }
        | Request::Forget { ticket, .. }
        | Request::History { ticket, .. } => Some((*ticket, 0)),
    }
}

impl Remote for RemoteBroker {
    fn request(&mut self, request: Request) -> Option<Reply> {
        if let Some((ticket, bytes)) = ticket_of(&request) {
            let is_full = self.unanswered.len() >= REQUESTS_MAX
                || self.unanswered_bytes + bytes > REQUEST_BYTES_MAX && self.unanswered_bytes > 0;
            if is_full {
                return request.refused(Refusal::Busy);
            }
            self.unanswered.insert(ticket, bytes);
            self.unanswered_bytes += bytes;
        }
        self.push(request);
        None
    }

    fn publish(&mut self, draft: Draft) -> Result<(), (Refusal, Draft)> {
        if !self.status.is_up() {
            return Err((Refusal::Unavailable, draft));
        }
        if self.lane.waiting() >= REQUESTS_MAX {
            return Err((Refusal::Busy, draft));
        }
        let ticket = NOBODY;
        self.push(Request::Publish { ticket, draft });
        Ok(())
    }

    fn peek(&mut self) -> Option<&Reply> {
        if self.taken.is_empty() && self.lane.take(&mut self.taken) {
            self.driver.unpark();
        }
        self.taken.front()
    }

    fn next(&mut self) -> Option<Reply> {
        self.peek()?;
        let reply = self.taken.pop_front()?;
        self.answered(&reply);
        Some(reply)
    }

    fn renew(&mut self, options: &LiveOptions) {
        self.status.renew(options);
        self.driver.unpark();
    }
}

impl Drop for RemoteBroker {
    fn drop(&mut self) {
        self.lane.close();
        self.driver.unpark();
    }
}
