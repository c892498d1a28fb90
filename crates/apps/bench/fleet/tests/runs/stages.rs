//! Stages that connections reach, and the reasons under which they end.

use std::sync::atomic::Ordering;

use throng_bench_fleet::{run_observed, run_scenario};
use throng_bench_measure::{ConnectFailure, LostReason};
use throng_bench_plan::check::BenchExit;
use throng_bench_plan::ports::parse_sources;
use throng_bench_plan::{ClientTransport, Dialect, PeriodicMessage, Workload};
use throng_bench_report::Snapshot;
use throng_bench_worker::PrepareError;

use crate::server::Server;
use crate::{options, run, scenario};

#[test]
fn connections_are_counted_by_stage() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel={n}"));
    let ClientTransport::WebSocket {
        ping_interval_us, ..
    } = &mut scenario.transport
    else {
        unreachable!("it is a WebSocket");
    };
    *ping_interval_us = Some(100_000);
    let finished = run(&scenario);
    let counters = &finished.results.totals.counters;
    assert_eq!(
        [
            counters.attempted,
            counters.tcp_connected,
            counters.upgraded,
            counters.subscribed
        ],
        [20; 4]
    );
    assert_eq!(
        (counters.alive(), counters.lost(), counters.failed()),
        (20, 0, 0)
    );
    assert!(counters.pings > 0, "each pings at least once");
    assert_eq!(finished.results.totals.connect.as_ref().unwrap().count, 20);
    let html = crate::file_of(&finished, "report.html");
    assert!(html.contains("</html>"));
}

#[track_caller]
fn check_failure(url: &str, reason: ConnectFailure) {
    let mut scenario = scenario(Workload::Hold, url);
    if reason == ConnectFailure::HandshakeTimeout {
        // Everybody else is answered, however late on a busy machine.
        scenario.connect_timeout_us = 1_000_000;
    }
    let finished = run(&scenario);
    let counters = &finished.results.totals.counters;
    assert_eq!(counters.connect_failures(), [(reason, 20)], "{url}");
    assert_eq!(counters.alive(), 0);
    assert_eq!(finished.exit(), BenchExit::Error);
}

#[test]
fn failures_have_their_reason() {
    let server = Server::start();
    check_failure(&server.ws("/refuse"), ConnectFailure::Status);
    check_failure(&server.http("/refuse"), ConnectFailure::Status);
    check_failure(&server.ws("/wrong-accept"), ConnectFailure::Accept);
    check_failure(&server.http("/wrong-type"), ConnectFailure::ContentType);
    check_failure(&server.ws("/silent"), ConnectFailure::HandshakeTimeout);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    check_failure(&format!("ws://{address}/"), ConnectFailure::Refused);
}

#[test]
fn a_subscription_that_nobody_acknowledges_is_a_failure() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    scenario.transport = ClientTransport::websocket(Dialect::Centrifugo { token: None });
    scenario.connect_timeout_us = 2_000_000;
    let finished = run(&scenario);
    let counters = &finished.results.totals.counters;
    assert_eq!(
        counters.connect_failures(),
        [(ConnectFailure::SubscribeTimeout, 20)]
    );
    assert_eq!((counters.upgraded, counters.alive()), (20, 0));
}

#[track_caller]
fn check_lost(url: &str, reason: LostReason) {
    let finished = run(&scenario(Workload::Hold, url));
    let counters = &finished.results.totals.counters;
    assert_eq!(counters.lost_reasons(), [(reason, 20)], "{url}");
    assert_eq!((counters.upgraded, counters.alive()), (20, 0));
}

#[test]
fn losses_have_their_reason() {
    let server = Server::start();
    check_lost(&server.ws("/bye"), LostReason::ClosedByServer);
    check_lost(&server.ws("/gone"), LostReason::Eof);
}

#[test]
fn planned_sources_are_used_in_turn() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    scenario.sources = parse_sources("127.0.0.2-3").unwrap();
    let finished = run(&scenario);
    assert_eq!(finished.results.totals.counters.alive(), 20);
    let peers = server.peers();
    let from = |text: &str| {
        peers
            .iter()
            .filter(|peer| peer.ip().to_string() == text)
            .count()
    };
    assert_eq!((from("127.0.0.2"), from("127.0.0.3")), (10, 10));
}

#[test]
fn an_echo_comes_back_to_who_said_it() {
    let server = Server::start();
    let mut scenario = scenario(Workload::Echo, &server.ws("/echo"));
    scenario.say = Some(PeriodicMessage {
        text: "{payload}".into(),
        every_us: 50_000,
        count: Some(3),
        size_bytes: 80,
        binary: true,
    });
    let totals = run(&scenario).results.totals;
    let said = totals.counters.published;
    assert!((20..=60).contains(&said), "{said} were said");
    assert_eq!(totals.deliveries.distinct, said);
    assert_eq!(
        (totals.deliveries.missing, totals.deliveries.duplicates),
        (0, 0)
    );
    // What the first clients say before the last one is there belongs to no measured time.
    let timed = totals.delivery.unwrap().count;
    assert!((1..=said).contains(&timed), "{timed} of {said} were timed");
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
