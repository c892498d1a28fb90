//! A caller's part of an exchange: a place among the requests, and the way of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use throng_backend::{Reply, WholeAnswer};
use throng_http1::origin::{OriginEvent, OriginFailure, OriginFailureKind};
use throng_types::ConnId;

/// Hands an event to the connection that asked, with the number that its request carried. Gives it
/// back if there is no room at the moment.
pub type Deliver = Arc<dyn Fn(ConnId, u32, OriginEvent) -> Result<(), OriginEvent> + Send + Sync>;

/// Hands on an answer that was read; false if there is no room at the moment.
pub(crate) type HandOn = Box<dyn FnMut() -> bool + Send>;

/// Reads a whole answer.
pub(crate) type Read = Box<dyn FnOnce(WholeAnswer) -> HandOn + Send>;

/// Places of a kind of requests.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    used: Arc<AtomicUsize>,
    max: usize,
    name: &'static str,
}

impl Room {
    pub(crate) fn new(max: usize, name: &'static str) -> Self {
        Self {
            used: Arc::default(),
            max,
            name,
        }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// [`OriginFailureKind::Busy`] if there is none.
    pub(crate) fn take(&self) -> Result<Permit, OriginFailure> {
        let more = |used: usize| (used < self.max).then_some(used + 1);
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let full = |_| OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: format!("{} {} to backends are under way", self.max, self.name),
        };
        taken.map_err(full)?;
        Ok(Permit(self.used.clone()))
    }
}

/// A place among the requests, until it is dropped.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Held by an exchange until it ends.
pub(crate) struct Held {
    _permit: Permit,
    read: Option<Read>,
    hand_on: Option<HandOn>,
}

impl Held {
    pub(crate) const fn new(permit: Permit, read: Option<Read>) -> Self {
        Self {
            _permit: permit,
            read,
            hand_on: None,
        }
    }

    /// Hands an answer on; it is read at the first try.
    fn deliver(&mut self, answer: WholeAnswer) -> bool {
        if let Some(read) = self.read.take() {
            self.hand_on = Some(read(answer));
        }
        self.hand_on.as_mut().is_none_or(|hand_on| hand_on())
    }
}

/// Brings a reply to its caller; gives it back if there is no room at the moment.
pub(crate) fn deliver(reply: Reply<Held>, to: &Deliver) -> Result<(), Reply<Held>> {
    match reply {
        Reply::Event(conn, number, event) => {
            to(conn, number, event).map_err(|event| Reply::Event(conn, number, event))
        }
        Reply::Whole(mut held, answer) => match held.deliver(answer) {
            true => Ok(()),
            // It was read, and waits in `held`.
            false => Err(Reply::Whole(held, Ok((0, Vec::new())))),
        },
    }
}
