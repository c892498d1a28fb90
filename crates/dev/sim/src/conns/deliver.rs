//! Deliveries: written at once if nothing waits, queued by their channel's rule if something does.

use throng_broker::Overflow;
use throng_types::Frame;

use super::{Closed, Conns};
use crate::net::{Net, Sent};
use crate::outbound::Pushed;

/// Frames for one connection.
pub(crate) struct Delivery<'a> {
    pub(crate) frames: &'a [Frame],
    pub(crate) joined: &'a Frame,
    pub(crate) key: u32,
    pub(crate) overflow: Overflow,
    pub(crate) gather: bool,
}

impl Conns {
    pub(crate) fn deliver(&mut self, index: u32, delivery: &Delivery<'_>, net: &mut Net) {
        let Some(slot) = self.slots.get_mut(index) else {
            panic!("deliveries go to the living");
        };
        if slot.leaving() {
            return;
        }
        if slot.out.is_some() || delivery.gather {
            return self.queue_frames(index, delivery.frames, delivery);
        }
        match net.send(slot.pipe, delivery.joined) {
            Sent::Bytes(sent) if sent == delivery.joined.len() => {}
            Sent::Bytes(sent) => self.queue_rest(index, delivery, sent),
            Sent::WouldBlock => self.queue_rest(index, delivery, 0),
            Sent::Broken => self.doom(index, Closed::Error),
        }
    }

    fn queue_rest(&mut self, index: u32, delivery: &Delivery<'_>, mut sent: usize) {
        let mut rest = delivery.frames;
        while let Some((whole, after)) = rest.split_first()
            && whole.len() <= sent
        {
            sent -= whole.len();
            rest = after;
        }
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let queue = slot.out.get_or_insert_default();
        if let Some((cut, after)) = rest.split_first().filter(|_| sent > 0) {
            queue.push_begun(cut, sent);
            rest = after;
            slot.dirty = true;
        }
        queue.blocked = true;
        self.queue_frames(index, rest, delivery);
    }

    fn queue_frames(&mut self, index: u32, frames: &[Frame], delivery: &Delivery<'_>) {
        let bytes_max = self.queue_bytes_max;
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let queue = slot.out.get_or_insert_default();
        let mut full = false;
        for frame in frames {
            match queue.push_frame(frame, delivery.key, delivery.overflow, bytes_max) {
                Pushed::Queued { dropped } => self.dropped += dropped,
                Pushed::Full => {
                    full = true;
                    break;
                }
            }
        }
        assert!(
            queue.delivery_bytes() <= bytes_max,
            "a queue keeps within its bound"
        );
        slot.dirty |= !queue.blocked;
        if full {
            self.doom(index, Closed::Slow);
        }
    }
}
