//! App of the engine: opens connections on time, hands each event to its connection.
//!
//! Owns: one shard's arrivals and its publishers, and the commands that come by mail. Never: keeps
//! the state of a connection (`session`), counts (`core`), begins an event before its time, or more
//! events in one turn than a bound.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::Thread;
use std::time::Instant;

use throng_engine::{Accepted, App, Closed, Conns, Effects, End, TlsEvent, TlsNews};
use throng_sys::errno::{EADDRINUSE, EADDRNOTAVAIL};
use throng_types::{ConnId, Millis, Now, Rng};

use throng_bench_measure::{ConnectFailure, RunningSummary, Tally};
use throng_bench_plan::ports::Tuple;
use throng_bench_plan::schedule::Pacer;

use crate::carriers::Carriers;
use crate::clock::{Clock, NEVER, Wakes, cpu_us};
use crate::core::{SharedState, subscribers, with_subscriber};
use crate::publish::{PublishPace, Publishers};
use crate::script::Script;
use crate::session::{Carried, Client, Session, Stage};

const BEGUN_PER_TURN: usize = 256;
/// Most spare ports tried for a connection whose planned port is taken.
const SPARES_TRIED: usize = 16;

#[derive(Debug)]
pub enum WorkerCommand {
    Report {
        /// True to count deliveries that are due and have not come, which looks at every
        /// connection.
        behind: bool,
    },
    Publish(PublishPace),
    StopPublishing,
    /// Count latency only of messages that are due within this span, in µs.
    Measure {
        from_us: u64,
        to_us: u64,
    },
    /// Open no more connections; only those that resume where they were come back.
    NoMoreArrivals,
    /// Drop this share of the connections; each comes back after its backoff.
    Storm {
        share: f64,
        backoff_us: (u64, u64),
    },
    Finish,
}

#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) worker: usize,
    pub(crate) tally: Tally,
    pub(crate) arrivals_done: bool,
    /// CPU since the last report, as a share of one CPU.
    pub(crate) busy: f64,
    pub(crate) last: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    pub clock: Clock,
    pub begin_us: u64,
    pub openers: usize,
    /// True to keep mean and spread of all latencies.
    pub running: bool,
}

/// Worker; the engine runs it as its app.
pub(crate) struct Worker<'s> {
    core: SharedState<'s>,
    publishers: Option<Publishers<'s>>,
    arrivals: Option<Arrivals<'s>>,
    number: usize,
    reports: Sender<Report>,
    wakes: Arc<Wakes>,
    timer: Thread,
    wake_us: u64,
    looked_at: (Instant, u64),
    finished: bool,
}

impl<'s> Worker<'s> {
    /// Makes worker `number`, which opens its share of connections; the one after the openers
    /// publishes.
    pub(crate) fn new(
        script: &'s Script,
        options: &WorkerOptions,
        number: usize,
        reports: Sender<Report>,
        (wakes, timer): (Arc<Wakes>, Thread),
    ) -> Self {
        let WorkerOptions {
            clock,
            begin_us,
            openers,
            running,
        } = *options;
        let mut core = SharedState::new(script, clock, number);
        core.tally.running = running.then(RunningSummary::default);
        let opens = number < openers;
        Self {
            core,
            publishers: if opens { None } else { Publishers::new(script) },
            arrivals: opens.then(|| Arrivals::new(script, number, openers, begin_us)),
            number,
            reports,
            wakes,
            timer,
            wake_us: NEVER,
            looked_at: (Instant::now(), cpu_us()),
            finished: false,
        }
    }

    fn storm(&mut self, share: f64, backoff_us: (u64, u64), conns: &mut Conns<Session>) {
        self.core.storm_at_us = self.core.clock.now_us();
        let seed = self.core.script.scenario.seed ^ 0x7374_6f72;
        let core = &mut self.core;
        let is_hit = |client: &Client| {
            let drawn = || Rng::for_member(seed, u64::from(client.n)).unit();
            client.stage == Stage::Usable && drawn() < share
        };
        for id in subscribers(conns, is_hit) {
            with_subscriber(conns, id, |client, fx| {
                core.drop_in_storm(client, backoff_us, fx);
            });
        }
    }

