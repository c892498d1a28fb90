//! Run on several machines, from the controller's side: connections to agents, one row a second,
//! one result.
//!
//! Owns: the sockets and the merging. The rules are in [`crate::agents::Controller`].

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use throng_bench_measure::Tally;
use throng_bench_plan::Scenario;
use throng_bench_report::{Observer, RunPhase};
use throng_bench_worker::Clock;

use super::agent::AGENT_PORT;
use super::collect::Collector;
use super::drive::Search;
use super::drive::{LEAD_US, SETTLE_GRACE_US};
use super::server::ServerWatch;
use super::wire::{ControllerTls, Ends, PeerEvent, PeerSender, nonce, split};
use super::{Finished, RunOptions};
use crate::agents::{Controller, ControllerEvent, Progress, RateStep, ToController};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const ROW_EVERY: Duration = Duration::from_secs(1);

/// Reason why a run on several machines did not take place.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    /// Each agent that was named, with the reason why it did not take part.
    #[error("no agent took part{}", reasons(.0))]
    NoAgents(Vec<(String, String)>),
}

fn reasons(agents: &[(String, String)]) -> String {
    agents
        .iter()
        .map(|(name, why)| format!("; {name}: {why}"))
        .collect()
}

/// Runs a scenario on agents, each of which takes its part of connections and publications. Fails
/// only if none of them takes part.
pub fn run_on_agents(
    scenario: &Scenario,
    agents: &[String],
    token: &str,
    options: &RunOptions,
    observer: &mut Observer<'_>,
) -> Result<Finished, FleetError> {
    let clock = Clock::start();
    let named = agents.iter().map(|name| (name.clone(), nonce())).collect();
    let controller = Controller::new(token, scenario.clone(), named, clock.now_us());
    let (sender, arrived) = channel();
    let mut fleet = Fleet {
        scenario,
        clock,
        controller,
        links: Vec::new(),
        latest: BTreeMap::new(),
        collector: Collector::new(scenario, options, None),
        watch: None,
        begin_us: None,
        lost: Vec::new(),
        search: Search::new(scenario),
        steps: false,
        first_step_us: None,
        finished: false,
        stopped: false,
        names: agents.to_vec(),
    };
    let note = "with several machines, messages after the last delivery of a publisher elsewhere \
                are not known to be missing";
    fleet.collector.notes.push(note.to_owned());
    for (number, name) in agents.iter().enumerate() {
        let sender = sender.clone();
        let on = move |event| drop(sender.send((number, event)));
        let tls = options.agents_tls.as_ref();
        match dial(name, tls).and_then(|ends| split(ends, on)) {
            Ok(link) => fleet.links.push(Some(link)),
            Err(error) => {
                fleet.links.push(None);
                fleet.gone(number, &format!("cannot be reached: {error}"));
            }
        }
    }
    fleet.run(&arrived, options, observer);
    fleet.conclude()
}

