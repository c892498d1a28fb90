//! The seam between the engine and the operating system.
//!
//! Everything that a shard asks of the outside goes through [`Kernel`]: sockets, readiness,
//! clocks, and mail between shards. [`Linux`] implements it for production; the simulator
//! implements it with time and faults from a seed, and so runs the same loop.
//!
//! Owns: the words of that contract. Never: decides when to call what; the shard does.
//!
//! The contract
//! - Readiness is edge-triggered: a change is reported once. A caller that stops before "not now"
//!   (`WouldBlock`) must remember that something is left.
//! - Events may come late, twice, or for nothing; a call that finds nothing says `WouldBlock`.
//! - An event names a table index, not a connection: it may be meant for an earlier user of it.
//! - `recv` and `send` may take less than was offered. The bytes that a `send` took are the
//!   kernel's: they are never offered again.
//!
//! Every call is made with `&mut self`, so a kernel may gather what it is given until
//! [`Kernel::wait`].

mod linux;
mod pair;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

pub use linux::Linux;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Another thread woke the shard.
    Mailbox,
    Listener(u8),
    /// A connection, by its index in the table.
    Connection(u32),
}

/// An event: what has changed since the last one about the same source.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub source: Source,
    /// Bytes, the peer's end, or connections to accept are there.
    pub readable: bool,
    /// There is room to write, or a connection is established.
    pub writable: bool,
    /// The peer has shut its sending side; its bytes may still be there to read.
    pub read_closed: bool,
    /// The connection has failed; the next call says how.
    pub error: bool,
}

/// Events that the kernel reports for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Bytes, and the end of them.
    Input,
    /// Input as above, and room to write after there was none.
    InputAndRoom,
}

/// Kernel under a shard: sockets, clocks, mailboxes. One value per shard, owned by its thread.
pub trait Kernel: Sized {
    /// A connection. Dropping it closes it as [`Kernel::close`] does.
    type Socket;
    type Listener;
    type Wake: Wake;
    /// A descriptor that is held so that another can be had for it. Dropping it frees it.
    type Spare;
    /// The sending end of a mailbox between two shards.
    type Sender<M>: MailSender<M>;
    /// The receiving end of a mailbox between two shards.
    type Receiver<M>: MailReceiver<M>;

    /// Microseconds since a moment that all shards of a process share.
    fn mono_us(&self) -> u64;

    fn unix_ms(&self) -> u64;

    /// Makes what wakes [`Kernel::wait`]; called once, before the shard runs. Fails if there is no
    /// descriptor left.
    fn make_wake(&mut self) -> io::Result<Self::Wake>;

    /// Makes a bounded mailbox, first in first out, in which this shard sends.
    fn make_mailbox<M>(&mut self) -> (Self::Sender<M>, Self::Receiver<M>);

    /// Waits until something is ready, at most for `timeout` (without end if `None`), and replaces
    /// what is in `ready`. Fails if the shard cannot go on. An interruption is no error: nothing is
    /// ready.
    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()>;

    /// Reports from now on when connections wait at a listener. Fails if there is no memory for it.
    fn watch_listener(&mut self, listener: &Self::Listener, number: u8) -> io::Result<()>;

    /// Takes one connection from a listener. Errors: see [`throng_sys::socket::accept`].
    fn accept(&mut self, listener: &Self::Listener) -> io::Result<(Self::Socket, SocketAddr)>;

    /// Takes a descriptor that nothing uses. Fails if there is none left.
    fn make_spare(&mut self) -> io::Result<Self::Spare>;

    /// Starts an outgoing connection; once it is writable, [`Kernel::take_error`] says how it went.
    /// Errors: see [`throng_sys::socket::connect`].
    fn connect(
        &mut self,
        source: Option<SocketAddr>,
        target: SocketAddr,
    ) -> io::Result<Self::Socket>;

    /// Starts an outgoing connection to the Unix socket at a path; otherwise as
    /// [`Kernel::connect`]. Errors: see [`throng_sys::socket::connect_path`].
    fn connect_path(&mut self, _path: &Path) -> io::Result<Self::Socket> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Asks after so long without a byte whether the peer is still there, and ends the connection
    /// if it is not.
    fn keep_alive(&mut self, _socket: &Self::Socket, _after: Duration) {}

    /// Takes a connection's pending error. Fails if the question itself fails.
    fn take_error(&mut self, socket: &Self::Socket) -> io::Result<Option<io::Error>>;

    /// Begins to report events of a connection. Readiness that exists already is reported too.
    /// Fails if there is no memory for it.
    fn watch(&mut self, socket: &Self::Socket, index: u32, interest: Interest) -> io::Result<()>;

    /// Reports also room to write, of a connection that is watched for input. Room that has come
    /// meanwhile is reported too. Fails if there is no memory for it.
    fn watch_room(&mut self, socket: &Self::Socket, index: u32) -> io::Result<()>;

    /// Reads; 0 bytes are the end of the peer's stream. Errors: `WouldBlock` if nothing is there;
    /// otherwise the connection has failed.
    fn recv(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<usize>;

    /// Writes; returns how many bytes were taken. Errors: `WouldBlock` if there is no room;
    /// otherwise the connection has failed.
    fn send(&mut self, socket: &Self::Socket, bytes: &[u8]) -> io::Result<usize>;

    /// Writes several slices in order, as one write.
    fn send_vectored(&mut self, socket: &Self::Socket, slices: &[IoSlice<'_>])
    -> io::Result<usize>;

    /// Ends the stream towards the peer; reading goes on. Fails if the connection has failed.
    fn shutdown_write(&mut self, socket: &Self::Socket) -> io::Result<()>;

    /// The peer's address, if the kernel still knows it.
    fn peer(&self, _socket: &Self::Socket) -> Option<SocketAddr> {
        None
    }

    /// Closes a connection. Bytes that were sent are still delivered.
    fn close(&mut self, socket: Self::Socket) {
        drop(socket);
    }

    /// Gives a connection up that another process has, too: it stays open there.
    fn let_go(&mut self, socket: Self::Socket) {
        self.close(socket);
    }

    /// Closes a listener. Connections that wait there are refused.
    fn close_listener(&mut self, listener: Self::Listener) {
        drop(listener);
    }
}

/// Wakes a shard that waits; see [`Kernel::wait`].
pub trait Wake: Send + Sync + 'static {
    fn wake(&self);
}

/// The sending end of a mailbox between two shards.
pub trait MailSender<M> {
    /// Returns the number of messages that have room. Room may grow at any time, since the reader
    /// is another thread, and shrinks only by [`MailSender::push`].
    fn slots(&self) -> usize;

    /// Puts a message in, or gives it back if there is no room.
    fn push(&mut self, mail: M) -> Result<(), M>;

    /// Whether the reader has gone for good.
    fn is_abandoned(&self) -> bool;
}

/// The receiving end of a mailbox between two shards.
pub trait MailReceiver<M> {
    fn pop(&mut self) -> Option<M>;

    fn is_empty(&self) -> bool;
}
