//! The trait, and how tests play a peer.

use throng_types::{Millis, Now};

use crate::context::{Context, Want, Wants};
use crate::link::{Ended, Flow, LinkId};

/// A kind of server that we connect to. One value holds all links to servers of its kind.
pub trait Peer {
    /// A request of the rest of the server.
    type Call: Send + 'static;
    /// An answer to the rest of the server.
    type Reply: Send + 'static;

    /// Takes a request of the rest of the server.
    fn call(&mut self, call: Self::Call, cx: &mut Context<'_, Self::Reply>);

    /// Begins on a link that is established.
    fn connected(&mut self, link: LinkId, cx: &mut Context<'_, Self::Reply>);

    /// Takes the bytes of one read.
    fn bytes(&mut self, link: LinkId, input: &[u8], cx: &mut Context<'_, Self::Reply>) -> Flow;

    /// Goes on after the kernel has taken all that was written.
    fn written(&mut self, link: LinkId, cx: &mut Context<'_, Self::Reply>);

    /// Notes that a link is gone.
    fn ended(&mut self, link: LinkId, why: Ended, cx: &mut Context<'_, Self::Reply>);

    /// Acts on a link's deadline, which is unset now. If bytes wait for the kernel, `waits_since`
    /// is the time when it last took some, or when they began to wait.
    fn timeout(
        &mut self,
        link: LinkId,
        waits_since: Option<Millis>,
        cx: &mut Context<'_, Self::Reply>,
    );

    /// Acts on its own deadline, which is unset now.
    fn woken(&mut self, cx: &mut Context<'_, Self::Reply>) {
        let _ = cx;
    }

    /// The destination of a reply; `None` if others need not wait for it. While one is busy,
    /// replies to others go on.
    fn destination(reply: &Self::Reply) -> Option<usize>;
}

/// Drives a peer in tests: gives it events and collects its wishes.
pub struct Play<P: Peer> {
    /// The peer under test.
    pub peer: P,
    /// Time of the next event.
    pub now: Now,
    wants: Wants<P::Reply>,
}

impl<P: Peer> Play<P> {
    /// Starts at time zero.
    pub fn new(peer: P) -> Self {
        Self {
            peer,
            now: Now::default(),
            wants: Wants::default(),
        }
    }

    /// Runs one event; gives the peer's wishes after it.
    pub fn act<R>(
        &mut self,
        event: impl FnOnce(&mut P, &mut Context<'_, P::Reply>) -> R,
    ) -> (R, Vec<Want>) {
        let result = event(&mut self.peer, &mut Context::new(self.now, &mut self.wants));
        (result, std::iter::from_fn(|| self.wants.take()).collect())
    }

    /// Takes the replies so far.
    pub fn replies(&mut self) -> Vec<P::Reply> {
        self.wants.replies.drain(..).collect()
    }
}
