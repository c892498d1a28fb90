//! The trait of what we connect to: a gateway turned outward.
//!
//! A [`Peer`] speaks to servers over links that it dials itself. Bytes, time and calls of the rest
//! of the server come in; bytes, dials, deadlines and replies go out, as wishes in a
//! [`PeerContext`].
//! `runtime/outward` carries them out on a shard of the engine.
//!
//! A peer that sends its servers one request after the other is written as [`task`]s.
//!
//! Never: sockets, names, TLS, clocks.
//!
//! The contract
//! - [`PeerContext::dial`] gives a link at once. Exactly one [`LinkEvent::Ended`] ends it, unless
//!   [`PeerContext::end`] did: no event of an ended link follows.
//! - [`LinkEvent::Connected`] comes before all else of a link, behind the TLS handshake, and before
//!   it nothing is written. It comes once more behind the handshake that [`Want::Secure`]
//!   begins.
//! - Every [`PeerContext::write`] to a link is followed by [`LinkEvent::Written`] once the kernel
//!   has taken all that was written until then; several writes may share one.
//! - Input comes as one read brought it; after [`ReadFlow::Hold`] none comes until
//!   [`PeerContext::resume`]. The end of a link comes behind its input, unless the link broke.
//! - Replies to one destination arrive in their order. They wait without a bound of their own where
//!   the destination is busy: a peer bounds what it has under way.

pub mod task;

use std::collections::VecDeque;
use std::path::PathBuf;

use throng_types::{Millis, Now};

#[derive(Debug, PartialEq, Eq)]
pub enum Want {
    Dial(LinkId, Dial),
    /// Begin the TLS handshake on an established plain link.
    Secure(LinkId, DialTls),
    Write(LinkId, Vec<u8>),
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
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.list.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.links.list.len()
    }

    /// The wishes behind the first `count`.
    pub fn behind(&self, count: usize) -> impl Iterator<Item = &Want> {
        self.links.list.iter().skip(count)
    }

    pub fn take(&mut self) -> Option<Want> {
        self.links.list.pop_front()
    }
}

/// The time, and a place for wishes.
pub struct PeerContext<'a, R> {
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    links: &'a mut Links,
    /// Replies in their order. Queue: `from a peer`.
    replies: &'a mut VecDeque<R>,
}

impl<'a, R> PeerContext<'a, R> {
    /// Makes a context that collects wishes in `wants`.
    pub const fn new(now: Now, wants: &'a mut Wants<R>) -> Self {
        Self {
            now,
            links: &mut wants.links,
            replies: &mut wants.replies,
        }
    }

    /// The context of a peer inside of this one, whose replies go there.
    pub const fn inner<'b, S>(&'b mut self, replies: &'b mut VecDeque<S>) -> PeerContext<'b, S> {
        PeerContext {
            now: self.now,
            links: self.links,
            replies,
        }
    }

    pub fn dial(&mut self, dial: Dial) -> LinkId {
        self.links.dialled += 1;
        let link = LinkId(self.links.dialled);
        self.links.list.push_back(Want::Dial(link, dial));
        link
    }

    pub fn write(&mut self, link: LinkId, bytes: Vec<u8>) {
        self.links.list.push_back(Want::Write(link, bytes));
    }

    /// Reads on after [`ReadFlow::Hold`].
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

    /// Sets or clears the peer's own deadline, for [`Peer::woken`].
    pub fn wake_at(&mut self, at: Option<Millis>) {
        self.links.list.push_back(Want::Wake(at));
    }

    /// Number of waiting replies: those of this turn, and those whose destination was busy.
    #[must_use]
    pub fn replies_waiting(&self) -> usize {
        self.replies.len()
    }

    pub fn reply(&mut self, reply: R) {
        self.replies.push_back(reply);
    }
}

/// A link that a peer dialled. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub u64);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dial {
    /// A name, an address, or the path of a socket of this machine, which begins with `/`. If one
    /// of a name's addresses fails, the next is tried.
    pub host: String,
    pub port: u16,
    /// TLS options; `None` for plain text.
    pub tls: Option<DialTls>,
    /// Milliseconds for look-up, all of a name's addresses and handshake together.
    pub timeout_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialTls {
    /// The name that the certificate must carry.
    pub name: String,
    /// Accepts any certificate; no verification.
    pub insecure: bool,
    /// PEM file of the trusted authorities, read for each handshake; without one, those of this
    /// machine.
    pub authorities: Option<PathBuf>,
    /// Offers HTTP/2, and nothing else (ALPN).
    pub http2: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// The other side closed it, behind all of its bytes.
    #[error("it closed the connection")]
    ByPeer,
    /// The link could not be established; the text has the reason.
    #[error("{0}")]
    Unreachable(String),
    /// The link broke, and bytes behind those received may be missing; the text has the reason.
    #[error("{0}")]
    Broken(String),
}

/// Whether the host reads more input of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFlow {
    More,
    /// Read nothing until [`crate::PeerContext::resume`].
    Hold,
}

#[derive(Debug)]
pub enum LinkEvent<'a> {
    /// The link is established, and its TLS handshake done.
    Connected,
    Bytes(&'a [u8]),
    /// The kernel has taken all that was written.
    Written,
    Ended(Ended),
    /// The link's deadline has come, and is unset now. If bytes wait for the kernel, with the time
    /// when it last took some, or when they began to wait.
    Timeout(Option<Millis>),
}

/// A kind of server that we connect to. One value holds all links to servers of its kind.
pub trait Peer {
    type Call: Send + 'static;
    type Reply: Send + 'static;

    /// Takes a request of the rest of the server.
    fn call(&mut self, call: Self::Call, cx: &mut PeerContext<'_, Self::Reply>);

    /// Takes an event of a link. The answer counts for [`LinkEvent::Bytes`] alone.
    fn event(
        &mut self,
        link: LinkId,
        event: LinkEvent<'_>,
        cx: &mut PeerContext<'_, Self::Reply>,
    ) -> ReadFlow;

    /// Acts on its own deadline, which is unset now.
    fn woken(&mut self, cx: &mut PeerContext<'_, Self::Reply>) {
        let _ = cx;
    }

    /// The destination of a reply; `None` if others need not wait for it. While one is busy,
    /// replies to others go on.
    fn destination(reply: &Self::Reply) -> Option<usize>;
}
