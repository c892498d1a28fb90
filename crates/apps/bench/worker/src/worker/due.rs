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

use super::Worker;
use crate::session::{Left, Session, Subscriber};

/// Connections that one turn opens.
const OPENED_PER_TURN: usize = 256;
/// How often another planned port is tried when one is taken.
const SPARES_TRIED: usize = 16;

/// The connections that are still to be opened.
pub(super) struct Arrivals<'s> {
    pub(super) pacer: Pacer<'s>,
    pub(super) begin_us: u64,
    /// The number of the pacer's next event.
    pub(super) k: u64,
    /// Take those whose number modulo `of` is `rank`.
    pub(super) rank: u64,
    pub(super) of: u64,
    pub(super) clients: u64,
    pub(super) next: Option<(u64, u64)>,
}

impl Arrivals<'_> {
    pub(super) fn advance(&mut self) {
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
}

impl Worker<'_> {
    /// Opens what is due. True if more is.
    pub(super) fn open_due(&mut self, conns: &mut Conns<Session>) -> bool {
        for _ in 0..OPENED_PER_TURN {
            let now_us = self.core.clock.now_us();
            if let Some((due_us, n, left)) = self.core.take_return(now_us) {
                self.open(n, due_us, &left, conns);
                continue;
            }
            let Some(arrivals) = &mut self.arrivals else {
                return false;
            };
            match arrivals.next {
                Some((n, due_us)) if due_us <= now_us => {
                    arrivals.advance();
                    self.core.tally.due_events += 1;
                    self.core.tally.lag.record_between(due_us, now_us);
                    self.open(n as u32, due_us, &Left::default(), conns);
                }
                _ => return false,
            }
        }
        true
    }

    fn open(&mut self, n: u32, due_us: u64, left: &Left, conns: &mut Conns<Session>) {
        let script = self.core.script;
        let own = u64::from(n) / u64::from(script.part.of);
        let mut tuple = script.ports.as_ref().and_then(|plan| plan.tuple(own));
        let target = match (script.goals.get(self.core.goal_of(n)), &script.goals[..]) {
            (Some(goal), _) | (None, [goal, ..]) => goal.address,
            (None, []) => return,
        };
        self.core.tally.counters.attempted += 1;
        self.core.tally.pending += 1;
        let timeout_ms = script.scenario.connect_timeout_us.div_ceil(1000);
        let deadline = self.core.clock.to_millis(self.core.clock.now_us()) + timeout_ms;
        for _ in 0..SPARES_TRIED {
            let source: Option<SocketAddr> = tuple.map(|tuple| tuple.source);
            let accepted = Accepted {
                session: Session::Subscriber(Subscriber::new(n, due_us, left.clone())),
                tag: 0,
                deadline: Some(deadline),
            };
            let error = match conns.connect(source, target, accepted) {
                Ok(()) => return,
                Err(error) => error,
            };
            let errno = error.raw_os_error().unwrap_or(0);
            let taken = matches!(errno, EADDRINUSE | EADDRNOTAVAIL);
            // A spare must go to the same target: its path is what was planned for this connection.
            tuple = if taken { self.spare(target) } else { None };
            if tuple.is_none() {
                self.core.tally.failed(ConnectFailure::from_errno(errno));
                return;
            }
        }
        self.core.tally.failed(ConnectFailure::AddressInUse);
    }

    /// A planned port that no connection has, towards this target.
    fn spare(&mut self, target: SocketAddr) -> Option<Tuple> {
        let plan = self.core.script.ports.as_ref()?;
        loop {
            let k = self.next_spare;
            if k >= plan.capacity() {
                return None;
            }
            self.next_spare += self.openers as u64;
            let tuple = plan.tuple(k)?;
            if self.core.script.goals.get(tuple.target_index)?.address == target {
                return Some(tuple);
            }
        }
    }

    /// Says what is due. True if more is.
    pub(super) fn say_due(&mut self, conns: &mut Conns<Session>) -> bool {
        for _ in 0..OPENED_PER_TURN {
            let now_us = self.core.clock.now_us();
            let Some(&Reverse((due_us, bits))) = self.core.says.peek() else {
                return false;
            };
            if due_us > now_us {
                return false;
            }
            self.core.says.pop();
            let id = ConnId::from_bits(bits);
            let core = &mut self.core;
            let mut goes_on = false;
            conns.with(id, |session, fx| {
                if let Session::Subscriber(subscriber) = session {
                    goes_on = core.say(subscriber, due_us, fx);
                }
            });
            if let (true, Some(say)) = (goes_on, &self.core.script.scenario.say) {
                let next_us = due_us + say.every_us;
                self.core.says.push(Reverse((next_us, bits)));
            }
        }
        true
    }

    /// Lets slow readers that have waited long enough read on. True if more may.
    pub(super) fn read_due(&mut self, conns: &mut Conns<Session>) -> bool {
        for _ in 0..OPENED_PER_TURN {
            let now_us = self.core.clock.now_us();
            match self.core.reads.peek() {
                Some(&Reverse((due_us, bits))) if due_us <= now_us => {
                    self.core.reads.pop();
                    conns.with(ConnId::from_bits(bits), |_, fx| fx.pause(false));
                }
                _ => return false,
            }
        }
        true
    }
}
