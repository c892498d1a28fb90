//! The dialogue with one agent: proofs, probes of its clock, its part, its reports.
//!
//! Never: looks at other agents; the controller moves all of them on together.

use crate::agents::clock::{ClockEstimate, ClockEstimator, PROBES};
use crate::agents::codec::ProtocolError;
use crate::agents::messages::{Nonce, PROTOCOL, Progress, ToAgent, ToController};
use crate::agents::token::{self, Role};
use throng_bench_measure::{Counters, DeliveryCounts};
use throng_bench_report::Machine;

/// Messages to send: agent and message.
pub(super) type Outbox = Vec<(usize, ToAgent)>;

/// Where an agent stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// Its challenge has not come.
    AwaitChallenge,
    /// Our proof is sent.
    AwaitWelcome,
    /// Its clock is being read.
    Probing,
    /// Its clock is known; others are not so far.
    Probed,
    /// Its part is sent.
    Preparing,
    /// It waits for the start.
    Ready,
    /// It makes load.
    Running,
    /// It has reported everything.
    Done,
    /// It is gone, or of no use.
    Lost,
}

/// What the controller noticed.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An agent's clock is known.
    Clock {
        /// Which agent.
        agent: usize,
        /// Its clock.
        estimate: ClockEstimate,
    },
    /// All are told to start when the controller's clock shows this.
    Started {
        /// µs on the controller's clock.
        at_us: u64,
    },
    /// An agent has reported an interval; its histograms are to be merged.
    Progress {
        /// Which agent.
        agent: usize,
        /// Its report.
        progress: Box<Progress>,
    },
    /// Every agent that is still there has carried out the step.
    StepDone,
    /// An agent is gone; the run goes on.
    Lost {
        /// Which agent.
        agent: usize,
        /// What the agent or its connection said.
        reason: String,
    },
    /// Nobody is left who has something to report.
    Finished,
}

/// One agent, and the dialogue with it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) state: AgentState,
    pub(super) agent_nonce: Nonce,
    pub(super) nonce: Nonce,
    pub(super) clock: ClockEstimator,
    pub(super) machine: Option<Machine>,
    pub(super) heard_us: u64,
    pub(super) counters: Counters,
    pub(super) deliveries: DeliveryCounts,
    /// It carries out a step of a search.
    pub(super) steps: bool,
}

impl Link {
    /// Takes a message of this agent that came at `now_us`.
    pub(super) fn on_message(
        &mut self,
        token: &str,
        agent: usize,
        message: ToController,
        now_us: u64,
        out: &mut Outbox,
        events: &mut Vec<Event>,
    ) -> Result<(), ProtocolError> {
        match (self.state, message) {
            (AgentState::AwaitChallenge, ToController::Challenge { protocol, nonce }) => {
                if protocol != PROTOCOL {
                    return Err(ProtocolError::Version { theirs: protocol });
                }
                self.agent_nonce = token::read_nonce(&nonce)
                    .ok_or_else(|| ProtocolError::Malformed("the nonce".into()))?;
                self.state = AgentState::AwaitWelcome;
                let proof = token::proof(token, Role::Controller, self.agent_nonce, self.nonce);
                out.push((
                    agent,
                    ToAgent::Hello {
                        protocol: PROTOCOL,
                        nonce: token::write_nonce(self.nonce),
                        proof,
                    },
                ));
            }
            (AgentState::AwaitWelcome, ToController::Welcome { proof, machine }) => {
                if !token::verify(token, Role::Agent, self.agent_nonce, self.nonce, &proof) {
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
            ) => self.on_probe(
                [sent_us, received_us, replied_us, now_us],
                agent,
                out,
                events,
            )?,
            (AgentState::Preparing, ToController::Ready) => self.state = AgentState::Ready,
            (AgentState::Running, ToController::Progress(progress)) => {
                self.counters = progress.counters.clone();
                self.deliveries = progress.deliveries;
                events.push(Event::Progress { agent, progress });
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
        events: &mut Vec<Event>,
    ) -> Result<(), ProtocolError> {
        self.clock
            .on_probe(sent_us, received_us, replied_us, returned_us);
        if self.clock.probes() < PROBES {
            out.push((
                agent,
                ToAgent::Probe {
                    sent_us: returned_us,
                },
            ));
            return Ok(());
        }
        let Some(estimate) = self.clock.estimate() else {
            return Err(ProtocolError::Malformed(
                "its clock runs backwards: no probe gave an offset".into(),
            ));
        };
        self.state = AgentState::Probed;
        events.push(Event::Clock { agent, estimate });
        Ok(())
    }
}
