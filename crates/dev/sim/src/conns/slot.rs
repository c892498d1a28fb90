//! A connection's slot, and the few of them that a shard has.

use throng_session::Session;
use throng_types::Millis;

use crate::outbound::Outbound;

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    ByPeer,
    ByApp,
    Error,
    Slow,
}

pub(super) struct Slot {
    pub(super) pipe: usize,
    pub(super) generation: u32,
    pub(super) session: Session,
    pub(super) out: Option<Outbound>,
    pub(super) deadline: Option<Millis>,
    pub(super) ending: bool,
    pub(super) lingering: bool,
    pub(super) read_end: bool,
    pub(super) doomed: bool,
    pub(super) dirty: bool,
}

impl Slot {
    pub(super) const fn leaving(&self) -> bool {
        self.ending || self.lingering || self.read_end || self.doomed
    }

    pub(super) const fn ended_by(&self) -> Closed {
        if self.read_end && !self.ending && !self.lingering {
            Closed::ByPeer
        } else {
            Closed::ByApp
        }
    }
}

/// A few slots; the lowest free one is taken first, so that slots are soon used again.
#[derive(Default)]
pub(super) struct Table(Vec<Option<Slot>>);

impl Table {
    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        self.0.get(index as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.0.get_mut(index as usize)?.as_mut()
    }

    pub(super) fn insert(&mut self, slot: Slot) -> u32 {
        let free = self.0.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.0.push(None);
            self.0.len() - 1
        });
        self.0[at] = Some(slot);
        at as u32
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Slot> {
        self.0.get_mut(index as usize)?.take()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Slot)> {
        let slots = self.0.iter().enumerate();
        slots.filter_map(|(at, slot)| Some((at as u32, slot.as_ref()?)))
    }
}
