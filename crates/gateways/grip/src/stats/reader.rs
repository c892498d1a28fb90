//! Readers of statistics: SUB sockets that are connected to ours.
//!
//! Rule for "full": a packet without room in a reader's queue is dropped for that reader and
//! counted, as ZeroMQ's PUB sockets do.

use throng_grip::zmtp::{PeerLimits, SocketRole, ZmtpPeer, encode_message};
use throng_metrics::Counter;
use throng_types::End;

use crate::Cx;
use crate::order::Order;

/// Bytes of packets that may wait for one reader. Queue: `statistics`.
pub(crate) const WAITING_BYTES_MAX: usize = 1 << 20;
/// Topics that one reader may have.
const TOPICS_MAX: usize = 256;
/// Bytes of a topic, and of any other message from a reader.
const SAID_BYTES_MAX: usize = 1024;

/// Connection of one reader of statistics.
#[derive(Default)]
pub struct StatsReader {
    /// Made with the first bytes.
    peer: Option<ZmtpPeer>,
    is_ready: bool,
    /// Prefixes of the packets that it subscribes to. Bound: [`TOPICS_MAX`].
    topics: Vec<Vec<u8>>,
}

impl StatsReader {
    pub(crate) fn bytes(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        let limits = PeerLimits {
            message_bytes_max: SAID_BYTES_MAX,
            ..PeerLimits::default()
        };
        let out = &mut *cx.out;
        let peer = self
            .peer
            .get_or_insert_with(|| ZmtpPeer::new(SocketRole::Pub, limits, out));
        let mut messages = Vec::new();
        let fed = peer.feed(input, cx.out, &mut messages);
        if peer.is_ready() && !self.is_ready {
            self.is_ready = true;
            cx.set_deadline(None);
            cx.order(Order::ReadStats { conn: cx.id });
        }
        for message in &messages {
            match ZmtpPeer::subscription_of(message) {
                Some((true, topic)) if self.topics.len() < TOPICS_MAX => {
                    self.topics.push(topic.to_vec());
                }
                // More topics than any reader needs.
                Some((true, _)) => return cx.end(End::Flush),
                // It may have asked twice, and takes one of the two back.
                Some((false, topic)) => {
                    if let Some(at) = self.topics.iter().position(|known| known == topic) {
                        self.topics.swap_remove(at);
                    }
                }
                None => {}
            }
        }
        if fed.is_err() {
            cx.count(Counter::BadRequests);
            cx.end(End::Flush);
        }
    }

    /// Sends the packets that it subscribes to, as far as there is room.
    pub(crate) fn packets(&self, packets: &[Vec<u8>], waiting_bytes: usize, cx: &mut Cx<'_>) {
        let mut room = WAITING_BYTES_MAX.saturating_sub(waiting_bytes);
        for packet in packets {
            if !self.topics.iter().any(|topic| packet.starts_with(topic)) {
                continue;
            }
            if room < packet.len() {
                cx.count(Counter::GripStatsDropped);
                continue;
            }
            room -= packet.len();
            encode_message(&[packet], cx.out);
        }
    }
}
