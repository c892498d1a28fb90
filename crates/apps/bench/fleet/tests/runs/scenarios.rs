//! Published messages and their deliveries.

use throng_bench_fleet::{RunOptions, run_observed};
use throng_bench_plan::check::{BenchExit, CheckOutcome};
use throng_bench_plan::{ClientTransport, Via, Workload};
use throng_bench_report::{RunPhase, Snapshot};

use crate::server::Server;
use crate::{assert_found, options, publish, published, run, scenario, search, storm};

#[track_caller]
fn check_fan_out(url: &str, server: &Server) {
    let mut scenario = scenario(Workload::FanOut, url);
    scenario.channels = vec!["room-{n%4}".into()];
    scenario.publish = Some(publish(server, 100.0));
    let totals = run(&scenario).results.totals;
    let counters = &totals.counters;
    // The server ends the publishers' connections again and again, and nothing is lost by it.
    assert_eq!(counters.published + counters.missed_events, 50);
    assert_eq!(counters.publish_acknowledged, counters.published);
    assert_eq!(totals.deliveries.distinct, counters.published * 5, "{url}");
    assert_eq!(totals.deliveries.missing, 0);
    assert_eq!(totals.deliveries.duplicates, 0);
    assert_eq!(totals.connections_with_data, Some((20, 20)));
    assert_eq!(totals.connections_with_loss, Some(0));
    let delivery = totals.delivery.unwrap();
    assert_eq!(
        (delivery.count, delivery.negative),
        (totals.deliveries.distinct, 0)
    );
}

#[test]
fn every_delivery_that_is_due_is_counted() {
    let server = Server::start();
    check_fan_out(&server.ws("/ws?channel={channel:url}"), &server);
    check_fan_out(&server.http("/sse?channel={channel:url}"), &server);
}

#[test]
fn a_warm_up_is_published_and_not_counted() {
    let server = Server::start();
    let mut scenario = published(Workload::FanOut, &server, "/ws", 100.0);
    scenario.warm_up_us = 500_000;
    let totals = run(&scenario).results.totals;
    assert!(totals.counters.published > 50, "both are published");
    assert!(
        totals.deliveries.distinct <= 50 * 20,
        "only the hold counts"
    );
    assert_eq!(totals.deliveries.missing, 0);
}

#[test]
fn connections_that_stop_reading_do_not_spoil_the_count() {
    let server = Server::start();
    let kind = Workload::SlowReaders {
        share: 0.5,
        bytes_per_s: 0,
    };
    let scenario = published(kind, &server, "/ws", 50.0);
    let totals = run(&scenario).results.totals;
    let (with_data, expecting) = totals.connections_with_data.unwrap();
    assert_eq!(expecting, 20);
    assert!((2..18).contains(&with_data), "{with_data} read");
    assert_eq!(
        totals.deliveries.distinct,
        totals.counters.published * with_data
    );
    assert_eq!(totals.deliveries.missing, 0);
}

#[test]
fn slow_readers_are_counted_apart() {
    let server = Server::start();
    for (bytes_per_s, reads) in [(1, false), (1_000_000, true)] {
        let kind = Workload::SlowReaders {
            share: 0.5,
            bytes_per_s,
        };
        let mut scenario = published(kind, &server, "/ws", 50.0);
        scenario.channels = vec![format!("at-{bytes_per_s}")];
        let results = run(&scenario).results;
        let totals = &results.totals;
        let (published, distinct) = (totals.counters.published, totals.deliveries.distinct);
        // All that came to the others came to each of them.
        assert_eq!(distinct % published, 0, "{bytes_per_s}");
        assert!((2..18).contains(&(distinct / published)), "{bytes_per_s}");
        assert_eq!(totals.deliveries.missing, 0, "{bytes_per_s}");
        assert_eq!(totals.delivery.as_ref().unwrap().count, distinct);
        // At a byte a second the handshake's answer alone takes longer than the run.
        let nothing = results
            .notes
            .iter()
            .any(|note| note.contains("took 0 messages"));
        assert_eq!(nothing, !reads, "{:?}", results.notes);
        assert_eq!(totals.counters.alive(), 20);
    }
}

/// Lets go what the server holds back, once the second row of the drain is there: until then
/// nothing has come for longer than it usually takes until nothing more comes.
fn release_in_the_drain(server: &Server) -> impl FnMut(&Snapshot<'_>) {
    let mut rows = 0;
    move |snapshot| {
        rows += u32::from(snapshot.phase == RunPhase::Drain);
        if rows == 2 {
            server.hold(false);
        }
    }
}

