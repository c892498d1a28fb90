//! The course of a run: ramp, warm-up, hold, drain, end.
//!
//! Owns: when each phase begins and ends, what workers are told then, one row a second. A run ends early when its
//! stop flag is set, and still finishes its counts.
//!
//! Publishing begins when every connection of the ramp is usable or has failed, so that what each
//! publication is due is known.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::collect::{Collector, Footprint, own_memory};
use super::local::Local;
use super::server::ServerWatch;
use super::{Observer, Phase};
use crate::measure::Latency;
use crate::plan::{Kind, Scenario};
use crate::report::{Results, StepResult};
use crate::schedule::Stepper;
use crate::worker::{Clock, NEVER, Order, Pace};

/// How often flags and clocks are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often figures are asked for while something is waited for.
const ASK_EVERY_US: u64 = 100_000;
const ROW_EVERY_US: u64 = 1_000_000;
/// Longer than its connect timeout nothing is pending; this is for timers and reports.
pub(super) const SETTLE_GRACE_US: u64 = 2_000_000;
/// Links of publishers are opened so long before the first publication is due.
pub(super) const LEAD_US: u64 = 300_000;
/// Whoever is dropped by an order from elsewhere comes back within this.
const STORM_BACKOFF_US: (u64, u64) = (0, 1_000_000);
/// Looking for what has not come takes a while with many connections; it may take this share of the time.
const LOOK_SHARE: u64 = 10;
/// Deliveries have drained when all that are due have come, and nothing else for so long.
const QUIET_US: u64 = 500_000;
/// The same where other machines publish too, and may be late.
const QUIET_FLEET_US: u64 = 2_000_000;

/// What a driver needs.
pub(crate) struct Drive<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) local: &'a mut Local,
    pub(crate) collector: &'a mut Collector,
    pub(crate) watch: &'a mut ServerWatch,
    pub(crate) clock: Clock,
    /// The run's zero, in µs.
    pub(crate) begin_us: u64,
    pub(crate) stop: &'a AtomicBool,
    /// Set by somebody else who wants all connections dropped.
    pub(crate) drop_all: &'a AtomicBool,
    pub(crate) observer: &'a mut dyn Observer,
    /// Whether the ramp ends when all connections are settled; otherwise by the clock, so that several machines
    /// go on together.
    pub(crate) settles: bool,
    pub(crate) next_row_us: u64,
    pub(crate) next_ask_us: u64,
    pub(crate) phase: Phase,
    /// Nothing is published any more, and what is on its way is waited for.
    pub(crate) draining: bool,
}

