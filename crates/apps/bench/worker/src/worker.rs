//! The engine's app: which connection is opened when, and to whom each event goes.
//!
//! Owns: one shard's arrivals and its publishers, and the orders that come by mail. Never: keeps
//! what a connection needs (`session`), or counts (`core`).

mod due;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Thread;
use std::time::Instant;

use throng_engine::{Accepted, App, Closed, Conns, Effects, End};
use throng_types::{ConnId, Millis, Now};

use self::due::Arrivals;
use crate::clock::{Clock, NEVER, Wakes};
use crate::core::Core;
use crate::publish::{Pace, Publishers};
use crate::script::Script;
use crate::session::{Session, Stage};
use throng_bench_measure::{Running, Tally};
use throng_types::Rng;

/// From the controller.
#[derive(Debug)]
pub enum Order {
    /// Tell what was counted.
    Report {
        /// Also how many deliveries are due and have not come, for which every connection is looked
        /// at.
        behind: bool,
    },
    /// Publish like this from now on.
    Publish(Pace),
    /// Publish no more.
    Hush,
    /// Only messages that are due within this span count for latency, in µs.
    Measure {
        /// The first moment that counts.
        from_us: u64,
        /// The first that no longer does.
        to_us: u64,
    },
    /// Open no more connections; only those that resume where they were come back.
    NoMoreArrivals,
    /// Drop this share of the connections, and have them come back after their backoff.
    Storm {
        /// From 0 to 1.
        share: f64,
        /// Each waits for a time between these, in µs.
        backoff_us: (u64, u64),
    },
    /// Finish the counts, report for the last time, and end.
    Finish,
}

/// What a worker tells the controller.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) worker: usize,
    pub(crate) tally: Tally,
    pub(crate) arrivals_done: bool,
    /// CPU since the last report, as a share of one.
    pub(crate) busy: f64,
    /// The worker has ended.
    pub(crate) last: bool,
}

/// What a worker is made of.
pub(crate) struct WorkerParts<'s> {
    pub(crate) script: &'s Script,
    pub(crate) clock: Clock,
    /// Which worker this is, and how many open connections.
    pub(crate) number: usize,
    pub(crate) openers: usize,
    /// The run's zero, in µs.
    pub(crate) begin_us: u64,
    pub(crate) reports: Sender<Report>,
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) metronome: Thread,
    /// Whether mean and spread are wanted too.
    pub(crate) running: bool,
}

/// A worker; the engine runs it as its app.
pub(crate) struct Worker<'s> {
    core: Core<'s>,
    publishers: Option<Publishers<'s>>,
    arrivals: Option<Arrivals<'s>>,
    number: usize,
    reports: Sender<Report>,
    wakes: Arc<Wakes>,
    metronome: Thread,
    wake_us: u64,
    looked_at: (Instant, u64),
    finished: bool,
}

impl<'s> Worker<'s> {
    /// A worker that opens its share of the connections; the one after the openers publishes.
    pub(crate) fn new(parts: WorkerParts<'s>) -> Self {
        let script = parts.script;
        let mut core = Core::new(script, parts.clock, parts.number);
        core.tally.running = parts.running.then(Running::default);
        let opens = parts.number < parts.openers;
        let arrivals =
            opens.then(|| Arrivals::new(script, parts.number, parts.openers, parts.begin_us));
        Self {
            core,
            publishers: if opens { None } else { Publishers::new(script) },
            arrivals,
            number: parts.number,
            reports: parts.reports,
            wakes: parts.wakes,
            metronome: parts.metronome,
            wake_us: NEVER,
            looked_at: (Instant::now(), cpu_us()),
            finished: false,
        }
    }

    fn storm(&mut self, share: f64, backoff_us: (u64, u64), conns: &mut Conns<Session>) {
        self.core.storm_at_us = self.core.clock.now_us();
        let seed = self.core.script.scenario.seed ^ 0x7374_6f72;
        let hit: Vec<ConnId> = conns
            .sessions()
            .filter(|(_, session)| match session {
                Session::Subscriber(subscriber) => {
                    subscriber.stage == Stage::Usable
                        && Rng::for_member(seed, u64::from(subscriber.n)).unit() < share
                }
                Session::Publisher(_) => false,
            })
            .map(|(id, _)| id)
            .collect();
        for id in hit {
            let core = &mut self.core;
            conns.with(id, |session, fx| {
                if let Session::Subscriber(subscriber) = session {
                    core.drop_in_storm(subscriber, backoff_us, fx);
                }
            });
        }
    }

    fn finish(&mut self, conns: &mut Conns<Session>) {
        self.core.ended = true;
        if let Some(publishers) = &mut self.publishers {
            publishers.end_pace(&mut self.core);
            publishers.give_up(&mut self.core);
        }
        let ids: Vec<ConnId> = conns.sessions().map(|(id, _)| id).collect();
        for id in ids {
            let core = &mut self.core;
            conns.with(id, |session, _| {
                if let Session::Subscriber(subscriber) = session {
                    let usable = subscriber.stage == Stage::Usable;
                    let reads = !core.is_slow(subscriber.n);
                    core.finish_tracks(subscriber, usable && reads);
                }
            });
        }
        self.core.forget_away();
        self.send_report(true, 0);
        self.finished = true;
    }

