//! An app's answer to a new connection, and the output of one of its calls.

use throng_types::{Actions, End, Millis, Now};

/// Answer of an app to a new connection.
pub struct Accepted<S> {
    /// Kept with the connection.
    pub session: S,
    /// Given back when it closes.
    pub tag: u32,
    /// First deadline of the connection, if any.
    pub deadline: Option<Millis>,
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The peer closed or shut its sending side, and what waited for it has left or was discarded.
    ByPeer,
    ByApp,
    /// The kernel reported an error, by number.
    Error(i32),
    /// The connection's queue was full.
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
    /// Whether TLS is spoken on the connection.
    pub is_tls: bool,
    /// Actions on the connection, for the engine to carry out.
    pub actions: Actions,
}

impl<'a> Effects<'a> {
    /// Effects over a buffer; for the engine and for tests of sessions.
    #[must_use]
    pub const fn new(out: &'a mut Vec<u8>, now: Now) -> Self {
        Self {
            out,
            now,
            tag: 0,
            is_tls: false,
            actions: Actions {
                deadline: None,
                end: None,
                hold: None,
                forget_held: false,
                pause: None,
            },
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
