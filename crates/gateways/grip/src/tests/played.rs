//! Backends played by a test: they record requests, and the test decides on events.

use std::cell::RefCell;

use super::*;
use crate::Backends;
use crate::exchanges::Ticket;

/// Record of calls to backends, and of the exchanges' ends.
#[derive(Default)]
pub(super) struct Log {
    pub(super) asked: Vec<(ConnId, u32, OriginRequest)>,
    /// Requests whose answer is not awaited.
    pub(super) told: Vec<OriginRequest>,
    pub(super) sent: Vec<u8>,
    pub(super) granted: usize,
    pub(super) finished: usize,
    pub(super) dropped: Vec<(ConnId, u32)>,
    /// There is no room for requests.
    pub(super) is_full: bool,
}

/// Backends controlled by the test.
#[derive(Clone, Default)]
pub(super) struct Played(pub(super) Rc<RefCell<Log>>);

struct Hand {
    log: Played,
    exchange: (ConnId, u32),
}

impl Played {
    fn room(&self) -> Result<(), OriginFailure> {
        let failure = OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: "full".to_owned(),
        };
        (!self.0.borrow().is_full).then_some(()).ok_or(failure)
    }
}

impl Backends for Played {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn Ticket>, OriginFailure> {
        self.room()?;
        self.0.borrow_mut().asked.push((conn, token, request));
        Ok(Box::new(Hand {
            log: self.clone(),
            exchange: (conn, token),
        }))
    }

    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        self.room()?;
        self.0.borrow_mut().told.push(request);
        Ok(())
    }
}

impl Ticket for Hand {
    fn grant(&self, bytes: usize) {
        self.log.0.borrow_mut().granted += bytes;
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.log.0.borrow_mut().sent.extend(bytes);
    }

    fn finish(&mut self) {
        self.log.0.borrow_mut().finished += 1;
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.log.0.borrow_mut().dropped.push(self.exchange);
    }
}