    fn behind(&self, conns: &Conns<Session>) -> u64 {
        conns
            .sessions()
            .map(|(_, session)| match session {
                Session::Subscriber(subscriber) => self.core.behind(subscriber),
                Session::Publisher(_) => 0,
            })
            .sum()
    }

    fn send_report(&mut self, last: bool, behind: u64) {
        let (now, cpu_us) = (Instant::now(), cpu_us());
        let wall_us = now.duration_since(self.looked_at.0).as_micros().max(1) as f64;
        let busy = cpu_us.saturating_sub(self.looked_at.1) as f64 / wall_us;
        self.looked_at = (now, cpu_us);
        let arrivals_done = self
            .arrivals
            .as_ref()
            .is_none_or(|arrivals| arrivals.next_us().is_none());
        let mut tally = self.core.tally.so_far();
        tally.behind = behind;
        if self.core.stays {
            tally.pending += self.core.away();
        }
        if let Some(publishers) = &self.publishers {
            tally.pending += publishers.outstanding();
        }
        let report = Report {
            worker: self.number,
            tally,
            arrivals_done,
            busy,
            last,
        };
        // A controller that has gone wants no more reports.
        let _ = self.reports.send(report);
    }

    fn next_us(&self) -> u64 {
        let arrival = self.arrivals.as_ref().and_then(Arrivals::next_us);
        let say = self.core.says.peek().map(|entry| entry.0.0);
        let read = self.core.reads.peek().map(|entry| entry.0.0);
        let publish = self.publishers.as_ref().map(Publishers::next_us);
        [arrival, say, read, publish, self.core.next_return_us()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(NEVER)
    }
}

fn cpu_us() -> u64 {
    throng_sys::cpu::thread_time().map_or(0, |time| time.total_us())
}

impl App for Worker<'_> {
    type Session = Session;
    type Mail = Order;

    fn accept(&mut self, _: u8, _: SocketAddr, _: Now) -> Option<Accepted<Session>> {
        // A worker has no listeners.
        None
    }

    fn connected(&mut self, id: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        match (session, &mut self.publishers) {
            (Session::Subscriber(subscriber), _) => self.core.connected(id, subscriber, fx),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.connected(*number, id, &mut self.core, fx);
            }
            (Session::Publisher(_), None) => fx.end(End::Now),
        }
    }

    fn bytes(&mut self, id: ConnId, session: &mut Session, input: &mut [u8], fx: &mut Effects<'_>) {
        match (session, &mut self.publishers) {
            (Session::Subscriber(subscriber), _) => self.core.bytes(id, subscriber, input, fx),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.bytes(*number, input, &mut self.core, fx);
            }
            (Session::Publisher(_), None) => fx.end(End::Now),
        }
    }

    fn timeout(&mut self, _: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        if let Session::Subscriber(subscriber) = session {
            self.core.timeout(subscriber, fx);
        }
    }

    fn closed(&mut self, _: ConnId, session: Session, _: u32, why: Closed, _: Now) {
        if self.finished {
            return;
        }
        match (session, &mut self.publishers) {
            (Session::Subscriber(subscriber), _) => self.core.closed(subscriber, why),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.closed(number, why, &mut self.core);
            }
            (Session::Publisher(_), None) => {}
        }
    }

    fn mail(&mut self, _: Option<usize>, order: Order, conns: &mut Conns<Session>, _: Now) {
        match order {
            Order::Report { behind } => {
                let behind = if behind { self.behind(conns) } else { 0 };
                self.send_report(false, behind);
            }
            Order::Publish(pace) => {
                if let Some(publishers) = &mut self.publishers {
                    publishers.set_pace(pace, &mut self.core);
                }
            }
            Order::Hush => {
                self.core.says.clear();
                if let Some(publishers) = &mut self.publishers {
                    publishers.end_pace(&mut self.core);
                }
            }
            Order::Measure { from_us, to_us } => self.core.measured_us = (from_us, to_us),
            Order::NoMoreArrivals => {
                self.core.stays = true;
                if !self.core.resumes() {
                    self.core.ended = true;
                    self.core.forget_away();
                }
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.end();
                }
            }
            Order::Storm { share, backoff_us } => self.storm(share, backoff_us, conns),
            Order::Finish => self.finish(conns),
        }
    }

    fn take_mail(&mut self, _: usize) -> Option<Order> {
        None
    }

    fn turn(&mut self, conns: &mut Conns<Session>, _: Now) -> bool {
        if self.finished {
            return false;
        }
        let mut more = false;
        if let Some(arrivals) = &mut self.arrivals {
            more |= arrivals.open_due(&mut self.core, conns);
        }
        more |= due::say(&mut self.core, conns);
        more |= due::read(&mut self.core, conns);
        if let Some(publishers) = &mut self.publishers {
            more |= publishers.turn(&mut self.core, conns);
        }
        if !more {
            self.wake_us = self.next_us();
            self.wakes.set(self.number, self.wake_us, &self.metronome);
        }
        more
    }

    fn deadline(&self) -> Option<Millis> {
        // The metronome rings before; this is for the case that it is late itself.
        let next_us = self.next_us();
        (next_us != NEVER).then(|| self.core.clock.to_millis(next_us) + 1)
    }

    fn finished(&self, _: &Conns<Session>) -> bool {
        self.finished
    }
}
