//! Sequential code over links: a task awaits where a thread would block.
//!
//! A handshake, or a source that gets one request after the other, is an `async` function over
//! a [`Net`]. A [`Peer`] owns its [`Tasks`], hands them the events of its links and its wake-ups,
//! and polls what became ready. Without sockets, clocks and threads: time is the turn's.
//!
//! Never: runs by itself, or on another thread than its peer.
//!
//! Invariants
//! - A task is polled only if something that it awaits has happened.
//! - A [`Link`] that is dropped ends; no event of it follows.
//!
//! Bound: [`INPUT_BYTES_MAX`] of unread input of a link and what one read brought; beyond it the
//! host reads nothing. A task bounds what it writes by what it awaits.
//!
//! [`Peer`]: crate::Peer

mod queue;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use throng_types::{Millis, Now};

use crate::{Dial, DialTls, Ended, LinkEvent, LinkId, PeerContext, ReadFlow, Want};

pub use queue::{QueueReceiver, QueueSender, queue};

/// Unread input of one link above which the host stops reading it, in bytes.
pub const INPUT_BYTES_MAX: usize = 256 << 10;

/// Tasks of a peer, and their links.
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

    #[must_use]
    pub fn has(&self, link: LinkId) -> bool {
        self.net.0.borrow().links.contains_key(&link)
    }

    pub fn event(&self, link: LinkId, event: LinkEvent<'_>) -> ReadFlow {
        let mut world = self.net.0.borrow_mut();
        let state = world.links.get_mut(&link);
        state.map_or(ReadFlow::More, |state| state.event(event))
    }

    /// The next time at which a task has something to do; a peer calls [`Self::run`] then.
    #[must_use]
    pub fn deadline(&self) -> Option<Millis> {
        self.net.0.borrow().due.first().map(|(at, _)| *at)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.net.0.borrow().spawned.is_empty()
    }

    /// Polls all tasks that can go on, and states their wishes.
    pub fn run<R>(&mut self, cx: &mut PeerContext<'_, R>) {
        self.net.0.borrow_mut().begin(cx);
        loop {
            let spawned = std::mem::take(&mut self.net.0.borrow_mut().spawned);
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
                let polled = task.future.as_mut().poll(&mut Context::from_waker(&waker));
                match polled {
                    Poll::Ready(()) => drop(self.tasks.remove(at)),
                    Poll::Pending => at += 1,
                }
            }
            if !has_polled {
                break;
            }
        }
        let mut world = self.net.0.borrow_mut();
        cx.links.dialled = world.dialled;
        cx.links.list.extend(world.wants.drain(..));
    }
}

