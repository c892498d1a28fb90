//! The contract between a feed and any source.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

use throng_peer::Ended;
use throng_peer::task::{Late, Net};
use throng_types::Rng;

use crate::event::Event;

/// The longest wait for events in one call of a source, in milliseconds: between two of them the
/// end of the server is noticed.
pub(crate) const LOOK_MS: u64 = 250;
/// Bound of connecting and of any answer, in milliseconds.
pub(crate) const ANSWER_MS: u64 = 10_000;

/// Reads a file's text; the error is a sentence.
pub type ReadFile = fn(&Path) -> Result<String, String>;

/// Everything that a source is made with, beside its options.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) net: Net,
    /// Differs for each connection.
    pub(crate) rng: Rng,
    /// Events of a batch at most.
    pub(crate) batch_max: usize,
    pub(crate) read_file: ReadFile,
    /// Name that the source gave this feed, which outlives connections.
    pub(crate) member: Rc<RefCell<String>>,
    /// Progress in a stream of NATS, which outlives connections.
    pub(crate) progress: Rc<RefCell<Progress>>,
}

#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Time at which the stream was made; differs for another one of the same name.
    created: String,
    seq: u64,
}

impl Progress {
    /// Notes that all of a stream up to this number is done.
    pub(crate) fn remember(&mut self, created: &str, seq: u64) {
        if self.created != created {
            (self.created, self.seq) = (created.to_owned(), 0);
        }
        self.seq = self.seq.max(seq);
    }

    /// Number up to which this stream was read, as far as this node knows.
    pub(crate) fn of(&self, created: &str) -> Option<u64> {
        (self.created == created).then_some(self.seq)
    }
}

/// Why a source cannot be used now; a sentence for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Fault(pub(crate) String);

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<Ended> for Fault {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::ByPeer => Self::new("it has closed the connection"),
            Ended::Unreachable(why) | Ended::Broken(why) => Self(why),
        }
    }
}

impl From<Late> for Fault {
    fn from(_: Late) -> Self {
        Self::new("it does not answer")
    }
}

/// A connection to where events are. After a fault it is left, and another one made.
pub(crate) trait Source {
    /// The next events, in order, at most a batch; none after at most about [`LOOK_MS`] without
    /// any. Called after [`Source::done`] or [`Source::put_back`] alone.
    async fn take(&mut self) -> Result<Vec<Event>, Fault>;
    /// All of the last batch is done.
    async fn done(&mut self) -> Result<(), Fault>;
    /// Nothing of the last batch is done: it comes again.
    async fn put_back(&mut self) -> Result<(), Fault>;
    /// Whether it reads, after a [`Source::take`] without a fault: it may wait for others first.
    fn reads(&self) -> bool {
        true
    }
    /// Called about every [`LOOK_MS`] while a batch is under way, or waits for the broker: keeps
    /// what the source takes back from a reader that is silent. The next call reports failures.
    async fn keep(&mut self) {}
    /// Number of events that wait, if that can be said now.
    async fn lag(&mut self) -> Result<Option<u64>, Fault>;
    /// Gives back what others wait for, and ends the connection; also after a fault, and then in
    /// vain perhaps. Takes a second at most where the source does not answer.
    async fn leave(self);
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Setup {
        /// A setup without files.
        pub(crate) fn of_test(net: &Net, batch_max: usize) -> Self {
            Self {
                net: net.clone(),
                rng: Rng::new(1),
                batch_max,
                read_file: |_| Err("no file".to_owned()),
                member: Rc::default(),
                progress: Rc::default(),
            }
        }
    }

    #[test]
    fn what_was_read_is_known_of_one_stream() {
        let mut progress = Progress::default();
        assert_eq!(progress.of("monday"), None);
        progress.remember("monday", 7);
        progress.remember("monday", 5);
        assert_eq!(progress.of("monday"), Some(7));
        progress.remember("tuesday", 2);
        assert_eq!(progress.of("monday"), None);
        assert_eq!(progress.of("tuesday"), Some(2));
    }
}
