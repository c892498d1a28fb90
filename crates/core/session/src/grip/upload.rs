//! A request's body on its way to the backend, while the client still sends it.
//!
//! Rule for "full": what the backend has not taken is counted, and above [`BEHIND_BYTES_MAX`] the
//! client is not read. Of the body [`KEPT_BYTES_MAX`] are kept, for a backend that holds the client
//! and is asked again.

use throng_grip::exchange::Rest;
use throng_http1::{BadBody, Body, BodyDecoder, Limits};
use throng_types::ConnId;

use super::order::GripOrder;
use crate::effects::{Fx, Order};

/// Bytes of a body that are kept, as in Pushpin.
pub(super) const KEPT_BYTES_MAX: usize = 100_000;
/// Bytes that may be on their way to the backend before the client is no longer read.
/// Queue: `uplink`.
const BEHIND_BYTES_MAX: usize = 64 << 10;

/// See the module's head.
pub(super) struct Upload {
    decoder: BodyDecoder,
    /// How the backend is told where the body ends.
    pub(super) rest: Rest,
    behind_bytes: usize,
    is_paused: bool,
}

impl Upload {
    /// A body of any size.
    pub(super) fn new(body: Body) -> Self {
        let limits = Limits {
            body_bytes_max: u64::MAX,
            ..Limits::default()
        };
        let length = match body {
            Body::None => Some(0),
            Body::Length(bytes) => Some(bytes),
            Body::Chunked => None,
        };
        Self {
            decoder: BodyDecoder::new(body, &limits),
            rest: Rest::Body(length),
            behind_bytes: 0,
            is_paused: false,
        }
    }

    /// Sends what came on to the backend, and keeps it in `kept` as long as that is small enough;
    /// one byte more stands for all that is not there. Gives what stands behind the body once
    /// that has ended.
    pub(super) fn feed<'i>(
        &mut self,
        conn: ConnId,
        mut input: &'i [u8],
        kept: &mut Vec<u8>,
        fx: &mut Fx<'_>,
    ) -> Result<Option<&'i [u8]>, BadBody> {
        let mut bytes = Vec::new();
        while !self.decoder.is_done() && !input.is_empty() {
            let step = self.decoder.feed(input)?;
            bytes.extend_from_slice(step.data);
            input = input.get(step.consumed..).unwrap_or_default();
        }
        let room = (KEPT_BYTES_MAX + 1).saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
        if !bytes.is_empty() {
            self.behind_bytes += bytes.len();
            fx.orders.push(Order::Grip(GripOrder::Send { conn, bytes }));
        }
        if self.decoder.is_done() {
            fx.orders.push(Order::Grip(GripOrder::Finish { conn }));
            // What comes now is the next request.
            if self.is_paused {
                fx.pause = Some(false);
            }
            return Ok(Some(input));
        }
        if self.behind_bytes > BEHIND_BYTES_MAX && !self.is_paused {
            self.is_paused = true;
            fx.pause = Some(true);
        }
        Ok(None)
    }

    /// The backend has taken some.
    pub(super) fn taken(&mut self, bytes: usize, fx: &mut Fx<'_>) {
        self.behind_bytes = self.behind_bytes.saturating_sub(bytes);
        if self.is_paused && self.behind_bytes <= BEHIND_BYTES_MAX / 2 {
            self.is_paused = false;
            fx.pause = Some(false);
        }
    }

    /// Whether it is the backend that is waited for.
    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }
}

#[cfg(test)]
mod tests {
    use throng_types::{Now, ShardId};

    use super::*;

    const CONN: ConnId = ConnId::new(ShardId(0), 1, 1);

    /// Feeds pieces; what was sent on, what is kept and what is left.
    fn feed(body: Body, pieces: &[&[u8]]) -> (Vec<u8>, bool, Vec<u8>, Option<Vec<u8>>) {
        let mut upload = Upload::new(body);
        let (mut out, mut orders, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = None;
        for piece in pieces {
            let mut fx = Fx::new(&mut out, &mut orders, Now::default());
            let rest = upload
                .feed(CONN, piece, &mut kept, &mut fx)
                .expect("a body");
            left = rest.map(<[u8]>::to_vec);
        }
        let mut sent = Vec::new();
        let mut is_finished = false;
        for order in orders {
            match order {
                Order::Grip(GripOrder::Send { bytes, .. }) => sent.extend(bytes),
                Order::Grip(GripOrder::Finish { .. }) => is_finished = true,
                other => panic!("{other:?}"),
            }
        }
        (sent, is_finished, kept, left)
    }

    #[test]
    fn a_body_is_cut_out_at_every_split_point() {
        for (body, wire) in [
            (Body::Length(5), &b"helloGET"[..]),
            (Body::Chunked, &b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\nGET"[..]),
        ] {
            for at in 0..=wire.len() - 3 {
                let (first, second) = wire.split_at(at);
                let (sent, is_finished, kept, left) = feed(body, &[first, second]);
                assert_eq!(
                    (sent.as_slice(), kept.as_slice()),
                    (&b"hello"[..], &b"hello"[..])
                );
                assert!(is_finished);
                let whole = at == wire.len() - 3;
                assert_eq!(left.as_deref(), Some(&b"GET"[..]), "{at} {whole}");
            }
        }
    }

    #[test]
    fn no_more_is_kept_than_says_that_it_is_too_much() {
        let piece = [7; 70_000];
        let (sent, is_finished, kept, _) = feed(Body::Length(1 << 40), &[&piece, &piece]);
        assert_eq!((sent.len(), kept.len()), (140_000, KEPT_BYTES_MAX + 1));
        assert!(!is_finished);
    }

    #[test]
    fn the_client_is_not_read_while_the_backend_is_behind() {
        let mut upload = Upload::new(Body::Chunked);
        let (mut out, mut orders, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        let mut fx = Fx::new(&mut out, &mut orders, Now::default());
        let mut wire = b"20000\r\n".to_vec();
        wire.extend([7; 100_000]);
        let fed = upload.feed(CONN, &wire, &mut kept, &mut fx);
        assert!(matches!(fed, Ok(None)));
        assert_eq!(fx.pause.take(), Some(true));
        upload.taken(60_000, &mut fx);
        assert_eq!(fx.pause, None);
        upload.taken(40_000, &mut fx);
        assert_eq!(fx.pause, Some(false));
        let fed = upload.feed(CONN, &[7; 40_000], &mut kept, &mut fx);
        assert!(fed.is_err(), "the chunk has ended without a line's end");
    }
}
