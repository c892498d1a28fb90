//! State that tasks share with the peer that polls them: links, timers, wishes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use throng_types::{Millis, Now};

use crate::link::{Dial, DialTls, Ended, Flow, LinkId};

/// Handle to the shared state of tasks. Clones lead to the same one.
#[derive(Clone, Default)]
pub struct Net(pub(super) Rc<RefCell<World>>);

/// Identifies a link before its host has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

/// A wish of a task. Carried out after it was polled.
pub(super) enum Wish {
    Dial(Key, Dial),
    Secure(Key, DialTls),
    Write(Key, Vec<u8>),
    Resume(Key),
    /// Resumes reading of a link that is the peer's own now.
    ResumeReleased(LinkId),
    Finish(Key),
    End(Key),
}

/// State of links and timers that tasks share with [`Tasks`].
#[derive(Default)]
pub(super) struct World {
    pub(super) now: Now,
    pub(super) next_key: u64,
    /// Bound: what tasks wish in one poll.
    pub(super) wishes: Vec<Wish>,
    pub(super) links: BTreeMap<Key, LinkState>,
    pub(super) ids: BTreeMap<LinkId, Key>,
    pub(super) names: BTreeMap<Key, LinkId>,
    pub(super) next_timer: u64,
    pub(super) due: BTreeSet<(Millis, u64)>,
    pub(super) timers: BTreeMap<u64, Waker>,
    /// Bound: tasks that were spawned in one poll.
    pub(super) spawned: Vec<Spawned>,
}

impl Net {
    /// The clocks, as read at the start of the turn.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.borrow().now
    }
}

/// Unread input of one link above which the host stops reading it, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 << 10;

/// State of a link between its task and its host.
#[derive(Default)]
pub(super) struct LinkState {
    /// Established, and its TLS handshake done.
    pub(super) is_ready: bool,
    /// Input came before the TLS handshake.
    pub(super) is_unprotected: bool,
    /// Unread input. Bound: [`INPUT_BYTES_MAX`] and one read.
    pub(super) input: VecDeque<u8>,
    /// The host reads nothing until [`Wish::Resume`].
    pub(super) is_held: bool,
    /// Bytes were written that the kernel may not have taken.
    pub(super) is_writing: bool,
    pub(super) ended: Option<Ended>,
    pub(super) waker: Option<Waker>,
}

impl LinkState {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn connected(&mut self) {
        self.is_unprotected = !self.input.is_empty();
        self.is_ready = true;
        self.wake();
    }

    pub(super) fn bytes(&mut self, input: &[u8]) -> Flow {
        self.input.extend(input);
        self.wake();
        if self.input.len() < INPUT_BYTES_MAX {
            return Flow::More;
        }
        self.is_held = true;
        Flow::Hold
    }

    pub(super) fn written(&mut self) {
        self.is_writing = false;
        self.wake();
    }

    pub(super) fn ended(&mut self, why: Ended) {
        self.ended = Some(why);
        self.wake();
    }
}

/// Tasks ready to be polled.
pub(super) struct Ready(pub(super) AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A future on its way into [`Tasks`].
pub(super) struct Spawned {
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
    pub(super) ready: Arc<Ready>,
    pub(super) is_cancelled: Arc<AtomicBool>,
}
