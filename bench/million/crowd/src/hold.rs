//! `crowd hold`: opens connections, keeps them, answers pings and counts what each one gets.
//!
//! It stays beside `throng bench` as the independent witness: it shares no line with the server or
//! the load generator, so a fault common to both cannot hide from it.
//!
//! One thread, one edge-triggered epoll. A connection is eight bytes; what a read left unfinished
//! is kept aside in a map that is nearly always empty. With TLS its keys are kept apart, see
//! [`crate::tls`].

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};

use crate::conn::{self, Item, Stage};
use crate::plan::{self, Layout, Meaning, Transport};
use crate::settings::Args;
use crate::tally::Tally;
use crate::tls::{Link, Tls};

/// Connections that may be between their beginning and the server's answer: few enough for every
/// backlog.
const UNDER_WAY_MAX: u64 = 256;
/// Longest wait for the server to close after a client leaves.
const GOODBYE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
const EVENTS: usize = 1_024;
const TELL_EVERY: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Conn {
    fd: Option<OwnedFd>,
    stage: Stage,
    /// Broadcasts that it got, a bit each.
    rounds: u8,
    own: bool,
    pinged: bool,
}

struct Crowd {
    transport: Transport,
    layout: Layout,
    target: SocketAddrV4,
    first: u32,
    conns: Vec<Conn>,
    unfinished: HashMap<usize, Vec<u8>>,
    tls: Option<Tls>,
    /// The TLS of each connection; empty without.
    links: Vec<Option<Link>>,
    /// Records of which only a part is here.
    sealed: HashMap<usize, Vec<u8>>,
    epoll: OwnedFd,
    tally: Tally,
}

/// Opens the share, holds it until the stop file is there, and leaves the last count behind.
pub(crate) fn run(args: &Args) -> Result<(), String> {
    let count: u32 = args.get("count")?;
    let stop: PathBuf = args.get("stop")?;
    let status: PathBuf = args.get("status")?;
    let fail = |error| format!("cannot wait for sockets: {error}");
    let mut crowd = Crowd {
        transport: args.get("transport")?,
        layout: args.get("layout")?,
        target: SocketAddrV4::new(Ipv4Addr::LOCALHOST, args.get("port")?),
        first: args.get("first")?,
        conns: Vec::with_capacity(count as usize),
        unfinished: HashMap::new(),
        tls: args.get::<bool>("tls")?.then(Tls::new).transpose()?,
        links: Vec::new(),
        sealed: HashMap::new(),
        epoll: epoll::create(epoll::CreateFlags::CLOEXEC).map_err(fail)?,
        tally: Tally::default(),
    };
    let mut events = Vec::with_capacity(EVENTS);
    let mut buffer = vec![0; 64 << 10];
    let mut told = Instant::now();
    loop {
        let opening = crowd.conns.len() < count as usize;
        if opening {
            crowd.open_some(count as usize);
        }
        let nanoseconds = if opening { 1_000_000 } else { 200_000_000 };
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: nanoseconds,
        };
        match epoll::wait(&crowd.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(fail(error)),
        }
        for event in events.drain(..) {
            let index = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
            crowd.serve(index, event.flags, &mut buffer);
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let stopping = stop.exists();
            crowd
                .tally
                .write(&status)
                .map_err(|error| format!("{}: {error}", status.display()))?;
            if stopping {
                crowd.leave(&mut buffer);
                return Ok(());
            }
        }
    }
}

impl Crowd {
    /// Leaves a handful after the other: the next goes when the server has hung up on the one
    /// before. Packets of a million ends at once overflow the queues of a loopback that both sides
    /// share.
    fn leave(&mut self, buffer: &mut [u8]) {
        let mut fds = self.conns.drain(..).filter_map(|conn| conn.fd).peekable();
        while fds.peek().is_some() {
            let handful: Vec<OwnedFd> = fds.by_ref().take(UNDER_WAY_MAX as usize).collect();
            for fd in &handful {
                // A connection that the server has ended meanwhile needs no close.
                let _ = rustix::net::shutdown(fd, Shutdown::Write);
            }
            for fd in &handful {
                read_to_end(fd, buffer);
            }
        }
    }