#[test]
fn what_is_on_its_way_at_the_end_is_waited_for() {
    for path in ["/ws", "/sse"] {
        let server = Server::start();
        let mut scenario = published(Workload::FanOut, &server, path, 50.0);
        scenario.channels = vec!["a-{n%2}".into()];
        scenario.grace_us = 60_000_000;
        server.hold(true);
        let mut observer = release_in_the_drain(&server);
        let totals = run_observed(&scenario, &options(), &mut observer)
            .unwrap()
            .results
            .totals;
        assert_eq!(totals.deliveries.missing, 0, "{path}");
        assert_eq!(totals.deliveries.distinct, totals.counters.published * 10);
    }
}

#[test]
fn what_never_comes_is_missing_when_the_grace_is_over() {
    let server = Server::start();
    let mut scenario = published(Workload::FanOut, &server, "/ws", 50.0);
    scenario.grace_us = 1_000_000;
    server.hold(true);
    let totals = run(&scenario).results.totals;
    assert_eq!(totals.deliveries.missing, totals.counters.published * 20);
}

#[test]
fn a_storm_is_over_when_all_have_what_they_missed() {
    let server = Server::start();
    let mut scenario = published(storm(), &server, "/sse", 100.0);
    scenario.grace_us = 60_000_000;
    server.hold(true);
    let mut observer = release_in_the_drain(&server);
    let totals = run_observed(&scenario, &options(), &mut observer)
        .unwrap()
        .results
        .totals;
    assert_eq!(totals.deliveries.missing, 0);
    // They are usable at once, and have nothing before the server lets it go.
    let (usable, back) = (totals.reconnected_us.unwrap(), totals.back_us.unwrap());
    assert!(usable < back, "{usable} {back}");
}

#[test]
fn a_storm_is_never_over_where_something_is_lost() {
    let server = Server::start();
    let mut scenario = published(storm(), &server, "/forgetful", 1000.0);
    scenario.grace_us = 1_000_000;
    let totals = run(&scenario).results.totals;
    assert!(totals.reconnected_us.is_some());
    assert_eq!(totals.back_us, None);
    assert!(totals.deliveries.missing > 0);
}

#[test]
fn a_storm_is_over_when_all_are_back() {
    let server = Server::start();
    let scenario = published(storm(), &server, "/sse", 50.0);
    let totals = run(&scenario).results.totals;
    let counters = &totals.counters;
    assert_eq!(
        (
            counters.closed_by_plan,
            counters.reconnected,
            counters.alive()
        ),
        (20, 20, 20)
    );
    assert!(totals.back_us.is_some());
    // They come back with their last id, and the server has kept what they missed.
    assert_eq!(
        (totals.deliveries.missing, totals.deliveries.duplicates),
        (0, 0)
    );
    assert_eq!(totals.deliveries.distinct, counters.published * 20);
}

#[test]
fn who_leaves_and_resumes_misses_nothing() {
    let server = Server::start();
    let kind = Workload::Resume {
        away_us: 50_000,
        every_us: 200_000,
    };
    let scenario = published(kind, &server, "/sse", 100.0);
    let totals = run(&scenario).results.totals;
    let counters = &totals.counters;
    assert!(counters.reconnected >= 20, "each left at least once");
    assert_eq!(counters.alive(), 20);
    assert_eq!(
        (totals.deliveries.missing, totals.deliveries.duplicates),
        (0, 0)
    );
    assert_eq!(totals.deliveries.distinct, counters.published * 20);
}

#[test]
fn connections_come_and_go() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Churn, &server.ws("/ws?channel=a"));
    scenario.lifetime_us = Some(100_000);
    let counters = run(&scenario).results.totals.counters;
    assert!(counters.attempted > 20, "they come again");
    assert_eq!(
        counters.closed_by_plan,
        counters.reconnected + (20 - counters.alive())
    );
    assert_eq!((counters.lost(), counters.failed()), (0, 0));
}

#[test]
fn a_search_ends_where_the_promise_breaks() {
    let server = Server::start();
    let results = run(&search(&server)).results;
    assert_found(&results);
    assert_eq!(results.totals.deliveries.missing, 0);
}

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
    let finished = throng_bench_fleet::run_scenario(&scenario, &options).unwrap();
    let counters = &finished.results.totals.counters;
    assert_eq!((counters.attempted, counters.publish_failed), (0, 0));
    assert!(counters.publish_acknowledged > 0);
    let outcomes = &finished.results.checks;
    assert!(matches!(outcomes[0].outcome, CheckOutcome::Passed { .. }));
    assert_eq!(outcomes[1].outcome, CheckOutcome::NoData);
    let verdict = finished.results.verdict.is_valid();
    let expected = if verdict {
        BenchExit::CheckNoData
    } else {
        BenchExit::GeneratorSaturated
    };
    assert_eq!(finished.exit(), expected);
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
