//! Clock of the run, and the thread that wakes workers on time.
//!
//! Owns: the clock that due times, stamps and arrivals are read from, in µs. It shows Unix time
//! at the start of the process and goes on monotonically, so that processes on one machine agree,
//! and agents agree once the controller has told each its offset.
//!
//! The engine sleeps in whole milliseconds, which would make every event up to one late. The wake
//! timer sleeps to the µs that a worker has asked for, and wakes it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throng_engine::MailboxSender;
use throng_types::Millis;

/// Clock of a run, in µs.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    base_us: u64,
}

impl Clock {
    pub fn start() -> Self {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            base_us: unix.as_micros() as u64,
        }
    }

    /// Subtracts the offset to another machine's clock.
    pub const fn shifted(self, offset_us: i64) -> Self {
        Self {
            base_us: self.base_us.saturating_add_signed(-offset_us),
            ..self
        }
    }

    /// Moment of the start, from which the engine counts.
    pub const fn started(self) -> Instant {
        self.started
    }

    pub fn now_us(self) -> u64 {
        self.base_us + self.started.elapsed().as_micros() as u64
    }

    /// Converts a moment to the engine's count, rounded up: never before the moment.
    pub(crate) const fn to_millis(self, at_us: u64) -> Millis {
        Millis(at_us.saturating_sub(self.base_us).div_ceil(1000))
    }
}

/// Time of an event that is never due.
pub const NEVER: u64 = u64::MAX;

/// Times at which each worker has something to do next.
#[derive(Debug)]
pub(crate) struct Wakes {
    due_us: Box<[AtomicU64]>,
    // Until when the wake timer sleeps.
    asleep_until_us: AtomicU64,
    ended: AtomicBool,
}

impl Wakes {
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        Arc::new(Self {
            due_us: (0..workers).map(|_| AtomicU64::new(NEVER)).collect(),
            asleep_until_us: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        })
    }

    /// Sets the time of a worker, and wakes the timer if it would oversleep.
    pub(crate) fn set(&self, worker: usize, due_us: u64, timer: &Thread) {
        let Some(slot) = self.due_us.get(worker) else {
            return;
        };
        let before = slot.swap(due_us, Ordering::SeqCst);
        if due_us < before && due_us < self.asleep_until_us.load(Ordering::SeqCst) {
            timer.unpark();
        }
    }
}

pub(crate) struct WakeTimer {
    wakes: Arc<Wakes>,
    thread: Option<JoinHandle<()>>,
}

impl WakeTimer {
    /// Starts the thread for these mailboxes, one for each worker.
    pub(crate) fn start<M: Send + 'static>(
        wakes: Arc<Wakes>,
        clock: Clock,
        mailboxes: Vec<MailboxSender<M>>,
    ) -> std::io::Result<Self> {
        let shared = wakes.clone();
        let thread = std::thread::Builder::new()
            .name("wake-timer".into())
            .spawn(move || run(&shared, clock, &mailboxes))?;
        Ok(Self {
            wakes,
            thread: Some(thread),
        })
    }

    pub(crate) fn thread(&self) -> Option<Thread> {
        self.thread.as_ref().map(|thread| thread.thread().clone())
    }
}

impl Drop for WakeTimer {
    fn drop(&mut self) {
        self.wakes.ended.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say; a panic in it has been printed.
            let _ = thread.join();
        }
    }
}

/// Longest sleep: an hour is as good as forever, since a worker that wants less wakes the thread.
const SLEEP_US_MAX: u64 = 3_600_000_000;

fn run<M>(wakes: &Wakes, clock: Clock, mailboxes: &[MailboxSender<M>]) {
    while !wakes.ended.load(Ordering::SeqCst) {
        let now_us = clock.now_us();
        let mut next_us = now_us + SLEEP_US_MAX;
        for (slot, mailbox) in wakes.due_us.iter().zip(mailboxes) {
            let due_us = slot.load(Ordering::SeqCst);
            if due_us <= now_us {
                // A worker that is woken sets its time anew.
                let order = Ordering::SeqCst;
                if slot.compare_exchange(due_us, NEVER, order, order).is_ok() {
                    mailbox.ring();
                }
            } else {
                next_us = next_us.min(due_us);
            }
        }
        wakes.asleep_until_us.store(next_us, Ordering::SeqCst);
        // Looked at once more: somebody may have asked before the line above, and not have woken
        // us.
        let sooner = |slot: &AtomicU64| slot.load(Ordering::SeqCst) < next_us;
        if !wakes.due_us.iter().any(sooner) {
            let sleep_us = next_us.saturating_sub(clock.now_us());
            std::thread::park_timeout(Duration::from_micros(sleep_us));
        }
        wakes.asleep_until_us.store(0, Ordering::SeqCst);
    }
}

/// Reads the CPU time of this thread in µs.
pub(crate) fn cpu_us() -> u64 {
    throng_sys::cpu::thread_time().map_or(0, |time| time.total_us())
}
