//! A kernel without surprises: every write is taken, every event comes once and at once.
//!
//! Owns the bytes on their way to the server. What the server sends is counted and thrown away, so
//! that a run costs next to nothing beside the server itself.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use throng_engine::{Interest, Kernel, MailReceiver, MailSender, Ready, Source, Wake};

#[derive(Default)]
pub(crate) struct Pipe {
    /// Sent by the client and not read yet.
    up: Vec<u8>,
    fin: bool,
    /// Its index in the server's table, once it is watched.
    index: Option<u32>,
    pub(crate) down_bytes: usize,
    pub(crate) gone: bool,
}

#[derive(Default)]
pub(crate) struct World {
    pub(crate) mono_us: u64,
    pub(crate) pipes: Vec<Pipe>,
    backlogs: Vec<VecDeque<usize>>,
    /// Connections with an event, each once.
    events: Vec<usize>,
    knocks: Vec<u8>,
    writes: u64,
}

/// One shard's kernel, and a handle on it for the played clients.
#[derive(Clone, Default)]
pub(crate) struct Quiet(pub(crate) Rc<RefCell<World>>);

impl Quiet {
    pub(crate) fn connect(&self, listener: u8) -> usize {
        let world = &mut *self.0.borrow_mut();
        let pipe = world.pipes.len();
        world.pipes.push(Pipe::default());
        let wanted = usize::from(listener) + 1;
        if world.backlogs.len() < wanted {
            world.backlogs.resize_with(wanted, VecDeque::new);
        }
        world.backlogs[usize::from(listener)].push_back(pipe);
        world.knocks.push(listener);
        pipe
    }

    pub(crate) fn send_up(&self, pipe: usize, bytes: &[u8]) {
        let world = &mut *self.0.borrow_mut();
        let state = &mut world.pipes[pipe];
        if state.index.is_some() && state.up.is_empty() {
            world.events.push(pipe);
        }
        state.up.extend_from_slice(bytes);
    }

    pub(crate) fn end(&self, pipe: usize) {
        let world = &mut *self.0.borrow_mut();
        world.pipes[pipe].fin = true;
        world.events.push(pipe);
    }

    /// Whether there is an event for the server.
    pub(crate) fn has_events(&self) -> bool {
        let world = self.0.borrow();
        !world.events.is_empty() || !world.knocks.is_empty()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.0.borrow().writes
    }
}

pub(crate) struct Socket(Quiet, usize);

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.0.borrow_mut().pipes[self.1].gone = true;
    }
}

/// Waking is not needed: there is one thread.
pub(crate) struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

impl Kernel for Quiet {
    type Socket = Socket;
    type Listener = u8;
    type Wake = NoWake;
    type Spare = ();
    type Sender<M> = Ring<M>;
    type Receiver<M> = Ring<M>;

    fn mono_us(&self) -> u64 {
        self.0.borrow().mono_us
    }

    fn unix_ms(&self) -> u64 {
        1_800_000_000_000 + self.0.borrow().mono_us / 1000
    }

    fn make_wake(&mut self) -> io::Result<NoWake> {
        Ok(NoWake)
    }

    fn make_spare(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn make_mailbox<M>(&mut self) -> (Ring<M>, Ring<M>) {
        let ring = Rc::default();
        (Ring(Rc::clone(&ring)), Ring(ring))
    }

    fn wait(&mut self, _: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        let world = &mut *self.0.borrow_mut();
        let readable = |source| Ready {
            source,
            readable: true,
            writable: false,
            read_closed: false,
            error: false,
        };
        let knocks = world.knocks.drain(..);
        ready.extend(knocks.map(|listener| readable(Source::Listener(listener))));
        for pipe in world.events.drain(..) {
            let Pipe { index, fin, .. } = world.pipes[pipe];
            ready.extend(index.map(|index| Ready {
                read_closed: fin,
                ..readable(Source::Connection(index))
            }));
        }
        Ok(())
    }

    fn watch_listener(&mut self, _: &u8, _: u8) -> io::Result<()> {
        Ok(())
    }

    fn accept(&mut self, listener: &u8) -> io::Result<(Socket, SocketAddr)> {
        let world = &mut *self.0.borrow_mut();
        let backlog = world.backlogs.get_mut(usize::from(*listener));
        let pipe = backlog.and_then(VecDeque::pop_front);
        let pipe = pipe.ok_or(io::ErrorKind::WouldBlock)?;
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Ok((Socket(self.clone(), pipe), from))
    }

    fn connect(&mut self, _: Option<SocketAddr>, _: SocketAddr) -> io::Result<Socket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn take_error(&mut self, _: &Socket) -> io::Result<Option<io::Error>> {
        Ok(None)
    }

    fn watch(&mut self, socket: &Socket, index: u32, _: Interest) -> io::Result<()> {
        let world = &mut *self.0.borrow_mut();
        let pipe = &mut world.pipes[socket.1];
        pipe.index = Some(index);
        if !pipe.up.is_empty() {
            world.events.push(socket.1);
        }
        Ok(())
    }

    fn watch_room(&mut self, _: &Socket, _: u32) -> io::Result<()> {
        Ok(())
    }

    fn recv(&mut self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let world = &mut *self.0.borrow_mut();
        let pipe = &mut world.pipes[socket.1];
        if pipe.up.is_empty() && !pipe.fin {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = pipe.up.len().min(buffer.len());
        buffer[..count].copy_from_slice(&pipe.up[..count]);
        pipe.up.drain(..count);
        Ok(count)
    }

    fn send(&mut self, socket: &Socket, bytes: &[u8]) -> io::Result<usize> {
        let world = &mut *self.0.borrow_mut();
        world.pipes[socket.1].down_bytes += bytes.len();
        world.writes += 1;
        Ok(bytes.len())
    }

    fn send_vectored(&mut self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let world = &mut *self.0.borrow_mut();
        world.pipes[socket.1].down_bytes += bytes;
        world.writes += 1;
        Ok(bytes)
    }

    fn shutdown_write(&mut self, _: &Socket) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) struct Ring<M>(Rc<RefCell<VecDeque<M>>>);

impl<M> MailSender<M> for Ring<M> {
    fn slots(&self) -> usize {
        usize::MAX
    }

    fn push(&mut self, mail: M) -> Result<(), M> {
        self.0.borrow_mut().push_back(mail);
        Ok(())
    }

    fn is_abandoned(&self) -> bool {
        false
    }
}

impl<M> MailReceiver<M> for Ring<M> {
    fn pop(&mut self) -> Option<M> {
        self.0.borrow_mut().pop_front()
    }

    fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}
