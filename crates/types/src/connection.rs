//! Connections: ids that a stale holder cannot misuse, and what an owner wants done.

use std::fmt;
use std::net::IpAddr;

use crate::{Millis, Save};

/// A shard: one thread with its own reactor, connections and hub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u8);

impl ShardId {
    /// The shard's place in arrays that hold one entry per shard.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A connection anywhere in the process: shard, slot and generation in 64 bits.
///
/// The generation rises each time a slot is reused, so an id kept after its
/// connection has gone finds nobody instead of a stranger.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Save)]
pub struct ConnId(u64);

impl ConnId {
    /// Generations wrap at this many bits.
    const GENERATION_BITS: u32 = 24;

    /// Packs the parts; the generation is kept modulo 2^24.
    #[must_use]
    pub const fn new(shard: ShardId, index: u32, generation: u32) -> Self {
        let generation = generation & ((1 << Self::GENERATION_BITS) - 1);
        Self((shard.0 as u64) << 56 | (generation as u64) << 32 | index as u64)
    }

    #[must_use]
    pub const fn shard(self) -> ShardId {
        ShardId((self.0 >> 56) as u8)
    }

    /// The slot in the shard's connection table.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.0 as u32
    }

    /// Number of times that the slot had been reused when this connection took it, modulo 2^24.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & ((1 << Self::GENERATION_BITS) - 1)
    }

    /// The id as one number, for tokens that travel through other systems.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`ConnId::to_bits`]; every number is an id, though perhaps nobody's.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn {self}")
    }
}

/// Shard, slot and generation, as logs have it: `0/7#1`.
impl fmt::Display for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shard, slot, generation) = (self.shard().0, self.index(), self.generation());
        write!(f, "{shard}/{slot}#{generation}")
    }
}

/// End of a connection, in order or at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Once everything queued has left; then the sending side is shut and the peer's close
    /// awaited. A peer that takes nothing, or does not close, for five seconds loses the rest.
    Flush,
    /// At once; what is queued is lost.
    Now,
}

/// Part that HTTP/2 has in a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Http2 {
    #[default]
    None,
    /// Its client and we agreed on HTTP/2 by ALPN.
    Agreed,
    /// The connection is a stream of HTTP/2.
    Stream,
}

/// Collected while a session runs, carried out by the engine after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions {
    /// The connection's one deadline: `Some(None)` clears it, `None` leaves it as it is.
    pub deadline: Option<Option<Millis>>,
    pub end: Option<End>,
    /// `Some(true)`: from now on deliveries wait, while own bytes still leave. `Some(false)`: they
    /// leave, behind the own bytes written until then. A connection that ends first never gets
    /// them.
    pub hold: Option<bool>,
    /// Deliveries that wait because of `hold` are lost, and none are held back any more; carried
    /// out behind the own bytes, and before `hold`.
    pub forget_held: bool,
    /// `Some(true)`: the connection is not read until `Some(false)`. Bytes that were read already
    /// are not given back; a peer that leaves meanwhile is noticed when reading goes on.
    pub pause: Option<bool>,
    /// `Some`: HTTP/2 is spoken from now on, for clients at this address. Bytes that were written
    /// are not for the peer: they are what it has sent, and HTTP/2 begins with them.
    pub http2: Option<IpAddr>,
}

impl Actions {
    /// Ends the connection; the first wish counts, but "now" outranks "flush".
    pub fn end(&mut self, end: End) {
        if self.end != Some(End::Now) {
            self.end = Some(end);
        }
    }
}

/// Rule for a delivery that finds its connection's queue full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// End the connection; its client comes back and recovers.
    #[default]
    Close,
    /// Forget the oldest deliveries that have not begun to leave.
    DropOldest,
    /// Keep only the newest delivery of each channel, from the moment the connection lags.
    LatestOnly,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_packing() {
        let id = ConnId::new(ShardId(7), u32::MAX, 0x00ab_cdef);
        assert_eq!(id.shard(), ShardId(7));
        assert_eq!(id.index(), u32::MAX);
        assert_eq!(id.generation(), 0x00ab_cdef);
        assert_eq!(ConnId::from_bits(id.to_bits()), id);
    }

    #[test]
    fn generation_wraps_without_touching_the_shard() {
        let id = ConnId::new(ShardId(1), 3, 1 << 24);
        assert_eq!(
            (id.shard(), id.index(), id.generation()),
            (ShardId(1), 3, 0)
        );
    }
}
