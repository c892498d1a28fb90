//! A shard on a thread whose app reports everything and does as the test asks.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throng_engine::{
    Accepted, App, Closed, ConnLimits, Conns, Delivery, Effects, End, LoopStats, MailboxSender,
    Overflow, Pieces, ShardOptions, TlsEvent, TlsNews,
};
use throng_tls::ServerTls;
use throng_types::{ConnId, Frame, Millis, Now, ShardId};

/// Longest wait of a test for an event that must happen. Only failing tests reach it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

type Job = Box<dyn FnOnce(&mut Conns<u64>, &mut Probe) + Send>;

/// Mail of test shards.
pub(crate) enum Mail {
    /// Work to do on the shard's thread.
    Job(Job),
    /// One of a sequence.
    Number(u64),
}

/// Event as the app saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Accepted(u8, SocketAddr),
    Connected(ConnId),
    Bytes(ConnId, Vec<u8>),
    Timeout(ConnId),
    Slow(ConnId),
    Drained(ConnId, u32),
    Closed(ConnId, u32, Closed),
    Mail(Option<usize>, u64),
    Paused(bool),
    /// `shaken`, or why not.
    Tls(String),
}

/// Reaction of the app to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Sends the bytes back.
    Echo,
    /// Takes two milliseconds, and sends them back.
    Busy,
    /// Reports the bytes to the test.
    Report,
    /// Sends them back and ends the connection.
    ReplyAndEnd(End),
}

pub(crate) struct Probe {
    pub(crate) manner: Manner,
    pub(crate) events: Sender<Event>,
    pub(crate) finished: bool,
    pub(crate) refuse: bool,
    /// Mail for other shards.
    pub(crate) letters: Vec<std::collections::VecDeque<u64>>,
    pub(crate) wants_mail: bool,
    /// Calls of `bytes` in this turn, and the most in any turn.
    pub(crate) reads: (u32, u32),
    /// Connections that came, of which the last one's session has the number.
    pub(crate) came: u64,
}

impl Probe {
    /// An app that may have mail for so many shards, and its events.
    pub(crate) fn new(manner: Manner, shards: usize) -> (Self, Receiver<Event>) {
        let (events, receiver) = channel();
        let probe = Self {
            manner,
            events,
            finished: false,
            refuse: false,
            letters: vec![std::collections::VecDeque::new(); shards],
            wants_mail: true,
            reads: (0, 0),
            came: 0,
        };
        (probe, receiver)
    }

    fn report(&self, event: Event) {
        // The test may have stopped listening.
        let _ = self.events.send(event);
    }
}

impl App for Probe {
    type Session = u64;
    type Mail = Mail;

    fn accept(&mut self, listener: u8, peer: SocketAddr, _now: Now) -> Option<Accepted<u64>> {
        self.report(Event::Accepted(listener, peer));
        self.came += 1;
        (!self.refuse).then_some(accepted(self.came))
    }

    fn accept_stream(&mut self, _: &mut u64, _: &mut Effects<'_>) -> Option<Accepted<u64>> {
        self.came += 1;
        (!self.refuse).then_some(accepted(self.came))
    }

    fn connected(&mut self, id: ConnId, _session: &mut u64, _fx: &mut Effects<'_>) {
        self.report(Event::Connected(id));
    }

    fn bytes(&mut self, id: ConnId, _session: &mut u64, input: &mut [u8], fx: &mut Effects<'_>) {
        self.reads.0 += 1;
        self.reads.1 = self.reads.1.max(self.reads.0);
        // No test begins so by chance.
        if input.starts_with(b"PRI ") {
            fx.actions.http2 = Some(Ipv4Addr::LOCALHOST.into());
            return fx.out.extend_from_slice(input);
        }
        match self.manner {
            Manner::Echo => fx.out.extend_from_slice(input),
            Manner::Busy => {
                let begun = Instant::now();
                while begun.elapsed() < Duration::from_millis(2) {
                    std::hint::spin_loop();
                }
                fx.out.extend_from_slice(input);
            }
            Manner::Report => self.report(Event::Bytes(id, input.to_vec())),
            Manner::ReplyAndEnd(ending) => {
                fx.out.extend_from_slice(input);
                fx.end(ending);
            }
        }
    }

