//! Connections that end because their queue was full: the peer is told so.
//!
//! Frames that have begun to leave still do, so that the peer sees whole ones; the queue behind is
//! forgotten at once. Then comes the app's last word, TLS's own, and the end. All of it has
//! [`SLOW_MS`], whatever the peer reads meanwhile.
//!
//! Never: writes; `write.rs` and `secure.rs` do.

use throng_types::ConnId;

use super::{Conns, flag};
use crate::{Closed, Effects, Kernel};

/// Milliseconds that a slow peer has for the rest and the last word. Bytes that the kernel holds
/// come before them.
pub(super) const SLOW_MS: u64 = 15_000;

impl<S, K: Kernel> Conns<S, K> {
    /// Ends a connection because its queue is full. [`Conns::take_slow`] names it until the app has
    /// heard of it, in the same turn.
    pub(super) fn end_slow(&mut self, index: u32) {
        let Some(slot) = self
            .slots
            .get_mut(index)
            .filter(|slot| !slot.has(flag::SLOW | flag::CLOSED))
        else {
            return;
        };
        slot.flags |= flag::SLOW;
        if let Some(queue) = self.queues.get_mut(slot.out) {
            queue.keep_begun();
        }
        // Nothing can be said yet.
        let is_mute = slot.has(flag::SHAKING | flag::CONNECTING);
        self.stats.slow += 1;
        self.slow.push(index);
        self.wheel.set(index, Some(self.now.mono + SLOW_MS));
        if is_mute {
            self.close(index, Closed::Slow);
        }
    }

    #[inline]
    pub(crate) const fn has_slow(&self) -> bool {
        !self.slow.is_empty()
    }

    /// The next connection whose queue was full and of which the app has not heard.
    pub(crate) fn take_slow(&mut self) -> Option<u32> {
        self.slow.pop()
    }

    /// Lets the app say its last word on a slow connection.
    pub(crate) fn act_slow(
        &mut self,
        index: u32,
        act: impl FnOnce(ConnId, &mut S, &mut Effects<'_>),
    ) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let id = ConnId::new(self.shard, index, slot.generation);
        let mut out = std::mem::take(&mut self.scratch);
        let mut fx = slot.effects(self.now, &mut out);
        act(id, &mut slot.session, &mut fx);
        slot.flags |= flag::ENDING;
        if !slot.has(flag::CLOSED) {
            if !out.is_empty() {
                self.queue_mut(index).push_own(&out);
            }
            self.mark_dirty(index);
        }
        self.put_back(out);
    }
}
