//! The thread between the shards and a broker.
//!
//! Owns the [`Node`], the clocks and the connection that bytes are written to. It sleeps until a
//! shard or the connection's own thread wakes it. Writing may wait for as long as the broker may
//! take to answer; then the connection is over.

use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crate::desk::Desk;
use crate::dial::{Dial, DialInbox, Fault};
use crate::inbox::{Event, Inbox};
use crate::lane::{Lane, Wish};
use crate::node::Node;
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

/// Starts a driver for each server, for so many shards as there are rings. They end when all parts
/// are dropped. There is one server at least.
///
/// # Errors
/// If the kernel gives no thread.
pub fn start<N: Node, F: FnOnce(Desk) -> N>(
    servers: Vec<(RemoteOptions, F)>,
    rings: Vec<Ring>,
) -> io::Result<(Vec<RemoteBroker>, Health)> {
    let rings: Vec<Arc<dyn Fn() + Send + Sync>> = rings.into_iter().map(Arc::from).collect();
    let mut ends: Vec<Vec<End>> = rings.iter().map(|_| Vec::new()).collect();
    let mut health = Vec::new();
    for (options, node) in servers {
        let status = Arc::new(Status::default());
        let lanes: Vec<Arc<Lane>> = { rings.iter() }
            .map(|ring| Arc::new(Lane::new(ring.clone())))
            .collect();
        let node = node(Desk::new(options, lanes.clone(), status.clone()));
        let driver = spawn(node)?;
        for (ends, lane) in ends.iter_mut().zip(lanes) {
            ends.push(End::new(lane, driver.clone(), status.clone()));
        }
        health.push(status);
    }
    let parts = ends.into_iter().map(RemoteBroker::new).collect();
    Ok((parts, Health(health)))
}

fn spawn<N: Node>(node: N) -> io::Result<thread::Thread> {
    let (sender, inbox) = sync_channel(1);
    let thread = thread::Builder::new().name("broker".to_owned());
    let thread = thread.spawn(move || {
        let Ok(inbox) = inbox.recv() else { return };
        Driver::new(node, inbox).run();
    })?;
    let driver = thread.thread().clone();
    let _ = sender.send(Arc::new(Inbox::new(driver.clone())));
    Ok(driver)
}

struct Driver<N: Node> {
    node: N,
    inbox: Arc<DialInbox<N::Dial>>,
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

impl<N: Node> Driver<N> {
    fn new(node: N, inbox: Arc<DialInbox<N::Dial>>) -> Self {
        Self {
            node,
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
        while { self.node.core().desk.lanes.iter() }.any(|lane| lane.is_open()) {
            self.read_clocks();
            self.renew();
            let mut busy = false;
            if self.node.core().desk.lanes_have_room() {
                busy |= self.take_events();
            } else {
                self.node.stalled();
            }
            busy |= self.take_requests();
            if let Err(fault) = self.node.tick() {
                self.end(&fault.0);
            }
            self.connect();
            self.write();
            let desk = &mut self.node.core().desk;
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
        let desk = &mut self.node.core().desk;
        let Some(live) = desk.status.take_renewed() else {
            return;
        };
        let before = mem::replace(&mut desk.options.namespaces, live.namespaces);
        desk.options.reply = live.reply;
        if let Err(Fault(why)) = self.node.renewed(&before) {
            self.end(&why);
        }
    }

    fn read_clocks(&mut self) {
        let desk = &mut self.node.core().desk;
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
                    if let Err(Fault(fault)) = self.node.word(word) {
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
        for lane in 0..self.node.core().desk.shards() {
            if !self.node.has_room() {
                break;
            }
            let mut wishes = mem::take(&mut self.wishes);
            self.node.core().desk.lanes[usize::from(lane)].take_requests(AT_ONCE, &mut wishes);
            busy |= !wishes.is_empty();
            for wish in wishes.drain(..) {
                match wish {
                    Wish::Request(request) => self.node.request(lane, request),
                    Wish::Move(moving) => self.node.moving(lane, moving),
                }
            }
            self.wishes = wishes;
        }
        busy
    }

    fn write(&mut self) {
        let desk = &mut self.node.core().desk;
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
        let now_ms = self.node.core().desk.now_ms;
        if self.connect_at_ms.is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.link += 1;
        let (link, dial, inbox) = (self.link, self.node.dial(), self.inbox.clone());
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

    fn up(&mut self, hello: <N::Dial as Dial>::Hello, wire: Box<dyn Wire>) {
        let now_ms = self.node.core().desk.now_ms;
        if mem::take(&mut self.is_told_down) {
            let down_ms = now_ms - self.down_since_ms;
            tracing::info!(down_ms, "the broker on {} is back", N::BROKER);
        } else {
            tracing::info!("the broker is on {}", N::BROKER);
        }
        self.pause_ms = PAUSES_MS.0;
        self.wire = Some(wire);
        self.node.up(hello);
    }

    /// The connection is over, or was not made.
    fn end(&mut self, why: &str) {
        let was_up = self.wire.is_some();
        self.close();
        let desk = &mut self.node.core().desk;
        if was_up || !self.is_told_down {
            self.is_told_down = true;
            self.down_since_ms = desk.now_ms;
            tracing::warn!(
                why,
                "no connection to the broker on {}: publications are refused until it is back, \
                 subscribers stay",
                N::BROKER
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
        self.node.core().desk.out.clear();
        self.node.down();
    }
}
