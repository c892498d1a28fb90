//! The peer's side of tasks: takes events, polls, gives wishes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as PollContext, Poll, Wake, Waker};

use throng_types::{Millis, Now};

use crate::{Context, Dial, DialTls, Ended, Flow, LinkId};

/// Unread input of one link above which the host stops reading it, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 << 10;

/// A task that was spawned. Dropping it ends the task and its links.
#[must_use = "a task ends when this is dropped"]
pub struct Task(Arc<AtomicBool>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Net {
    /// Starts a task beside this one. It is polled in the same turn.
    pub fn spawn(&self, future: impl Future<Output = ()> + 'static) -> Task {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        self.0.borrow_mut().spawned.push(Spawned {
            future: Box::pin(future),
            ready: Arc::new(Ready(AtomicBool::new(true))),
            is_cancelled: is_cancelled.clone(),
        });
        Task(is_cancelled)
    }

    /// The clocks, as read at the start of the turn.
    #[must_use]
    pub fn now(&self) -> Now {
        self.0.borrow().now
    }
}

#[derive(Default)]
pub struct Tasks {
    net: Net,
    tasks: Vec<Spawned>,
}

impl Tasks {
    /// Handle from which tasks are made.
    #[must_use]
    pub fn net(&self) -> &Net {
        &self.net
    }

    fn world<R>(&self, act: impl FnOnce(&mut World) -> R) -> R {
        act(&mut self.net.0.borrow_mut())
    }

    fn link<R>(&self, id: LinkId, act: impl FnOnce(&mut LinkState) -> R) -> Option<R> {
        self.world(|world| {
            let key = world.ids.get(&id)?;
            world.links.get_mut(key).map(act)
        })
    }

    /// Whether a link is a task's.
    #[must_use]
    pub fn has(&self, link: LinkId) -> bool {
        self.world(|world| world.ids.contains_key(&link))
    }

    /// Notes that a link is established; see [`crate::Peer::connected`].
    pub fn connected(&self, link: LinkId) {
        self.link(link, LinkState::connected);
    }

    /// Takes input; see [`crate::Peer::bytes`].
    pub fn bytes(&self, link: LinkId, input: &[u8]) -> Flow {
        let flow = self.link(link, |state| state.bytes(input));
        flow.unwrap_or(Flow::More)
    }

    /// Notes that the kernel has taken all that was written; see [`crate::Peer::written`].
    pub fn written(&self, link: LinkId) {
        self.link(link, LinkState::written);
    }

    /// Notes that a link is gone; see [`crate::Peer::ended`].
    pub fn ended(&self, link: LinkId, why: Ended) {
        self.link(link, |state| state.ended(why));
        self.world(|world| {
            if let Some(key) = world.ids.remove(&link) {
                world.names.remove(&key);
            }
        });
    }

    /// The next time at which a task has something to do; a peer calls [`Self::run`] then.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.world(|world| world.due.first().map(|(at, _)| *at))
    }

    /// Whether no task is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.world(|world| world.spawned.is_empty())
    }

    /// Polls all tasks that can go on, and states their wishes.
    pub fn run<R>(&mut self, cx: &mut Context<'_, R>) {
        self.world(|world| world.begin(cx.now));
        loop {
            let spawned = self.world(|world| std::mem::take(&mut world.spawned));
            self.tasks.extend(spawned);
            let is_cancelled = |task: &Spawned| task.is_cancelled.load(Ordering::Relaxed);
            self.tasks.retain(|task| !is_cancelled(task));
            let mut has_polled = false;
            let mut at = 0;
            while let Some(task) = self.tasks.get_mut(at) {
                if is_cancelled(task) || !task.ready.0.swap(false, Ordering::Relaxed) {
                    at += 1;
                    continue;
                }
                has_polled = true;
                let waker = Waker::from(task.ready.clone());
                let polled = task
                    .future
                    .as_mut()
                    .poll(&mut PollContext::from_waker(&waker));
                match polled {
                    Poll::Ready(()) => drop(self.tasks.remove(at)),
                    Poll::Pending => at += 1,
                }
            }
            if !has_polled {
                break;
            }
        }
        self.state_wishes(cx);
    }

    fn state_wishes<R>(&self, cx: &mut Context<'_, R>) {
        let mut world = self.net.0.borrow_mut();
        for wish in std::mem::take(&mut world.wishes) {
            world.carry_out(wish, cx);
        }
    }
}

impl World {
    fn begin(&mut self, now: Now) {
        self.now = now;
        while let Some(&(at, timer)) = self.due.first().filter(|(at, _)| *at <= now.mono) {
            self.due.remove(&(at, timer));
            if let Some(waker) = self.timers.remove(&timer) {
                waker.wake();
            }
        }
    }

    fn carry_out<R>(&mut self, wish: Wish, cx: &mut Context<'_, R>) {
        let id = |key| self.names.get(&key).copied();
        match wish {
            Wish::Dial(key, dial) => {
                let id = cx.dial(dial);
                self.ids.insert(id, key);
                self.names.insert(key, id);
            }
            Wish::Secure(key, tls) => drop(id(key).map(|id| cx.secure(id, tls))),
            Wish::Write(key, bytes) => drop(id(key).map(|id| cx.write(id, bytes))),
            Wish::Resume(key) => drop(id(key).map(|id| cx.resume(id))),
            Wish::ResumeReleased(id) => cx.resume(id),
            Wish::End(key) | Wish::Finish(key) => {
                let is_finished = matches!(wish, Wish::Finish(_));
                if let Some(id) = self.names.remove(&key) {
                    self.ids.remove(&id);
                    match is_finished {
                        true => cx.finish(id),
                        false => cx.end(id),
                    }
                }
            }
        }
    }
}

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
