//! Between the hub and the connections, as the server joins them; it also keeps what was answered.

use throng_broker::{Refusal, Subscribed};
use throng_hub::{Answer, Asker, Batch, Format, Sink};
use throng_session::{Desk, Order, encode};
use throng_types::{ChannelName, Frame, Position, Publication};

use crate::conns::{Conns, Delivery};
use crate::net::Net;

/// The hub's view of the connections, for the length of one call.
pub(super) struct Outlet<'a> {
    pub(super) conns: &'a mut Conns,
    pub(super) net: &'a mut Net,
    pub(super) desk: &'a Desk,
    pub(super) orders: &'a mut Vec<Order>,
    pub(super) answers: Vec<(Asker, Heard)>,
}

/// What the witness needs of an answer.
pub(super) enum Heard {
    Subscribed(ChannelName, Result<Subscribed, Refusal>),
    Published(Result<Option<Position>, Refusal>),
    History,
}

impl Sink for Outlet<'_> {
    fn answer(&mut self, asker: Asker, answer: Answer) {
        let heard = match &answer {
            Answer::Subscribed { channel, result } => {
                Heard::Subscribed(channel.clone(), result.clone())
            }
            Answer::Published { result } => Heard::Published(*result),
            Answer::History { .. } => Heard::History,
        };
        self.answers.push((asker, heard));
        let desk = self.desk;
        self.conns.with(asker.conn, self.orders, |session, fx| {
            session.answer(asker.conn, asker.token, answer, desk, fx);
        });
    }

    fn encode(&mut self, format: Format, publication: &Publication, out: &mut Vec<u8>) {
        encode(format, publication, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        let personal;
        let (frames, joined) = if let Some(encoded) = batch.encoded {
            let whole: Vec<u8> = encoded
                .frames
                .iter()
                .flat_map(|frame| frame.to_vec())
                .collect();
            assert_eq!(
                whole,
                encoded.joined.to_vec(),
                "joined is the frames joined"
            );
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
        self.conns.deliver(index, &delivery, self.net);
    }
}

impl Outlet<'_> {
    fn personal(&mut self, index: u32, batch: &Batch<'_>) -> Option<(Vec<Frame>, Frame)> {
        let id = self.conns.id(index)?;
        let (mut frames, mut all) = (Vec::new(), Vec::new());
        self.conns.with(id, self.orders, |session, _| {
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
