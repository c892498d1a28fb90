//! The thread between the shards and Redis.
//!
//! Owns the [`Node`], the clocks and the connection that commands are written to. It sleeps until
//! a shard or the connection's own thread wakes it. Writing may wait for as long as Redis may take
//! to answer; then the connection is over.

use std::io::{self, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use throng_broker::Request;

use crate::lane::Lane;
use crate::link::{Dial, Event, Inbox};
use crate::node::{Established, Fault, Node};
use crate::options::{RedisOptions, RedisUrlError, Target};
use crate::part::RedisBroker;
use crate::status::Status;

/// Requests taken from one shard, and events of the connection, before others have their turn.
const AT_ONCE: usize = 256;
/// How long the thread sleeps if nobody wakes it.
const NAP: Duration = Duration::from_millis(100);
/// The first pause before connecting again, and the longest, in milliseconds.
const PAUSES_MS: (u64, u64) = (100, 5000);

/// Wakes a shard, so that it looks around.
pub type Ring = Box<dyn Fn() + Send + Sync>;

/// Why the driver did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The URL is not good.
    #[error(transparent)]
    Url(#[from] RedisUrlError),
    /// The kernel gives no thread.
    #[error("no thread for the broker: {0}")]
    Thread(#[from] io::Error),
}

/// Starts the driver for so many shards as there are rings. It ends when all parts are dropped.
///
/// # Errors
/// See [`StartError`].
pub fn start(
    options: RedisOptions,
    rings: Vec<Ring>,
) -> Result<(Vec<RedisBroker>, Arc<Status>), StartError> {
    let target = Target::new(&options.url)?;
    let status = Arc::new(Status::default());
    let lanes: Vec<Arc<Lane>> = { rings.into_iter() }
        .map(|ring| Arc::new(Lane::new(ring)))
        .collect();
    let node = Node::new(options, lanes.clone(), status.clone());
    let (sender, inbox) = sync_channel(1);
    let thread = thread::Builder::new().name("redis".to_owned());
    let thread = thread.spawn(move || {
        let Ok(inbox) = inbox.recv() else { return };
        Driver::new(node, target, inbox).run();
    })?;
    let driver = thread.thread().clone();
    let _ = sender.send(Arc::new(Inbox::new(driver.clone())));
    let part = |lane| RedisBroker::new(lane, driver.clone(), status.clone());
    let parts = lanes.into_iter().map(part).collect();
    Ok((parts, status))
}

struct Driver {
    node: Node,
    target: Target,
    inbox: Arc<Inbox>,
    started: Instant,
    /// The number of the connection that is made, or stands.
    link: u64,
    stream: Option<TcpStream>,
    /// When to connect next, while nobody connects.
    connect_at_ms: Option<u64>,
    pause_ms: u64,
    is_told_down: bool,
    down_since_ms: u64,
    events: Vec<(u64, Event)>,
    requests: Vec<Request>,
}

impl Driver {
    fn new(node: Node, target: Target, inbox: Arc<Inbox>) -> Self {
        Self {
            node,
            target,
            inbox,
            started: Instant::now(),
            link: 0,
            stream: None,
            connect_at_ms: Some(0),
            pause_ms: PAUSES_MS.0,
            is_told_down: false,
            down_since_ms: 0,
            events: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn run(mut self) {
        while self.node.lanes.iter().any(|lane| lane.is_open()) {
            self.read_clocks();
            if let Some(options) = self.node.status.take_renewed() {
                self.node.namespaces = options.namespaces;
                self.node.options.reply = options.reply;
            }
            let is_stalled = !self.node.lanes_have_room();
            let mut busy = false;
            if is_stalled {
                self.node.stalled();
            } else {
                busy |= self.take_events();
            }
            busy |= self.take_requests();
            if let Err(fault) = self.node.tick() {
                self.end(&fault.0);
            }
            self.connect();
            self.write();
            for lane in std::mem::take(&mut self.node.rung) {
                self.node.lanes[usize::from(lane)].ring();
            }
            if !busy {
                thread::park_timeout(NAP);
            }
        }
        self.inbox.close();
        self.close();
    }

    fn read_clocks(&mut self) {
        self.node.now_ms = self.started.elapsed().as_millis() as u64;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH);
        self.node.unix_ms = unix.unwrap_or_default().as_millis() as u64;
    }

    fn take_events(&mut self) -> bool {
        let mut events = std::mem::take(&mut self.events);
        self.inbox.take(AT_ONCE, &mut events);
        let busy = !events.is_empty();
        for (link, event) in events.drain(..) {
            if link != self.link {
                // Of a connection that was given up.
                if let Event::Up(_, stream) = event {
                    let _ = stream.shutdown(Shutdown::Both);
                }
                continue;
            }
            match event {
                Event::Up(established, stream) => self.up(established, stream),
                Event::Value(value) => {
                    if let Err(Fault(fault)) = self.node.value(value) {
                        self.end(&fault);
                    }
                }
                Event::Down(why) => self.end(&why),
            }
        }
        self.events = events;
        busy
    }

    fn take_requests(&mut self) -> bool {
        let mut busy = false;
        for lane in 0..self.node.lanes.len() {
            if !self.node.has_room() {
                break;
            }
            let mut requests = std::mem::take(&mut self.requests);
            self.node.lanes[lane].take_requests(AT_ONCE, &mut requests);
            busy |= !requests.is_empty();
            for request in requests.drain(..) {
                self.node.request(lane as u8, request);
            }
            self.requests = requests;
        }
        busy
    }

    fn write(&mut self) {
        if self.node.out.is_empty() {
            return;
        }
        let out = std::mem::take(&mut self.node.out);
        if let Some(stream) = &mut self.stream
            && let Err(error) = stream.write_all(&out)
        {
            self.end(&error.to_string());
        }
    }

    // ---- the connection ----

    fn connect(&mut self) {
        if self
            .connect_at_ms
            .is_none_or(|at_ms| at_ms > self.node.now_ms)
        {
            return;
        }
        self.link += 1;
        let dial = Dial {
            link: self.link,
            target: self.target.clone(),
            prefix: self.node.options.prefix.clone(),
            incarnation: format!("{:016x}", self.node.rng.next_u64()),
            timeout: Duration::from_millis(self.node.options.timeout_ms),
        };
        let inbox = self.inbox.clone();
        let thread = thread::Builder::new().name("redis-read".to_owned());
        match thread.spawn(move || dial.run(&inbox)) {
            Ok(_) => self.connect_at_ms = None,
            Err(error) => self.end(&error.to_string()),
        }
    }

    fn up(&mut self, established: Established, stream: TcpStream) {
        if std::mem::take(&mut self.is_told_down) {
            let down_ms = self.node.now_ms - self.down_since_ms;
            tracing::info!(down_ms, "the broker on Redis is back");
        } else {
            tracing::info!("the broker is on Redis");
        }
        self.pause_ms = PAUSES_MS.0;
        self.stream = Some(stream);
        self.node.up(established);
    }

    /// The connection is over, or was not made.
    fn end(&mut self, why: &str) {
        let was_up = self.stream.is_some();
        self.close();
        if was_up || !self.is_told_down {
            self.is_told_down = true;
            self.down_since_ms = self.node.now_ms;
            tracing::warn!(
                why,
                "no connection to the broker on Redis: publications are refused until it is back, \
                 subscribers stay"
            );
        }
        let jitter_ms = self.node.rng.below(self.pause_ms / 2 + 1);
        self.connect_at_ms = Some(self.node.now_ms + self.pause_ms / 2 + jitter_ms);
        self.pause_ms = (self.pause_ms * 2).min(PAUSES_MS.1);
    }

    fn close(&mut self) {
        // Whatever it still says is of a connection that was given up.
        self.link += 1;
        if let Some(stream) = self.stream.take() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.node.down();
    }
}
