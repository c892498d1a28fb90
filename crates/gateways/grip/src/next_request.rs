//! State of a held client for the time when its stream has ended.

use std::net::{IpAddr, Ipv4Addr};
use throng_types::Save;

use crate::context::Cx;

/// Whether the connection serves another request when the stream has ended, and the client's
/// address. Fits into the few bytes that a session has to spare; IPv6 addresses are kept by the
/// shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum NextRequest {
    Never,
    OfV4(Ipv4Addr),
    OfV6,
}

impl NextRequest {
    pub(crate) fn after(peer: IpAddr, cx: &Cx<'_>) -> Self {
        match peer {
            IpAddr::V4(peer) => Self::OfV4(peer),
            IpAddr::V6(peer) => {
                cx.own.keep_peer(cx.id, peer);
                Self::OfV6
            }
        }
    }
}
