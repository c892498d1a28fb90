//! What is due in a turn: connections to open, frames to send, slow readers to let on.
//!
//! Owns: the connections that are still to be opened. Never: begins an event before its time, or
//! more events in one turn than a bound.

use std::cmp::Reverse;
use std::net::SocketAddr;

use throng_bench_measure::ConnectFailure;
use throng_bench_plan::ports::Tuple;
use throng_bench_plan::schedule::Pacer;
use throng_engine::{Accepted, Conns};
use throng_sys::errno::{EADDRINUSE, EADDRNOTAVAIL};
use throng_types::ConnId;

use crate::core::Core;
use crate::script::Script;
use crate::session::{Left, Session, Subscriber};

/// Connections that one turn opens.
const OPENED_PER_TURN: usize = 256;
/// How often another planned port is tried when one is taken.
const SPARES_TRIED: usize = 16;

/// The connections that are still to be opened.
pub(super) struct Arrivals<'s> {
    pacer: Pacer<'s>,
    begin_us: u64,
    /// The number of the pacer's next event.
    k: u64,
    /// Take those whose number modulo `of` is `rank`.
    rank: u64,
    of: u64,
    clients: u64,
    /// The next one of ours: its number and when it is due, in µs.
    next: Option<(u64, u64)>,
    /// The next spare of the port plan that is ours, and how many workers share the spares.
    next_spare: u64,
    openers: u64,
}

impl<'s> Arrivals<'s> {
    /// The share of worker `number` of those that open connections.
    pub(super) fn new(script: &'s Script, number: usize, openers: usize, begin_us: u64) -> Self {
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
            next_spare: script.clients() + number,
            openers,
        };
        arrivals.advance();
        arrivals
    }

    /// When the next connection is due, in µs; none if all were opened.
    pub(super) fn next_us(&self) -> Option<u64> {
        self.next.map(|(_, due_us)| due_us)
    }

    /// Opens no more of them.
    pub(super) const fn end(&mut self) {
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

    /// Opens what is due: connections that come back, and new ones. True if more is.
    pub(super) fn open_due(&mut self, core: &mut Core<'_>, conns: &mut Conns<Session>) -> bool {
        for _ in 0..OPENED_PER_TURN {
            let now_us = core.clock.now_us();
            if let Some((due_us, n, left)) = core.take_return(now_us) {
                self.open(n, due_us, &left, core, conns);
                continue;
            }
            match self.next {
                Some((n, due_us)) if due_us <= now_us => {
                    self.advance();
                    core.tally.due_events += 1;
                    core.tally.lag.record_between(due_us, now_us);
                    self.open(n as u32, due_us, &Left::default(), core, conns);
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
        left: &Left,
        core: &mut Core<'_>,
        conns: &mut Conns<Session>,
    ) {
        let script = core.script;
        let own = u64::from(n) / u64::from(script.part.of);
        let mut tuple = script.ports.as_ref().and_then(|plan| plan.tuple(own));
        let goal = script.goals.get(core.goal_of(n));
        let Some(goal) = goal.or_else(|| script.goals.first()) else {
            return;
        };
        let target = goal.address;
        core.tally.counters.attempted += 1;
        core.tally.pending += 1;
        let timeout_ms = script.scenario.connect_timeout_us.div_ceil(1000);
        let deadline = core.clock.to_millis(core.clock.now_us()) + timeout_ms;
        for _ in 0..SPARES_TRIED {
            let source: Option<SocketAddr> = tuple.map(|tuple| tuple.source);
            let accepted = Accepted {
                session: Session::Subscriber(Subscriber::new(n, due_us, left.clone())),
                tag: 0,
                deadline: Some(deadline),
            };
            let opened = match &goal.tls {
                None => conns.connect(source, target, accepted),
                Some(tls) => conns.connect_secure(source, target, accepted, tls),
            };
            let Err(error) = opened else {
                return;
            };
            let errno = error.raw_os_error().unwrap_or(0);
            let taken = matches!(errno, EADDRINUSE | EADDRNOTAVAIL);
            // A spare must go to the same target: its path is what was planned for this connection.
            tuple = if taken {
                self.spare(core, target)
            } else {
                None
            };
            if tuple.is_none() {
                core.tally.failed(ConnectFailure::from_errno(errno));
                return;
            }
        }
        core.tally.failed(ConnectFailure::AddressInUse);
    }

    /// A planned port that no connection has, towards this target.
    fn spare(&mut self, core: &Core<'_>, target: SocketAddr) -> Option<Tuple> {
        let plan = core.script.ports.as_ref()?;
        loop {
            let k = self.next_spare;
            if k >= plan.capacity() {
                return None;
            }
            self.next_spare += self.openers;
            let tuple = plan.tuple(k)?;
            if core.script.goals.get(tuple.target_index)?.address == target {
                return Some(tuple);
            }
        }
    }
}

/// Says what is due. True if more is.
pub(super) fn say(core: &mut Core<'_>, conns: &mut Conns<Session>) -> bool {
    for _ in 0..OPENED_PER_TURN {
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
        conns.with(id, |session, fx| {
            if let Session::Subscriber(subscriber) = session {
                goes_on = core.say(subscriber, due_us, fx);
            }
        });
        if let (true, Some(say)) = (goes_on, &core.script.scenario.say) {
            let next_us = due_us + say.every_us;
            core.says.push(Reverse((next_us, bits)));
        }
    }
    true
}

/// Lets slow readers that have waited long enough read on. True if more may.
pub(super) fn read(core: &mut Core<'_>, conns: &mut Conns<Session>) -> bool {
    for _ in 0..OPENED_PER_TURN {
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
