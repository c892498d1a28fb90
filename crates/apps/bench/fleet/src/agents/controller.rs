//! Controller's side: all agents of a run.
//!
//! Invariants
//! - No agent starts before all that are still there are ready.
//! - A lost agent keeps the figures of its last report; its connections count as lost.

use throng_bench_measure::{DeliveryCounts, LostReason, RunCounters};
use throng_bench_plan::Scenario;
use throng_bench_report::{AgentSummary, MachineInfo};

use super::messages::{self, Side};
use super::messages::{
    Assignment, Nonce, PROTOCOL, Progress, ProtocolError, RateStep, ToAgent, ToController,
};

/// Time from the announcement of the start to the start, enough for the slowest network.
const LEAD_US: u64 = 1_000_000;
/// Longest silence of an agent that has something to send.
const SILENT_US_MAX: u64 = 10_000_000;

/// Messages and events that calls have led to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Messages to send, with the numbers of their agents.
    pub(crate) messages: Vec<(usize, ToAgent)>,
    pub(crate) events: Vec<ControllerEvent>,
}

/// Agents of a run. [`Controller::take_outcome`] has what the calls since the last one led to.
#[derive(Debug)]
pub(crate) struct Controller {
    token: String,
    scenario: Scenario,
    links: Vec<Link>,
    outcome: Outcome,
    started: bool,
    // A step of a search is under way.
    steps: bool,
    finished: bool,
}

impl Controller {
    /// Takes agents by name, each with a random nonce that is used once.
    pub(crate) fn new(
        token: &str,
        scenario: Scenario,
        agents: Vec<(String, Nonce)>,
        now_us: u64,
    ) -> Self {
        let links = agents.into_iter().map(|(name, nonce)| Link {
            name,
            state: AgentState::AwaitChallenge,
            agent_nonce: 0,
            nonce,
            clock: ClockEstimator::default(),
            machine: None,
            heard_us: now_us,
            counters: RunCounters::default(),
            deliveries: DeliveryCounts::default(),
            steps: false,
        });
        Self {
            token: token.to_owned(),
            scenario,
            links: links.collect(),
            outcome: Outcome::default(),
            started: false,
            steps: false,
            finished: false,
        }
    }

    /// Takes a message from an agent that came at `now_us`. A message for an agent that does not
    /// exist is ignored.
    pub(crate) fn on_message(&mut self, agent: usize, message: ToController, now_us: u64) {
        let Some(link) = self.links.get_mut(agent) else {
            return;
        };
        if link.state == AgentState::Lost {
            return;
        }
        link.heard_us = now_us;
        let taken = link.on_message(&self.token, agent, message, now_us, &mut self.outcome);
        if let Err(error) = taken {
            self.lose(agent, error.to_string());
        }
        self.proceed(now_us);
    }

    pub(crate) fn on_disconnect(&mut self, agent: usize, reason: &str, now_us: u64) {
        self.lose(agent, reason.to_owned());
        self.proceed(now_us);
    }

    pub(crate) fn take_outcome(&mut self) -> Outcome {
        std::mem::take(&mut self.outcome)
    }

    /// Ends agents that have been silent for too long; to be called about once a second.
    pub(crate) fn on_tick(&mut self, now_us: u64) {
        for agent in 0..self.links.len() {
            let link = &self.links[agent];
            // A prepared agent waits for others and sends nothing.
            let waits = matches!(
                link.state,
                AgentState::Probed | AgentState::Ready | AgentState::Done | AgentState::Lost
            );
            if !waits && now_us.saturating_sub(link.heard_us) > SILENT_US_MAX {
                let seconds = SILENT_US_MAX / 1_000_000;
                self.lose(agent, format!("silent for more than {seconds} s"));
            }
        }
        self.proceed(now_us);
    }

    /// Makes every running agent try a rate; [`ControllerEvent::StepDone`] follows when all have.
    pub(crate) fn step(&mut self, step: RateStep) {
        self.steps = true;
        for link in &mut self.links {
            link.steps = link.state == AgentState::Running;
        }
        self.tell_running(&ToAgent::Step(step));
    }

