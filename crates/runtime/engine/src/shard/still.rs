//! Turns in which nothing comes from outside: what a shard has taken it brings to its end, so that
//! another process can go on from there.
//!
//! Never: reads, accepts, or looks at deadlines. What becomes ready is remembered and read in the
//! next ordinary turn, if there is one.

use std::io;
use std::time::Duration;

use throng_types::{ConnId, Millis, Now};

use super::Running;
use crate::conns::Flushed;
use crate::{App, Conns, Kernel, Source};

/// Longest wait of a still turn for mail of other shards.
const WAIT: Duration = Duration::from_millis(1);

impl<A: App<K>, K: Kernel> Running<A, K> {
    /// Takes such a turn; true if more is to be done. It does not sleep.
    ///
    /// # Errors
    /// As [`Running::turn`].
    pub fn still_turn(&mut self) -> io::Result<bool> {
        let wait = if self.more { Duration::ZERO } else { WAIT };
        let mut ready = std::mem::take(&mut self.ready);
        self.conns.kernel.wait(Some(wait), &mut ready)?;
        if std::mem::take(&mut self.asleep) {
            self.mail.awake();
        }
        let now = Now {
            mono: Millis(self.conns.kernel.mono_us() / 1000),
            unix_ms: self.conns.kernel.unix_ms(),
        };
        self.conns.set_now(now);
        self.stats.turns += 1;
        let mut flushed = Flushed::default();
        for event in &ready {
            match event.source {
                Source::Mailbox => {}
                Source::Listener(number) => {
                    if let Some(listener) = self.listeners.get_mut(usize::from(number)) {
                        listener.waiting = true;
                    }
                }
                Source::Connection(index) => {
                    if event.writable && !self.conns.is_connecting(index) {
                        self.conns.write(index, &mut flushed);
                    }
                    // Told once only.
                    if (event.readable || event.error) && self.conns.list(index) {
                        self.unread.push(index);
                    }
                }
            }
        }
        self.ready = ready;
        let mut more = self.take_mail(now);
        more |= self.app.turn(&mut self.conns, now);
        self.post_mail();
        more |= self.app.deliver(&mut self.conns, now);
        more |= self.tell_slow();
        self.stop_listening(self.conns.now());
        self.conns.flush(&mut flushed);
        self.unread.append(&mut flushed.unread);
        for (index, error) in flushed.broken {
            self.conns.fail(index, &error);
        }
        for (index, dropped) in flushed.drained {
            if !self.conns.is_ending(index) {
                let app = &mut self.app;
                self.conns.act(index, |id, session, fx| {
                    app.drained(id, session, dropped, fx)
                });
                more = true;
            }
        }
        more |= self.tell_slow();
        more |= self.remove_closed(now);
        self.tell_tls();
        more |= self.post_mail() || self.mail_left;
        self.more = more;
        Ok(more)
    }

    /// Whether mail of other shards waits to be taken.
    pub fn has_mail(&self) -> bool {
        self.mail.has_mail()
    }

    /// The app and its connections, between two turns.
    pub const fn parts_mut(&mut self) -> (&mut A, &mut Conns<A::Session, K>) {
        (&mut self.app, &mut self.conns)
    }

    /// Goes on with ordinary turns after still ones: the next one does not wait. Listeners that
    /// were closed meanwhile are gone by then: another process may have them, and a connection
    /// that the next turn would accept from one is for that process.
    pub fn resume(&mut self) {
        self.stop_listening(self.conns.now());
        self.more = true;
    }

    /// Looks at every connection in the next turn, after some were taken out and adopted again:
    /// what the kernel had told of them is forgotten.
    pub fn take_back(&mut self) {
        let all: Vec<ConnId> = self.conns.movable().collect();
        for id in all {
            if self.conns.list_again(id) {
                self.unread.push(id.index());
            }
        }
    }

    /// Begins to serve connections that were adopted.
    pub fn begin(&mut self) {
        self.conns.watch_adopted();
        self.more = true;
    }
}
