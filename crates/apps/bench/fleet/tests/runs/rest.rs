//! Runs that a text cannot tell: with checks, with secrets, stopped, or refused.

use std::sync::atomic::Ordering;

use throng_bench_fleet::{RunOptions, run_observed, run_scenario};
use throng_bench_plan::check::{BenchExit, CheckOutcome};
use throng_bench_plan::ports::parse_sources;
use throng_bench_plan::{ClientTransport, Via, Workload};
use throng_bench_report::Snapshot;
use throng_bench_worker::PrepareError;

use crate::server::Server;
use crate::{options, publish, scenario};

#[test]
fn publishing_alone_opens_no_clients() {
    let server = Server::start();
    let mut scenario = scenario(Workload::FanOut, &server.ws("/"));
    scenario.channels = vec!["a-{n%3}".into()];
    scenario.publish = Some(publish(&server, 100.0));
    scenario.checks = vec!["published>0".parse().unwrap(), "p99<1s".parse().unwrap()];
    let options = RunOptions {
        subscribers: false,
        ..options()
    };
    let finished = run_scenario(&scenario, &options).unwrap();
    let counters = &finished.results.totals.counters;
    assert_eq!((counters.attempted, counters.publish_failed), (0, 0));
    assert!(counters.publish_acknowledged > 0);
    let outcomes = &finished.results.checks;
    assert!(matches!(outcomes[0].outcome, CheckOutcome::Passed { .. }));
    assert_eq!(outcomes[1].outcome, CheckOutcome::NoData);
    assert_eq!(finished.exit(), BenchExit::CheckNoData);
}

/// Output and results of a run are handed on; the server's keys are not.
#[test]
fn no_secret_is_shown_or_kept() {
    let server = Server::start();
    let url = server.ws("/ws?channel={channel:url}&token=s3cret-url");
    let mut scenario = scenario(Workload::FanOut, &url);
    scenario.name = "with s3cret-url in it".into();
    scenario.channels = vec!["news".into()];
    if let ClientTransport::WebSocket { headers, .. } = &mut scenario.transport {
        for (name, value) in [
            ("Authorization", "Bearer s3cret-bearer"),
            ("Cookie", "sid=s3cret-cookie"),
        ] {
            headers.push((name.into(), value.into()));
        }
    }
    let mut publish = publish(&server, 100.0);
    if let Via::Http { headers, .. } = &mut publish.via {
        headers.push(("X-API-Key".into(), "s3cret-key".into()));
    }
    scenario.publish = Some(publish);
    let words = "throng bench x --publish-header X-API-Key:s3cret-key --agents-token s3cret-agents";
    let options = RunOptions {
        command: words.split(' ').map(str::to_owned).collect(),
        title: Some("the run with s3cret-key".into()),
        notes: vec!["seen with s3cret-bearer".into()],
        ..options()
    };
    let mut shown = String::new();
    let finished = run_observed(&scenario, &options, &mut |snapshot: &Snapshot<'_>| {
        shown += &serde_json::to_string(snapshot.scenario).unwrap();
    });
    let finished = finished.unwrap();
    assert!(finished.results.totals.counters.publish_acknowledged > 0);
    assert!(!shown.is_empty() && !shown.contains("s3cret"), "{shown}");
    let page = throng_bench_report::report_page(&finished.results);
    assert!(page.contains("</html>"));
    let summary = throng_bench_report::summary(&finished.results);
    for text in [&page, &summary] {
        assert!(!text.contains("s3cret"), "{text}");
        assert!(text.contains("***"), "{text}");
    }
    for file in throng_bench_report::files(&finished.results, finished.log()).unwrap() {
        let text = String::from_utf8_lossy(&file.bytes);
        assert!(!text.contains("s3cret"), "{}: {text}", file.name);
    }
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_has() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    // Long enough for nobody to wait for: only the flag ends it.
    scenario.hold_us = 3_600_000_000;
    let options = options();
    let stop = options.stop.clone();
    let finished = run_observed(&scenario, &options, &mut |_: &Snapshot<'_>| {
        stop.store(true, Ordering::Relaxed);
    })
    .unwrap();
    assert!(finished.interrupted);
    assert_eq!(finished.exit(), BenchExit::Interrupted);
    assert_eq!(finished.results.totals.counters.alive(), 20);
    assert!(!finished.results.series.is_empty());
}

#[test]
fn what_the_machine_cannot_hold_is_refused_before_anything_opens() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    scenario.sources = parse_sources("127.0.0.2-127.0.3.200").unwrap();
    scenario.set_clients(50_000_000, 1e6);
    let error = run_scenario(&scenario, &options()).unwrap_err();
    assert!(matches!(error, PrepareError::Limit { .. }), "{error}");
    assert!(server.peers().is_empty());
}