impl Drive<'_> {
    /// Drives the run to its end. True if it was stopped.
    pub(crate) fn run(&mut self) -> bool {
        self.ramp();
        let alive = self.collector.latest.tally.counters.alive();
        self.collector.standing = Some(Footprint {
            generator_bytes: own_memory(),
            server: self.watch.sample(),
            alive,
        });
        self.warm_up();
        self.hold();
        self.drain();
        self.stopped()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn at_ms(&self) -> u64 {
        self.clock.now_us().saturating_sub(self.begin_us) / 1000
    }

    /// Waits until a moment or a stop, with a row each second; `done` is asked after each asking.
    fn wait(&mut self, until_us: u64, asks: bool, mut done: impl FnMut(&Collector) -> bool) {
        while !self.stopped() {
            if self.drop_all.swap(false, Ordering::Relaxed) {
                let backoff_us = STORM_BACKOFF_US;
                self.local.order(|| Order::Storm {
                    share: 1.0,
                    backoff_us,
                });
            }
            let now_us = self.clock.now_us();
            if now_us >= self.next_row_us {
                self.row();
                self.next_row_us += ROW_EVERY_US;
                self.next_ask_us = now_us + ASK_EVERY_US;
                if done(self.collector) {
                    return;
                }
            } else if asks && now_us >= self.next_ask_us {
                self.ask();
                let now_after_us = self.clock.now_us();
                let took_us = now_after_us.saturating_sub(now_us);
                self.next_ask_us = now_after_us + ASK_EVERY_US.max(took_us * LOOK_SHARE);
                if done(self.collector) {
                    return;
                }
            }
            let now_us = self.clock.now_us();
            if now_us >= until_us {
                return;
            }
            let left_us = until_us.min(self.next_row_us).saturating_sub(now_us);
            std::thread::sleep(LOOK_EVERY.min(Duration::from_micros(left_us)));
        }
    }

    fn ask(&mut self) {
        let interval = self.local.ask(self.draining);
        self.collector.take(interval);
    }

    fn row(&mut self) {
        self.ask();
        let at_ms = self.at_ms();
        let (server, memory) = (self.watch.sample(), own_memory());
        let (scenario, phase) = (self.scenario, self.phase);
        self.collector
            .tell_row(scenario, phase, at_ms, (server, memory), self.observer);
    }

    fn ramp(&mut self) {
        self.phase = Phase::Ramp;
        let arrivals_end_us = self.begin_us + self.scenario.arrivals.duration_us();
        if !self.settles {
            // The same moment on all machines, whatever became of their connections.
            return self.wait(self.ramp_end_us(), false, |_| false);
        }
        let until_us = arrivals_end_us + self.scenario.connect_timeout_us + SETTLE_GRACE_US;
        // Connections that come and go are never settled.
        let churns = matches!(self.scenario.kind, Kind::Churn);
        let settled = move |collector: &Collector| {
            collector.latest.arrivals_done && (churns || collector.latest.tally.pending == 0)
        };
        self.wait(until_us, true, settled);
    }

    /// When the ramp of every machine is over, by the clock alone.
    fn ramp_end_us(&self) -> u64 {
        self.begin_us + self.scenario.arrivals.duration_us() + SETTLE_GRACE_US
    }

    fn warm_up(&mut self) {
        if self.scenario.warm_up_us == 0 || self.stopped() {
            return;
        }
        self.phase = Phase::WarmUp;
        let begin_us = if self.settles {
            self.clock.now_us()
        } else {
            self.ramp_end_us()
        };
        let end_us = begin_us + self.scenario.warm_up_us;
        self.local.order(|| Order::Measure {
            from_us: NEVER,
            to_us: NEVER,
        });
        if let Some(publish) = &self.scenario.publish {
            let pace = Pace {
                per_s: publish.per_s,
                begin_us: begin_us + LEAD_US,
                end_us,
                warm_up: true,
            };
            self.local.order(|| Order::Publish(pace));
        }
        self.wait(end_us, false, |_| false);
    }

    fn hold(&mut self) {
        if self.stopped() {
            return;
        }
        self.phase = Phase::Hold;
        let lead_us = if self.scenario.publish.is_some() {
            LEAD_US
        } else {
            0
        };
        let from_us = if self.settles {
            self.clock.now_us() + lead_us
        } else {
            // The same moment on all machines, so that they agree on what counts.
            self.ramp_end_us() + self.scenario.warm_up_us + LEAD_US
        };
        let to_us = from_us + self.scenario.hold_us;
        self.collector.measured_ms.0 = (from_us - self.begin_us.min(from_us)) / 1000;
        let searches = self
            .scenario
            .publish
            .as_ref()
            .is_some_and(|p| p.until.is_some());
        let measured_to_us = if searches { NEVER } else { to_us };
        self.local.order(|| Order::Measure {
            from_us,
            to_us: measured_to_us,
        });
        if searches {
            self.search();
        } else {
            if let Some(publish) = &self.scenario.publish {
                let pace = Pace {
                    per_s: publish.per_s,
                    begin_us: from_us,
                    end_us: to_us,
                    warm_up: false,
                };
                self.local.order(|| Order::Publish(pace));
            }
            self.hold_until(from_us, to_us);
        }
        self.collector.measured_ms.1 = self.at_ms();
    }

    fn hold_until(&mut self, from_us: u64, to_us: u64) {
        let Kind::ReconnectStorm {
            at_us,
            share,
            backoff_us,
            ..
        } = self.scenario.kind
        else {
            return self.wait(to_us, false, |_| false);
        };
        self.wait(from_us + at_us, false, |_| false);
        if !self.stopped() {
            self.local.order(|| Order::Storm { share, backoff_us });
            self.wait(to_us, false, |_| false);
        }
    }

    /// One rate after another, until the promise breaks.
    fn search(&mut self) {
        let Some((publish, until)) = self
            .scenario
            .publish
            .as_ref()
            .and_then(|publish| Some((publish, publish.until.as_ref()?)))
        else {
            return;
        };
        let mut stepper = Stepper::new(publish.per_s, until.per_s_max, until.growth);
        while let Some(per_s) = stepper.rate() {
            let begin_us = self.clock.now_us() + LEAD_US;
            let end_us = begin_us + until.step_us;
            let pace = Pace {
                per_s,
                begin_us,
                end_us,
                warm_up: false,
            };
            let before = StepStart::of(self.collector);
            self.local.order(|| Order::Measure {
                from_us: begin_us,
                to_us: end_us,
            });
            self.local.order(|| Order::Publish(pace));
            self.wait(end_us, true, |_| false);
            if self.stopped() {
                return;
            }
            self.local.order(|| Order::Hush);
            self.quiet();
            let mut facts = before.facts(self.collector, self.scenario);
            facts.totals.measured_ms = (0, until.step_us / 1000);
            let held = until.check.judge(&facts).passed();
            self.collector.steps.push(StepResult {
                per_s,
                held,
                delivery: facts.totals.delivery,
            });
            stepper.on_result(held);
        }
        self.collector
            .notes
            .push(match (stepper.best(), stepper.broke_at()) {
                (Some(best), Some(broke)) => format!(
                    "the highest rate that kept `{}` is {best:.0}/s; {broke:.0}/s broke it",
                    until.check
                ),
                (Some(best), None) => format!(
                    "`{}` was kept up to the highest rate that was tried, {best:.0}/s",
                    until.check
                ),
                (None, _) => format!("`{}` was broken at the first rate", until.check),
            });
    }

    /// Waits until everything that is due has come and nothing else comes, or the grace is over. Nothing is published
    /// meanwhile, so what is still on its way is not missing.
    fn quiet(&mut self) {
        let away_us = match self.scenario.kind {
            Kind::Resume { away_us, .. } => away_us,
            _ => 0,
        };
        let until_us = self.clock.now_us() + self.scenario.grace_us + away_us;
        let mut last = (0, 0, 0);
        let mut since = Instant::now();
        let quiet_us = if self.settles {
            QUIET_US
        } else {
            QUIET_FLEET_US
        };
        self.draining = true;
        self.wait(until_us, true, move |collector| {
            let tally = &collector.latest.tally;
            let now = (
                tally.deliveries.received,
                tally.counters.publish_acknowledged,
                tally.counters.publish_failed,
            );
            if now != last {
                (last, since) = (now, Instant::now());
            }
            tally.pending == 0
                && tally.behind == 0
                && since.elapsed() >= Duration::from_micros(quiet_us)
        });
        self.draining = false;
    }

    fn drain(&mut self) {
        self.phase = Phase::Drain;
        self.local.order(|| Order::NoMoreArrivals);
        self.local.order(|| Order::Hush);
        let says = self.scenario.say.is_some() || self.scenario.publish.is_some();
        if says && !self.stopped() {
            self.quiet();
        }
    }
}

