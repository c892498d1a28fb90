//! State that a shard gives to its successor: the messages and the sockets, in order.
//!
//! A shard gives its state up while it packs: what was a session, subscriptions and history is
//! compressed bytes then, so that two processes need little more memory than one. The parcel is the
//! only place of that state until the successor has it. If the hand-over is broken off, the shard
//! takes everything out again as a successor would, and its sockets were never closed.
//!
//! Never: links, processes, or who is right; see `giving` and `taking`.
//!
//! Invariants
//! - What is packed is packed by a shard at rest, and restored before its next turn: nobody sees
//!   the shard without it.
//! - What is only for the successor (`farewells`, the end) is never restored here.

use std::io;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use throng_engine::{Kernel, Running};
use throng_types::{Disconnect, Parts, Save as _};

use super::state::{save_conn, take_out};
use super::taking::{CONNECTIONS, END, GONE, HUB, Unpacking, WEBHOOKS};
use crate::peers::NO_CLIENT;
use crate::sessions::standing;
use crate::shard::ShardApp;

/// Connections in one message, if those of one socket are not more; fewer than descriptors may be.
const BATCH: usize = 250;
/// A message ends when it has so many bytes.
const BATCH_BYTES: usize = 64 << 10;
/// So many bytes more are asked for while something is compressed.
const ROOM: usize = 4 << 10;

/// After so many bytes were packed, what they were made of goes back to the system.
const TRIM_BYTES: usize = 1 << 20;

/// Message to the new process, compressed.
struct Message {
    bytes: Box<[u8]>,
    /// Bytes of the message before compression.
    length: usize,
    sockets: usize,
    /// Connections, some of which may share a socket.
    conns: usize,
}

/// State that a shard has given up, as messages.
pub struct Parcel<K: Kernel> {
    /// The hub's part of the broker and its channels.
    hub: Vec<Message>,
    conns: Vec<Message>,
    sockets: Vec<K::Socket>,
    /// Connections that stay are seen no more by the successor.
    farewells: Vec<Message>,
    end: Vec<u8>,
}

/// Compresses messages, and gives memory back on the way.
struct Packer<'a> {
    compress: Compress,
    /// Bytes since the last time memory was given back.
    packed: usize,
    goes_on: &'a mut dyn FnMut(),
}

impl Packer<'_> {
    fn message(&mut self, bytes: &[u8], (conns, sockets): (usize, usize)) -> Message {
        self.compress.reset();
        let mut out = Vec::with_capacity(bytes.len() / 4 + ROOM);
        loop {
            let taken = self.compress.total_in() as usize;
            let rest = bytes.get(taken..).unwrap_or_default();
            let status = self
                .compress
                .compress_vec(rest, &mut out, FlushCompress::Finish);
            if matches!(status, Ok(Status::StreamEnd)) {
                break;
            }
            out.reserve(ROOM);
        }
        self.packed += bytes.len();
        if self.packed >= TRIM_BYTES {
            self.packed = 0;
            throng_sys::memory::trim();
        }
        (self.goes_on)();
        Message {
            bytes: out.into(),
            length: bytes.len(),
            sockets,
            conns,
        }
    }

    /// Items of the hub, a piece a message.
    fn items(&mut self, save: impl FnOnce(&mut Parts<'_>)) -> Vec<Message> {
        let (mut all, mut message) = (Vec::new(), Vec::new());
        let mut keep = |piece: &[u8]| {
            message.clear();
            message.push(HUB);
            message.extend_from_slice(piece);
            all.push(self.message(&message, (0, 0)));
        };
        let mut parts = Parts::new(&mut keep);
        save(&mut parts);
        parts.end();
        all
    }
}