    /// Tells every running agent that no rate is left to try.
    pub(crate) fn end_search(&mut self) {
        self.tell_running(&ToAgent::SearchOver);
    }

    /// Ends the run early: every agent that is still there reports and is done.
    pub(crate) fn stop(&mut self) {
        self.tell_running(&ToAgent::Stop);
    }

    fn tell_running(&mut self, message: &ToAgent) {
        for (agent, link) in self.links.iter().enumerate() {
            if link.state == AgentState::Running {
                self.outcome.messages.push((agent, message.clone()));
            }
        }
    }

    /// Adds up the counts of all agents, those of lost ones up to their last report.
    pub(crate) fn totals(&self) -> (RunCounters, DeliveryCounts) {
        let mut counters = RunCounters::default();
        let mut deliveries = DeliveryCounts::default();
        for link in &self.links {
            counters.merge(&link.counters);
            deliveries.merge(&link.deliveries);
        }
        (counters, deliveries)
    }

    pub(crate) fn summaries(&self) -> Vec<AgentSummary> {
        let summary = |link: &Link| {
            let clock = link.clock.best;
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

    pub(crate) fn machines(&self) -> impl Iterator<Item = &MachineInfo> {
        self.links.iter().filter_map(|link| link.machine.as_ref())
    }

    fn lose(&mut self, agent: usize, reason: String) {
        let Some(link) = self.links.get_mut(agent) else {
            return;
        };
        if matches!(link.state, AgentState::Lost | AgentState::Done) {
            return;
        }
        let alive = link.counters.alive();
        link.counters.on_lost(LostReason::AgentLost, alive);
        link.state = AgentState::Lost;
        let lost = ControllerEvent::Lost { agent, reason };
        self.outcome.events.push(lost);
    }

    /// Moves all agents on together, when the last one is where the others are.
    fn proceed(&mut self, now_us: u64) {
        let here = || {
            self.links
                .iter()
                .filter(|link| link.state != AgentState::Lost)
        };
        let all = |state| here().count() > 0 && here().all(|link| link.state == state);
        let steps = here().any(|link| link.state == AgentState::Running && link.steps);
        if self.steps && !steps {
            self.steps = false;
            self.outcome.events.push(ControllerEvent::StepDone);
        }
        if all(AgentState::Probed) {
            self.assign();
        } else if all(AgentState::Ready) && !self.started {
            self.start(now_us + LEAD_US);
        } else if !self.finished && here().all(|link| link.state == AgentState::Done) {
            self.finished = true;
            self.outcome.events.push(ControllerEvent::Finished);
        }
    }

    fn assign(&mut self) {
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
                let message = ToAgent::Assign(Box::new(assignment));
                self.outcome.messages.push((agent, message));
                index += 1;
            }
        }
    }

