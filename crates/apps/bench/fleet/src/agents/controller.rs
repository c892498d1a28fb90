//! Controller's side: all agents of a run.
//!
//! Invariants
//! - No agent starts before all that are still there are ready.
//! - A lost agent keeps the figures of its last report; its connections count as lost.

use throng_bench_measure::{Counters, DeliveryCounts, LostReason};
use throng_bench_plan::Scenario;
use throng_bench_report::{AgentSummary, MachineInfo};

use super::clock::{ClockEstimate, ClockEstimator, PROBES};
use super::codec::ProtocolError;
use super::messages::{Assignment, Nonce, PROTOCOL, Progress, RateStep, ToAgent, ToController};
use super::token::{self, Side};

/// Time from the announcement of the start to the start, enough for the slowest network.
const LEAD_US: u64 = 1_000_000;
/// Longest silence of an agent that has something to send.
const SILENT_US_MAX: u64 = 10_000_000;

/// Agents of a run. Messages to send come out as pairs of agent and message.
#[derive(Debug)]
pub struct Controller {
    token: String,
    scenario: Scenario,
    links: Vec<Link>,
    started: bool,
    // A step of a search is under way.
    steps: bool,
    finished: bool,
}

impl Controller {
    /// Takes agents by name, each with a random nonce that is used once.
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
        events: &mut Vec<ControllerEvent>,
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
        events: &mut Vec<ControllerEvent>,
    ) {
        self.lose(agent, reason.to_owned(), events);
        self.proceed(now_us, out, events);
    }

    /// Ends agents that have been silent for too long; to be called about once a second.
    pub fn on_tick(&mut self, now_us: u64, out: &mut Outbox, events: &mut Vec<ControllerEvent>) {
        for agent in 0..self.links.len() {
            let link = &self.links[agent];
            // A prepared agent waits for others and sends nothing.
            let waits = matches!(
                link.state,
                AgentState::Probed | AgentState::Ready | AgentState::Done | AgentState::Lost
            );
            if !waits && now_us.saturating_sub(link.heard_us) > SILENT_US_MAX {
                let seconds = SILENT_US_MAX / 1_000_000;
                self.lose(agent, format!("silent for more than {seconds} s"), events);
            }
        }
        self.proceed(now_us, out, events);
    }

    /// Makes every running agent try a rate; [`ControllerEvent::StepDone`] follows when all have.
    pub fn step(&mut self, step: RateStep, out: &mut Outbox) {
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

    /// Adds up the counts of all agents, those of lost ones up to their last report.
    pub fn totals(&self) -> (Counters, DeliveryCounts) {
        let mut counters = Counters::default();
        let mut deliveries = DeliveryCounts::default();
        for link in &self.links {
            counters.merge(&link.counters);
            deliveries.merge(&link.deliveries);
        }
        (counters, deliveries)
    }

    /// Sums up every agent for the report.
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

    pub fn machines(&self) -> impl Iterator<Item = &MachineInfo> {
        self.links.iter().filter_map(|link| link.machine.as_ref())
    }

    pub fn state(&self, agent: usize) -> Option<AgentState> {
        self.links.get(agent).map(|link| link.state)
    }

    fn lose(&mut self, agent: usize, reason: String, events: &mut Vec<ControllerEvent>) {
        let Some(link) = self.links.get_mut(agent) else {
            return;
        };
        if matches!(link.state, AgentState::Lost | AgentState::Done) {
            return;
        }
        let alive = link.counters.alive();
        link.counters.on_lost(LostReason::AgentLost, alive);
        link.state = AgentState::Lost;
        events.push(ControllerEvent::Lost { agent, reason });
    }

    /// Moves all agents on together, when the last one is where the others are.
    fn proceed(&mut self, now_us: u64, out: &mut Outbox, events: &mut Vec<ControllerEvent>) {
        let here = || {
            self.links
                .iter()
                .filter(|link| link.state != AgentState::Lost)
        };
        let all = |state| here().count() > 0 && here().all(|link| link.state == state);
        let steps = here().any(|link| link.state == AgentState::Running && link.steps);
        if self.steps && !steps {
            self.steps = false;
            events.push(ControllerEvent::StepDone);
        }
        if all(AgentState::Probed) {
            self.assign(out);
        } else if all(AgentState::Ready) && !self.started {
            self.start(now_us + LEAD_US, out, events);
        } else if !self.finished && here().all(|link| link.state == AgentState::Done) {
            self.finished = true;
            events.push(ControllerEvent::Finished);
        }
    }

    fn assign(&mut self, out: &mut Outbox) {
        let here = |link: &&mut Link| link.state != AgentState::Lost;
        let agents = self.links.iter_mut().filter(here).count() as u32;
        let mut index = 0;
        for (agent, link) in self.links.iter_mut().enumerate() {
            if link.state != AgentState::Lost {
                link.state = AgentState::Preparing;
                let scenario = self.scenario.clone();
                let assignment = Assignment {
                    scenario,
                    index,
                    agents,
                };
                out.push((agent, ToAgent::Assign(Box::new(assignment))));
                index += 1;
            }
        }
    }

    fn start(&mut self, at_us: u64, out: &mut Outbox, events: &mut Vec<ControllerEvent>) {
        self.started = true;
        for (agent, link) in self.links.iter_mut().enumerate() {
            if let (AgentState::Ready, Some(clock)) = (link.state, link.clock.estimate()) {
                link.state = AgentState::Running;
                let (at_us, offset_us) = (clock.to_agent_us(at_us), clock.offset_us);
                out.push((agent, ToAgent::Start { at_us, offset_us }));
            }
        }
        events.push(ControllerEvent::Started { at_us });
    }
}