    fn open_some(&mut self, count: usize) {
        loop {
            let tally = &self.tally;
            let under_way = tally.attempted - tally.opened - tally.failed;
            if self.conns.len() >= count || under_way >= UNDER_WAY_MAX {
                return;
            }
            let index = self.conns.len();
            self.tally.attempted += 1;
            self.conns.push(Conn::default());
            match self.connect(index) {
                Ok(fd) => self.conns[index].fd = Some(fd),
                Err(error) => self.end(index, &format!("connect: {error}")),
            }
        }
    }

    fn connect(&self, index: usize) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        // A port that an earlier run left in TIME_WAIT may be taken again.
        sockopt::set_socket_reuseaddr(&fd, true)?;
        rustix::net::bind(&fd, &plan::source(self.number(index)))?;
        match rustix::net::connect(&fd, &self.target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error),
        }
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, &fd, EventData::new_u64(index as u64), interest)?;
        Ok(fd)
    }

    fn number(&self, index: usize) -> u32 {
        self.first + u32::try_from(index).unwrap_or(u32::MAX)
    }

    fn serve(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) {
        let Some(conn) = self.conns.get_mut(index) else {
            return;
        };
        let Some(fd) = &conn.fd else { return };
        if conn.stage == Stage::Connecting {
            if let Ok(Err(error)) = sockopt::socket_error(fd) {
                return self.end(index, &format!("connect: {error}"));
            }
            if !flags.contains(EventFlags::OUT) {
                return;
            }
            let begun = match &self.tls {
                None => self.ask(index),
                Some(tls) => tls.link().and_then(|link| {
                    self.links
                        .resize_with(self.links.len().max(index + 1), || None);
                    self.links[index] = Some(link);
                    self.conns[index].stage = Stage::Shaking;
                    self.shake(index, &[])
                }),
            };
            if let Err(error) = begun {
                return self.end(index, &error);
            }
        }
        let ending = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        self.read(index, buffer, flags.intersects(ending));
    }

    fn ask(&mut self, index: usize) -> Result<(), String> {
        let request = conn::request(self.transport, self.layout, self.number(index));
        self.conns[index].stage = Stage::Asked;
        self.write(index, request.as_bytes())
            .map_err(|error| format!("request: {error}"))
    }

    /// Writes all of it or returns an error: what a client sends always fits.
    fn write(&mut self, index: usize, plain: &[u8]) -> Result<(), String> {
        let sealed;
        let bytes = match self.links.get_mut(index) {
            Some(Some(Link::Open(records))) => {
                sealed = records.seal(plain)?;
                &sealed
            }
            _ => plain,
        };
        let Some(fd) = &self.conns[index].fd else {
            return Err("closed".to_owned());
        };
        match rustix::io::write(fd, bytes) {
            Ok(length) if length == bytes.len() => Ok(()),
            Ok(_) => Err("cut".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Goes on with the handshake, and sends the request after it.
    fn shake(&mut self, index: usize, bytes: &[u8]) -> Result<(), String> {
        let Some(mut link) = self.links[index].take() else {
            return Err("no TLS".to_owned());
        };
        let mut out = Vec::new();
        let done = link.shake(bytes, &mut out)?;
        if !out.is_empty() {
            // No link is there now, so that these bytes leave as they are.
            self.write(index, &out)?;
        }
        self.links[index] = Some(if done { link.finish()? } else { link });
        if done { self.ask(index) } else { Ok(()) }
    }

    /// Opens the records in `fresh` together with the partial record kept from before.
    fn open(&mut self, index: usize, fresh: &[u8]) -> Result<Vec<u8>, String> {
        let mut joined = self.sealed.remove(&index).unwrap_or_default();
        joined.extend_from_slice(fresh);
        let mut plain = Vec::new();
        if let Some(Some(Link::Open(records))) = self.links.get_mut(index) {
            let used = records.open(&joined, &mut plain)?;
            if used < joined.len() {
                self.sealed.insert(index, joined.split_off(used));
            }
        }
        Ok(plain)
    }

    /// Reads until the socket is empty. A short read has emptied it, and more would be a new edge;
    /// only an end that was already reported has to be read until it shows.
    fn read(&mut self, index: usize, buffer: &mut [u8], to_the_end: bool) {
        loop {
            let Some(fd) = &self.conns[index].fd else {
                return;
            };
            match rustix::io::read(fd, &mut *buffer) {
                Ok(0) => return self.end(index, "closed by the server"),
                Ok(length) => {
                    self.tally.bytes += length as u64;
                    self.come(index, &buffer[..length]);
                    if length < buffer.len() && !to_the_end {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(error) => return self.end(index, &format!("read: {error}")),
            }
        }
    }

    fn come(&mut self, index: usize, bytes: &[u8]) {
        let taken = match self.conns[index].stage {
            Stage::Shaking => self.shake(index, bytes),
            _ if self.tls.is_some() => self
                .open(index, bytes)
                .map(|plain| self.take(index, &plain)),
            _ => {
                self.take(index, bytes);
                Ok(())
            }
        };
        if let Err(error) = taken {
            self.end(index, &error);
        }
    }

    fn take(&mut self, index: usize, fresh: &[u8]) {
        let mut joined = self.unfinished.remove(&index).unwrap_or_default();
        let bytes = if joined.is_empty() {
            fresh
        } else {
            joined.extend_from_slice(fresh);
            &joined
        };
        let mut at = 0;
        while let Some((item, length)) =
            conn::next(self.transport, self.conns[index].stage, &bytes[at..])
        {
            at += length;
            self.item(index, item);
        }
        if at < bytes.len() && self.conns[index].stage != Stage::Ended {
            self.unfinished.insert(index, bytes[at..].to_vec());
        }
    }

    fn item(&mut self, index: usize, item: Item<'_>) {
        let number = self.number(index);
        let conn = &mut self.conns[index];
        match item {
            Item::Opened => {
                conn.stage = Stage::Open;
                self.tally.opened += 1;
                self.tally.alive += 1;
            }
            Item::Message(payload) => {
                let fresh = match plan::meaning(self.layout, number, payload) {
                    Meaning::Round(round) => {
                        let bit = 1 << round;
                        let fresh = conn.rounds & bit == 0;
                        conn.rounds |= bit;
                        self.tally.rounds[round as usize] += u64::from(fresh);
                        fresh
                    }
                    Meaning::Own => {
                        let fresh = !std::mem::replace(&mut conn.own, true);
                        self.tally.own += u64::from(fresh);
                        fresh
                    }
                    Meaning::Stray => {
                        self.tally.stray += 1;
                        true
                    }
                    Meaning::Garbled => {
                        self.tally.garbled += 1;
                        true
                    }
                };
                self.tally.duplicate += u64::from(!fresh);
            }
            Item::Ping(payload) => {
                let pong = conn::pong(payload);
                if let Err(error) = self.write(index, &pong) {
                    return self.end(index, &format!("a pong was not taken: {error}"));
                }
                self.pinged(index);
            }
            Item::Alive => self.pinged(index),
            Item::Closed(reason) => self.end(index, &reason),
            Item::Garbled => {
                self.tally.garbled += 1;
                self.end(index, "nonsense");
            }
        }
    }

    fn pinged(&mut self, index: usize) {
        self.tally.pings += 1;
        if !std::mem::replace(&mut self.conns[index].pinged, true) {
            self.tally.pinged += 1;
        }
    }

    fn end(&mut self, index: usize, reason: &str) {
        let conn = &mut self.conns[index];
        match std::mem::replace(&mut conn.stage, Stage::Ended) {
            Stage::Ended => return,
            Stage::Open => {
                self.tally.alive -= 1;
                self.tally.lost += 1;
            }
            Stage::Connecting | Stage::Shaking | Stage::Asked => self.tally.failed += 1,
        }
        conn.fd = None;
        if let Some(link) = self.links.get_mut(index) {
            *link = None;
        }
        self.sealed.remove(&index);
        self.unfinished.remove(&index);
        self.tally.because(reason);
    }
}

/// Waits until the server has closed, up to [`GOODBYE`].
fn read_to_end(fd: &OwnedFd, buffer: &mut [u8]) {
    loop {
        match rustix::io::read(fd, &mut *buffer) {
            Ok(1..) | Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(fd, PollFlags::IN)];
                if !matches!(poll(&mut fds, Some(&GOODBYE)), Ok(1..) | Err(Errno::INTR)) {
                    return;
                }
            }
            Ok(0) | Err(_) => return,
        }
    }
}
