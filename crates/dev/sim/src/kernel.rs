//! The kernel as the engine sees it, with time and faults from a seed.
//!
//! Never waits: [`Kernel::wait`] gives what is ready and returns; `stage.rs` decides which shard is
//! stepped when, and honours the time that a shard would have slept.
//!
//! Faults it plays: edge-triggered readiness with one edge for each change, reported late, merged,
//! for nothing, or for an index that is not in use; writes that take less than there is room for;
//! accepting without descriptors; and mailboxes whose room is seen late.

mod ring;

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use throng_engine::{Interest, Kernel, Ready, Source, Wake};
use throng_sys::errno::{ECONNABORTED, ECONNREFUSED, ECONNRESET, EMFILE, EPIPE};

use crate::net::{Conn, Net, Port, ShardSide, World};

pub(crate) use ring::{SimReceiver, SimSender};

/// Simulated kernel of one shard.
pub(crate) struct SimKernel {
    net: Net,
    shard: usize,
}

/// A connection's descriptor; closed when the last holder drops it.
pub(crate) struct SimSocket {
    net: Net,
    number: usize,
}

impl SimSocket {
    fn peer(&self) -> SocketAddr {
        let host = Ipv4Addr::new(10, 0, 0, (self.number % 250) as u8 + 1);
        SocketAddr::from((host, 1024 + self.number as u16))
    }
}

impl SimSocket {
    /// As another process gets it.
    pub(crate) fn shared(&self) -> Self {
        self.net.0.borrow_mut().conns[self.number].holders += 1;
        let net = self.net.clone();
        let number = self.number;
        Self { net, number }
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        // The world is borrowed by the code that panics.
        let Ok(mut world) = self.net.0.try_borrow_mut() else {
            return;
        };
        let conn = &mut world.conns[self.number];
        conn.holders -= 1;
        if conn.holders > 0 {
            return;
        }
        world.descriptors += 1;
        let (closed, now_us) = (self.number, world.mono_us);
        world.live.retain(|&number| number != closed);
        let conn = &mut world.conns[closed];
        conn.server_gone = true;
        conn.closed_at_us = Some(now_us);
        conn.watched = None;
        // As close(2) does: unread bytes make it a reset.
        if !conn.up.is_empty() || !conn.flying.is_empty() {
            conn.up.clear();
            conn.flying.clear();
        }
    }
}

/// A descriptor that nothing uses.
pub(crate) struct SimSpare(Net);

impl Drop for SimSpare {
    fn drop(&mut self) {
        if let Ok(mut world) = self.0.0.try_borrow_mut() {
            world.descriptors += 1;
        }
    }
}

/// Waker of one shard.
pub(crate) struct SimWake(pub(crate) Arc<AtomicBool>);