fn dial(name: &str, tls: Option<&ControllerTls>) -> std::io::Result<Ends> {
    let (host, with_port) = match name.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => (host, name.to_owned()),
        _ => (name, format!("{name}:{AGENT_PORT}")),
    };
    let mut last = std::io::Error::other("the host has no address");
    for address in with_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WITHIN) {
            Ok(stream) => {
                return match tls {
                    Some(tls) => tls.connect(host, stream),
                    None => Ends::plain(stream),
                };
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

struct Fleet<'a> {
    scenario: &'a Scenario,
    clock: Clock,
    controller: Controller,
    links: Vec<Option<PeerSender>>,
    // Last report of each agent, for figures that are not sums.
    latest: BTreeMap<usize, Box<Progress>>,
    collector: Collector,
    watch: Option<ServerWatch>,
    begin_us: Option<u64>,
    lost: Vec<(String, String)>,
    // None when it is over.
    search: Option<Search<'a>>,
    // A step of it is under way.
    steps: bool,
    first_step_us: Option<u64>,
    finished: bool,
    stopped: bool,
    names: Vec<String>,
}

impl Fleet<'_> {
    fn run(
        &mut self,
        arrived: &Receiver<(usize, PeerEvent<ToController>)>,
        options: &RunOptions,
        observer: &mut Observer<'_>,
    ) {
        let mut next_tick = Instant::now() + ROW_EVERY;
        while !self.finished {
            match arrived.recv_timeout(LOOK_EVERY) {
                Ok((agent, PeerEvent::Message(message))) => {
                    self.drive(|controller, now_us| controller.on_message(agent, message, now_us))
                }
                Ok((agent, PeerEvent::End(why))) => self.gone(agent, &why),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if options.stop.load(Ordering::Relaxed) && !self.stopped {
                self.stopped = true;
                if self.begin_us.is_none() {
                    return;
                }
                self.drive(|controller, _| controller.stop());
            }
            self.search_on();
            if Instant::now() >= next_tick {
                next_tick += ROW_EVERY;
                self.drive(Controller::on_tick);
                self.row(options, observer);
            }
        }
        self.row(options, observer);
    }

    fn gone(&mut self, agent: usize, why: &str) {
        self.drive(|controller, now_us| controller.on_disconnect(agent, why, now_us));
    }

    /// Calls the controller, sends its messages and handles its events.
    fn drive(&mut self, call: impl FnOnce(&mut Controller, u64)) {
        call(&mut self.controller, self.clock.now_us());
        let outcome = self.controller.take_outcome();
        for (agent, message) in outcome.messages {
            let Some(Some(link)) = self.links.get_mut(agent) else {
                continue;
            };
            if link.send(&message).is_err() {
                // The thread that reads it finds the end and its reason.
                link.close();
            }
        }
        self.events(outcome.events);
    }

    fn events(&mut self, events: Vec<ControllerEvent>) {
        for event in events {
            match event {
                ControllerEvent::Clock { agent, estimate } => self.collector.notes.push(format!(
                    "clock of {}: {} µs from the controller's, at most {} µs wrong",
                    self.name(agent),
                    estimate.offset_us,
                    estimate.error_us
                )),
                ControllerEvent::Started { at_us } => self.begin_us = Some(at_us),
                ControllerEvent::Progress { agent, progress } => {
                    let busy = progress.sample.generator_busy;
                    self.collector.take_histograms(&progress.interval, &[busy]);
                    self.latest.insert(agent, progress);
                }
                ControllerEvent::Lost { agent, reason } => {
                    let name = self.name(agent);
                    self.collector
                        .notes
                        .push(format!("{name} was lost: {reason}"));
                    self.lost.push((name, reason));
                    if let Some(Some(link)) = self.links.get(agent) {
                        link.close();
                    }
                }
                ControllerEvent::StepDone => {
                    self.take_totals();
                    self.steps = false;
                    if let Some(search) = &mut self.search {
                        search.judge(&mut self.collector);
                    }
                }
                ControllerEvent::Finished => self.finished = true,
            }
        }
    }

    fn name(&self, agent: usize) -> String {
        self.names.get(agent).cloned().unwrap_or_default()
    }

    fn phase(&self, since_begin_us: u64) -> RunPhase {
        let ramp_us = self.scenario.arrivals.duration_us() + SETTLE_GRACE_US;
        let warm_us = self.warm_us();
        let hold_us = warm_us + LEAD_US + self.scenario.hold_us;
        if since_begin_us < ramp_us {
            RunPhase::Ramp
        } else if since_begin_us < warm_us {
            RunPhase::WarmUp
        } else if self.search.is_some() || self.first_step_us.is_none() && since_begin_us < hold_us
        {
            RunPhase::Hold
        } else {
            RunPhase::Drain
        }
    }

    fn take_totals(&mut self) {
        let (counters, deliveries) = self.controller.totals();
        let due_events = counters.attempted + counters.published + counters.missed_events;
        let mut tally = Tally {
            counters,
            deliveries,
            due_events,
            ..Tally::default()
        };
        for progress in self.latest.values() {
            tally.sums.merge(&progress.sums);
        }
        self.collector.take_totals(tally);
    }

    fn search_on(&mut self) {
        let now_us = self.clock.now_us();
        let (Some(begin_us), false, false) = (self.begin_us, self.steps, self.stopped) else {
            return;
        };
        if now_us < begin_us + self.warm_us() {
            return;
        }
        let Some(search) = &mut self.search else {
            return;
        };
        if let Some(per_s) = search.next(&mut self.collector) {
            // The message has to get there, and then the publishers open their links.
            let begin_us = now_us + 2 * LEAD_US;
            let end_us = begin_us + search.step_us();
            let step = RateStep {
                per_s,
                begin_us,
                end_us,
            };
            self.first_step_us.get_or_insert(begin_us);
            self.steps = true;
            self.drive(|controller, _| controller.step(step));
        } else {
            search.conclude(&mut self.collector);
            self.collector.measured_ms.1 = now_us.saturating_sub(begin_us) / 1000;
            self.search = None;
            self.drive(|controller, _| controller.end_search());
        }
    }

    /// Time from the start to the end of the warm-up.
    fn warm_us(&self) -> u64 {
        self.scenario.arrivals.duration_us() + SETTLE_GRACE_US + self.scenario.warm_up_us
    }

    fn row(&mut self, options: &RunOptions, observer: &mut Observer<'_>) {
        let Some(begin_us) = self.begin_us else {
            return;
        };
        let since_us = self.clock.now_us().saturating_sub(begin_us);
        if since_us == 0 {
            return;
        }
        self.take_totals();
        let watch = self.watch.get_or_insert_with(|| {
            let targets = self.scenario.targets.iter();
            let addresses = targets
                .filter_map(|target| (target.host.as_str(), target.port).to_socket_addrs().ok());
            let addresses: Vec<_> = addresses.flatten().collect();
            ServerWatch::new(&options.watch, options.metrics.clone(), &addresses)
        });
        let server = watch.sample();
        let reports = self.latest.values();
        let memory = reports
            .map(|progress| progress.sample.generator_memory_bytes)
            .sum();
        let phase = self.phase(since_us);
        self.collector
            .observe_row(phase, since_us / 1000, (server, memory), observer);
    }

    fn conclude(mut self) -> Result<Finished, FleetError> {
        for link in self.links.iter().flatten() {
            link.close();
        }
        if self.begin_us.is_none() {
            return Err(FleetError::NoAgents(self.lost));
        }
        self.collector.agents = self.controller.summaries();
        let machines = self.controller.machines().cloned();
        self.collector.machines.extend(machines);
        let scenario = self.scenario;
        if let (Some(first_us), Some(begin_us)) = (self.first_step_us, self.begin_us) {
            let measured_ms = &mut self.collector.measured_ms;
            measured_ms.0 = first_us.saturating_sub(begin_us) / 1000;
            if self.search.is_some() {
                // It was ended before its time.
                measured_ms.1 = self.clock.now_us().saturating_sub(begin_us) / 1000;
            }
        } else {
            let from_us = self.warm_us() + LEAD_US;
            let to_us = from_us + scenario.hold_us;
            self.collector.measured_ms = (from_us / 1000, to_us / 1000);
        }
        Ok(self.collector.finish(self.stopped))
    }
}
