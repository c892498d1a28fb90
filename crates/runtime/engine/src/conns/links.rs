//! TLS state of a shard's connections, by the places of their slots.
//!
//! Never: seals, opens or sends; `secure.rs` does.
//!
//! Invariant: a piece of the table without links holds no memory.

use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use throng_tls::{Shaken, TlsFault, TlsLink};
use throng_types::ConnId;

/// Memory that sealing and opening keep from one connection to the next.
const SCRATCH_KEPT: usize = 64 << 10;
/// Links in one piece of the table.
const CHUNK: usize = 256;
/// Each connection has one: with eight bytes more it would take sixteen of the allocator's.
const _: () = assert!(size_of::<Entry>() <= 40);

#[derive(Clone, Debug)]
pub struct TlsEvent {
    /// The connection; it may have gone.
    pub conn: ConnId,
    /// Address of the peer, if something failed and the kernel still knows it.
    pub peer: Option<SocketAddr>,
    /// Handshake that succeeded, or the fault that ended it.
    pub news: TlsNews,
}

/// Outcome of a TLS handshake, or the fault that ended a connection later.
#[derive(Clone, Debug)]
pub enum TlsNews {
    Shaken(Shaken),
    /// The handshake failed; the connection ends.
    Refused(TlsFault),
    /// TLS failed after the handshake; the connection ends.
    Broken(TlsFault),
    /// A server ended the connection without TLS's word for it (close_notify): something may be
    /// missing behind the bytes that came.
    Truncated,
}

pub(super) struct Entry {
    pub(super) link: TlsLink,
    /// The app's first deadline, counted from the end of the handshake. In milliseconds; a later
    /// one than 49 days is that.
    pub(super) deadline_ms: Option<NonZeroU32>,
}

/// TLS connections of a shard, with buffers that all of them use.
#[derive(Default)]
pub(super) struct Secured {
    pub(super) links: Links,
    /// Records on their way out.
    wire: Vec<u8>,
    /// Bytes gathered for one record.
    pub(super) plain: Vec<u8>,
    /// Bound: one for each connection that was served in this turn.
    pub(super) events: Vec<TlsEvent>,
}

/// The links of connections, by the places of their slots.
#[derive(Default)]
pub(super) struct Links {
    chunks: Vec<Chunk>,
}

#[derive(Default)]
struct Chunk {
    links: Box<[Option<Box<Entry>>]>,
    count: usize,
}

impl Links {
    pub(super) fn insert(&mut self, index: u32, entry: Entry) {
        let (chunk, place) = (index as usize / CHUNK, index as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Chunk::default);
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.links.is_empty() {
            chunk.links = (0..CHUNK).map(|_| None).collect();
        }
        chunk.count += 1;
        chunk.links[place] = Some(Box::new(entry));
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut Entry> {
        let chunk = self.chunks.get_mut(index as usize / CHUNK)?;
        chunk.links.get_mut(index as usize % CHUNK)?.as_deref_mut()
    }

    pub(super) fn peek(&self, index: u32) -> Option<&Entry> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        chunk.links.get(index as usize % CHUNK)?.as_deref()
    }

    pub(super) fn forget(&mut self, index: u32) {
        let Some(chunk) = self.chunks.get_mut(index as usize / CHUNK) else {
            return;
        };
        let link = chunk.links.get_mut(index as usize % CHUNK);
        if link.and_then(Option::take).is_some() {
            chunk.count -= 1;
            if chunk.count == 0 {
                *chunk = Chunk::default();
            }
        }
    }
}

impl Secured {
    pub(super) fn take_wire(&mut self) -> Vec<u8> {
        mem::take(&mut self.wire)
    }

    pub(super) fn put_wire(&mut self, mut wire: Vec<u8>) {
        wire.clear();
        wire.shrink_to(SCRATCH_KEPT);
        self.wire = wire;
    }
}

/// Treatment of bytes that were read from a connection.
#[derive(Clone, Copy)]
pub(crate) enum Intake {
    Plain,
    Sealed,
    /// Bytes that are dropped: the connection is leaving.
    Nothing,
}

#[derive(Default)]
pub(crate) struct Taken {
    /// The peer said that nothing more comes from it.
    pub(crate) has_ended: bool,
    pub(crate) is_connected: bool,
}
