//! The kernel of production: epoll by way of mio, sockets by way of `throng-sys`, mail by way of
//! lock-free rings.
//!
//! Owns the shard's epoll instance. Never: decides anything; each call is one system call.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Poll, Token};
use throng_sys::{clock, socket};

use super::pair::{PairReceiver, PairSender, pair};
use super::{Interest, Kernel, MailReceiver, MailSender, Ready, Source, Wake};

const EVENTS: usize = 1024;
/// Messages that may wait between two shards. Queue: `mailbox`.
const MAILBOX_MAX: usize = 4096;
/// Messages in the near ring, which wraps around soon: a mailbox that is never fuller costs
/// no more memory, which matters because there is one for each two shards.
const NEAR: usize = 512;

const MAILBOX: Token = Token(usize::MAX);
/// Listeners count downwards from here.
const LISTENER_FIRST: usize = usize::MAX - 1;
/// The last token of a listener; every smaller one is a connection's.
const LISTENER_LAST: usize = LISTENER_FIRST - u8::MAX as usize;

pub struct Linux {
    poll: Poll,
    events: Events,
    started: Instant,
}

impl Linux {
    /// A new epoll instance; `started` is the start of the process. Fails if there is no descriptor
    /// left.
    pub fn new(started: Instant) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(EVENTS),
            started,
        })
    }
}

const fn token(source: Source) -> Token {
    match source {
        Source::Mailbox => MAILBOX,
        Source::Listener(number) => Token(LISTENER_FIRST - number as usize),
        Source::Connection(index) => Token(index as usize),
    }
}

const fn source(token: Token) -> Source {
    match token {
        MAILBOX => Source::Mailbox,
        Token(listener @ LISTENER_LAST..) => Source::Listener((LISTENER_FIRST - listener) as u8),
        Token(index) => Source::Connection(index as u32),
    }
}

const fn interest(interest: Interest) -> mio::Interest {
    match interest {
        Interest::Input => mio::Interest::READABLE,
        Interest::InputAndRoom => mio::Interest::READABLE.add(mio::Interest::WRITABLE),
    }
}

impl Kernel for Linux {
    type Socket = OwnedFd;
    type Listener = OwnedFd;
    type Wake = mio::Waker;
    type Spare = OwnedFd;
    type Sender<M> = PairSender<rtrb::Producer<M>>;
    type Receiver<M> = PairReceiver<rtrb::Consumer<M>>;

    fn mono_us(&self) -> u64 {
        self.started.elapsed().as_micros() as u64
    }

    fn unix_ms(&self) -> u64 {
        clock::unix_ms()
    }

    fn make_wake(&mut self) -> io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), MAILBOX)
    }

    fn make_mailbox<M>(&mut self) -> (Self::Sender<M>, Self::Receiver<M>) {
        let far_room = MAILBOX_MAX - NEAR;
        let [near, far] = [NEAR, far_room].map(rtrb::RingBuffer::new);
        pair(near, far, far_room)
    }

    fn wait(&mut self, timeout: Option<Duration>, ready: &mut Vec<Ready>) -> io::Result<()> {
        ready.clear();
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        ready.extend(self.events.iter().map(|event| Ready {
            source: source(event.token()),
            readable: event.is_readable(),
            writable: event.is_writable(),
            read_closed: event.is_read_closed(),
            error: event.is_error(),
        }));
        Ok(())
    }

    fn watch_listener(&mut self, listener: &OwnedFd, number: u8) -> io::Result<()> {
        self.poll.registry().register(
            &mut SourceFd(&listener.as_raw_fd()),
            token(Source::Listener(number)),
            mio::Interest::READABLE,
        )
    }

    fn accept(&mut self, listener: &OwnedFd) -> io::Result<(OwnedFd, SocketAddr)> {
        socket::accept(listener.as_fd())
    }

    fn make_spare(&mut self) -> io::Result<OwnedFd> {
        socket::spare()
    }

    fn connect(&mut self, source: Option<SocketAddr>, target: SocketAddr) -> io::Result<OwnedFd> {
        socket::connect(source, target)
    }

    fn connect_path(&mut self, path: &Path) -> io::Result<OwnedFd> {
        socket::connect_path(path)
    }

    fn keep_alive(&mut self, socket: &OwnedFd, after: Duration) {
        // Without it, a peer that vanished is noticed by the next write.
        let _ = socket::keep_alive(socket.as_fd(), after);
    }

    fn take_error(&mut self, socket: &OwnedFd) -> io::Result<Option<io::Error>> {
        socket::take_error(socket.as_fd())
    }

    fn watch(&mut self, socket: &OwnedFd, index: u32, wanted: Interest) -> io::Result<()> {
        self.poll.registry().register(
            &mut SourceFd(&socket.as_raw_fd()),
            token(Source::Connection(index)),
            interest(wanted),
        )
    }

    fn watch_room(&mut self, socket: &OwnedFd, index: u32) -> io::Result<()> {
        self.poll.registry().reregister(
            &mut SourceFd(&socket.as_raw_fd()),
            token(Source::Connection(index)),
            interest(Interest::InputAndRoom),
        )
    }

    fn recv(&mut self, socket: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
        socket::recv(socket.as_fd(), buffer)
    }

    fn send(&mut self, socket: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
        socket::send(socket.as_fd(), bytes)
    }

    fn send_vectored(&mut self, socket: &OwnedFd, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        socket::send_vectored(socket.as_fd(), slices)
    }

    fn peer(&self, socket: &OwnedFd) -> Option<SocketAddr> {
        socket::peer_addr(socket.as_fd()).ok()
    }

    fn let_go(&mut self, socket: OwnedFd) {
        // As long as the other process has it open, closing alone would not end the watch.
        let _ = self
            .poll
            .registry()
            .deregister(&mut SourceFd(&socket.as_raw_fd()));
    }

    fn close_listener(&mut self, listener: OwnedFd) {
        // Another process may have it, too, and then closing alone would not end the watch.
        let _ = self
            .poll
            .registry()
            .deregister(&mut SourceFd(&listener.as_raw_fd()));
    }

    fn shutdown_write(&mut self, socket: &OwnedFd) -> io::Result<()> {
        socket::shutdown_write(socket.as_fd())
    }
}

impl Wake for mio::Waker {
    fn wake(&self) {
        // It fails only if the descriptor is invalid, which it is not while `self` lives, or if
        // its counter is full, and then the shard is awake anyway.
        let _ = Self::wake(self);
    }
}

impl<M> MailSender<M> for rtrb::Producer<M> {
    fn slots(&self) -> usize {
        Self::slots(self)
    }

    fn push(&mut self, mail: M) -> Result<(), M> {
        Self::push(self, mail).map_err(|rtrb::PushError::Full(mail)| mail)
    }

    fn is_abandoned(&self) -> bool {
        Self::is_abandoned(self)
    }
}

impl<M> MailReceiver<M> for rtrb::Consumer<M> {
    fn pop(&mut self) -> Option<M> {
        Self::pop(self).ok()
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_what_it_is_about() {
        for of in [
            Source::Mailbox,
            Source::Listener(0),
            Source::Listener(255),
            Source::Connection(0),
            Source::Connection(u32::MAX),
        ] {
            assert_eq!(source(token(of)), of);
        }
    }
}
