//! A run while it goes on: lines, a screen, a page, statsd. Each takes snapshots; none of them
//! changes the run.

mod history;
mod lines;
mod page;
mod screen;
mod statsd;

pub use history::History;
pub use lines::{Lines, RunningStats};
pub use page::Page;
pub use screen::Screen;
pub use statsd::Statsd;

#[cfg(test)]
mod testing {
    //! A snapshot to look at.

    use crate::{Phase, Snapshot};
    use throng_bench_measure::Tally;
    use throng_bench_measure::{ConnectFailure, Counters, DeliveryCounts, Latency, Sample};
    use throng_bench_plan::{Dialect, Kind, Scenario, Target, Transport};

    /// Lends a snapshot of a run with a bit of everything.
    pub(super) fn with_snapshot(look: impl FnOnce(&Snapshot<'_>)) {
        let target = Target::parse("ws://127.0.0.1:1/").unwrap();
        let scenario = Scenario::new(
            Kind::Hold,
            vec![target],
            Transport::websocket(Dialect::Plain),
        );
        let mut counters = Counters::default();
        (0..3).for_each(|_| counters.on_connect_failure(ConnectFailure::Refused));
        let mut latency = Latency::new();
        latency.record_us(1500);
        let sample = Sample {
            at_ms: 7000,
            length_ms: 1000,
            alive: 90,
            received: 5000,
            latency_us: Sample::figures(&latency),
            ..Sample::default()
        };
        let none = Latency::new();
        look(&Snapshot {
            scenario: &scenario,
            phase: Phase::Hold,
            at_ms: 7000,
            sample: &sample,
            before: None,
            counters: &counters,
            deliveries: &DeliveryCounts::default(),
            delivery: &latency,
            connect: &none,
            running: None,
            row_delivery: &latency,
            row_connect: &none,
            row_lag: &none,
            tally: &Tally::default(),
        });
    }
}
