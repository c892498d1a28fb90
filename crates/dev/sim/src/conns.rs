//! A shard's connections: the engine's table, with [`Net`] in the kernel's place.
//!
//! Follows the engine step by step where order matters: what a session writes is queued, then
//! deliveries are held or let go, then the connection ends; a connection that is on its
//! way out gets nothing new; nothing disappears before the turn is over.

mod deliver;
mod slot;

use throng_session::{End, Fx, Order, Session};
use throng_types::{ConnId, Millis, Now, ShardId};

use crate::net::{Net, Sent};
use crate::outbound::Outbound;
pub(crate) use deliver::Delivery;
pub(crate) use slot::Closed;
use slot::{Slot, Table};

/// How long an ending connection may go without progress.
const LINGER_MS: u64 = 5_000;

/// See the module's head.
pub(crate) struct Conns {
    shard: ShardId,
    queue_bytes_max: usize,
    slots: Table,
    generation: u32,
    pub(crate) now: Now,
    doomed: Vec<(u32, Closed)>,
    /// Deliveries forgotten for slow clients.
    pub(crate) dropped: u64,
}

impl Conns {
    pub(crate) fn new(shard: ShardId, queue_bytes_max: usize) -> Self {
        Self {
            shard,
            queue_bytes_max,
            slots: Table::default(),
            generation: 0,
            now: Now::default(),
            doomed: Vec::new(),
            dropped: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.iter().next().is_none()
    }

    pub(crate) fn id(&self, index: u32) -> Option<ConnId> {
        let slot = self.slots.get(index)?;
        Some(ConnId::new(self.shard, index, slot.generation))
    }

    pub(crate) fn sessions(&self) -> impl Iterator<Item = (ConnId, &Session)> {
        self.slots.iter().map(|(index, slot)| {
            (
                ConnId::new(self.shard, index, slot.generation),
                &slot.session,
            )
        })
    }

    pub(crate) fn session(&self, id: ConnId) -> Option<&Session> {
        let slot = self.slots.get(id.index())?;
        (self.id(id.index()) == Some(id)).then_some(&slot.session)
    }

    pub(crate) fn insert(
        &mut self,
        pipe: usize,
        session: Session,
        deadline: Option<Millis>,
    ) -> ConnId {
        self.generation += 1;
        let generation = self.generation;
        let index = self.slots.insert(Slot {
            pipe,
            generation,
            session,
            out: None,
            deadline,
            ending: false,
            lingering: false,
            read_end: false,
            doomed: false,
            dirty: false,
        });
        ConnId::new(self.shard, index, generation)
    }

    // ---- sessions act ----

    /// Lets a session act outside its own events; nothing if the connection has gone.
    pub(crate) fn with(
        &mut self,
        id: ConnId,
        orders: &mut Vec<Order>,
        run: impl FnOnce(&mut Session, &mut Fx<'_>),
    ) {
        if self.session(id).is_some() {
            self.act(id.index(), orders, |_, session, fx| run(session, fx));
        }
    }

    pub(crate) fn act(
        &mut self,
        index: u32,
        orders: &mut Vec<Order>,
        run: impl FnOnce(ConnId, &mut Session, &mut Fx<'_>),
    ) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        let id = ConnId::new(self.shard, index, slot.generation);
        let mut out = Vec::new();
        let mut fx = Fx::new(&mut out, orders, self.now);
        run(id, &mut slot.session, &mut fx);
        let (deadline, end, hold) = (fx.deadline, fx.end, fx.hold);
        if slot.leaving() {
            if end == Some(End::Now) {
                self.doom(index, Closed::ByApp);
            }
            return;
        }
        if let Some(deadline) = deadline {
            slot.deadline = deadline;
        }
        if !out.is_empty() {
            let queue = slot.out.get_or_insert_default();
            if queue.bytes() > 2 * self.queue_bytes_max {
                self.doom(index, Closed::Slow);
            } else {
                queue.push_own(&out);
                slot.dirty |= !queue.blocked;
            }
        }
        self.hold_and_end(index, hold, end);
    }

    fn hold_and_end(&mut self, index: u32, hold: Option<bool>, end: Option<End>) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if let Some(hold) = hold
            && (hold || slot.out.as_ref().is_some_and(Outbound::is_held))
        {
            slot.out.get_or_insert_default().hold(hold);
            slot.dirty = true;
        }
        match end {
            None => {}
            Some(End::Now) => self.doom(index, Closed::ByApp),
            Some(End::Flush) => {
                slot.ending = true;
                if let Some(queue) = slot.out.as_mut() {
                    queue.forget_held();
                }
                slot.deadline = Some(self.now.mono + LINGER_MS);
                slot.dirty = true;
            }
        }
    }

    fn doom(&mut self, index: u32, why: Closed) {
        if let Some(slot) = self.slots.get_mut(index).filter(|slot| !slot.doomed) {
            slot.doomed = true;
            self.doomed.push((index, why));
        }
    }

    // ---- the turn ----

    /// Connections with something to read, and those that may be written to again.
    pub(crate) fn ready(&self, net: &Net) -> Vec<u32> {
        let ready = |slot: &Slot| {
            let blocked = slot.out.as_ref().is_some_and(|queue| queue.blocked);
            (!slot.read_end && net.is_readable(slot.pipe))
                || (blocked && net.is_writable(slot.pipe))
        };
        self.slots
            .iter()
            .filter(|(_, slot)| ready(slot))
            .map(|(index, _)| index)
            .collect()
    }

    /// Takes at most so many bytes of input; `None` if there is nothing for the session.
    pub(crate) fn read(&mut self, index: u32, bytes_max: usize, net: &mut Net) -> Option<Vec<u8>> {
        let slot = self.slots.get_mut(index)?;
        if slot.doomed || slot.read_end {
            return None;
        }
        let waiting = slot.out.as_ref().map_or(0, Outbound::bytes);
        if waiting > self.queue_bytes_max / 4 && !slot.lingering {
            return None;
        }
        let pipe = net.pipe(slot.pipe);
        if pipe.client_reset {
            let why = if slot.lingering {
                slot.ended_by()
            } else {
                Closed::Error
            };
            self.doom(index, why);
            return None;
        }
        if pipe.up.is_empty() && pipe.client_fin {
            self.read_ended(index);
            return None;
        }
        let count = pipe.up.len().min(bytes_max);
        let input: Vec<u8> = pipe.up.drain(..count).collect();
        (!input.is_empty() && !slot.leaving()).then_some(input)
    }

    fn read_ended(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        slot.read_end = true;
        if let Some(queue) = slot.out.as_mut() {
            queue.forget_held();
            slot.deadline = Some(self.now.mono + LINGER_MS);
            slot.dirty = true;
        } else {
            let why = slot.ended_by();
            self.doom(index, why);
        }
    }

    /// Connections whose deadline has come; it is unset. Those on their way out are ended.
    pub(crate) fn expired(&mut self) -> Vec<u32> {
        let now = self.now.mono;
        let due = self
            .slots
            .iter()
            .filter(|(_, slot)| slot.deadline.is_some_and(|at| at <= now));
        let due: Vec<u32> = due.map(|(index, _)| index).collect();
        let mut alive = Vec::new();
        for index in due {
            if let Some(slot) = self.slots.get_mut(index) {
                slot.deadline = None;
                if slot.leaving() {
                    let why = slot.ended_by();
                    self.doom(index, why);
                } else {
                    alive.push(index);
                }
            }
        }
        alive
    }

    /// Writes to every dirty connection. Returns those whose queues became empty after they
    /// had lagged, with the deliveries that they lost.
    pub(crate) fn flush(&mut self, net: &mut Net) -> Vec<(u32, u64)> {
        let dirty = self.slots.iter().filter(|(_, slot)| slot.dirty);
        let dirty: Vec<u32> = dirty.map(|(index, _)| index).collect();
        dirty
            .into_iter()
            .filter_map(|index| self.write(index, net))
            .collect()
    }

    pub(crate) fn write(&mut self, index: u32, net: &mut Net) -> Option<(u32, u64)> {
        let slot = self.slots.get_mut(index)?;
        slot.dirty = false;
        if slot.doomed {
            return None;
        }
        let leaving = slot.leaving();
        let Some(queue) = slot.out.as_mut() else {
            if leaving {
                self.written(index, net);
            }
            return None;
        };
        queue.lagged |= queue.blocked;
        let mut full = false;
        while queue.may_leave() {
            match net.send(slot.pipe, &queue.head()) {
                Sent::Bytes(sent) => queue.sent(sent),
                Sent::WouldBlock => {
                    full = true;
                    break;
                }
                Sent::Broken => {
                    self.doom(index, Closed::Error);
                    return None;
                }
            }
            if leaving {
                slot.deadline = Some(self.now.mono + LINGER_MS);
            }
        }
        queue.blocked = full;
        queue.lagged |= full;
        if !queue.is_empty() || queue.is_held() {
            return None;
        }
        let drained = (queue.lagged || queue.dropped > 0).then_some((index, queue.dropped));
        slot.out = None;
        if leaving {
            self.written(index, net);
            return None;
        }
        drained
    }

    fn written(&mut self, index: u32, net: &mut Net) {
        let Some(slot) = self.slots.get_mut(index) else {
            return;
        };
        if slot.read_end {
            let why = slot.ended_by();
            self.doom(index, why);
        } else if slot.ending {
            slot.ending = false;
            slot.lingering = true;
            slot.deadline = Some(self.now.mono + LINGER_MS);
            net.pipe(slot.pipe).server_fin = true;
        }
    }

    pub(crate) fn take_doomed(&mut self, net: &mut Net) -> Option<(ConnId, Session, Closed)> {
        let (index, why) = self.doomed.pop()?;
        let slot = self.slots.remove(index)?;
        net.pipe(slot.pipe).server_gone = true;
        Some((
            ConnId::new(self.shard, index, slot.generation),
            slot.session,
            why,
        ))
    }

    /// Bytes that wait in a connection's queue.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.slots
            .iter()
            .filter_map(|(_, slot)| slot.out.as_ref())
            .map(Outbound::bytes)
            .sum()
    }

    /// Connections that are not on their way out.
    pub(crate) fn is_leaving(&self, index: u32) -> bool {
        self.slots.get(index).is_none_or(Slot::leaving)
    }
}
