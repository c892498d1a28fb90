//! The thread between the shards and a broker.
//!
//! Owns the [`Machine`], the clocks and the connection that bytes are written to. It sleeps until a
//! shard or the connection's own thread wakes it. Writing may wait for as long as the broker may
//! take to answer; then the connection is over.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use throng_broker::{Moving, Namespaces, Request};

use crate::desk::Desk;
use crate::inbox::{Event, Inbox};
use crate::lane::{Lane, Wish};
use crate::options::RemoteOptions;
use crate::part::{End, RemoteBroker};
use crate::status::{Health, Status};
use crate::stream::Wire;

/// Requests taken from one shard, and events of the connection, before others have their turn.
const AT_ONCE: usize = 256;
/// How long the thread sleeps if nobody wakes it.
const NAP: Duration = Duration::from_millis(100);
/// The first pause before connecting again, and the longest, in milliseconds.
const PAUSES_MS: (u64, u64) = (100, 5000);

/// Wakes a shard, so that it looks around.
pub type Ring = Box<dyn Fn() + Send + Sync>;

/// Why a connection cannot be used any more.
#[derive(Debug)]
pub struct Fault(pub String);

/// A connection on its way: connects, and reads until it ends. Runs on a thread of its own.
pub trait Dial: Send + 'static {
    /// What a connection that stands has said of itself.
    type Hello: Send;
    /// What the broker says.
    type Word: Send;

    /// Connects and reads until the connection ends; gives the reason. `link` is its number.
    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String;
}

/// Where a connection puts what it reads.
pub type DialInbox<D> = Inbox<(<D as Dial>::Hello, Box<dyn Wire>), <D as Dial>::Word>;

/// A driver without its threads: what it knows, and what it does about what happens.
pub trait Machine: Send + 'static {
    /// How it connects.
    type Dial: Dial;

    /// What it speaks to, for the log.
    const BROKER: &'static str;

    /// What it has at hand.
    fn desk(&mut self) -> &mut Desk;
    /// A connection to be made.
    fn dial(&mut self) -> Self::Dial;
    /// A connection stands: everything that is wanted is asked for again.
    fn up(&mut self, hello: <Self::Dial as Dial>::Hello);
    /// The connection is lost, with every answer that was still to come. Also called where there
    /// was none.
    fn down(&mut self);
    /// Takes what the broker says.
    ///
    /// # Errors
    /// The connection is to be given up.
    fn word(&mut self, word: <Self::Dial as Dial>::Word) -> Result<(), Fault>;
    /// Takes a shard's request.
    fn request(&mut self, lane: u8, request: Request);
    /// Takes what a shard says where one process hands over to another.
    fn moving(&mut self, lane: u8, moving: Moving);
    /// Channels have other options from now on, which the desk has already; `before` has the old.
    ///
    /// # Errors
    /// The connection is to be made anew, since the broker must hear of them.
    fn renewed(&mut self, _before: &Namespaces) -> Result<(), Fault> {
        Ok(())
    }
    /// Whether one more request may be sent.
    fn has_room(&self) -> bool;
    /// Does what is due.
    ///
    /// # Errors
    /// The connection is to be given up.
    fn tick(&mut self) -> Result<(), Fault>;
    /// Time went by in which nothing was taken from the broker, because a shard had no room: that
    /// is not the fault of the broker.
    fn stalled(&mut self);
}

/// Starts a driver for each server, for so many shards as there are rings. They end when all parts
/// are dropped. There is one server at least.
///
/// # Errors
/// If the kernel gives no thread.
pub fn start<M: Machine, F: FnOnce(Desk) -> M>(
    servers: Vec<(RemoteOptions, F)>,
    rings: Vec<Ring>,
) -> io::Result<(Vec<RemoteBroker>, Health)> {
    let rings: Vec<Arc<dyn Fn() + Send + Sync>> = rings.into_iter().map(Arc::from).collect();
    let mut ends: Vec<Vec<End>> = rings.iter().map(|_| Vec::new()).collect();
    let mut health = Vec::new();
    for (options, machine) in servers {
        let status = Arc::new(Status::default());
        let lanes: Vec<Arc<Lane>> = { rings.iter() }
            .map(|ring| Arc::new(Lane::new(ring.clone())))
            .collect();
        let machine = machine(Desk::new(options, lanes.clone(), status.clone()));
        let driver = spawn(machine)?;
        for (ends, lane) in ends.iter_mut().zip(lanes) {
            ends.push(End::new(lane, driver.clone(), status.clone()));
        }
        health.push(status);
    }
    let parts = ends.into_iter().map(RemoteBroker::new).collect();
    Ok((parts, Health(health)))
}

fn spawn<M: Machine>(machine: M) -> io::Result<thread::Thread> {
    let (sender, inbox) = sync_channel(1);
    let thread = thread::Builder::new().name("broker".to_owned());
    let thread = thread.spawn(move || {
        let Ok(inbox) = inbox.recv() else { return };
        Driver::new(machine, inbox).run();
    })?;
    let driver = thread.thread().clone();
    let _ = sender.send(Arc::new(Inbox::new(driver.clone())));
    Ok(driver)
}

struct Driver<M: Machine> {
    machine: M,
    inbox: Arc<DialInbox<M::Dial>>,
    started: Instant,
    /// The number of the connection that is made, or stands.
    link: u64,
    wire: Option<Box<dyn Wire>>,
    /// When to connect next, while nobody connects.
    connect_at_ms: Option<u64>,
    pause_ms: u64,
    is_told_down: bool,
    down_since_ms: u64,
    wishes: Vec<Wish>,
}

