use super::*;
use throng_bench_plan::{Dialect, Target, Transport};

#[test]
fn a_storm_is_over_when_the_asked_share_is_back() {
    let target = Target::parse("ws://127.0.0.1:1/").unwrap();
    let kind = Workload::ReconnectStorm {
        at_us: 0,
        share: 1.0,
        backoff_us: (0, 0),
        back_share: 0.9,
    };
    let scenario = Scenario::new(kind, vec![target], Transport::websocket(Dialect::Plain));
    let mut last = Tally::default();
    last.sums.dropped = 10;
    for ms in 1..=8 {
        last.sums.back.record_us(ms * 1000);
    }
    assert_eq!(reached_us(&scenario, &last, &last.sums.back), None);
    last.sums.back.record_us(9000);
    let back = reached_us(&scenario, &last, &last.sums.back).unwrap();
    assert!((8900..=9000).contains(&back), "{back}");
    last.sums.back.record_us(500_000);
    let back = reached_us(&scenario, &last, &last.sums.back).unwrap();
    assert!((8900..=9100).contains(&back), "{back}");
}

#[test]
fn rows_hold_what_happened_since_the_row_before() {
    let target = Target::parse("a:1").unwrap();
    let transport = Transport::websocket(Dialect::Plain);
    let scenario = Scenario::new(Workload::Hold, vec![target], transport);
    let mut collector = Collector::new(&scenario, &RunOptions::default(), None);
    let interval = |published: u64, us: u64| {
        let mut interval = WorkerFigures::default();
        interval.tally.counters.published = published;
        interval.tally.interval.delivery.record_us(us);
        interval.busy.push(0.5);
        interval
    };
    collector.take(interval(5, 100));
    collector.take(interval(7, 200));
    let row = collector.row(1000, None, None);
    assert_eq!((row.published, row.length_ms), (7, 1000));
    assert_eq!(row.latency_us.unwrap()[4], 200);
    collector.take(interval(10, 50));
    let row = collector.row(1500, None, None);
    assert_eq!((row.published, row.length_ms), (3, 500));
    assert_eq!(row.latency_us.unwrap()[4], 50);
    assert_eq!(collector.total.delivery.count(), 3);
}
