//! Whole runs against a small server: every connection and message is accounted for.

mod fleet;
mod scenarios;
mod server;
mod stages;

use std::path::Path;

use throng_bench_fleet::{Finished, RunOptions, WatchServer, run_scenario};
use throng_bench_plan::schedule::Growth;
use throng_bench_plan::{
    ClientTransport, Dialect, Publish, RateSearch, Scenario, Target, Via, Workload,
};
use throng_bench_report::Results;

use crate::server::Server;

/// Runs of a test binary are not the server's processes.
pub(crate) fn options() -> RunOptions {
    RunOptions {
        watch: WatchServer::Off,
        threads: Some(1),
        ..RunOptions::default()
    }
}

pub(crate) fn run(scenario: &Scenario) -> Finished {
    run_scenario(scenario, &options()).unwrap()
}

/// Twenty connections, held for a short while.
pub(crate) fn scenario(kind: Workload, url: &str) -> Scenario {
    let transport = if url.starts_with("ws") {
        ClientTransport::websocket(Dialect::Plain)
    } else {
        ClientTransport::Sse {
            headers: Vec::new(),
        }
    };
    let mut scenario = Scenario::new(kind, vec![Target::parse(url).unwrap()], transport);
    scenario.set_clients(20, 1000.0);
    scenario.hold_us = 500_000;
    scenario
}

pub(crate) fn publish(server: &Server, per_s: f64) -> Publish {
    Publish {
        via: Via::plain(&Target::parse(&server.http("/")).unwrap()),
        per_s,
        publishers: 2,
        size_bytes: 100,
        choose: throng_bench_plan::ChannelChoice::RoundRobin,
        until: None,
    }
}

/// As [`scenario`], with publications to one channel, to which all are subscribed at this path.
pub(crate) fn published(kind: Workload, server: &Server, path: &str, per_s: f64) -> Scenario {
    let place = format!("{path}?channel={{channel}}");
    let url = match path {
        "/ws" => server.ws(&place),
        _ => server.http(&place),
    };
    Scenario {
        channels: vec!["a".into()],
        publish: Some(publish(server, per_s)),
        ..scenario(kind, &url)
    }
}

/// The file of a results folder by its name.
pub(crate) fn file_of(finished: &Finished, name: &str) -> String {
    let files = throng_bench_report::files(&finished.results, finished.log()).unwrap();
    let file = files
        .into_iter()
        .find(|file| Path::new(file.name) == Path::new(name));
    String::from_utf8(file.unwrap().bytes).unwrap()
}

/// A storm in which everybody drops and comes back.
pub(crate) fn storm() -> Workload {
    Workload::ReconnectStorm {
        at_us: 100_000,
        share: 1.0,
        backoff_us: (0, 100_000),
        back_share: 1.0,
    }
}

/// A search for a rate. One of 50/s makes 50 publications in a step, however many agents there are;
/// one of 100/s twice as many, a late thread somewhat fewer.
pub(crate) fn search(server: &Server) -> Scenario {
    let mut scenario = published(Workload::FanOut, server, "/ws", 50.0);
    scenario.publish.as_mut().unwrap().until = Some(RateSearch {
        check: "published<=50".parse().unwrap(),
        growth: Growth::Add(50.0),
        per_s_max: 1000.0,
        step_us: 1_000_000,
    });
    scenario
}

/// Whether that search has ended where it must.
#[track_caller]
pub(crate) fn assert_found(results: &Results) {
    let steps = results.steps.iter().map(|step| (step.per_s, step.held));
    let steps: Vec<(f64, bool)> = steps.collect();
    assert_eq!(steps, [(50.0, true), (100.0, false)]);
    let notes = &results.notes;
    assert!(notes.iter().any(|note| note.contains("50/s")), "{notes:?}");
}
