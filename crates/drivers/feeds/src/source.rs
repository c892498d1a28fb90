//! What a feed wants of any source.

use std::time::Duration;

use crate::event::Event;

/// How long a source may wait for events in one call, so that the end of the server is noticed.
pub(crate) const LOOK: Duration = Duration::from_millis(250);
/// How long connecting may take, and any answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);

/// Why a source cannot be used now; a sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Fault(pub(crate) String);

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{TimedOut, UnexpectedEof, WouldBlock};
        match error.kind() {
            TimedOut | WouldBlock => Self::new("it does not answer"),
            UnexpectedEof => Self::new("it has closed the connection"),
            _ => Self(error.to_string()),
        }
    }
}

impl From<std::io::ErrorKind> for Fault {
    fn from(kind: std::io::ErrorKind) -> Self {
        Self::from(std::io::Error::from(kind))
    }
}

/// A connection to where events are. After a fault it is dropped, and another one made.
pub(crate) trait Source: Send {
    /// The next events, in order, at most a batch; none after at most about [`LOOK`] without any.
    /// Called after [`Source::done`] or [`Source::put_back`] alone.
    fn take(&mut self) -> Result<Vec<Event>, Fault>;
    /// All of the last batch is done.
    fn done(&mut self) -> Result<(), Fault>;
    /// Nothing of the last batch is done: it comes again.
    fn put_back(&mut self) -> Result<(), Fault>;
    /// Whether it reads, after a [`Source::take`] without a fault: it may wait for others first.
    fn reads(&self) -> bool {
        true
    }
    /// Called about every [`LOOK`] while a batch is under way, or waits for the broker: keeps what
    /// the source takes back from who is silent. What goes wrong is said by the next call.
    fn keep(&mut self) {}
    /// How many events wait, if that can be said now.
    fn lag(&mut self) -> Result<Option<u64>, Fault>;
}
