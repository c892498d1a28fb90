//! Several agents and a controller, over loopback.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use throng_bench::measure::LostReason;
use throng_bench::plan::Kind;
use throng_bench::run::{AgentOptions, FleetError, Snapshot, run_on_agents, serve_agent};

use crate::server::Server;
use crate::{options, publish, scenario};

struct Agent {
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(token: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let options = AgentOptions {
            token: token.to_owned(),
            threads: Some(1),
            stop: stop.clone(),
        };
        let thread = std::thread::spawn(move || {
            serve_agent(&listener, &options, &mut |_| {}).unwrap();
        });
        Self {
            name,
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

#[test]
fn agents_share_connections_and_publications() {
    let server = Server::start();
    let agents = [
        Agent::start("secret"),
        Agent::start("secret"),
        Agent::start("secret"),
    ];
    let names: Vec<String> = agents.iter().map(|agent| agent.name.clone()).collect();
    let mut scenario = scenario(Kind::FanOut, &server.ws("/ws?channel={channel}"));
    scenario.channels = vec!["a".into()];
    scenario.publish = Some(publish(&server, 50.0));
    let mut observer = |_: &Snapshot<'_>| {};
    let finished = run_on_agents(&scenario, &names, "secret", &options(), &mut observer).unwrap();
    let results = &finished.results;
    assert_eq!(results.totals.counters.alive(), 20);
    assert_eq!(
        results.totals.deliveries.distinct,
        results.totals.counters.published * 20
    );
    assert_eq!(results.totals.deliveries.duplicates, 0);
    let shares: Vec<u64> = results.agents.iter().map(|agent| agent.alive).collect();
    assert_eq!(shares, [7, 7, 6]);
    assert!(results.agents.iter().all(|agent| !agent.lost));
    assert_eq!(results.manifest.machines.len(), 4);
    assert!(
        results
            .notes
            .iter()
            .filter(|note| note.starts_with("clock of"))
            .count()
            == 3
    );
    // One clock: what was published elsewhere did not arrive before it was sent.
    let delivery = results.totals.delivery.as_ref().unwrap();
    assert_eq!(delivery.count, results.totals.deliveries.distinct);
}

#[test]
fn an_agent_that_dies_is_counted_and_the_run_goes_on() {
    let server = Server::start();
    let agents = [Agent::start("secret"), Agent::start("secret")];
    let names: Vec<String> = agents.iter().map(|agent| agent.name.clone()).collect();
    let mut scenario = scenario(Kind::Hold, &server.ws("/ws?channel=a"));
    scenario.hold_us = 2_000_000;
    let victim = agents[1].stop.clone();
    let mut observer = |snapshot: &Snapshot<'_>| {
        if snapshot.counters.alive() == 20 {
            victim.store(true, Ordering::Relaxed);
        }
    };
    let finished = run_on_agents(&scenario, &names, "secret", &options(), &mut observer).unwrap();
    let results = &finished.results;
    let counters = &results.totals.counters;
    assert_eq!(counters.lost_reasons(), [(LostReason::AgentLost, 10)]);
    assert_eq!(counters.alive(), 10);
    let lost: Vec<bool> = results.agents.iter().map(|agent| agent.lost).collect();
    assert_eq!(lost, [false, true]);
}

#[test]
fn who_does_not_know_the_token_starts_nothing() {
    let server = Server::start();
    let agent = Agent::start("secret");
    let scenario = scenario(Kind::Hold, &server.ws("/ws?channel=a"));
    let mut observer = |_: &Snapshot<'_>| {};
    let names = [agent.name.clone()];
    let error = run_on_agents(&scenario, &names, "guess", &options(), &mut observer).unwrap_err();
    let FleetError::NoAgents(why) = error else {
        panic!("{error}");
    };
    assert!(why[0].1.contains("token"), "{why:?}");
    assert!(server.peers().is_empty());
}
