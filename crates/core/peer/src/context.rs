//! Wishes: a peer states them, its host carries them out.

use std::collections::VecDeque;

use throng_types::{Millis, Now};

use crate::link::{Dial, LinkId};

/// A wish of a peer, for its host.
#[derive(Debug, PartialEq, Eq)]
pub enum Want {
    /// Establish a link.
    Dial(LinkId, Dial),
    /// Send bytes on a link.
    Write(LinkId, Vec<u8>),
    /// Read a link again.
    Resume(LinkId),
    /// Close a link; what is queued is lost.
    End(LinkId),
    /// Set or clear a link's one deadline.
    Deadline(LinkId, Option<Millis>),
}

/// The wishes of a peer that nobody has carried out yet, and its replies.
pub struct Wants<R> {
    links: u64,
    /// Bound: the wishes of one turn.
    list: VecDeque<Want>,
    /// Replies in their order. Queue: `from a peer`.
    pub replies: VecDeque<R>,
}

impl<R> Default for Wants<R> {
    fn default() -> Self {
        Self {
            links: 0,
            list: VecDeque::new(),
            replies: VecDeque::new(),
        }
    }
}

impl<R> Wants<R> {
    /// Whether nothing is wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Number of wishes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The wishes behind the first `count`.
    pub fn behind(&self, count: usize) -> impl Iterator<Item = &Want> {
        self.list.iter().skip(count)
    }

    /// Takes the oldest wish.
    pub fn take(&mut self) -> Option<Want> {
        self.list.pop_front()
    }
}

/// The time, and a place for wishes.
pub struct Context<'a, R> {
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    wants: &'a mut Wants<R>,
}

impl<'a, R> Context<'a, R> {
    /// Collects wishes.
    pub const fn new(now: Now, wants: &'a mut Wants<R>) -> Self {
        Self { now, wants }
    }

    /// Begins to establish a link.
    pub fn dial(&mut self, dial: Dial) -> LinkId {
        self.wants.links += 1;
        let link = LinkId(self.wants.links);
        self.wants.list.push_back(Want::Dial(link, dial));
        link
    }

    /// Sends bytes on an established link.
    pub fn write(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.wants.list.push_back(Want::Write(link, bytes));
    }

    /// Reads on after [`crate::Flow::Hold`].
    pub fn resume(&mut self, link: LinkId) {
        self.wants.list.push_back(Want::Resume(link));
    }

    /// Ends a link at once; nothing is heard of it any more.
    pub fn end(&mut self, link: LinkId) {
        self.wants.list.push_back(Want::End(link));
    }

    /// Sets or clears a link's one deadline.
    pub fn set_deadline(&mut self, link: LinkId, at: Option<Millis>) {
        self.wants.list.push_back(Want::Deadline(link, at));
    }

    /// Answers the rest of the server.
    pub fn reply(&mut self, reply: R) {
        self.wants.replies.push_back(reply);
    }
}
