//! Deliveries on their way out: written at once where nothing waits, queued where something does.

use std::io;

use throng_types::Frame;

use super::{Conns, Delivery, NO_QUEUE, Pieces, flag};
use crate::Kernel;
use crate::outbound::Pushed;

impl<S, K: Kernel> Conns<S, K> {
    /// Hands deliveries to the connection in a slot.
    ///
    /// If nothing waits for it, they are written at once from the shared bytes; what the
    /// kernel does not take, or what must gather, goes to the connection's queue.
    pub fn deliver(&mut self, index: u32, delivery: &Delivery<'_>) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.has(flag::LEAVING | flag::SECURE) {
            if !slot.has(flag::LEAVING) {
                self.deliver_secure(index, delivery);
            }
            return;
        }
        if slot.out == NO_QUEUE && !delivery.gather {
            self.stats.writes += 1;
            match self.kernel.send(&slot.socket, delivery.joined) {
                Ok(sent) => {
                    self.stats.sent_bytes += sent as u64;
                    if sent < delivery.joined.len() {
                        self.queue_rest(index, delivery, sent);
                    } else {
                        self.stats.deliveries += delivery.frames.len() as u64;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.queue_rest(index, delivery, 0);
                }
                Err(error) => self.fail(index, &error),
            }
            return;
        }
        self.queue_frames(index, delivery.frames.each(), delivery);
    }

    /// Queues what the kernel did not take of a delivery, from the frame that was cut.
    fn queue_rest(&mut self, index: u32, delivery: &Delivery<'_>, mut sent: usize) {
        let was_refused = sent == 0;
        let frames = delivery.frames.each();
        let mut whole = 0;
        while let Some(frame) = frames.get(whole).filter(|frame| frame.len() <= sent) {
            sent -= frame.len();
            whole += 1;
        }
        self.stats.deliveries += whole as u64;
        let mut rest = &frames[whole..];
        let queue = self.queue_mut(index);
        if let Some((cut, after)) = rest.split_first().filter(|_| sent > 0) {
            queue.push_begun(cut, sent);
            rest = after;
            self.sum.note_frame(cut);
        }
        let queue = self.queue_mut(index);
        queue.blocked = true;
        self.stats.deliveries += u64::from(sent > 0);
        if was_refused {
            self.ask_for_room(index);
        } else {
            // Asked once more, so that the kernel's word that it is full is certain.
            self.mark_dirty(index);
        }
        self.queue_frames(index, rest, delivery);
    }

    pub(super) fn queue_frames(&mut self, index: u32, frames: &[Frame], delivery: &Delivery<'_>) {
        let bytes_max = self.limits.queue_bytes_max;
        let queue = self.queue_mut(index);
        let (mut queued, mut dropped, mut full) = (0, 0, false);
        let kept_all = queue.dropped == 0;
        if let Pieces::Parts(parts) = delivery.frames {
            full = queue.push_parts(parts, bytes_max) == Pushed::Full;
            queued = if full { 0 } else { parts.len() as u64 };
        } else {
            for frame in frames {
                match queue.push_frame(frame, delivery.key, delivery.overflow, bytes_max) {
                    Pushed::Queued { dropped: gone } => {
                        queued += 1;
                        dropped += u64::from(gone);
                    }
                    Pushed::Full => {
                        full = true;
                        break;
                    }
                }
            }
        }
        let blocked = queue.blocked;
        self.stats.deliveries += queued;
        self.stats.forgot(delivery.overflow, dropped, kept_all);
        if !blocked {
            self.mark_dirty(index);
        }
        for frame in frames.iter().take(queued as usize) {
            self.sum.note_frame(frame);
        }
        if full {
            self.end_slow(index);
        }
        self.keep_bound();
    }
}
