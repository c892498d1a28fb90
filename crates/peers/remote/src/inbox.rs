//! What a connection has read waits here until the driver takes it.
//!
//! Rule for "full": the connection's thread waits, so that nothing more is read and the broker
//! keeps the rest or ends the connection.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// Words that may wait for the driver. Queue: `from the broker`.
const WORDS_MAX: usize = 16_384;
/// Their bytes, unless a single one has more. Queue: `from the broker`.
const WORD_BYTES_MAX: usize = 32 << 20;

/// What happens to a connection.
pub enum Event<U, W> {
    /// It stands.
    Up(U),
    /// The broker said something, of so many bytes.
    Word(W, usize),
    /// It is over, or never was.
    Down(String),
}

impl<U, W> Event<U, W> {
    const fn bytes(&self) -> usize {
        match self {
            Self::Word(_, bytes) => *bytes,
            _ => 0,
        }
    }
}

struct Waiting<U, W> {
    /// Queue: `from the broker`.
    events: VecDeque<(u64, Event<U, W>)>,
    bytes: usize,
    is_closed: bool,
}

/// What waits for the driver, with the number of its connection.
pub struct Inbox<U, W> {
    waiting: Mutex<Waiting<U, W>>,
    room: Condvar,
    driver: Thread,
}

impl<U, W> Inbox<U, W> {
    pub(crate) const fn new(driver: Thread) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                events: VecDeque::new(),
                bytes: 0,
                is_closed: false,
            }),
            room: Condvar::new(),
            driver,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<U, W>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room. False if nobody takes anything any more.
    pub fn put(&self, link: u64, event: Event<U, W>) -> bool {
        let bytes = event.bytes();
        let mut waiting = self.lock();
        while !waiting.is_closed
            && (waiting.events.len() >= WORDS_MAX
                || waiting.bytes > 0 && waiting.bytes + bytes > WORD_BYTES_MAX)
        {
            waiting = { &self.room }
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.is_closed {
            return false;
        }
        waiting.bytes += bytes;
        waiting.events.push_back((link, event));
        drop(waiting);
        self.driver.unpark();
        true
    }

    /// Takes up to so many, in order.
    pub(crate) fn take(&self, most: usize, into: &mut Vec<(u64, Event<U, W>)>) {
        let mut waiting = self.lock();
        let count = most.min(waiting.events.len());
        into.extend(waiting.events.drain(..count));
        let taken: usize = into.iter().map(|(_, event)| event.bytes()).sum();
        waiting.bytes -= taken;
        self.room.notify_all();
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.room.notify_all();
    }
}