impl Message {
    fn unpacked(&self, decompress: &mut Decompress) -> io::Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.length);
        decompress.reset(false);
        let status = decompress.decompress_vec(&self.bytes, &mut out, FlushDecompress::Finish);
        match status {
            Ok(_) if out.len() == self.length => Ok(out),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

impl<K: Kernel> Parcel<K> {
    /// Takes everything that can move out of a shard at rest. `goes_on` is called from time to
    /// time.
    pub fn pack(running: &mut Running<ShardApp, K>, goes_on: &mut dyn FnMut()) -> Self {
        let (app, conns) = running.parts_mut();
        let compress = Compress::new(Compression::fast(), false);
        let mut packer = Packer {
            compress,
            packed: 0,
            goes_on,
        };
        let hub = packer.items(|parts| app.parts.hub.give_up(parts));
        let mut parcel = Self {
            hub,
            conns: Vec::new(),
            sockets: Vec::new(),
            farewells: Vec::new(),
            end: Vec::new(),
        };
        let all = conns.movable();
        let (mut batch, mut count, mut before) = (vec![CONNECTIONS], 0, 0);
        for of_socket in all.chunk_by(|(one, _), (other, _)| one == other) {
            let start = batch.len();
            let mut ids = of_socket.iter().map(|&(_, id)| id);
            let move_all = ids.all(|id| {
                conns.leave_rustls(id) && save_conn(app, id, conns, &mut batch).is_some()
            });
            if !move_all {
                batch.truncate(start);
                continue;
            }
            for &(_, id) in of_socket {
                parcel.sockets.extend(take_out(app, id, conns).flatten());
            }
            count += of_socket.len();
            if count >= BATCH || batch.len() >= BATCH_BYTES {
                let sockets = parcel.sockets.len() - before;
                parcel.conns.push(packer.message(&batch, (count, sockets)));
                batch.truncate(1);
                (count, before) = (0, parcel.sockets.len());
            }
        }
        if count > 0 {
            let sockets = parcel.sockets.len() - before;
            parcel.conns.push(packer.message(&batch, (count, sockets)));
        }
        let stay = conns.sessions().map(|(id, _)| id);
        parcel.farewells =
            packer.items(|parts| stay.for_each(|id| app.parts.hub.save_quits(id, parts)));
        let (shared, mut gone) = (&app.parts.shared, vec![GONE]);
        for (id, session) in conns.sessions().filter(|_| shared.hooks.is_some()) {
            let standing = standing(session, conns.tag(id).unwrap_or(NO_CLIENT));
            let name = || app.gateways.client(id, session, shared);
            let end = (0, Disconnect::Shutdown.reason().into());
            if let Some(event) = standing.event(name, Some(end)) {
                event.save(&mut gone);
            }
            if gone.len() >= BATCH_BYTES {
                parcel.farewells.push(packer.message(&gone, (0, 0)));
                gone.truncate(1);
            }
        }
        parcel.farewells.push(packer.message(&gone, (0, 0)));
        // The first shard gives what all have told.
        if let Some(webhooks) = app
            .parts
            .webhooks
            .as_ref()
            .filter(|_| app.parts.shard.0 == 0)
        {
            let records = webhooks.give_up();
            for piece in records.chunks(BATCH_BYTES) {
                let message = [&[WEBHOOKS], piece].concat();
                parcel.farewells.push(packer.message(&message, (0, 0)));
            }
        }
        parcel.end.push(END);
        (conns.generation(), parcel.len()).save(&mut parcel.end);
        app.gateways.save_rest(&mut parcel.end);
        throng_sys::memory::trim();
        parcel
    }

    /// Number of connections that move.
    pub fn len(&self) -> usize {
        self.conns.iter().map(|message| message.conns).sum()
    }

    pub const fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }

    /// Every message for the successor with its sockets, in order.
    pub fn each(
        &self,
        mut send: impl FnMut(&[u8], &[K::Socket]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut decompress, mut sockets) = (Decompress::new(false), &self.sockets[..]);
        for message in self.hub.iter().chain(&self.conns).chain(&self.farewells) {
            let (mine, rest) = sockets
                .split_at_checked(message.sockets)
                .ok_or(io::ErrorKind::InvalidData)?;
            sockets = rest;
            send(&message.unpacked(&mut decompress)?, mine)?;
        }
        send(&self.end, &[])
    }

    /// The successor does not have it: puts everything back, and the shard goes on as if nothing
    /// had been. Gives the number of connections that did not come back; that would be a bug.
    pub fn restore(self, running: &mut Running<ShardApp, K>) -> usize {
        let (app, conns) = running.parts_mut();
        let mut decompress = Decompress::new(false);
        let mut unpacking = Unpacking::default();
        let mut sockets = self.sockets.into_iter();
        let mut lost = 0;
        for message in self.hub.into_iter().chain(self.conns) {
            let mut mine = sockets.by_ref().take(message.sockets);
            let before = conns.len();
            if let Ok(bytes) = message.unpacked(&mut decompress) {
                // What is damaged is counted below.
                let _ = unpacking.take(&bytes, &mut mine, app, conns);
            }
            lost += before + message.conns - conns.len();
            mine.for_each(drop);
        }
        running.take_back();
        lost
    }

    /// The successor has it. What stays is drained here, with the broker as it was.
    pub fn release(self, running: &mut Running<ShardApp, K>) {
        let (app, conns) = running.parts_mut();
        for socket in self.sockets {
            conns.let_go(socket);
        }
        if conns.is_empty() {
            return;
        }
        let (mut decompress, mut unpacking) = (Decompress::new(false), Unpacking::default());
        for message in self.hub {
            if let Ok(bytes) = message.unpacked(&mut decompress) {
                let _ = unpacking.take(&bytes, &mut std::iter::empty(), app, conns);
            }
        }
        app.parts.hub.loaded(conns.now());
    }
}
