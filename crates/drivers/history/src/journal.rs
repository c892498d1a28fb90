//! The server's end of the writer: begin, let go, end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use crate::Ring;
use crate::lane::{Common, Order};
use crate::writer::{Writer, asked};

/// Handle of the running writer thread.
pub struct Journal {
    common: Arc<Common>,
    thread: JoinHandle<()>,
}

impl Journal {
    pub(crate) fn start(common: Arc<Common>, writer: Writer, rings: Vec<Ring>) -> io::Result<Self> {
        let thread = std::thread::Builder::new()
            .name("history".to_owned())
            .spawn(move || writer.run(&rings))?;
        Ok(Self { common, thread })
    }

    /// Whether nothing is written at the moment, because the disk refuses it.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.common.is_failing.load(Ordering::Relaxed)
    }

    /// Returns a check for any thread: true unless the disk refuses what is written.
    #[must_use]
    pub fn health(&self) -> Box<dyn Fn() -> bool + Send + Sync> {
        let common = self.common.clone();
        Box::new(move || !common.is_failing.load(Ordering::Relaxed))
    }

    /// Takes the folder after another process has let go, or this one has; waits for that, a
    /// little, and for the disk. If that fails, the log says so, and it is tried again from time to
    /// time.
    pub fn begin(&self) {
        self.ask(Order::Begin);
    }

    /// Writes everything that shards have left until now, and lets go of the folder. What they
    /// leave afterwards waits for [`Journal::begin`].
    pub fn let_go(&self) {
        self.ask(Order::LetGo);
    }

    /// Stops writing: another process has taken over.
    pub fn give_up(&self) {
        self.common.is_over.store(true, Ordering::Relaxed);
        for shard in 0..self.common.shards() {
            self.common.waiting(shard).bytes = Vec::new();
        }
    }

    /// The shards have ended: writes what is left and, if all of them ended well, that nothing is
    /// missing.
    pub fn close(self, is_whole: bool) {
        self.ask(Order::Close { is_whole });
        // A panic of the writer was printed when it came.
        let _ = self.thread.join();
    }

    fn ask(&self, order: Order) {
        let (asked, heard) = asked(order);
        self.common.order(asked);
        // If the writer has ended, it says so by that.
        let _ = heard.recv();
    }
}
