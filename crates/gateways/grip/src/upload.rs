//! A request's body on its way to the backend, while the client still sends it.
//!
//! Rule for "full": bytes that the backend has not taken are counted, and above
//! [`BEHIND_BYTES_MAX`] the client is not read. Of the body [`KEPT_BYTES_MAX`] are kept, for a
//! backend that holds the client and is asked again.

use throng_http1::origin::RequestRest;
use throng_http1::{BadBody, Body, BodyDecoder, HttpLimits};

use crate::Cx;
use crate::order::Order;

/// Bytes of a body that are kept, as in Pushpin.
pub(crate) const KEPT_BYTES_MAX: usize = 100_000;
/// Bytes that may be on their way to the backend before the client is no longer read.
/// Queue: `uplink`.
const BEHIND_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client has to send within `limits.head_timeout`, each time anew.
const PROGRESS_BYTES: usize = 1024;

/// Bytes of a client on their way to its backend, which bound how far the client is read.
#[derive(Default)]
pub(crate) struct Uplink {
    bytes: usize,
    is_paused: bool,
}

impl Uplink {
    /// Sends bytes behind the request.
    pub(crate) fn send(&mut self, bytes: Vec<u8>, cx: &mut Cx<'_>) {
        self.bytes += bytes.len();
        cx.order(Order::Send { conn: cx.id, bytes });
        if self.bytes > BEHIND_BYTES_MAX && !self.is_paused {
            self.is_paused = true;
            cx.pause(true);
        }
    }

    /// Notes that the backend has taken some; true if the client may be read again.
    pub(crate) fn taken(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.bytes <= BEHIND_BYTES_MAX / 2 && std::mem::take(&mut self.is_paused)
    }

    /// Whether the backend is waited for.
    pub(crate) const fn is_paused(&self) -> bool {
        self.is_paused
    }
}

/// A body that is passed on while it comes.
pub(crate) struct Upload {
    decoder: BodyDecoder,
    /// Framing of the body to the backend.
    pub(crate) rest: RequestRest,
    pub(crate) uplink: Uplink,
    /// Bytes since the client last proved that it makes progress.
    fresh_bytes: usize,
}

impl Upload {
    pub(crate) fn new(body: Body) -> Self {
        let limits = HttpLimits {
            body_bytes_max: u64::MAX,
            ..HttpLimits::default()
        };
        let length = match body {
            Body::None => Some(0),
            Body::Length(bytes) => Some(bytes),
            Body::Chunked => None,
        };
        Self {
            decoder: BodyDecoder::new(body, &limits),
            rest: RequestRest::Body(length),
            uplink: Uplink::default(),
            fresh_bytes: 0,
        }
    }

    /// Whether enough bytes have come to give the client more time: one that sends a byte now and
    /// then would hold its backend for ever.
    pub(crate) fn is_progress(&mut self, bytes: usize) -> bool {
        self.fresh_bytes += bytes;
        let is_enough = self.fresh_bytes >= PROGRESS_BYTES;
        if is_enough {
            self.fresh_bytes = 0;
        }
        is_enough
    }

    /// Sends bytes of the body on to the backend, and keeps them in `kept` as long as the body is
    /// small enough; one byte more means that the rest is missing. Returns the bytes behind the
    /// body once it has ended.
    pub(crate) fn feed<'i>(
        &mut self,
        mut input: &'i [u8],
        kept: &mut Vec<u8>,
        cx: &mut Cx<'_>,
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
            self.uplink.send(bytes, cx);
        }
        if !self.decoder.is_done() {
            return Ok(None);
        }
        cx.order(Order::Finish { conn: cx.id });
        // The following bytes are the next request.
        if self.uplink.is_paused() {
            cx.pause(false);
        }
        Ok(Some(input))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use throng_types::{Actions, ConnId, Now};

    use super::*;
    use crate::shared::{GripOptions, GripShared};

    /// Runs with a context that collects orders.
    fn with_context<R>(
        orders: &mut VecDeque<Order>,
        run: impl FnOnce(&mut Cx<'_>) -> R,
    ) -> (R, Actions) {
        let (mut out, mut actions) = (Vec::new(), Actions::default());
        let result = run(&mut Cx {
            id: ConnId::from_bits(1),
            now: Now::default(),
            shared: &throng_solo::shared(),
            own: &GripShared::new(GripOptions::default().into()),
            out: &mut out,
            actions: &mut actions,
            orders: &mut Vec::new(),
            own_orders: orders,
            place: 0,
            forms_from: 0,
        });
        (result, actions)
    }

    /// Feeds pieces; returns the bytes sent on, kept and left.
    fn feed(body: Body, pieces: &[&[u8]]) -> (Vec<u8>, bool, Vec<u8>, Option<Vec<u8>>) {
        let mut upload = Upload::new(body);
        let (mut orders, mut kept) = (VecDeque::new(), Vec::new());
        let mut left = None;
        for piece in pieces {
            let (fed, _) = with_context(&mut orders, |cx| {
                let fed = upload.feed(piece, &mut kept, cx);
                fed.map(|rest| rest.map(<[u8]>::to_vec))
            });
            left = fed.expect("a body");
        }
        let mut sent = Vec::new();
        let mut is_finished = false;
        for order in orders {
            match order {
                Order::Send { bytes, .. } => sent.extend(bytes),
                Order::Finish { .. } => is_finished = true,
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
        let (mut orders, mut kept) = (VecDeque::new(), Vec::new());
        let mut wire = b"20000\r\n".to_vec();
        wire.extend([7; 100_000]);
        let (fed, actions) = with_context(&mut orders, |cx| {
            upload.feed(&wire, &mut kept, cx).map(|rest| rest.is_none())
        });
        assert_eq!((fed, actions.pause), (Ok(true), Some(true)));
        assert!(!upload.uplink.taken(60_000));
        assert!(upload.uplink.taken(40_000));
        let (fed, _) = with_context(&mut orders, |cx| {
            upload
                .feed(&[7; 40_000], &mut kept, cx)
                .map(|rest| rest.is_none())
        });
        assert!(fed.is_err(), "the chunk has ended without a line's end");
    }
}
