//! Between the hub and the connections: the thin piece that knows both.

use std::sync::Arc;

use throng_engine::{Conns, Delivery, Effects, Kernel};
use throng_hub::{Answer, Asker, Batch, Format, Sink};
use throng_metrics::Counter;
use throng_session::{Desk, Fx, GripOrder, Order, Session, encode};
use throng_types::{Frame, Publication};

use crate::observe::recount;

/// The hub's view of the connections, for the length of one call.
pub(crate) struct Outlet<'a, K: Kernel> {
    pub(crate) conns: &'a mut Conns<Session, K>,
    pub(crate) desk: &'a Desk,
    pub(crate) orders: &'a mut Vec<Order>,
}

impl<K: Kernel> Sink for Outlet<'_, K> {
    fn answer(&mut self, asker: Asker, answer: Answer) {
        let (desk, orders) = (self.desk, &mut *self.orders);
        self.conns.with(asker.conn, |session, effects| {
            let before = session.standing();
            act(effects, orders, |fx| {
                session.answer(asker.conn, asker.token, answer, desk, fx)
            });
            recount(desk, before, session.standing());
        });
    }

    fn encode(&mut self, format: Format, publication: &Publication, out: &mut Vec<u8>) {
        encode(format, publication, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        if let Some(encoded) = batch.encoded
            && encoded.frames.iter().any(|frame| frame.is_empty())
        {
            return self.deliver_mixed(index, batch, &encoded.frames);
        }
        let personal;
        let mut is_grip = false;
        let (frames, joined) = if let Some(encoded) = batch.encoded {
            is_grip = self.delivered(index, encoded.frames.len());
            (&encoded.frames[..], &encoded.joined)
        } else {
            personal = self.personal(index, batch);
            match &personal {
                Some((frames, joined)) => (&frames[..], joined),
                None => return,
            }
        };
        let delivery = Delivery {
            frames,
            joined,
            key: batch.channel_key,
            overflow: batch.overflow,
            gather: batch.gather,
        };
        self.desk
            .board
            .add(Counter::Deliveries, frames.len() as u64);
        self.desk
            .board
            .add(Counter::DeliveryBytes, joined.len() as u64);
        self.deliver_counted(index, &delivery, is_grip.then_some(batch.publications));
    }

    fn carried(&mut self, publication: &Publication) {
        let grip = self.desk.grip.as_ref();
        if let Some((receipt, count)) = grip.and_then(|grip| grip.carried(publication)) {
            let order = GripOrder::Carried { receipt, count };
            self.orders.push(Order::Grip(order));
        }
    }
}

impl<'a, K: Kernel> Outlet<'a, K> {
    pub(crate) const fn new(
        conns: &'a mut Conns<Session, K>,
        desk: &'a Desk,
        orders: &'a mut Vec<Order>,
    ) -> Self {
        Self {
            conns,
            desk,
            orders,
        }
    }

    /// Delivers, and notes who takes publications whose publisher wants to know.
    fn deliver_counted(
        &mut self,
        index: u32,
        delivery: &Delivery<'_>,
        publications: Option<&[Arc<Publication>]>,
    ) {
        let tagged = |publication: &&Arc<Publication>| publication.tags.is_some();
        let Some((grip, publications)) = self.desk.grip.as_ref().zip(publications) else {
            return self.conns.deliver(index, delivery);
        };
        if publications.iter().find(tagged).is_none() {
            return self.conns.deliver(index, delivery);
        }
        let before = self.conns.stats().deliveries;
        self.conns.deliver(index, delivery);
        let taken = self.conns.stats().deliveries - before;
        if taken == delivery.frames.len() as u64 {
            for publication in publications {
                grip.took(publication);
            }
        }
    }

    /// Delivers publications of which some have no shared form: the session looks at these.
    fn deliver_mixed(&mut self, index: u32, batch: &Batch<'_>, frames: &[Frame]) {
        for (publication, frame) in batch.publications.iter().zip(frames) {
            if frame.is_empty() {
                self.show(index, publication);
                continue;
            }
            let is_grip = self.delivered(index, 1);
            let delivery = Delivery {
                frames: std::slice::from_ref(frame),
                joined: frame,
                key: batch.channel_key,
                overflow: batch.overflow,
                gather: true,
            };
            self.desk.board.add(Counter::Deliveries, 1);
            self.desk
                .board
                .add(Counter::DeliveryBytes, frame.len() as u64);
            let publications = std::slice::from_ref(publication);
            self.deliver_counted(index, &delivery, is_grip.then_some(publications));
        }
    }

    /// Shows a session a publication that it must look at itself.
    fn show(&mut self, index: u32, publication: &Arc<Publication>) {
        let Some(id) = self.conns.id(index) else {
            return;
        };
        let (desk, orders) = (self.desk, &mut *self.orders);
        self.conns.with(id, |session, effects| {
            let before = session.standing();
            let written = effects.out.len();
            act(effects, orders, |fx| {
                session.publication(id, publication, desk, fx)
            });
            if effects.out.len() > written {
                let bytes = effects.out.len() - written;
                desk.board.add(Counter::Deliveries, 1);
                desk.board.add(Counter::GripDeliveries, 1);
                if let Some(grip) = &desk.grip {
                    grip.took(publication);
                }
                desk.board.add(Counter::DeliveryBytes, bytes as u64);
            }
            recount(desk, before, session.standing());
        });
    }

    /// So many deliveries from shared bytes go out to a session.
    /// True if it is a client of GRIP.
    fn delivered(&self, index: u32, count: usize) -> bool {
        let session = || self.conns.session(self.conns.id(index)?);
        let is_grip = self.desk.grip.is_some()
            && session().is_some_and(|session| session.delivered(self.conns.now()));
        if is_grip {
            self.desk.board.add(Counter::GripDeliveries, count as u64);
        }
        is_grip
    }

    /// Frames that a session encodes for itself alone; none while it holds them back.
    fn personal(&mut self, index: u32, batch: &Batch<'_>) -> Option<(Vec<Frame>, Frame)> {
        let id = self.conns.id(index)?;
        if self.conns.session(id).is_some_and(Session::looks_at_all) {
            for publication in batch.publications {
                self.show(index, publication);
            }
            return None;
        }
        let (mut frames, mut all) = (Vec::new(), Vec::new());
        self.conns.with(id, |session, _| {
            for publication in batch.publications {
                let start = all.len();
                session.encode_personal(publication, &mut all);
                if all.len() > start {
                    frames.push(Frame::new(&all[start..]));
                }
            }
        });
        (!frames.is_empty()).then(|| (frames, Frame::new(&all)))
    }
}

/// Lets a session act, and hands its wishes to the engine.
pub(crate) fn act(
    effects: &mut Effects<'_>,
    orders: &mut Vec<Order>,
    run: impl FnOnce(&mut Fx<'_>),
) {
    let mut fx = Fx::new(effects.out, orders, effects.now);
    run(&mut fx);
    let (deadline, end, hold, pause) = (fx.deadline, fx.end, fx.hold, fx.pause);
    if let Some(pause) = pause {
        effects.pause(pause);
    }
    if let Some(deadline) = deadline {
        effects.set_deadline(deadline);
    }
    if let Some(hold) = hold {
        effects.hold(hold);
    }
    if let Some(end) = end {
        effects.end(end);
    }
}