/// A task that was spawned. Dropping it ends the task and its links.
#[must_use = "a task ends when this is dropped"]
pub struct Task(Arc<AtomicBool>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A future on its way into [`Tasks`], or there.
struct Spawned {
    future: Pin<Box<dyn Future<Output = ()>>>,
    ready: Arc<Ready>,
    is_cancelled: Arc<AtomicBool>,
}

/// Whether a task is to be polled.
struct Ready(AtomicBool);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// State of links and timers that tasks share with [`Tasks`].
#[derive(Default)]
struct World {
    now: Now,
    /// Number of links that the peer has dialled.
    dialled: u64,
    /// Bound: what tasks wish in one poll.
    wants: Vec<Want>,
    links: BTreeMap<LinkId, LinkState>,
    next_timer: u64,
    due: BTreeSet<(Millis, u64)>,
    timers: BTreeMap<u64, Waker>,
    /// Bound: tasks that were spawned in one poll.
    spawned: Vec<Spawned>,
}

impl World {
    fn dial(&mut self, dial: Dial) -> LinkId {
        self.dialled += 1;
        let id = LinkId(self.dialled);
        self.links.insert(id, LinkState::default());
        self.wants.push(Want::Dial(id, dial));
        id
    }

    fn begin<R>(&mut self, cx: &PeerContext<'_, R>) {
        (self.now, self.dialled) = (cx.now, cx.links.dialled);
        while let Some(&(at, timer)) = self.due.first().filter(|(at, _)| *at <= cx.now.mono) {
            self.due.remove(&(at, timer));
            if let Some(waker) = self.timers.remove(&timer) {
                waker.wake();
            }
        }
    }
}

/// State of a link between its task and its host.
#[derive(Default)]
struct LinkState {
    /// Established, and its TLS handshake done.
    is_ready: bool,
    /// Input came before the TLS handshake.
    is_unprotected: bool,
    /// Unread input. Bound: [`INPUT_BYTES_MAX`] and one read.
    input: VecDeque<u8>,
    /// The host reads nothing until [`Want::Resume`].
    is_held: bool,
    /// Bytes were written that the kernel may not have taken.
    is_writing: bool,
    ended: Option<Ended>,
    waker: Option<Waker>,
}

impl LinkState {
    fn event(&mut self, event: LinkEvent<'_>) -> ReadFlow {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
        match event {
            LinkEvent::Connected => {
                self.is_unprotected = !self.input.is_empty();
                self.is_ready = true;
            }
            LinkEvent::Bytes(input) => {
                self.input.extend(input);
                self.is_held = self.input.len() >= INPUT_BYTES_MAX;
            }
            LinkEvent::Written => self.is_writing = false,
            LinkEvent::Ended(why) => self.ended = Some(why),
            LinkEvent::Timeout(_) => {}
        }
        match self.is_held {
            true => ReadFlow::Hold,
            false => ReadFlow::More,
        }
    }
}

/// Handle to the shared state of tasks. Clones lead to the same one.
#[derive(Clone, Default)]
pub struct Net(Rc<RefCell<World>>);

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

    /// Waits until a time; ready at once if it has passed.
    #[must_use]
    pub fn sleep_until(&self, at: Millis) -> Sleep {
        Sleep {
            net: self.clone(),
            at,
            timer: None,
        }
    }

    #[must_use]
    pub fn sleep(&self, ms: u64) -> Sleep {
        self.sleep_until(self.now().mono + ms)
    }

    /// Gives a future so many milliseconds. At the deadline itself the future still wins.
    ///
    /// # Errors
    /// [`Late`], after that time.
    pub async fn timeout<F: Future>(&self, ms: u64, future: F) -> Result<F::Output, Late> {
        match first(future, self.sleep(ms)).await {
            Either::Left(output) => Ok(output),
            Either::Right(()) => Err(Late),
        }
    }

    /// Establishes a link.
    ///
    /// # Errors
    /// [`Ended::Unreachable`], with the host's text.
    pub async fn dial(&self, dial: Dial) -> Result<Link, Ended> {
        let id = self.0.borrow_mut().dial(dial);
        let net = self.clone();
        let link = Link { net, id };
        link.established().await?;
        Ok(link)
    }
}

/// A connection of a task. Dropping it ends it at once.
pub struct Link {
    net: Net,
    id: LinkId,
}