    fn finish(&mut self, conns: &mut Conns<Session>) {
        self.core.ended = true;
        if let Some(publishers) = &mut self.publishers {
            publishers.end_pace(&mut self.core);
            publishers.give_up(&mut self.core);
        }
        let core = &mut self.core;
        for id in subscribers(conns, |_| true) {
            with_subscriber(conns, id, |client, _| {
                let usable = client.stage == Stage::Usable;
                let reads = !core.is_slow(client.n);
                core.finish_tracks(client, usable && reads);
            });
        }
        self.core.forget_away();
        self.send_report(true, 0);
        self.finished = true;
    }

    fn behind(&self, conns: &Conns<Session>) -> u64 {
        let behind = |session: &Session| match session {
            Session::Client(client) => self.core.behind(client),
            Session::Publisher(_) | Session::Carrier(_) => 0,
        };
        conns.sessions().map(|(_, session)| behind(session)).sum()
    }

    fn send_report(&mut self, last: bool, behind: u64) {
        let (now, cpu_us) = (Instant::now(), cpu_us());
        let wall_us = now.duration_since(self.looked_at.0).as_micros().max(1) as f64;
        let busy = cpu_us.saturating_sub(self.looked_at.1) as f64 / wall_us;
        self.looked_at = (now, cpu_us);
        let arrivals_done = self.arrivals.as_ref().and_then(Arrivals::next_us).is_none();
        let mut tally = self.core.tally.report();
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

impl App for Worker<'_> {
    type Session = Session;
    type Mail = WorkerCommand;

    fn accept(&mut self, _: u8, _: SocketAddr, _: Now) -> Option<Accepted<Session>> {
        // A worker has no listeners.
        None
    }

    fn connected(&mut self, id: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        match (session, &mut self.publishers) {
            (Session::Client(client), _) => self.core.connected(id, client, fx),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.connected(*number, id, &mut self.core, fx);
            }
            (Session::Publisher(_), None) => fx.end(End::Now),
            (Session::Carrier(place), _) => {
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.carriers.connected(*place, id);
                }
            }
        }
    }

    fn bytes(&mut self, id: ConnId, session: &mut Session, input: &mut [u8], fx: &mut Effects<'_>) {
        match (session, &mut self.publishers) {
            (Session::Client(client), _) => self.core.bytes(id, client, input, fx),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.bytes(*number, input, &mut self.core, fx);
            }
            (Session::Publisher(_), None) | (Session::Carrier(_), _) => fx.end(End::Now),
        }
    }

    fn timeout(&mut self, _: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        if let Session::Client(client) = session {
            self.core.timeout(client, fx);
        }
    }

    fn closed(&mut self, _: ConnId, session: Session, tag: u32, why: Closed, _: Now) {
        if self.finished {
            return;
        }
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.carriers.release(tag);
        }
        match (session, &mut self.publishers) {
            (Session::Client(client), _) => self.core.closed(client, why),
            (Session::Publisher(number), Some(publishers)) => {
                publishers.closed(number, why, &mut self.core);
            }
            (Session::Publisher(_), None) => {}
            (Session::Carrier(place), _) => {
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.carriers.gone(place, why, &mut self.core);
                }
            }
        }
    }

    fn tls(&mut self, event: &TlsEvent) {
        match &event.news {
            TlsNews::Refused(fault) => {
                self.core.tally.remark(format!("TLS: {fault}"));
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.carriers.tls_failed();
                }
            }
            TlsNews::Shaken(_) | TlsNews::Broken(_) | TlsNews::Truncated => {}
        }
    }

    fn mail(
        &mut self,
        _: Option<usize>,
        command: WorkerCommand,
        conns: &mut Conns<Session>,
        _: Now,
    ) {
        match command {
            WorkerCommand::Report { behind } => {
                let behind = if behind { self.behind(conns) } else { 0 };
                self.send_report(false, behind);
            }
            WorkerCommand::Publish(pace) => {
                if let Some(publishers) = &mut self.publishers {
                    publishers.set_pace(pace, &mut self.core);
                }
            }
            WorkerCommand::StopPublishing => {
                self.core.says.clear();
                if let Some(publishers) = &mut self.publishers {
                    publishers.end_pace(&mut self.core);
                }
            }
            WorkerCommand::Measure { from_us, to_us } => self.core.measured_us = (from_us, to_us),
            WorkerCommand::NoMoreArrivals => {
                self.core.stays = true;
                if !self.core.resumes() {
                    self.core.ended = true;
                    self.core.forget_away();
                }
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.end();
                }
            }
            WorkerCommand::Storm { share, backoff_us } => self.storm(share, backoff_us, conns),
            WorkerCommand::Finish => self.finish(conns),
        }
    }

    fn take_mail(&mut self, _: usize) -> Option<WorkerCommand> {
        None
    }

    fn turn(&mut self, conns: &mut Conns<Session>, _: Now) -> bool {
        if self.finished {
            return false;
        }
        let mut more = false;
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.begin_waiting(&mut self.core, conns);
            more |= arrivals.open_due(&mut self.core, conns);
        }
        more |= send_due(&mut self.core, conns);
        more |= resume_reading(&mut self.core, conns);
        if let Some(publishers) = &mut self.publishers {
            more |= publishers.turn(&mut self.core, conns);
        }
        if !more {
            self.wake_us = self.next_us();
            self.wakes.set(self.number, self.wake_us, &self.timer);
        }
        more
    }

    fn deadline(&self) -> Option<Millis> {
        // The wake timer comes before; this is for the case that it is late itself.
        let next_us = self.next_us();
        (next_us != NEVER).then(|| self.core.clock.to_millis(next_us) + 1)
    }

    fn finished(&self, _: &Conns<Session>) -> bool {
        self.finished
    }
}

