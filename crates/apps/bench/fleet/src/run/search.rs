//! The search for the highest rate that keeps a promise, on this machine or on several.
//!
//! Owns: which rate is next, and the verdict on each. Never: publishes; whoever asks for a rate
//! carries it out.

use super::collect::Collector;
use throng_bench_measure::Latency;
use throng_bench_plan::schedule::Stepper;
use throng_bench_plan::{Scenario, Until};
use throng_bench_report::{Results, StepResult};

/// A search that goes on.
pub(crate) struct Search<'a> {
    scenario: &'a Scenario,
    until: &'a Until,
    stepper: Stepper,
    step: Option<(f64, StepStart)>,
}

impl<'a> Search<'a> {
    /// None where the scenario has one rate.
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

    /// How long each rate is published.
    pub(crate) const fn step_us(&self) -> u64 {
        self.until.step_us
    }

    /// The rate to try now, a second; none when the search is over.
    pub(crate) fn next(&mut self, collector: &mut Collector) -> Option<f64> {
        let per_s = self.stepper.rate()?;
        self.step = Some((per_s, StepStart::of(collector)));
        Some(per_s)
    }

    /// Judges the rate that was tried by what the collector has got since.
    pub(crate) fn judge(&mut self, collector: &mut Collector) {
        let Some((per_s, before)) = self.step.take() else {
            return;
        };
        let mut facts = before.facts(collector, self.scenario);
        facts.totals.measured_ms = (0, self.until.step_us / 1000);
        let held = self.until.check.judge(&facts).passed();
        collector.steps.push(StepResult {
            per_s,
            held,
            delivery: facts.totals.delivery,
        });
        self.stepper.on_result(held);
    }

    /// Says what was found.
    pub(crate) fn conclude(&self, collector: &mut Collector) {
        let check = &self.until.check;
        collector
            .notes
            .push(match (self.stepper.best(), self.stepper.broke_at()) {
                (Some(best), Some(broke)) => format!(
                    "the highest rate that kept `{check}` is {best:.0}/s; {broke:.0}/s broke it"
                ),
                (Some(best), None) => {
                    format!("`{check}` was kept up to the highest rate that was tried, {best:.0}/s")
                }
                (None, _) => format!("`{check}` was broken at the first rate"),
            });
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
        // From here on the merged histogram is the step's; what was before is added again
        // afterwards.
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
        let mut facts = Results::empty(scenario);
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