impl Link {
    /// Waits until `look` finds something; a link that has ended gives its end when `look` finds
    /// nothing.
    async fn wait<T>(&self, mut look: impl FnMut(&mut LinkState) -> Option<T>) -> Result<T, Ended> {
        poll_fn(|cx| {
            let mut world = self.net.0.borrow_mut();
            let Some(state) = world.links.get_mut(&self.id) else {
                return Poll::Ready(Err(Ended::ByPeer));
            };
            if let Some(found) = look(state) {
                return Poll::Ready(Ok(found));
            }
            if let Some(why) = &state.ended {
                return Poll::Ready(Err(why.clone()));
            }
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    async fn established(&self) -> Result<(), Ended> {
        let ready = self.wait(|state| state.is_ready.then_some(state.is_unprotected));
        match ready.await? {
            false => Ok(()),
            true => Err(Ended::Broken("it said something before TLS".to_owned())),
        }
    }

    /// Notes what is about to happen to the link, and states a wish of it unless it has ended.
    fn wish(&self, note: impl FnOnce(&mut LinkState), want: Want) {
        let mut world = self.net.0.borrow_mut();
        let Some(state) = world.links.get_mut(&self.id) else {
            return;
        };
        note(state);
        if state.ended.is_none() {
            world.wants.push(want);
        }
    }

    /// Starts a TLS handshake on a plain link. Both sides have agreed on it, and nothing waits to
    /// be written.
    ///
    /// # Errors
    /// The link's end; the text has the fault of TLS. Input from before the handshake is refused:
    /// an attacker on the network path may have sent it.
    pub async fn secure(&mut self, tls: DialTls) -> Result<(), Ended> {
        self.wish(|state| state.is_ready = false, Want::Secure(self.id, tls));
        self.established().await
    }

    /// Queues bytes to be sent.
    pub fn write(&mut self, bytes: Vec<u8>) {
        self.wish(|state| state.is_writing = true, Want::Write(self.id, bytes));
    }

    /// Waits until the kernel has taken all that was written.
    ///
    /// # Errors
    /// The end of the link.
    pub async fn written(&mut self) -> Result<(), Ended> {
        self.wait(|state| (!state.is_writing).then_some(())).await
    }

    /// Waits for input, and takes all that is there. Dropping the future takes nothing.
    ///
    /// # Errors
    /// The end of the link, after all input.
    pub async fn read(&mut self) -> Result<Vec<u8>, Ended> {
        let read = self.wait(|state| {
            let is_held = std::mem::take(&mut state.is_held);
            let input = Vec::from(std::mem::take(&mut state.input));
            (!input.is_empty()).then_some((input, is_held))
        });
        let (input, is_held) = read.await?;
        if is_held {
            self.wish(|_| {}, Want::Resume(self.id));
        }
        Ok(input)
    }

    /// Ends the link after its queued bytes.
    pub fn finish(self) {
        self.leave(Some(Want::Finish(self.id)));
    }

    /// Gives the link to the peer itself, which gets its events from now on, with the unread input.
    /// `None` if it has ended meanwhile.
    #[must_use]
    pub fn release(self) -> Option<(LinkId, Vec<u8>)> {
        let state = self.leave(None).filter(|state| state.ended.is_none())?;
        if state.is_held {
            self.net.0.borrow_mut().wants.push(Want::Resume(self.id));
        }
        Some((self.id, Vec::from(state.input)))
    }

    /// Takes the link from the tasks, unless that has happened. `want` is its last wish.
    fn leave(&self, want: Option<Want>) -> Option<LinkState> {
        let mut world = self.net.0.borrow_mut();
        let state = world.links.remove(&self.id)?;
        if state.ended.is_none() {
            world.wants.extend(want);
        }
        Some(state)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.leave(Some(Want::End(self.id)));
    }
}

/// Ends at a time. Dropping it forgets the timer.
pub struct Sleep {
    net: Net,
    at: Millis,
    timer: Option<u64>,
}

impl Sleep {
    fn forget(&mut self) {
        if let Some(timer) = self.timer.take() {
            let mut world = self.net.0.borrow_mut();
            world.timers.remove(&timer);
            world.due.remove(&(self.at, timer));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.net.now().mono {
            self.forget();
            return Poll::Ready(());
        }
        let at = self.at;
        let known = self.timer;
        let mut world = self.net.0.borrow_mut();
        let timer = known.unwrap_or_else(|| {
            world.next_timer += 1;
            world.next_timer
        });
        world.due.insert((at, timer));
        world.timers.insert(timer, cx.waker().clone());
        drop(world);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A future that did not end in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

/// The output of the first of two futures that was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    Left(A),
    Right(B),
}

/// Waits for one of two futures, and drops the other. The first wins where both are ready.
pub async fn first<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Either::Left(output)),
        Poll::Pending => b.as_mut().poll(cx).map(Either::Right),
    })
    .await
}

#[cfg(test)]
mod tests;
