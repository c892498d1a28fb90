//! Course of a run: ramp, warm-up, hold, drain, end.
//!
//! Owns: begin and end of each phase, the commands to workers then, one row a second. A run ends
//! early when its stop flag is set, and still finishes its counts.
//!
//! Publishing begins when every connection of the ramp is usable or has failed, so that the
//! deliveries due to each publication are known.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use throng_bench_measure::Latency;
use throng_bench_plan::schedule::Stepper;
use throng_bench_plan::{RateSearch, Scenario, Workload};
use throng_bench_report::{Observer, Results, RunPhase, StepResult};
use throng_bench_worker::{Clock, NEVER, PublishPace, WorkerCommand, Workers};

use super::collect::{Collector, MemoryReading, own_memory};
use super::server::ServerWatch;
use crate::agents::RateStep;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval at which figures are asked for while a condition is waited for.
const ASK_EVERY_US: u64 = 100_000;
const ROW_EVERY_US: u64 = 1_000_000;
/// Time after the connect timeout for timers and reports; no connection is pending then.
pub(super) const SETTLE_GRACE_US: u64 = 2_000_000;
/// Time before the first publication at which links of publishers are opened.
pub(super) const LEAD_US: u64 = 300_000;
/// Share of the time, as a divisor, for counting missing deliveries, which is slow with many
/// connections.
const LOOK_SHARE: u64 = 10;
/// Time without a new delivery after which a drain ends, when all that are due have come.
const QUIET_US: u64 = 500_000;
/// Time without a new delivery where other machines publish too, and may be late.
const QUIET_FLEET_US: u64 = 2_000_000;

pub(crate) struct StepOrders {
    pub(crate) steps: Receiver<RateStep>,
    /// Callback after each step, when its row has been observed.
    pub(crate) done: Box<dyn Fn() + Send>,
}

/// Course of a run, alone or together with other machines.
pub(crate) struct RunCourse<'a> {
    pub(crate) clock: Clock,
    /// Zero of the run, in µs; a run alone begins as soon as everything is ready.
    pub(crate) begin_us: Option<u64>,
    /// True if phases wait for connections; otherwise they follow the clock alone.
    pub(crate) settles: bool,
    pub(crate) orders: Option<&'a StepOrders>,
}

pub(crate) struct RunDriver<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) local: &'a mut Workers,
    pub(crate) collector: &'a mut Collector,
    pub(crate) watch: &'a mut ServerWatch,
    pub(crate) begin_us: u64,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) course: &'a RunCourse<'a>,
    pub(crate) observer: &'a mut Observer<'a>,
    pub(crate) next_row_us: u64,
    pub(crate) next_ask_us: u64,
    pub(crate) phase: RunPhase,
    pub(crate) draining: bool,
}

