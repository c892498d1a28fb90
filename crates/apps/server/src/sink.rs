//! Between the hub and the connections: the thin piece that knows both.

use throng_broker::Overflow;
use throng_engine::{Conns, Delivery, Effects, Ending};
use throng_hub::{Answer, Asker, Batch, Format, Sink};
use throng_metrics::Counter;
use throng_session::{Desk, End, Fx, Order, Session, encode};
use throng_types::{Frame, Publication};

/// The hub's view of the connections, for the length of one call.
pub(crate) struct Outlet<'a> {
    pub(crate) conns: &'a mut Conns<Session>,
    pub(crate) desk: &'a Desk,
    pub(crate) orders: &'a mut Vec<Order>,
}

impl Sink for Outlet<'_> {
    fn answer(&mut self, asker: Asker, answer: Answer) {
        let (desk, orders) = (self.desk, &mut *self.orders);
        self.conns.with(asker.conn, |session, effects| {
            act(effects, orders, |fx| {
                session.answer(asker.conn, asker.token, answer, desk, fx)
            });
        });
    }

    fn encode(&mut self, format: Format, publication: &Publication, out: &mut Vec<u8>) {
        encode(format, publication, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let personal;
        let (frames, joined) = if let Some(encoded) = batch.encoded {
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
            overflow: overflow(batch.overflow),
            gather: batch.gather,
        };
        self.desk
            .board
            .add(Counter::Deliveries, frames.len() as u64);
        self.desk
            .board
            .add(Counter::DeliveryBytes, joined.len() as u64);
        self.conns.deliver(index, &delivery);
    }
}

impl Outlet<'_> {
    /// Frames that a session encodes for itself alone; none while it holds them back.
    fn personal(&mut self, index: u32, batch: &Batch<'_>) -> Option<(Vec<Frame>, Frame)> {
        let id = self.conns.id(index)?;
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

const fn overflow(overflow: Overflow) -> throng_engine::Overflow {
    match overflow {
        Overflow::Close => throng_engine::Overflow::Close,
        Overflow::DropOldest => throng_engine::Overflow::DropOldest,
        Overflow::LatestOnly => throng_engine::Overflow::LatestOnly,
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
    let (deadline, end, hold) = (fx.deadline, fx.end, fx.hold);
    if let Some(deadline) = deadline {
        effects.set_deadline(deadline);
    }
    if let Some(hold) = hold {
        effects.hold(hold);
    }
    match end {
        Some(End::Flush) => effects.end(Ending::Flush),
        Some(End::Now) => effects.end(Ending::Now),
        None => {}
    }
}