/// Where the figures stood when a step of a search began.
struct StepStart {
    delivery_count: Latency,
    received: u64,
    published: u64,
    failed: u64,
}

impl StepStart {
    fn of(collector: &mut Collector) -> Self {
        // From here on the merged histogram is the step's; what was before is added again afterwards.
        Self {
            delivery_count: std::mem::take(&mut collector.delivery),
            received: collector.latest.tally.deliveries.received,
            published: collector.latest.tally.counters.published,
            failed: collector.latest.tally.counters.publish_failed,
        }
    }

    /// The step as the results of a run, for the promise to be judged by.
    fn facts(self, collector: &mut Collector, scenario: &Scenario) -> Results {
        let step = collector.delivery.clone();
        collector.delivery.merge(&self.delivery_count);
        let mut facts = super::empty_results(scenario);
        let (totals, latest) = (&mut facts.totals, &collector.latest);
        totals.delivery = step.summary();
        totals.counters = latest.tally.counters.clone();
        totals.counters.published -= self.published.min(totals.counters.published);
        totals.counters.publish_failed -= self.failed.min(totals.counters.publish_failed);
        totals.deliveries.received = latest
            .tally
            .deliveries
            .received
            .saturating_sub(self.received);
        totals.deliveries.distinct = totals.deliveries.received;
        facts
    }
}

/// A flag that somebody else may set.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}