/// Messages to send, with the numbers of their agents.
type Outbox = Vec<(usize, ToAgent)>;

/// State of an agent's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    AwaitChallenge,
    AwaitWelcome,
    Probing,
    /// Clock known; waiting for the others.
    Probed,
    Preparing,
    Ready,
    Running,
    Done,
    /// Gone, or broken the protocol.
    Lost,
}

/// Event that the controller noticed.
#[derive(Clone, Debug, PartialEq)]
pub enum ControllerEvent {
    Clock {
        agent: usize,
        estimate: ClockEstimate,
    },
    /// All are told to start when the controller's clock shows this.
    Started {
        /// Controller's clock at the start, µs.
        at_us: u64,
    },
    /// An agent has reported an interval; its histograms are to be merged.
    Progress {
        agent: usize,
        progress: Box<Progress>,
    },
    /// Every agent that is still there has carried out the step.
    StepDone,
    /// An agent is gone; the run goes on.
    Lost {
        agent: usize,
        /// Reason that the agent or its connection gave.
        reason: String,
    },
    /// No agent is left that has something to report.
    Finished,
}

/// Agent, and the dialogue with it.
#[derive(Debug)]
struct Link {
    name: String,
    state: AgentState,
    agent_nonce: Nonce,
    nonce: Nonce,
    clock: ClockEstimator,
    machine: Option<MachineInfo>,
    heard_us: u64,
    counters: Counters,
    deliveries: DeliveryCounts,
    steps: bool,
}

impl Link {
    /// Takes a message of this agent that came at `now_us`.
    fn on_message(
        &mut self,
        token: &str,
        agent: usize,
        message: ToController,
        now_us: u64,
        out: &mut Outbox,
        events: &mut Vec<ControllerEvent>,
    ) -> Result<(), ProtocolError> {
        match (self.state, message) {
            (AgentState::AwaitChallenge, ToController::Challenge { protocol, nonce }) => {
                if protocol != PROTOCOL {
                    return Err(ProtocolError::Version(protocol));
                }
                self.agent_nonce = token::read_nonce(&nonce)
                    .ok_or_else(|| ProtocolError::Malformed("the nonce".into()))?;
                self.state = AgentState::AwaitWelcome;
                let proof = token::proof(token, Side::Controller, self.agent_nonce, self.nonce);
                let (protocol, nonce) = (PROTOCOL, token::write_nonce(self.nonce));
                out.push((
                    agent,
                    ToAgent::Hello {
                        protocol,
                        nonce,
                        proof,
                    },
                ));
            }
            (AgentState::AwaitWelcome, ToController::Welcome { proof, machine }) => {
                if !token::verify(token, Side::Agent, self.agent_nonce, self.nonce, &proof) {
                    return Err(ProtocolError::WrongToken);
                }
                self.machine = Some(machine);
                self.state = AgentState::Probing;
                out.push((agent, ToAgent::Probe { sent_us: now_us }));
            }
            (_, ToController::Refused { reason } | ToController::Cannot { reason }) => {
                return Err(ProtocolError::Refused(reason));
            }
            (
                AgentState::Probing,
                ToController::ProbeReply {
                    sent_us,
                    received_us,
                    replied_us,
                },
            ) => {
                let times = [sent_us, received_us, replied_us, now_us];
                self.on_probe(times, agent, out, events)?;
            }
            (AgentState::Preparing, ToController::Ready) => self.state = AgentState::Ready,
            (AgentState::Running, ToController::Progress(progress)) => {
                self.counters = progress.counters.clone();
                self.deliveries = progress.deliveries;
                events.push(ControllerEvent::Progress { agent, progress });
            }
            (AgentState::Running, ToController::StepDone) if self.steps => self.steps = false,
            (AgentState::Running, ToController::Done) => self.state = AgentState::Done,
            _ => return Err(ProtocolError::Unexpected("a message out of turn")),
        }
        Ok(())
    }

    fn on_probe(
        &mut self,
        [sent_us, received_us, replied_us, returned_us]: [u64; 4],
        agent: usize,
        out: &mut Outbox,
        events: &mut Vec<ControllerEvent>,
    ) -> Result<(), ProtocolError> {
        self.clock
            .on_probe(sent_us, received_us, replied_us, returned_us);
        if self.clock.probes() < PROBES {
            let sent_us = returned_us;
            out.push((agent, ToAgent::Probe { sent_us }));
            return Ok(());
        }
        let Some(estimate) = self.clock.estimate() else {
            let why = "its clock runs backwards: no probe gave an offset";
            return Err(ProtocolError::Malformed(why.into()));
        };
        self.state = AgentState::Probed;
        events.push(ControllerEvent::Clock { agent, estimate });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
