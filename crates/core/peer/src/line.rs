//! A connection to one server as its user sees it: whole words instead of bytes.

use crate::context::Context;
use crate::link::{Ended, LinkId};

/// Something that happened to a [`Line`].
#[derive(Debug, PartialEq, Eq)]
pub enum LineEvent<H, W> {
    /// It is established: the server took the handshake and said this of itself.
    Up(H),
    /// A word of the server, and the bytes that it takes in memory.
    Word(W, usize),
    /// It is over, or did not come about; the text says why. [`Line::dial`] begins anew.
    Down(String),
}

/// One connection, from finding the server to the words that it says: a part of a peer, without
/// sockets and clocks.
///
/// The peer hands it every event of its links; a line may dial several one after the other (to ask
/// where the server is, say), and knows its own.
///
/// Bound: words that nobody took. Above it the line holds its link, and the server keeps the rest.
pub trait Line {
    /// What the server says of itself in the handshake.
    type Hello;
    /// A message or an answer of the server.
    type Word;

    /// Begins a connection; [`LineEvent::Up`] or [`LineEvent::Down`] follows. A connection before
    /// it ends without an event, and its words are forgotten.
    fn dial<R>(&mut self, cx: &mut Context<'_, R>);

    /// Whether a link is of this line.
    fn owns(&self, link: LinkId) -> bool;

    /// Goes on with a link that is established.
    fn connected<R>(&mut self, link: LinkId, cx: &mut Context<'_, R>);

    /// Takes bytes, whole.
    fn bytes<R>(&mut self, link: LinkId, input: &[u8], cx: &mut Context<'_, R>) -> crate::Flow;

    /// Notes that a link is gone.
    fn ended<R>(&mut self, link: LinkId, why: Ended, cx: &mut Context<'_, R>);

    /// Acts on a link's deadline.
    fn timeout<R>(&mut self, link: LinkId, cx: &mut Context<'_, R>);

    /// Takes the oldest event. Reads on where words had filled the line.
    fn next<R>(&mut self, cx: &mut Context<'_, R>) -> Option<LineEvent<Self::Hello, Self::Word>>;

    /// Sends bytes behind the handshake. They are lost if the connection is over.
    fn write<R>(&mut self, bytes: Vec<u8>, cx: &mut Context<'_, R>);

    /// Ends the connection at once, without an event.
    fn end<R>(&mut self, cx: &mut Context<'_, R>);
}