impl RunDriver<'_> {
    pub(crate) fn run(&mut self) -> bool {
        self.ramp();
        let alive = self.collector.latest.tally.counters.alive();
        self.collector.standing = Some(MemoryReading {
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
        self.course.clock.now_us().saturating_sub(self.begin_us) / 1000
    }

    /// Waits until a moment or a stop, with a row each second; `done` is asked after each reading
    /// of figures.
    fn wait(&mut self, until_us: u64, asks: bool, mut done: impl FnMut(&Collector) -> bool) {
        while !self.stopped() {
            let now_us = self.course.clock.now_us();
            if now_us >= self.next_row_us {
                self.row();
                self.next_row_us += ROW_EVERY_US;
                self.next_ask_us = now_us + ASK_EVERY_US;
                if done(self.collector) {
                    return;
                }
            } else if asks && now_us >= self.next_ask_us {
                self.ask();
                let now_after_us = self.course.clock.now_us();
                let took_us = now_after_us.saturating_sub(now_us);
                self.next_ask_us = now_after_us + ASK_EVERY_US.max(took_us * LOOK_SHARE);
                if done(self.collector) {
                    return;
                }
            }
            let now_us = self.course.clock.now_us();
            if now_us >= until_us {
                return;
            }
            let left_us = until_us.min(self.next_row_us).saturating_sub(now_us);
            std::thread::sleep(LOOK_EVERY.min(Duration::from_micros(left_us)));
        }
    }

    fn ask(&mut self) {
        let interval = self.local.figures(self.draining);
        self.collector.take(interval);
    }

    fn row(&mut self) {
        self.ask();
        let at_ms = self.at_ms();
        let (server, memory) = (self.watch.sample(), own_memory());
        let readings = (server, memory);
        self.collector
            .observe_row(self.phase, at_ms, readings, self.observer);
    }

    fn ramp(&mut self) {
        self.phase = RunPhase::Ramp;
        let arrivals_end_us = self.begin_us + self.scenario.arrivals.duration_us();
        if !self.course.settles {
            // The same moment on all machines, whatever became of their connections.
            return self.wait(self.ramp_end_us(), false, |_| false);
        }
        let until_us = arrivals_end_us + self.scenario.connect_timeout_us + SETTLE_GRACE_US;
        // Connections that come and go never settle.
        let churns = matches!(self.scenario.kind, Workload::Churn);
        let settled = move |collector: &Collector| {
            collector.latest.arrivals_done && (churns || collector.latest.tally.pending == 0)
        };
        self.wait(until_us, true, settled);
    }

    /// End of the ramp of every machine, by the clock alone.
    fn ramp_end_us(&self) -> u64 {
        self.begin_us + self.scenario.arrivals.duration_us() + SETTLE_GRACE_US
    }

    fn warm_up(&mut self) {
        if self.scenario.warm_up_us == 0 || self.stopped() {
            return;
        }
        self.phase = RunPhase::WarmUp;
        let begin_us = match self.course.settles {
            true => self.course.clock.now_us(),
            false => self.ramp_end_us(),
        };
        let end_us = begin_us + self.scenario.warm_up_us;
        let (from_us, to_us) = (NEVER, NEVER);
        self.local
            .command(|| WorkerCommand::Measure { from_us, to_us });
        if let Some(publish) = &self.scenario.publish {
            self.publish(publish.per_s, (begin_us + LEAD_US, end_us), true);
        }
        self.wait(end_us, false, |_| false);
    }

    fn publish(&self, per_s: f64, (begin_us, end_us): (u64, u64), warm_up: bool) {
        let pace = PublishPace {
            per_s,
            begin_us,
            end_us,
            warm_up,
        };
        self.local.command(|| WorkerCommand::Publish(pace));
    }

    fn hold(&mut self) {
        if self.stopped() {
            return;
        }
        self.phase = RunPhase::Hold;
        let publish = self.scenario.publish.as_ref();
        let lead_us = if publish.is_some() { LEAD_US } else { 0 };
        let from_us = if self.course.settles {
            self.course.clock.now_us() + lead_us
        } else {
            // The same moment on all machines, so that they agree on what counts.
            self.ramp_end_us() + self.scenario.warm_up_us + LEAD_US
        };
        let to_us = from_us + self.scenario.hold_us;
        self.collector.measured_ms.0 = (from_us - self.begin_us.min(from_us)) / 1000;
        let searches = publish.is_some_and(|publish| publish.until.is_some());
        let until_us = if searches { NEVER } else { to_us };
        self.local.command(|| WorkerCommand::Measure {
            from_us,
            to_us: until_us,
        });
        if let Some(orders) = self.course.orders {
            self.follow(orders);
        } else if searches {
            self.search();
        } else {
            if let Some(publish) = publish {
                self.publish(publish.per_s, (from_us, to_us), false);
            }
            self.hold_until(from_us, to_us);
        }
        self.collector.measured_ms.1 = self.at_ms();
    }

    fn hold_until(&mut self, from_us: u64, to_us: u64) {
        let Workload::ReconnectStorm {
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
            self.local
                .command(|| WorkerCommand::Storm { share, backoff_us });
            self.wait(to_us, false, |_| false);
        }
    }

    fn search(&mut self) {
        let Some(mut search) = Search::new(self.scenario) else {
            return;
        };
        while let Some(per_s) = search.next(self.collector) {
            let begin_us = self.course.clock.now_us() + LEAD_US;
            let end_us = begin_us + search.step_us();
            self.step(RateStep {
                per_s,
                begin_us,
                end_us,
            });
            if self.stopped() {
                return;
            }
            search.judge(self.collector);
        }
        search.conclude(self.collector);
    }

    /// Tries the rates of the controller, until it sends no more.
    fn follow(&mut self, orders: &StepOrders) {
        while !self.stopped() {
            match orders.steps.try_recv() {
                Ok(step) => {
                    self.step(step);
                    self.row();
                    (orders.done)();
                }
                Err(TryRecvError::Empty) => {
                    let soon_us = self.course.clock.now_us() + LOOK_EVERY.as_micros() as u64;
                    self.wait(soon_us, false, |_| false);
                }
                Err(TryRecvError::Disconnected) => return,
            }
        }
    }

    /// Publishes at a rate, and waits for deliveries on their way.
    fn step(&mut self, step: RateStep) {
        let (from_us, to_us) = (step.begin_us, step.end_us);
        self.local
            .command(|| WorkerCommand::Measure { from_us, to_us });
        self.publish(step.per_s, (from_us, to_us), false);
        self.wait(to_us, true, |_| false);
        if !self.stopped() {
            self.local.command(|| WorkerCommand::StopPublishing);
            self.quiet();
        }
    }

    /// Waits until all due deliveries have come and no other comes, or the grace is over. Nothing
    /// is published meanwhile, so deliveries on their way are not missing.
    fn quiet(&mut self) {
        let away_us = match self.scenario.kind {
            Workload::Resume { away_us, .. } => away_us,
            _ => 0,
        };
        let until_us = self.course.clock.now_us() + self.scenario.grace_us + away_us;
        let mut last = (0, 0, 0);
        let mut since = Instant::now();
        let quiet_us = if self.course.settles {
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
        self.phase = RunPhase::Drain;
        self.local.command(|| WorkerCommand::NoMoreArrivals);
        self.local.command(|| WorkerCommand::StopPublishing);
        let says = self.scenario.say.is_some() || self.scenario.publish.is_some();
        if says && !self.stopped() {
            self.quiet();
        }
    }
}

pub(crate) struct Search<'a> {
    scenario: &'a Scenario,
    until: &'a RateSearch,
    stepper: Stepper,
    step: Option<(f64, StepStart)>,
}

impl<'a> Search<'a> {
    /// Returns none where the scenario has one rate.
    pub(crate) fn new(scenario: &'a Scenario) -> Option<Self> {
        let publish = scenario.publish.as_ref()?;
        let until = publish.until.as_ref()?;
        Some(Self {
            scenario,
            until,
            stepper: Stepper::new(publish.per_s, until.per_s_max, until.growth),
            step: None,
        })
    }

    /// Time in which each rate is published, in µs.
    pub(crate) const fn step_us(&self) -> u64 {
        self.until.step_us
    }

    /// Begins the next rate per second; none when the search is over.
    pub(crate) fn next(&mut self, collector: &mut Collector) -> Option<f64> {
        let per_s = self.stepper.rate()?;
        self.step = Some((per_s, StepStart::of(collector)));
        Some(per_s)
    }

    /// Judges the rate that was tried by the figures that the collector has got since.
    pub(crate) fn judge(&mut self, collector: &mut Collector) {
        let Some((per_s, before)) = self.step.take() else {
            return;
        };
        let mut facts = before.facts(collector, self.scenario);
        facts.totals.measured_ms = (0, self.until.step_us / 1000);
        let check = &self.until.check;
        let held = check.judge(facts.get(check.metric())).passed();
        collector.steps.push(StepResult {
            per_s,
            held,
            delivery: facts.totals.delivery,
        });
        self.stepper.on_result(held);
    }

    pub(crate) fn conclude(&self, collector: &mut Collector) {
        let check = &self.until.check;
        let note = match (self.stepper.best(), self.stepper.broke_at()) {
            (Some(best), Some(broke)) => {
                format!(
                    "the highest rate that kept `{check}` is {best:.0}/s; {broke:.0}/s broke it"
                )
            }
            (Some(best), None) => {
                format!("`{check}` was kept up to the highest rate that was tried, {best:.0}/s")
            }
            (None, _) => format!("`{check}` was broken at the first rate"),
        };
        collector.notes.push(note);
    }
}

/// Figures at the begin of a step of a search.
struct StepStart {
    delivery: Latency,
    received: u64,
    published: u64,
    failed: u64,
}

impl StepStart {
    fn of(collector: &mut Collector) -> Self {
        // From here on the merged histogram is the step's; the values before are added again
        // afterwards.
        Self {
            delivery: std::mem::take(&mut collector.total.delivery),
            received: collector.latest.tally.deliveries.received,
            published: collector.latest.tally.counters.published,
            failed: collector.latest.tally.counters.publish_failed,
        }
    }

    /// Makes results of the step, for the check to judge.
    fn facts(self, collector: &mut Collector, scenario: &Scenario) -> Results {
        let step = collector.total.delivery.clone();
        collector.total.delivery.merge(&self.delivery);
        let mut facts = Results::empty(scenario);
        let (totals, latest) = (&mut facts.totals, &collector.latest);
        totals.delivery = step.summary();
        totals.counters = latest.tally.counters.clone();
        totals.counters.published -= self.published.min(totals.counters.published);
        totals.counters.publish_failed -= self.failed.min(totals.counters.publish_failed);
        let received = latest.tally.deliveries.received;
        totals.deliveries.received = received.saturating_sub(self.received);
        totals.deliveries.distinct = totals.deliveries.received;
        facts
    }
}
