//! Agents that die, and whom they believe; runs that go well are in `agents.txt`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use throng_bench_fleet::{
    AgentOptions, AgentTls, ControllerTls, FleetError, TlsError, run_on_agents, serve_agent,
};
use throng_bench_measure::LostReason;
use throng_bench_plan::Workload;
use throng_bench_report::{Results, Snapshot};

use crate::server::Server;
use crate::{options, scenario};

pub(crate) struct Agent {
    name: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    fn start(token: &str) -> Self {
        Self::start_with(token, None)
    }

    fn start_with(token: &str, tls: Option<AgentTls>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let stop = Arc::new(AtomicBool::new(false));
        let options = AgentOptions {
            token: token.to_owned(),
            tls,
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

pub(crate) fn agents(count: usize) -> (Vec<Agent>, Vec<String>) {
    let agents: Vec<Agent> = (0..count).map(|_| Agent::start("secret")).collect();
    let names = agents.iter().map(|agent| agent.name.clone()).collect();
    (agents, names)
}

/// Asks one agent to hold connections; without one, the reason.
fn hold_at(
    agent: &Agent,
    server: &Server,
    token: &str,
    authorities: Option<&str>,
) -> Result<Results, String> {
    let scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    let mut options = options();
    options.agents_tls = authorities.map(|file| ControllerTls::read(&pem(file)).unwrap());
    let names = std::slice::from_ref(&agent.name);
    let mut observer = |_: &Snapshot<'_>| {};
    match run_on_agents(&scenario, names, token, &options, &mut observer) {
        Ok(finished) => Ok(finished.results),
        Err(FleetError::NoAgents(why)) => Err(why[0].1.clone()),
    }
}

#[test]
fn an_agent_that_dies_is_counted_and_the_run_goes_on() {
    let server = Server::start();
    let (agents, names) = agents(2);
    let mut scenario = scenario(Workload::Hold, &server.ws("/ws?channel=a"));
    scenario.hold_us = 2_000_000;
    let victim = agents[1].stop.clone();
    let mut observer = |snapshot: &Snapshot<'_>| {
        if snapshot.tally.counters.alive() == 20 {
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
    let why = hold_at(&agent, &server, "guess", None).unwrap_err();
    assert!(why.contains("token"), "{why}");
    assert!(server.peers().is_empty());
}

fn pem(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tls")).join(name)
}

#[test]
fn agents_are_believed_by_their_certificate() {
    let server = Server::start();
    let shown = AgentTls::read(&pem("agent.pem"), &pem("agent.key")).unwrap();
    let agent = Agent::start_with("secret", Some(shown));
    let why = hold_at(&agent, &server, "secret", Some("other.pem")).unwrap_err();
    assert!(why.contains("certificate"), "{why}");
    assert!(server.peers().is_empty());
    let results = hold_at(&agent, &server, "secret", Some("agent.pem")).unwrap();
    assert_eq!(results.totals.counters.alive(), 20);
}

#[test]
fn tls_is_not_left_out_by_one_side() {
    let server = Server::start();
    let agent = Agent::start("secret");
    let why = hold_at(&agent, &server, "secret", Some("agent.pem")).unwrap_err();
    assert!(why.contains("--tls-cert"), "{why}");
    assert!(server.peers().is_empty());
}

#[test]
fn files_without_what_they_should_have_are_named() {
    let said = |error: TlsError| error.to_string();
    for (cert, key, names) in [
        ("absent.pem", "agent.key", "absent.pem"),
        ("agent.pem", "absent.key", "absent.key"),
        ("agent.key", "agent.key", "no certificate"),
        ("agent.pem", "agent.pem", "agent.pem"),
        ("other.pem", "agent.key", "other.pem"),
    ] {
        let text = said(AgentTls::read(&pem(cert), &pem(key)).unwrap_err());
        assert!(text.contains(names), "{text}");
    }
    let text = said(ControllerTls::read(&pem("agent.key")).unwrap_err());
    assert!(text.contains("no certificate"), "{text}");
}
