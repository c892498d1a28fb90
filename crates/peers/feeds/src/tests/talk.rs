//! A task and the servers that it talks to, played.

use std::cell::RefCell;
use std::rc::Rc;

use throng_peer::task::{Net, Task, Tasks};
use throng_peer::{Context, LinkId, Want, Wants};
use throng_types::Now;

/// A task at work.
pub(crate) struct Talk {
    pub(crate) tasks: Tasks,
    now: Now,
    wants: Wants<()>,
    outcome: Rc<RefCell<Option<String>>>,
    _task: Task,
}

impl Talk {
    /// Starts it; gives its first wishes.
    pub(crate) fn start<F: Future<Output = String> + 'static>(
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

    pub(crate) fn run(&mut self) -> Vec<Want> {
        self.tasks.run(&mut Context::new(self.now, &mut self.wants));
        std::iter::from_fn(|| self.wants.take()).collect()
    }

    pub(crate) fn connected(&mut self, link: u64) -> Vec<Want> {
        self.tasks.connected(LinkId(link));
        self.run()
    }

    /// The server says something, byte by byte.
    pub(crate) fn says(&mut self, link: u64, bytes: &[u8]) -> Vec<Want> {
        let mut wants = Vec::new();
        for byte in bytes {
            self.tasks.bytes(LinkId(link), &[*byte]);
            wants.extend(self.run());
        }
        wants
    }

    pub(crate) fn pass(&mut self, ms: u64) -> Vec<Want> {
        self.now.mono = self.now.mono + ms;
        self.run()
    }

    /// Text that the task ended with.
    #[track_caller]
    pub(crate) fn outcome(&self) -> String {
        self.outcome.borrow().clone().expect("an end")
    }
}