    fn timeout(&mut self, id: ConnId, _session: &mut u64, _fx: &mut Effects<'_>) {
        self.report(Event::Timeout(id));
    }

    fn drained(&mut self, id: ConnId, _session: &mut u64, dropped: u32, _fx: &mut Effects<'_>) {
        self.report(Event::Drained(id, dropped));
    }

    fn slow(&mut self, id: ConnId, _session: &mut u64, fx: &mut Effects<'_>) {
        fx.out.extend(numbered(LAST_WORD, LAST_WORD_BYTES));
        self.report(Event::Slow(id));
    }

    fn closed(&mut self, id: ConnId, _session: u64, tag: u32, why: Closed, _now: Now) {
        self.report(Event::Closed(id, tag, why));
    }

    fn mail(&mut self, from: Option<usize>, mail: Mail, conns: &mut Conns<u64>, _now: Now) {
        match mail {
            Mail::Job(job) => job(conns, self),
            Mail::Number(number) => self.report(Event::Mail(from, number)),
        }
    }

    fn wants_mail(&self) -> bool {
        self.wants_mail
    }

    fn take_mail(&mut self, to: usize) -> Option<Mail> {
        self.letters.get_mut(to)?.pop_front().map(Mail::Number)
    }

    fn turn(&mut self, _conns: &mut Conns<u64>, _now: Now) -> bool {
        self.reads.0 = 0;
        false
    }

    fn finished(&self, _conns: &Conns<u64>) -> bool {
        self.finished
    }

    fn tls(&mut self, event: &TlsEvent) {
        self.report(Event::Tls(match &event.news {
            TlsNews::Shaken(_) => "shaken".to_owned(),
            TlsNews::Refused(fault) => format!("refused: {fault}"),
            TlsNews::Broken(fault) => format!("broken: {fault}"),
            TlsNews::Truncated => "truncated".to_owned(),
        }));
    }

    fn accept_paused(&mut self, paused: bool) {
        self.report(Event::Paused(paused));
    }
}

/// Counters that the observer noted at the end of a turn.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) stats: LoopStats,
    pub(crate) queued_bytes_most: usize,
}

/// One shard on its thread.
pub(crate) struct Rig {
    pub(crate) addr: SocketAddr,
    pub(crate) mailbox: MailboxSender<Mail>,
    pub(crate) events: Receiver<Event>,
    pub(crate) seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<Probe>>,
}

pub(crate) fn listener() -> (std::os::fd::OwnedFd, SocketAddr) {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let fd = throng_sys::socket::listen(any, 1024).unwrap();
    let addr = throng_sys::socket::local_addr(std::os::fd::AsFd::as_fd(&fd)).unwrap();
    (fd, addr)
}

/// A shard with a listener of its own.
pub(crate) fn rig(manner: Manner, limits: ConnLimits) -> Rig {
    rigs(vec![listener()], manner, limits).remove(0)
}

/// A shard with a listener on which TLS is spoken.
pub(crate) fn secure_rig(manner: Manner, limits: ConnLimits, tls: &ServerTls) -> Rig {
    rigs_with(vec![listener()], manner, limits, Some(tls)).remove(0)
}

/// A shard for each listener, with mailboxes between them.
pub(crate) fn rigs(
    listeners: Vec<(std::os::fd::OwnedFd, SocketAddr)>,
    manner: Manner,
    limits: ConnLimits,
) -> Vec<Rig> {
    rigs_with(listeners, manner, limits, None)
}