    fn start(&mut self, at_us: u64) {
        self.started = true;
        let Outcome { messages, events } = &mut self.outcome;
        for (agent, link) in self.links.iter_mut().enumerate() {
            if let (AgentState::Ready, Some(clock)) = (link.state, link.clock.best) {
                link.state = AgentState::Running;
                let (at_us, offset_us) = (clock.to_agent_us(at_us), clock.offset_us);
                messages.push((agent, ToAgent::Start { at_us, offset_us }));
            }
        }
        events.push(ControllerEvent::Started { at_us });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AgentState {
    AwaitChallenge,
    AwaitWelcome,
    Probing,
    /// Clock known; waiting for the others.
    Probed,
    Preparing,
    Ready,
    Running,
    Done,
    Lost,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ControllerEvent {
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

#[derive(Debug)]
struct Link {
    name: String,
    state: AgentState,
    agent_nonce: Nonce,
    nonce: Nonce,
    clock: ClockEstimator,
    machine: Option<MachineInfo>,
    heard_us: u64,
    counters: RunCounters,
    deliveries: DeliveryCounts,
    steps: bool,
}

impl Link {
    fn on_message(
        &mut self,
        token: &str,
        agent: usize,
        message: ToController,
        now_us: u64,
        outcome: &mut Outcome,
    ) -> Result<(), ProtocolError> {
        match (self.state, message) {
            (AgentState::AwaitChallenge, ToController::Challenge { protocol, nonce }) => {
                if protocol != PROTOCOL {
                    return Err(ProtocolError::Version(protocol));
                }
                self.agent_nonce = messages::read_nonce(&nonce)
                    .ok_or_else(|| ProtocolError::Malformed("the nonce".into()))?;
                self.state = AgentState::AwaitWelcome;
                let proof = messages::proof(token, Side::Controller, self.agent_nonce, self.nonce);
                let (protocol, nonce) = (PROTOCOL, messages::write_nonce(self.nonce));
                let hello = ToAgent::Hello {
                    protocol,
                    nonce,
                    proof,
                };
                outcome.messages.push((agent, hello));
            }
            (AgentState::AwaitWelcome, ToController::Welcome { proof, machine }) => {
                if !messages::verify(token, Side::Agent, self.agent_nonce, self.nonce, &proof) {
                    return Err(ProtocolError::WrongToken);
                }
                self.machine = Some(machine);
                self.state = AgentState::Probing;
                let probe = ToAgent::Probe { sent_us: now_us };
                outcome.messages.push((agent, probe));
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
                self.on_probe(times, agent, outcome)?;
            }
            (AgentState::Preparing, ToController::Ready) => self.state = AgentState::Ready,
            (AgentState::Running, ToController::Progress(progress)) => {
                self.counters = progress.counters.clone();
                self.deliveries = progress.deliveries;
                let events = &mut outcome.events;
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
        outcome: &mut Outcome,
    ) -> Result<(), ProtocolError> {
        self.clock
            .on_probe(sent_us, received_us, replied_us, returned_us);
        if self.clock.probes < PROBES {
            let sent_us = returned_us;
            let probe = ToAgent::Probe { sent_us };
            outcome.messages.push((agent, probe));
            return Ok(());
        }
        let Some(estimate) = self.clock.best else {
            let why = "its clock runs backwards: no probe gave an offset";
            return Err(ProtocolError::Malformed(why.into()));
        };
        self.state = AgentState::Probed;
        let clock = ControllerEvent::Clock { agent, estimate };
        outcome.events.push(clock);
        Ok(())
    }
}

pub(crate) const PROBES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockEstimate {
    /// Agent's clock minus the controller's, µs.
    pub(crate) offset_us: i64,
    /// Largest error of the offset, µs.
    pub(crate) error_us: u64,
}

impl ClockEstimate {
    /// Converts a reading of the controller's clock to the agent's.
    pub(crate) const fn to_agent_us(self, controller_us: u64) -> u64 {
        controller_us.saturating_add_signed(self.offset_us)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ClockEstimator {
    /// Best estimate so far; none without a usable probe.
    best: Option<ClockEstimate>,
    probes: usize,
}

impl ClockEstimator {
    /// Takes a probe. Readings that run backwards are of a broken clock and count as a probe
    /// without a result.
    pub(crate) fn on_probe(
        &mut self,
        sent_us: u64,
        received_us: u64,
        replied_us: u64,
        returned_us: u64,
    ) {
        self.probes += 1;
        let whole = returned_us.checked_sub(sent_us);
        let there = replied_us.checked_sub(received_us);
        // An agent that claims to have held the probe longer than it was away is lying or broken.
        let Some(way_us) = whole
            .zip(there)
            .and_then(|(whole, there)| whole.checked_sub(there))
        else {
            return;
        };
        let out = i128::from(received_us) - i128::from(sent_us);
        let back = i128::from(replied_us) - i128::from(returned_us);
        let Ok(offset_us) = i64::try_from((out + back) / 2) else {
            return;
        };
        let error_us = way_us.div_ceil(2);
        if self.best.is_none_or(|best| error_us < best.error_us) {
            self.best = Some(ClockEstimate {
                offset_us,
                error_us,
            });
        }
    }
}

#[cfg(test)]
mod tests;
