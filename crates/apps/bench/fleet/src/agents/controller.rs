//! The controller's side: all agents of a run.
//!
//! Invariants
//! - Nobody starts before everybody who is still there is ready.
//! - A lost agent keeps the figures of its last report; its connections count as lost.

mod link;

use super::clock::ClockEstimator;
use super::messages::{Assignment, Nonce, Step, ToAgent, ToController};
use throng_bench_measure::{Counters, DeliveryCounts, LostReason};
use throng_bench_plan::Scenario;
use throng_bench_report::{AgentSummary, Machine};

use link::{Link, Outbox};

pub use link::{AgentState, Event};

/// How long before the start it is announced, so that the slowest network has brought the word.
const LEAD_US: u64 = 1_000_000;

/// All agents of a run. Messages to send come out as pairs of agent and message.
#[derive(Debug)]
pub struct Controller {
    token: String,
    scenario: Scenario,
    links: Vec<Link>,
    silent_max_us: u64,
    started: bool,
    /// A step of a search is under way.
    steps: bool,
    finished: bool,
}

impl Controller {
    /// For agents by name, each with a random nonce that is used once.
    #[must_use]
    pub fn new(token: &str, scenario: Scenario, agents: Vec<(String, Nonce)>, now_us: u64) -> Self {
        let links = agents.into_iter().map(|(name, nonce)| Link {
            name,
            state: AgentState::AwaitChallenge,
            agent_nonce: 0,
            nonce,
            clock: ClockEstimator::default(),
            machine: None,
            heard_us: now_us,
            counters: Counters::default(),
            deliveries: DeliveryCounts::default(),
            steps: false,
        });
        Self {
            token: token.to_owned(),
            scenario,
            links: links.collect(),
            silent_max_us: 10_000_000,
            started: false,
            steps: false,
            finished: false,
        }
    }

    /// Takes a message from an agent that came at `now_us`. A message for an agent that does not
    /// exist is ignored.
    pub fn on_message(
        &mut self,
        agent: usize,
        message: ToController,
        now_us: u64,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) {
        let Some(link) = self.links.get_mut(agent) else {
            return;
        };
        if link.state == AgentState::Lost {
            return;
        }
        link.heard_us = now_us;
        let outcome = link.on_message(&self.token, agent, message, now_us, out, events);
        if let Err(error) = outcome {
            self.lose(agent, error.to_string(), events);
        }
        self.proceed(now_us, out, events);
    }

    /// Notes that an agent's connection has ended.
    pub fn on_disconnect(
        &mut self,
        agent: usize,
        reason: &str,
        now_us: u64,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) {
        self.lose(agent, reason.to_owned(), events);
        self.proceed(now_us, out, events);
    }

    /// Looks for agents that have been silent for too long; to be called about once a second.
    pub fn on_tick(&mut self, now_us: u64, out: &mut Outbox, events: &mut Vec<Event>) {
        let silent: Vec<usize> = self
            .links
            .iter()
            .enumerate()
            .filter(|(_, link)| {
                // A prepared agent waits for others and has nothing to say.
                let waits = matches!(
                    link.state,
                    AgentState::Probed | AgentState::Ready | AgentState::Done | AgentState::Lost
                );
                !waits && now_us.saturating_sub(link.heard_us) > self.silent_max_us
            })
            .map(|(agent, _)| agent)
            .collect();
        for agent in silent {
            let seconds = self.silent_max_us / 1_000_000;
            self.lose(agent, format!("silent for more than {seconds} s"), events);
        }
        self.proceed(now_us, out, events);
    }

    /// Has every running agent try a rate; [`Event::StepDone`] says when all have.
    pub fn step(&mut self, step: Step, out: &mut Outbox) {
        self.steps = true;
        for link in &mut self.links {
            link.steps = link.state == AgentState::Running;
        }
        self.to_running(&ToAgent::Step(step), out);
    }

    /// Tells every running agent that no rate is left to try.
    pub fn end_search(&self, out: &mut Outbox) {
        self.to_running(&ToAgent::SearchOver, out);
    }

    /// Tells every running agent to drop its connections.
    pub fn drop_all(&self, out: &mut Outbox) {
        self.to_running(&ToAgent::DropAll, out);
    }