fn rigs_with(
    listeners: Vec<(std::os::fd::OwnedFd, SocketAddr)>,
    manner: Manner,
    limits: ConnLimits,
    tls: Option<&ServerTls>,
) -> Vec<Rig> {
    let started = Instant::now();
    let count = listeners.len();
    let mut addrs = Vec::new();
    let options = listeners
        .into_iter()
        .enumerate()
        .map(|(number, (fd, addr))| {
            addrs.push(addr);
            ShardOptions {
                shard: ShardId(number as u8),
                listeners: vec![fd],
                limits,
                started,
            }
        });
    let mut receivers = Vec::new();
    let (builders, mailboxes) = throng_engine::builders(options.collect()).unwrap();
    let shards = builders.into_iter().map(|builder| {
        let (probe, receiver) = Probe::new(manner, count);
        receivers.push(receiver);
        builder.secure(vec![tls.cloned()]).with(probe)
    });
    let shards: Vec<_> = shards.collect();
    let parts = shards.into_iter().zip(mailboxes).zip(addrs).zip(receivers);
    parts
        .map(|(((shard, mailbox), addr), events)| {
            let seen = Arc::new(Mutex::new(Seen::default()));
            let noted = seen.clone();
            let observe = move |_: &Probe, conns: &Conns<u64>, stats| {
                let queued = conns.sessions().map(|(id, _)| conns.queued_bytes(id));
                let most = queued.max().unwrap_or(0);
                let mut seen = noted.lock().unwrap();
                seen.stats = stats;
                seen.queued_bytes_most = seen.queued_bytes_most.max(most);
            };
            let thread = std::thread::spawn(move || shard.run(observe).unwrap());
            Rig {
                addr,
                mailbox,
                events,
                seen,
                thread: Some(thread),
            }
        })
        .collect()
}

impl Rig {
    /// Runs something on the shard's thread and waits for what it returns.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Conns<u64>, &mut Probe) -> R + Send + 'static,
    ) -> R {
        let (answer, answers) = channel();
        let job: Job = Box::new(move |conns, app| answer.send(job(conns, app)).unwrap());
        assert!(
            self.mailbox.send(Mail::Job(job)).is_ok(),
            "the mailbox is open"
        );
        answers.recv_timeout(PATIENCE).expect("the shard answers")
    }

    /// Holds the shard's thread until the returned sender is dropped.
    pub(crate) fn hold(&self) -> Sender<()> {
        let (release, released) = channel::<()>();
        let (here, arrived) = channel();
        let job: Job = Box::new(move |_, _| {
            here.send(()).unwrap();
            let _ = released.recv_timeout(PATIENCE);
        });
        assert!(
            self.mailbox.send(Mail::Job(job)).is_ok(),
            "the mailbox is open"
        );
        arrived.recv_timeout(PATIENCE).expect("the shard holds");
        release
    }

    /// Asks until the answer is yes.
    pub(crate) fn until(
        &self,
        what: &str,
        condition: impl Fn(&mut Conns<u64>) -> bool + Send + 'static,
    ) {
        let condition = Arc::new(Mutex::new(condition));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let condition = condition.clone();
            if self.ask(move |conns, _| condition.lock().unwrap()(conns)) {
                return;
            }
            assert!(Instant::now() < deadline, "waited in vain: {what}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// The next event for which `pick` has an answer; others are passed over.
    pub(crate) fn find<R>(&self, mut pick: impl FnMut(Event) -> Option<R>) -> R {
        loop {
            if let Some(found) = pick(self.next()) {
                return found;
            }
        }
    }

    /// Frames that a connection's queue had dropped when it was empty again.
    pub(crate) fn drained(&self, id: ConnId) -> u32 {
        self.find(|event| match event {
            Event::Drained(whom, dropped) => {
                assert_eq!(whom, id);
                Some(dropped)
            }
            _ => None,
        })
    }

    pub(crate) fn closed(&self) -> (ConnId, Closed) {
        self.find(|event| match event {
            Event::Closed(id, _, why) => Some((id, why)),
            _ => None,
        })
    }

    /// A client, and the id of its connection.
    pub(crate) fn client(&self) -> (TcpStream, ConnId) {
        let client = connect(self.addr);
        let local = client.local_addr().unwrap();
        self.find(|event| (event == Event::Accepted(0, local)).then_some(()));
        let newest = self.ask(|conns, _| {
            conns
                .sessions()
                .max_by_key(|(_, serial)| **serial)
                .map(|(id, _)| id)
        });
        (client, newest.expect("it is in the table"))
    }

    /// Hands frames over, one delivery each.
    pub(crate) fn deliver(&self, id: ConnId, frames: Vec<Vec<u8>>, overflow: Overflow) {
        self.ask(move |conns, _| deliver(conns, id, frames, overflow));
    }

    /// Delivers until the kernel takes no more, and in the same turn, in which it reports no room,
    /// so many frames more to each of these connections. Returns the number of the first of those.
    pub(crate) fn overrun(&self, id: ConnId, all: &[ConnId], more: u64, how: Overflow) -> u64 {
        let all = all.to_vec();
        self.ask(move |conns, _| {
            let first = fill(conns, id, LAST_WORD_BYTES);
            for id in all {
                let frames = (first..first + more).map(|number| numbered(number, LAST_WORD_BYTES));
                deliver(conns, id, frames.collect(), how);
            }
            first
        })
    }

    pub(crate) fn set_deadline(&self, id: ConnId, from_now_ms: Option<u64>) {
        let set = self.ask(move |conns, _| {
            conns.with(id, |_, fx| {
                let deadline = from_now_ms.map(|ms| fx.now.mono + ms);
                fx.set_deadline(deadline);
            })
        });
        assert!(set);
    }

    /// Ends the loop and gives the app back.
    pub(crate) fn finish(mut self) -> Probe {
        self.ask(|_, app| app.finished = true);
        self.thread.take().unwrap().join().unwrap()
    }
}

fn delivery(frame: &Frame, key: u32, overflow: Overflow, gather: bool) -> Delivery<'_> {
    Delivery {
        frames: Pieces::Made(std::slice::from_ref(frame)),
        joined: frame,
        key,
        overflow,
        gather,
    }
}