struct Arrivals<'s> {
    pacer: Pacer<'s>,
    begin_us: u64,
    // Number of the pacer's next event.
    k: u64,
    // Takes those whose number modulo `of` is `rank`.
    rank: u64,
    of: u64,
    clients: u64,
    // Number and due time in µs of the next one.
    next: Option<(u64, u64)>,
    // Next spare of the port plan, and the number of workers that share the spares.
    next_spare: u64,
    openers: u64,
    carriers: Carriers,
}

impl<'s> Arrivals<'s> {
    /// Takes the share of worker `number` of those that open connections.
    fn new(script: &'s Script, number: usize, openers: usize, begin_us: u64) -> Self {
        let (scenario, part) = (&script.scenario, &script.part);
        let (number, openers) = (number as u64, openers as u64);
        let mut arrivals = Self {
            pacer: Pacer::new(&scenario.arrivals, scenario.spread, scenario.seed),
            begin_us,
            k: 0,
            rank: u64::from(part.index) + u64::from(part.of) * number,
            of: u64::from(part.of) * openers,
            clients: scenario.clients,
            next: None,
            next_spare: number
                + match scenario.http2 {
                    None => script.clients(),
                    // No client has a port of its own.
                    Some(_) => 0,
                },
            openers,
            carriers: Carriers::default(),
        };
        arrivals.advance();
        arrivals
    }

    /// Due time of the next connection, in µs; none if all were opened.
    fn next_us(&self) -> Option<u64> {
        self.next.map(|(_, due_us)| due_us)
    }

    const fn end(&mut self) {
        self.k = self.clients;
        self.next = None;
    }

    fn advance(&mut self) {
        self.next = None;
        while self.k < self.clients {
            let Some(at_us) = self.pacer.next() else {
                break;
            };
            let k = self.k;
            self.k += 1;
            if k % self.of == self.rank {
                self.next = Some((k, self.begin_us + at_us));
                return;
            }
        }
    }

    /// Opens connections that are due, reconnects and new ones. Returns true if more are.
    fn open_due(&mut self, core: &mut SharedState<'_>, conns: &mut Conns<Session>) -> bool {
        for _ in 0..BEGUN_PER_TURN {
            let now_us = core.clock.now_us();
            if let Some((due_us, n, carried)) = core.take_return(now_us) {
                self.open(n, due_us, &carried, core, conns);
                continue;
            }
            match self.next {
                Some((n, due_us)) if due_us <= now_us => {
                    self.advance();
                    core.tally.due_events += 1;
                    core.tally.interval.lag.record_between(due_us, now_us);
                    self.open(n as u32, due_us, &Carried::default(), core, conns);
                }
                _ => return false,
            }
        }
        true
    }

