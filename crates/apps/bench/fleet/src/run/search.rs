//! Search for the highest rate that passes a check, on this machine or on several.
//!
//! Owns: the next rate, and the verdict on each. Never: publishes; the caller does.

use super::collect::Collector;
use throng_bench_measure::Latency;
use throng_bench_plan::schedule::Stepper;
use throng_bench_plan::{RateSearch, Scenario};
use throng_bench_report::{Results, StepResult};

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
