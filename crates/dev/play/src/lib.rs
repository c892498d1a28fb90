//! Plays the host of a peer, or of a task, for tests: gives it events and collects its wishes.

use std::cell::RefCell;
use std::rc::Rc;

use throng_peer::task::{Net, Task, Tasks};
use throng_peer::{LinkEvent, LinkId, Peer, PeerContext, ReadFlow, Want, Wants};
use throng_types::Now;

/// A peer under test.
pub struct Play<P: Peer> {
    pub peer: P,
    /// Time of the next event.
    pub now: Now,
    wants: Wants<P::Reply>,
}

impl<P: Peer> Play<P> {
    /// Starts at time zero.
    pub fn new(peer: P) -> Self {
        Self {
            peer,
            now: Now::default(),
            wants: Wants::default(),
        }
    }

    /// Runs one event; gives the peer's wishes after it.
    pub fn act<R>(
        &mut self,
        event: impl FnOnce(&mut P, &mut PeerContext<'_, P::Reply>) -> R,
    ) -> (R, Vec<Want>) {
        let result = event(
            &mut self.peer,
            &mut PeerContext::new(self.now, &mut self.wants),
        );
        (result, std::iter::from_fn(|| self.wants.take()).collect())
    }

    /// Runs one event of a link; gives whether the peer takes more bytes of it, and the peer's
    /// wishes after it.
    pub fn event(&mut self, link: LinkId, event: LinkEvent<'_>) -> (ReadFlow, Vec<Want>) {
        self.act(|peer, cx| peer.event(link, event, cx))
    }

    /// Takes the replies so far.
    pub fn replies(&mut self) -> Vec<P::Reply> {
        self.wants.replies.drain(..).collect()
    }
}

/// A task at work, whose outcome is a text. It ends with the value.
pub struct Talk {
    pub tasks: Tasks,
    now: Now,
    wants: Wants<()>,
    outcome: Rc<RefCell<Option<String>>>,
    _task: Task,
}

impl Talk {
    /// Starts a task at time zero; gives its first wishes.
    pub fn start<F: Future<Output = String> + 'static>(
        task: impl FnOnce(Net) -> F,
    ) -> (Self, Vec<Want>) {
        let tasks = Tasks::default();
        let outcome = Rc::new(RefCell::new(None));
        let (future, into) = (task(tasks.net().clone()), outcome.clone());
        let task = tasks.net().spawn(async move {
            let text = future.await;
            *into.borrow_mut() = Some(text);
        });
        let mut talk = Self {
            tasks,
            now: Now::default(),
            wants: Wants::default(),
            outcome,
            _task: task,
        };
        let wants = talk.run();
        (talk, wants)
    }

    /// Runs the task as far as it goes now; gives its wishes since.
    pub fn run(&mut self) -> Vec<Want> {
        self.tasks
            .run(&mut PeerContext::new(self.now, &mut self.wants));
        std::iter::from_fn(|| self.wants.take()).collect()
    }

    /// Runs one event of a link; gives the task's wishes after it.
    pub fn event(&mut self, link: u64, event: LinkEvent<'_>) -> Vec<Want> {
        self.tasks.event(LinkId(link), event);
        self.run()
    }

    pub fn connected(&mut self, link: u64) -> Vec<Want> {
        self.event(link, LinkEvent::Connected)
    }

    /// The server says something, byte by byte.
    pub fn says(&mut self, link: u64, bytes: &[u8]) -> Vec<Want> {
        let each = bytes.chunks(1);
        each.flat_map(|byte| self.event(link, LinkEvent::Bytes(byte)))
            .collect()
    }

    /// Lets so many milliseconds pass, and runs the task.
    pub fn pass(&mut self, ms: u64) -> Vec<Want> {
        self.now.mono = self.now.mono + ms;
        self.run()
    }

    /// Text that the task ended with; none while it runs.
    #[must_use]
    pub fn ended(&self) -> Option<String> {
        self.outcome.borrow().clone()
    }

    /// Text that the task ended with.
    ///
    /// # Panics
    /// If it still runs.
    #[must_use]
    #[track_caller]
    pub fn outcome(&self) -> String {
        self.ended().expect("an end")
    }
}