impl Wake for SimWake {
    fn wake(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A listener, by its number.
pub(crate) struct SimListener(pub(crate) u8);

impl SimKernel {
    /// Creates the kernel of the next shard. A process that takes over is given its ports later.
    pub(crate) fn new(net: &Net, shard: usize, listeners: usize, takes_over: bool) -> Self {
        let mut world = net.0.borrow_mut();
        let mut side = ShardSide::default();
        let port = || Port {
            closed: takes_over,
            ..Port::default()
        };
        side.ports.resize_with(listeners, port);
        world.shards.push(side);
        assert_eq!(world.shards.len(), shard + 1, "in order");
        drop(world);
        let net = net.clone();
        Self { net, shard }
    }
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl World {
    pub(crate) fn fault(&mut self, percent: usize, what: &'static str) -> bool {
        let hit = percent > 0 && (self.rng.below(100) as usize) < percent;
        if hit {
            self.tally.count(what);
        }
        hit
    }

    fn send(&mut self, number: usize, bytes: usize) -> io::Result<usize> {
        let odds = self.odds;
        let conn = &self.conns[number];
        if conn.reset {
            return Err(error(ECONNRESET));
        }
        if conn.client_gone {
            return Err(error(EPIPE));
        }
        assert!(!conn.server_fin, "nothing is written after the end");
        let room = conn.room();
        let refused = self.fault(odds.no_room, "a write finds no room");
        if room == 0 || refused {
            if room == 0 {
                self.tally.count("a write finds no room");
            }
            let conn = &mut self.conns[number];
            conn.wants_room = true;
            // The room that a fault denied is there: it is reported as new room.
            conn.edge_room |= room > 0 && conn.watched.is_some_and(|(_, _, tells)| tells);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let whole = room.min(bytes);
        if whole > 1
            && self.fault(
                odds.short_write,
                "the kernel takes less than it has room for",
            )
        {
            return Ok(1 + self.rng.below(whole as u64 - 1) as usize);
        }
        Ok(whole)
    }
}

impl Kernel for SimKernel {
    type Socket = SimSocket;
    type Listener = SimListener;
    type Wake = SimWake;
    type Spare = SimSpare;
    type Sender<M> = SimSender<M>;
    type Receiver<M> = SimReceiver<M>;

    fn mono_us(&self) -> u64 {
        self.net.0.borrow().mono_us
    }

    fn unix_ms(&self) -> u64 {
        self.net.0.borrow().unix_ms
    }

    fn make_wake(&mut self) -> io::Result<SimWake> {
        let world = self.net.0.borrow();
        Ok(SimWake(world.shards[self.shard].woken.clone()))
    }

    fn make_mailbox<M>(&mut self) -> (SimSender<M>, SimReceiver<M>) {
        ring::mailbox(&self.net)
    }

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let world = &mut *self.net.0.borrow_mut();
        let odds = world.odds;
        if world.fault(odds.interrupted, "a wait is interrupted") {
            return Ok(());
        }
        let quiet = |source| Ready {
            source,
            readable: true,
            writable: false,
            read_closed: false,
            error: false,
        };
        if world.shards[self.shard].woken.load(Ordering::Relaxed)
            && !world.fault(odds.late_wake, "a shard learns late that it was woken")
        {
            world.shards[self.shard]
                .woken
                .store(false, Ordering::Relaxed);
            ready.push(quiet(Source::Mailbox));
        }
        for (number, port) in world.shards[self.shard].ports.iter_mut().enumerate() {
            if std::mem::take(&mut port.edge) {
                ready.push(quiet(Source::Listener(number as u8)));
            }
        }
        for at in 0..world.live.len() {
            let number = world.live[at];
            let Some((shard, index, tells_room)) = world.conns[number].watched else {
                continue;
            };
            if shard != self.shard || world.conns[number].dialled == Some(false) {
                continue;
            }
            let Conn {
                edge_in, edge_room, ..
            } = world.conns[number];
            let spurious = !edge_in && !edge_room;
            if spurious && !world.fault(odds.spurious, "readiness is reported for nothing") {
                continue;
            }
            if !spurious && world.fault(odds.late_event, "readiness is reported late") {
                continue;
            }
            let terse = (world.rng.below(100) as usize) < odds.terse;
            let conn = &mut world.conns[number];
            (conn.edge_in, conn.edge_room) = (false, false);
            let has_room = tells_room && (conn.room() > 0 || conn.client_gone || conn.reset);
            let closed = conn.fin_arrived() || conn.reset;
            ready.push(Ready {
                source: Source::Connection(index),
                readable: edge_in || spurious || !terse && conn.readable(),
                writable: has_room && (edge_room || !terse),
                read_closed: closed && (edge_in || !terse),
                error: conn.reset && (edge_in || !terse),
            });
        }
        for stray in std::mem::take(&mut world.shards[self.shard].strays) {
            let room = world.rng.below(2) == 0;
            ready.push(Ready {
                writable: room,
                ..quiet(Source::Connection(stray))
            });
        }
        // Any order will do.
        for at in (1..ready.len()).rev() {
            ready.swap(at, world.rng.below(at as u64 + 1) as usize);
        }
        Ok(())
    }

    fn watch_listener(&mut self, listener: &SimListener, _: u8) -> io::Result<()> {
        let mut world = self.net.0.borrow_mut();
        world.shards[self.shard].ports[usize::from(listener.0)].edge = true;
        Ok(())
    }

    fn accept(&mut self, listener: &SimListener) -> io::Result<(SimSocket, SocketAddr)> {
        let world = &mut *self.net.0.borrow_mut();
        let odds = world.odds;
        let port = usize::from(listener.0);
        if world.shards[self.shard].ports[port].backlog.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if world.descriptors == 0 || world.fault(odds.accept, "no descriptor is left") {
            if world.descriptors == 0 {
                world.tally.count("no descriptor is left");
            }
            return Err(error(EMFILE));
        }
        let aborted = world.fault(odds.accept, "a connection is aborted before it is accepted");
        let number = world.shards[self.shard].ports[port].backlog.pop_front();
        let number = number.expect("one waits");
        if aborted {
            let conn = &mut world.conns[number];
            (conn.server_gone, conn.aborted) = (true, true);
            return Err(error(ECONNABORTED));
        }
        world.descriptors -= 1;
        world.live.push(number);
        world.conns[number].holders = 1;
        let socket = SimSocket {
            net: self.net.clone(),
            number,
        };
        let peer = socket.peer();
        Ok((socket, peer))
    }

    fn peer(&self, socket: &SimSocket) -> Option<SocketAddr> {
        Some(socket.peer())
    }

    fn make_spare(&mut self) -> io::Result<SimSpare> {
        let mut world = self.net.0.borrow_mut();
        let left = world.descriptors.checked_sub(1);
        world.descriptors = left.ok_or_else(|| error(EMFILE))?;
        Ok(SimSpare(self.net.clone()))
    }

    fn connect(&mut self, _: Option<SocketAddr>, to: SocketAddr) -> io::Result<SimSocket> {
        let world = &mut *self.net.0.borrow_mut();
        let odds = world.odds;
        if world.descriptors == 0 || world.fault(odds.accept, "no descriptor is left") {
            return Err(error(EMFILE));
        }
        world.descriptors -= 1;
        let number = world.conns.len();
        let room = [20, 300, 100_000][world.rng.below(3) as usize];
        let mut conn = Conn::new(room);
        (conn.dialled, conn.holders) = (Some(false), 1);
        world.conns.push(conn);
        world.live.push(number);
        world.dialled.push_back((number, to));
        let net = self.net.clone();
        Ok(SimSocket { net, number })
    }

    fn take_error(&mut self, socket: &SimSocket) -> io::Result<Option<io::Error>> {
        let world = self.net.0.borrow();
        let is_refused = world.conns[socket.number].dialled == Some(true);
        Ok(is_refused.then(|| error(ECONNREFUSED)))
    }

    fn watch(&mut self, socket: &SimSocket, index: u32, interest: Interest) -> io::Result<()> {
        let mut world = self.net.0.borrow_mut();
        let tells_room = interest == Interest::InputAndRoom;
        let conn = &mut world.conns[socket.number];
        assert!(conn.watched.is_none(), "watched twice");
        conn.watched = Some((self.shard, index, tells_room));
        conn.edge_in = conn.readable();
        conn.edge_room = tells_room && conn.dialled != Some(false);
        Ok(())
    }

    fn watch_room(&mut self, socket: &SimSocket, index: u32) -> io::Result<()> {
        let mut world = self.net.0.borrow_mut();
        let conn = &mut world.conns[socket.number];
        assert!(conn.watched.is_some(), "not watched yet");
        conn.watched = Some((self.shard, index, true));
        // Linux looks at both when it is asked anew.
        conn.edge_in |= conn.readable();
        conn.edge_room = conn.room() > 0 || conn.client_gone;
        Ok(())
    }

    fn recv(&mut self, socket: &SimSocket, buffer: &mut [u8]) -> io::Result<usize> {
        let mut world = self.net.0.borrow_mut();
        let conn = &mut world.conns[socket.number];
        if conn.reset {
            return Err(error(ECONNRESET));
        }
        if conn.up.is_empty() {
            return if conn.fin_arrived() {
                Ok(0)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        }
        let count = conn.up.len().min(buffer.len());
        for (to, byte) in buffer.iter_mut().zip(conn.up.drain(..count)) {
            *to = byte;
        }
        Ok(count)
    }

    fn send(&mut self, socket: &SimSocket, bytes: &[u8]) -> io::Result<usize> {
        self.send_vectored(socket, &[IoSlice::new(bytes)])
    }

    fn send_vectored(&mut self, socket: &SimSocket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut world = self.net.0.borrow_mut();
        let offered = slices.iter().map(|slice| slice.len()).sum();
        assert!(offered > 0, "an empty write");
        let taken = world.send(socket.number, offered)?;
        let all = slices.iter().flat_map(|slice| slice.iter());
        world.conns[socket.number].down.extend(all.take(taken));
        Ok(taken)
    }

    fn shutdown_write(&mut self, socket: &SimSocket) -> io::Result<()> {
        let mut world = self.net.0.borrow_mut();
        let conn = &mut world.conns[socket.number];
        if conn.reset {
            return Err(error(ECONNRESET));
        }
        assert!(!conn.server_fin, "shut twice");
        conn.server_fin = true;
        Ok(())
    }

    fn let_go(&mut self, socket: SimSocket) {
        self.net.0.borrow_mut().conns[socket.number].watched = None;
    }

    fn close_listener(&mut self, listener: SimListener) {
        let world = &mut *self.net.0.borrow_mut();
        world.shards[self.shard].ports[usize::from(listener.0)].close(&mut world.conns);
    }
}
