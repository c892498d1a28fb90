//! An app's answer to a new connection, and the output of one of its calls.

use throng_types::{Actions, End, Http2, Millis, Now};

/// Answer of an app to a new connection.
pub struct Accepted<S> {
    pub session: S,
    /// Given back when it closes.
    pub tag: u32,
    pub deadline: Option<Millis>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed or shut its sending side, and what waited for it has left or was discarded.
    ByPeer,
    ByApp,
    /// The kernel reported an error, by number.
    Error(i32),
    Slow,
}

/// Output of one call of the app: bytes, and actions on the connection.
pub struct Effects<'a> {
    /// Bytes for the peer: append.
    pub out: &'a mut Vec<u8>,
    /// The clocks, as read at the start of the turn.
    pub now: Now,
    /// Value of [`Accepted::tag`] for this connection.
    pub tag: u32,
    pub is_tls: bool,
    pub http2: Http2,
    /// Actions on the connection, for the engine to carry out.
    pub actions: Actions,
}

impl<'a> Effects<'a> {
    /// Effects over a buffer; for the engine and for tests of sessions.
    pub fn new(out: &'a mut Vec<u8>, now: Now) -> Self {
        Self {
            out,
            now,
            tag: 0,
            is_tls: false,
            http2: Http2::None,
            actions: Actions::default(),
        }
    }

    /// Pauses or resumes the input; see [`Actions::pause`].
    pub const fn pause(&mut self, pause: bool) {
        self.actions.pause = Some(pause);
    }

    /// Sets or clears the connection's one deadline.
    pub const fn set_deadline(&mut self, deadline: Option<Millis>) {
        self.actions.deadline = Some(deadline);
    }

    /// Holds or releases the queue; see [`Actions::hold`].
    pub const fn hold(&mut self, hold: bool) {
        self.actions.hold = Some(hold);
    }

    /// Ends the connection; the first wish counts, but "now" outranks "flush".
    pub fn end(&mut self, end: End) {
        self.actions.end(end);
    }
}
