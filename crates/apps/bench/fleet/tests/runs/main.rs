//! Whole runs against a small server: every connection and message is accounted for.

mod agents;
mod play;
mod rest;
mod server;

use throng_bench_fleet::{RunOptions, WatchServer};
use throng_bench_plan::{ClientTransport, Dialect, Publish, Scenario, Target, Via, Workload};

use crate::server::Server;

/// Runs of a test binary are not the server's processes.
pub(crate) fn options() -> RunOptions {
    RunOptions {
        watch: WatchServer::Off,
        threads: Some(1),
        ..RunOptions::default()
    }
}

/// Twenty connections, held for a short while.
pub(crate) fn scenario(kind: Workload, url: &str) -> Scenario {
    let transport = ClientTransport::websocket(Dialect::Plain);
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