    /// Ends the run early: every agent that is still there reports and is done.
    pub fn stop(&self, out: &mut Outbox) {
        self.to_running(&ToAgent::Stop, out);
    }

    fn to_running(&self, message: &ToAgent, out: &mut Outbox) {
        for (agent, link) in self.links.iter().enumerate() {
            if link.state == AgentState::Running {
                out.push((agent, message.clone()));
            }
        }
    }

    /// The counts of all agents, those of lost ones up to their last report.
    #[must_use]
    pub fn totals(&self) -> (Counters, DeliveryCounts) {
        let mut counters = Counters::default();
        let mut deliveries = DeliveryCounts::default();
        for link in &self.links {
            counters.merge(&link.counters);
            deliveries.merge(&link.deliveries);
        }
        (counters, deliveries)
    }

    /// Every agent for the report.
    #[must_use]
    pub fn summaries(&self) -> Vec<AgentSummary> {
        let summary = |link: &Link| {
            let clock = link.clock.estimate();
            AgentSummary {
                name: link.name.clone(),
                alive: link.counters.alive(),
                offset_us: clock.map_or(0, |clock| clock.offset_us),
                offset_error_us: clock.map_or(0, |clock| clock.error_us),
                lost: link.state == AgentState::Lost,
            }
        };
        self.links.iter().map(summary).collect()
    }

    /// The machines that the agents run on.
    pub fn machines(&self) -> impl Iterator<Item = &Machine> {
        self.links.iter().filter_map(|link| link.machine.as_ref())
    }

    /// Where an agent stands.
    #[must_use]
    pub fn state(&self, agent: usize) -> Option<AgentState> {
        self.links.get(agent).map(|link| link.state)
    }

    fn lose(&mut self, agent: usize, reason: String, events: &mut Vec<Event>) {
        let Some(link) = self.links.get_mut(agent) else {
            return;
        };
        if matches!(link.state, AgentState::Lost | AgentState::Done) {
            return;
        }
        let alive = link.counters.alive();
        link.counters.on_lost(LostReason::AgentLost, alive);
        link.state = AgentState::Lost;
        events.push(Event::Lost { agent, reason });
    }

    /// Moves all agents on together, when the last one is where the others are.
    fn proceed(&mut self, now_us: u64, out: &mut Outbox, events: &mut Vec<Event>) {
        let here = || {
            self.links
                .iter()
                .filter(|link| link.state != AgentState::Lost)
        };
        let all = |state| here().count() > 0 && here().all(|link| link.state == state);
        let steps = here().any(|link| link.state == AgentState::Running && link.steps);
        if self.steps && !steps {
            self.steps = false;
            events.push(Event::StepDone);
        }
        if all(AgentState::Probed) {
            self.assign(out);
        } else if all(AgentState::Ready) && !self.started {
            self.start(now_us + LEAD_US, out, events);
        } else if !self.finished && here().all(|link| link.state == AgentState::Done) {
            self.finished = true;
            events.push(Event::Finished);
        }
    }

    fn assign(&mut self, out: &mut Outbox) {
        let here = |link: &&mut Link| link.state != AgentState::Lost;
        let agents = self.links.iter_mut().filter(here).count() as u32;
        let mut index = 0;
        for (agent, link) in self.links.iter_mut().enumerate() {
            if link.state != AgentState::Lost {
                link.state = AgentState::Preparing;
                let assignment = Assignment {
                    scenario: self.scenario.clone(),
                    index,
                    agents,
                };
                out.push((agent, ToAgent::Assign(Box::new(assignment))));
                index += 1;
            }
        }
    }

    fn start(&mut self, at_us: u64, out: &mut Outbox, events: &mut Vec<Event>) {
        self.started = true;
        for (agent, link) in self.links.iter_mut().enumerate() {
            if let (AgentState::Ready, Some(clock)) = (link.state, link.clock.estimate()) {
                link.state = AgentState::Running;
                out.push((
                    agent,
                    ToAgent::Start {
                        at_us: clock.to_agent_us(at_us),
                        offset_us: clock.offset_us,
                    },
                ));
            }
        }
        events.push(Event::Started { at_us });
    }
}

#[cfg(test)]
mod tests;