impl<M: Machine> Driver<M> {
    fn new(machine: M, inbox: Arc<DialInbox<M::Dial>>) -> Self {
        Self {
            machine,
            inbox,
            started: Instant::now(),
            link: 0,
            wire: None,
            connect_at_ms: Some(0),
            pause_ms: PAUSES_MS.0,
            is_told_down: false,
            down_since_ms: 0,
            wishes: Vec::new(),
        }
    }

    fn run(mut self) {
        while { self.machine.desk().lanes.iter() }.any(|lane| lane.is_open()) {
            self.read_clocks();
            self.renew();
            let mut busy = false;
            if self.machine.desk().lanes_have_room() {
                busy |= self.take_events();
            } else {
                self.machine.stalled();
            }
            busy |= self.take_requests();
            if let Err(fault) = self.machine.tick() {
                self.end(&fault.0);
            }
            self.connect();
            self.write();
            let desk = self.machine.desk();
            for lane in mem::take(&mut desk.rung) {
                desk.lanes[usize::from(lane)].ring();
            }
            if !busy {
                thread::park_timeout(NAP);
            }
        }
        self.inbox.close();
        self.close();
    }

    /// Takes other options, if shards have left some.
    fn renew(&mut self) {
        let desk = self.machine.desk();
        let Some(live) = desk.status.take_renewed() else {
            return;
        };
        let before = mem::replace(&mut desk.options.namespaces, live.namespaces);
        desk.options.reply = live.reply;
        if let Err(Fault(why)) = self.machine.renewed(&before) {
            self.end(&why);
        }
    }

    fn read_clocks(&mut self) {
        let desk = self.machine.desk();
        desk.now_ms = self.started.elapsed().as_millis() as u64;
        desk.unix_ms = throng_sys::clock::unix_ms();
        desk.settle_doubt();
    }

    fn take_events(&mut self) -> bool {
        let mut events = Vec::new();
        self.inbox.take(AT_ONCE, &mut events);
        let busy = !events.is_empty();
        for (link, event) in events {
            if link != self.link {
                // Of a connection that was given up.
                if let Event::Up((_, wire)) = event {
                    wire.shut_down();
                }
                continue;
            }
            match event {
                Event::Up((hello, wire)) => self.up(hello, wire),
                Event::Word(word, _) => {
                    if let Err(Fault(fault)) = self.machine.word(word) {
                        self.end(&fault);
                    }
                }
                Event::Down(why) => self.end(&why),
            }
        }
        busy
    }

    fn take_requests(&mut self) -> bool {
        let mut busy = false;
        for lane in 0..self.machine.desk().shards() {
            if !self.machine.has_room() {
                break;
            }
            let mut wishes = mem::take(&mut self.wishes);
            self.machine.desk().lanes[usize::from(lane)].take_requests(AT_ONCE, &mut wishes);
            busy |= !wishes.is_empty();
            for wish in wishes.drain(..) {
                match wish {
                    Wish::Request(request) => self.machine.request(lane, request),
                    Wish::Move(moving) => self.machine.moving(lane, moving),
                }
            }
            self.wishes = wishes;
        }
        busy
    }

    fn write(&mut self) {
        let desk = self.machine.desk();
        if desk.out.is_empty() {
            return;
        }
        let out = mem::take(&mut desk.out);
        if let Some(wire) = &mut self.wire
            && let Err(error) = wire.write_all(&out)
        {
            self.end(&error.to_string());
        }
    }

    // ---- the connection ----

    fn connect(&mut self) {
        let now_ms = self.machine.desk().now_ms;
        if self.connect_at_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.link += 1;
        let (link, dial, inbox) = (self.link, self.machine.dial(), self.inbox.clone());
        let thread = thread::Builder::new().name("broker-read".to_owned());
        let run = move || {
            let why = dial.run(link, &inbox);
            inbox.put(link, Event::Down(why));
        };
        match thread.spawn(run) {
            Ok(_) => self.connect_at_ms = None,
            Err(error) => self.end(&error.to_string()),
        }
    }

    fn up(&mut self, hello: <M::Dial as Dial>::Hello, wire: Box<dyn Wire>) {
        let now_ms = self.machine.desk().now_ms;
        if mem::take(&mut self.is_told_down) {
            let down_ms = now_ms - self.down_since_ms;
            tracing::info!(down_ms, "the broker on {} is back", M::BROKER);
        } else {
            tracing::info!("the broker is on {}", M::BROKER);
        }
        self.pause_ms = PAUSES_MS.0;
        self.wire = Some(wire);
        self.machine.up(hello);
    }

    /// The connection is over, or was not made.
    fn end(&mut self, why: &str) {
        let was_up = self.wire.is_some();
        self.close();
        let desk = self.machine.desk();
        if was_up || !self.is_told_down {
            self.is_told_down = true;
            self.down_since_ms = desk.now_ms;
            tracing::warn!(
                why,
                "no connection to the broker on {}: publications are refused until it is back, \
                 subscribers stay",
                M::BROKER
            );
        }
        let jitter_ms = desk.rng.below(self.pause_ms / 2 + 1);
        self.connect_at_ms = Some(desk.now_ms + self.pause_ms / 2 + jitter_ms);
        self.pause_ms = (self.pause_ms * 2).min(PAUSES_MS.1);
    }

    fn close(&mut self) {
        // Whatever it still says is of a connection that was given up.
        self.link += 1;
        if let Some(wire) = self.wire.take() {
            wire.shut_down();
        }
        self.machine.desk().out.clear();
        self.machine.down();
    }
}
