//! Wishes: a peer states them, its host carries them out.

use std::collections::VecDeque;

use throng_types::{Millis, Now};

use crate::link::{Dial, DialTls, LinkId};

/// A wish of a peer, for its host.
#[derive(Debug, PartialEq, Eq)]
pub enum Want {
    /// Establish a link to an address.
    Dial(LinkId, Dial),
    /// Begin the TLS handshake on an established plain link.
    Secure(LinkId, DialTls),
    /// Send bytes on a link.
    Write(LinkId, Vec<u8>),
    /// Read a link again.
    Resume(LinkId),
    /// Close a link at once; queued bytes are lost.
    End(LinkId),
    /// Close a link after its queued bytes.
    Finish(LinkId),
    /// Set or clear a link's one deadline.
    Deadline(LinkId, Option<Millis>),
    /// Set or clear the one deadline of the peer itself.
    Wake(Option<Millis>),
}

/// Wishes in their order, and the number of links dialled.
#[derive(Default)]
struct Links {
    dialled: u64,
    /// Bound: the wishes of one turn.
    list: VecDeque<Want>,
}

/// Wishes of a peer that its host has not carried out yet, and its replies.
pub struct Wants<R> {
    links: Links,
    /// Replies in their order. Queue: `from a peer`.
    pub replies: VecDeque<R>,
}

impl<R> Default for Wants<R> {
    fn default() -> Self {
        Self {
            links: Links::default(),
            replies: VecDeque::new(),
        }
    }
}

impl<R> Wants<R> {
    /// Whether there is no wish.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.list.is_empty()
    }

    /// Number of wishes that wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.list.len()
    }

    /// The wishes behind the first `count`.
    pub fn behind(&self, count: usize) -> impl Iterator<Item = &Want> {
        self.links.list.iter().skip(count)
    }

    /// Takes the oldest wish.
    pub fn take(&mut self) -> Option<Want> {
        self.links.list.pop_front()
    }
}

/// The time, and a place for wishes.
pub struct Context<'a, R> {
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    links: &'a mut Links,
    /// Replies in their order. Queue: `from a peer`.
    replies: &'a mut VecDeque<R>,
}

impl<'a, R> Context<'a, R> {
    /// Makes a context that collects wishes in `wants`.
    pub const fn new(now: Now, wants: &'a mut Wants<R>) -> Self {
        Self {
            now,
            links: &mut wants.links,
            replies: &mut wants.replies,
        }
    }

    /// The context of a peer inside of this one, whose replies go there.
    pub const fn inner<'b, S>(&'b mut self, replies: &'b mut VecDeque<S>) -> Context<'b, S> {
        Context {
            now: self.now,
            links: self.links,
            replies,
        }
    }

    /// Begins to establish a link.
    pub fn dial(&mut self, dial: Dial) -> LinkId {
        self.links.dialled += 1;
        let link = LinkId(self.links.dialled);
        self.links.list.push_back(Want::Dial(link, dial));
        link
    }

    /// Starts a TLS handshake on an established plain link on which nothing waits to be written.
    /// [`crate::Peer::connected`] or [`crate::Peer::ended`] follows.
    pub fn secure(&mut self, link: LinkId, tls: DialTls) {
        self.links.list.push_back(Want::Secure(link, tls));
    }

    /// Sends bytes on an established link.
    pub fn write(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.links.list.push_back(Want::Write(link, bytes));
    }

    /// Reads on after [`crate::Flow::Hold`].
    pub fn resume(&mut self, link: LinkId) {
        self.links.list.push_back(Want::Resume(link));
    }

    /// Ends a link at once; no event of it follows.
    pub fn end(&mut self, link: LinkId) {
        self.links.list.push_back(Want::End(link));
    }

    /// Ends a link after its queued bytes; no event of it follows.
    pub fn finish(&mut self, link: LinkId) {
        self.links.list.push_back(Want::Finish(link));
    }

    /// Sets or clears a link's one deadline.
    pub fn set_deadline(&mut self, link: LinkId, at: Option<Millis>) {
        self.links.list.push_back(Want::Deadline(link, at));
    }

    /// Sets or clears the peer's own deadline, for [`crate::Peer::woken`].
    pub fn wake_at(&mut self, at: Option<Millis>) {
        self.links.list.push_back(Want::Wake(at));
    }

    /// Number of waiting replies: those of this turn, and those whose destination was busy.
    #[must_use]
    pub fn replies_waiting(&self) -> usize {
        self.replies.len()
    }

    /// Answers the rest of the server.
    pub fn reply(&mut self, reply: R) {
        self.replies.push_back(reply);
    }
}