    fn open(
        &mut self,
        n: u32,
        due_us: u64,
        carried: &Carried,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) {
        let script = core.script;
        let endpoint_at = core.endpoint_of(n);
        let Some(endpoint) = script.endpoints.get(endpoint_at) else {
            return;
        };
        core.tally.counters.attempted += 1;
        core.tally.pending += 1;
        let client = || Client::new(n, due_us, carried.clone());
        if script.scenario.http2.is_some() {
            return self.open_stream(client(), core, conns);
        }
        let own = u64::from(n) / u64::from(script.part.of);
        let tuple = script.ports.as_ref().and_then(|plan| plan.tuple(own));
        let timeout_ms = script.scenario.connect_timeout_us.div_ceil(1000);
        let deadline = core.clock.to_millis(core.clock.now_us()) + timeout_ms;
        let opened = self.with_a_port(core, tuple, endpoint.address, |source| {
            let accepted = Accepted {
                session: Session::Client(client()),
                tag: 0,
                deadline: Some(deadline),
            };
            match &endpoint.tls {
                None => conns.connect(source, endpoint.address, accepted),
                Some(tls) => conns.connect_secure(source, endpoint.address, accepted, tls),
            }
        });
        if let Err(reason) = opened {
            core.tally.failed(reason);
        }
    }

    /// Opens a connection from a planned port, or from a spare one if that is taken.
    fn with_a_port(
        &mut self,
        core: &SharedState<'_>,
        mut tuple: Option<Tuple>,
        target: SocketAddr,
        mut connect: impl FnMut(Option<SocketAddr>) -> std::io::Result<ConnId>,
    ) -> Result<(), ConnectFailure> {
        for _ in 0..SPARES_TRIED {
            let Err(error) = connect(tuple.map(|tuple| tuple.source)) else {
                return Ok(());
            };
            let errno = error.raw_os_error().unwrap_or(0);
            let taken = matches!(errno, EADDRINUSE | EADDRNOTAVAIL);
            // A spare must go to the same target: its path was planned for this connection.
            tuple = if taken {
                self.spare(core, target)
            } else {
                None
            };
            if tuple.is_none() {
                return Err(ConnectFailure::from_errno(errno));
            }
        }
        Err(ConnectFailure::AddressInUse)
    }

    fn open_stream(
        &mut self,
        client: Client,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) {
        let Some(wanted) = self.carriers.open(client, core, conns) else {
            return;
        };
        let Some(endpoint) = core.script.endpoints.get(wanted.endpoint) else {
            return;
        };
        let tuple = self.spare(core, endpoint.address);
        let opened = self.with_a_port(core, tuple, endpoint.address, |source| {
            let (target, tls) = (endpoint.address, endpoint.tls.as_ref());
            conns.connect_carrier(source, target, wanted.accepted(core), tls)
        });
        if let Err(reason) = opened {
            self.carriers.refused(wanted.place, reason, core);
        }
    }

    /// Begins streams on connections that stand now.
    fn begin_waiting(&mut self, core: &mut SharedState<'_>, conns: &mut Conns<Session>) {
        for client in self.carriers.begin_waiting(core, conns) {
            self.open_stream(client, core, conns);
        }
    }

    /// Finds a planned port that no connection has, towards this target.
    fn spare(&mut self, core: &SharedState<'_>, target: SocketAddr) -> Option<Tuple> {
        let plan = core.script.ports.as_ref()?;
        loop {
            let k = self.next_spare;
            if k >= plan.capacity() {
                return None;
            }
            self.next_spare += self.openers;
            let tuple = plan.tuple(k)?;
            if core.script.endpoints.get(tuple.target_index)?.address == target {
                return Some(tuple);
            }
        }
    }
}

fn send_due(core: &mut SharedState<'_>, conns: &mut Conns<Session>) -> bool {
    for _ in 0..BEGUN_PER_TURN {
        let now_us = core.clock.now_us();
        let Some(&Reverse((due_us, bits))) = core.says.peek() else {
            return false;
        };
        if due_us > now_us {
            return false;
        }
        core.says.pop();
        let id = ConnId::from_bits(bits);
        let mut goes_on = false;
        with_subscriber(conns, id, |client, fx| {
            goes_on = core.send_message(client, due_us, fx);
        });
        if let (true, Some(say)) = (goes_on, &core.script.scenario.say) {
            let next_us = due_us + say.every_us;
            core.says.push(Reverse((next_us, bits)));
        }
    }
    true
}

/// Lets slow readers that have waited long enough read on. Returns true if more may.
fn resume_reading(core: &mut SharedState<'_>, conns: &mut Conns<Session>) -> bool {
    for _ in 0..BEGUN_PER_TURN {
        let now_us = core.clock.now_us();
        match core.reads.peek() {
            Some(&Reverse((due_us, bits))) if due_us <= now_us => {
                core.reads.pop();
                conns.with(ConnId::from_bits(bits), |_, fx| fx.pause(false));
            }
            _ => return false,
        }
    }
    true
}
