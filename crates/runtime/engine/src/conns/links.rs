//! Tables of what only some connections of a shard have, by the places of their slots.
//!
//! Never: seals, opens or sends; `secure.rs` and `streams.rs` do.
//!
//! Invariant: a piece of a table without entries holds no memory.

use std::mem;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use throng_tls::{Shaken, TlsFault, TlsLink};
use throng_types::ConnId;

/// Memory that sealing and opening keep from one connection to the next.
const SCRATCH_KEPT: usize = 64 << 10;
/// Entries in one piece of a table.
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
    pub(super) links: Sparse<Box<Entry>>,
    /// Records on their way out.
    wire: Vec<u8>,
    /// Bytes gathered for one record.
    pub(super) plain: Vec<u8>,
    /// Bound: one for each connection that was served in this turn.
    pub(super) events: Vec<TlsEvent>,
}

/// Table with entries for some connections, by the places of their slots.
pub(super) struct Sparse<T> {
    chunks: Vec<Chunk<T>>,
}

struct Chunk<T> {
    entries: Box<[Option<T>]>,
    count: usize,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        let entries = Box::default();
        Self { entries, count: 0 }
    }
}

impl<T> Sparse<T> {
    /// Puts an entry into a place that has none.
    pub(super) fn insert(&mut self, index: u32, entry: T) {
        let (chunk, place) = (index as usize / CHUNK, index as usize % CHUNK);
        if self.chunks.len() <= chunk {
            self.chunks.resize_with(chunk + 1, Chunk::default);
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.entries.is_empty() {
            chunk.entries = (0..CHUNK).map(|_| None).collect();
        }
        chunk.count += 1;
        chunk.entries[place] = Some(entry);
    }

    pub(super) fn get(&mut self, index: u32) -> Option<&mut T> {
        let chunk = self.chunks.get_mut(index as usize / CHUNK)?;
        chunk.entries.get_mut(index as usize % CHUNK)?.as_mut()
    }

    pub(super) fn peek(&self, index: u32) -> Option<&T> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        chunk.entries.get(index as usize % CHUNK)?.as_ref()
    }

    pub(super) fn take(&mut self, index: u32) -> Option<T> {
        let chunk = self.chunks.get_mut(index as usize / CHUNK)?;
        let entry = chunk.entries.get_mut(index as usize % CHUNK)?.take()?;
        chunk.count -= 1;
        if chunk.count == 0 {
            *chunk = Chunk::default();
        }
        Some(entry)
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
    /// Takes frames of HTTP/2.
    Frames,
    /// Bytes that are dropped: the connection is leaving.
    Nothing,
}

#[derive(Default)]
pub(crate) struct Taken {
    /// The peer said that nothing more comes from it.
    pub(crate) has_ended: bool,
    pub(crate) is_connected: bool,
}