/// Hands frames over, one delivery each.
pub(crate) fn deliver(
    conns: &mut Conns<u64>,
    id: ConnId,
    frames: Vec<Vec<u8>>,
    overflow: Overflow,
) {
    for bytes in frames {
        let frame = Frame::new(&bytes);
        conns.deliver(id.index(), &delivery(&frame, 1, overflow, false));
    }
}

/// Hands a frame over behind which more follow in this turn.
pub(crate) fn gather(conns: &mut Conns<u64>, id: ConnId, bytes: &[u8], key: u32) {
    let frame = Frame::new(bytes);
    conns.deliver(id.index(), &delivery(&frame, key, Overflow::Close, true));
}

/// Delivers until the kernel takes no more; returns how many frames of `bytes` that took. In a
/// later turn it may have taken more.
pub(crate) fn fill(conns: &mut Conns<u64>, id: ConnId, bytes: usize) -> u64 {
    let mut count = 0;
    while conns.queued_bytes(id) == 0 {
        deliver(conns, id, vec![numbered(count, bytes)], Overflow::Close);
        count += 1;
    }
    count
}

impl Drop for Rig {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let job: Job = Box::new(|_, app| app.finished = true);
        if self.mailbox.send(Mail::Job(job)).is_ok() && !std::thread::panicking() {
            thread.join().unwrap();
        }
    }
}

/// Small bounds, so that little traffic reaches them.
pub(crate) const LIMITS: ConnLimits = ConnLimits {
    queue_bytes_max: 64 << 10,
    unread_above_bytes: 16 << 10,
    ..ConnLimits::USUAL
};

/// Answer of an app to a new connection.
pub(crate) const fn accepted<S>(session: S) -> Accepted<S> {
    Accepted {
        session,
        tag: 7,
        deadline: None,
    }
}

/// A client that fails rather than waits for ever.
pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(addr).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.set_write_timeout(Some(PATIENCE)).unwrap();
    client
}

/// A frame of `bytes` that says its number in its first eight.
pub(crate) fn numbered(number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = number.to_be_bytes().to_vec();
    frame.resize(bytes, number as u8);
    frame
}

/// The numbers of frames of one size.
pub(crate) fn numbers(stream: &[u8], bytes: usize) -> Vec<u64> {
    assert_eq!(stream.len() % bytes, 0, "frames arrive whole");
    let number = |frame: &[u8]| u64::from_be_bytes(frame[..8].try_into().unwrap());
    stream.chunks(bytes).map(number).collect()
}

/// The number that slow connections end with.
pub(crate) const LAST_WORD: u64 = u64::MAX;
/// The size of the frame that it is in.
pub(crate) const LAST_WORD_BYTES: usize = 8 << 10;

/// Bytes that tell at each place where they belong.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
        .collect()
}

/// Milliseconds that no test lives to see.
pub(crate) const NEVER_MS: u64 = Millis(3_600_000).0;
