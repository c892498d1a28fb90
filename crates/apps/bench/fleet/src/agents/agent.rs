//! The agent's side of one controller's connection.

use super::codec::ProtocolError;
use super::messages::{Assignment, Nonce, PROTOCOL, Progress, Step, ToAgent, ToController};
use super::token::{self, Role};
use throng_bench_report::Machine;

/// What the agent is to do now.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Check the machine against this part and make it ready; then [`AgentSide::ready`] or
    /// [`AgentSide::cannot`].
    Prepare(Box<Assignment>),
    /// Begin when the agent's clock shows this.
    Start {
        /// µs on the agent's clock.
        at_us: u64,
        /// Subtract this from the agent's clock in every stamp and arrival, µs.
        offset_us: i64,
    },
    /// Try this rate; then [`AgentSide::step_done`].
    Step(Step),
    /// No rate is left to try: go on to the end.
    SearchOver,
    /// Drop all connections.
    DropAll,
    /// End; then report and [`AgentSide::done`].
    Stop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    AwaitHello,
    Idle,
    Preparing,
    Ready,
    Running,
    Stopping,
    Ended,
}

/// The agent's side. It serves one controller at a time; a new connection is a new `AgentSide`.
#[derive(Debug)]
pub struct AgentSide {
    token: String,
    machine: Machine,
    nonce: Nonce,
    state: State,
}

impl AgentSide {
    /// Greets a controller that has connected. `nonce` is random and used once.
    #[must_use]
    pub fn new(token: &str, machine: Machine, nonce: Nonce) -> (Self, ToController) {
        let side = Self {
            token: token.to_owned(),
            machine,
            nonce,
            state: State::AwaitHello,
        };
        let challenge = ToController::Challenge {
            protocol: PROTOCOL,
            nonce: token::write_nonce(nonce),
        };
        (side, challenge)
    }

    /// Takes a message that came at `now_us` of the agent's clock. Replies go to `out`. After an
    /// error, what is in `out` is still to be sent, then the connection is to be closed.
    pub fn on_message(
        &mut self,
        message: ToAgent,
        now_us: u64,
        out: &mut Vec<ToController>,
    ) -> Result<Option<Action>, ProtocolError> {
        match (self.state, message) {
            (
                State::AwaitHello,
                ToAgent::Hello {
                    protocol,
                    nonce,
                    proof,
                },
            ) => self.hello(protocol, &nonce, &proof, out).map(|()| None),
            (State::AwaitHello, _) => Err(ProtocolError::Unexpected("a message before the hello")),
            (_, ToAgent::Hello { .. }) => Err(ProtocolError::Unexpected("hello")),
            (_, ToAgent::Probe { sent_us }) => {
                out.push(ToController::ProbeReply {
                    sent_us,
                    received_us: now_us,
                    replied_us: now_us,
                });
                Ok(None)
            }
            (State::Idle, ToAgent::Assign(assignment)) => {
                if assignment.index >= assignment.agents {
                    return Err(ProtocolError::Malformed(
                        "the index of the part is not below their number".into(),
                    ));
                }
                self.state = State::Preparing;
                Ok(Some(Action::Prepare(assignment)))
            }
            (_, ToAgent::Assign(_)) => Err(ProtocolError::Unexpected("assign")),
            (State::Ready, ToAgent::Start { at_us, offset_us }) => {
                self.state = State::Running;
                Ok(Some(Action::Start { at_us, offset_us }))
            }
            (_, ToAgent::Start { .. }) => Err(ProtocolError::Unexpected("start")),
            (State::Running, ToAgent::Step(step)) => {
                let paces = step.per_s.is_finite() && step.per_s > 0.0;
                if !paces || step.end_us < step.begin_us {
                    return Err(ProtocolError::Malformed("the step".into()));
                }
                Ok(Some(Action::Step(step)))
            }
            (State::Running, ToAgent::SearchOver) => Ok(Some(Action::SearchOver)),
            // A search goes on for the others after this one was told to stop.
            (State::Stopping | State::Ended, ToAgent::Step(_) | ToAgent::SearchOver) => Ok(None),
            (_, ToAgent::Step(_) | ToAgent::SearchOver) => Err(ProtocolError::Unexpected("step")),
            (State::Running, ToAgent::DropAll) => Ok(Some(Action::DropAll)),
            // A storm that comes after the end has nothing left to drop.
            (State::Stopping | State::Ended, ToAgent::DropAll) => Ok(None),
            (_, ToAgent::DropAll) => Err(ProtocolError::Unexpected("drop_all")),
            (State::Stopping | State::Ended, ToAgent::Stop) => Ok(None),
            (_, ToAgent::Stop) => {
                self.state = State::Stopping;
                Ok(Some(Action::Stop))
            }
        }
    }

    fn hello(
        &mut self,
        protocol: u32,
        nonce: &str,
        proof: &str,
        out: &mut Vec<ToController>,
    ) -> Result<(), ProtocolError> {
        let refuse = |error: ProtocolError, reason: &str, out: &mut Vec<ToController>| {
            out.push(ToController::Refused {
                reason: reason.to_owned(),
            });
            Err(error)
        };
        if protocol != PROTOCOL {
            let reason = format!("this agent speaks version {PROTOCOL} of the protocol");
            return refuse(ProtocolError::Version { theirs: protocol }, &reason, out);
        }
        let Some(theirs) = token::read_nonce(nonce) else {
            return refuse(
                ProtocolError::Malformed("the nonce".into()),
                "the nonce is malformed",
                out,
            );
        };
        if !token::verify(&self.token, Role::Controller, self.nonce, theirs, proof) {
            return refuse(ProtocolError::WrongToken, "the token is wrong", out);
        }
        out.push(ToController::Welcome {
            proof: token::proof(&self.token, Role::Agent, self.nonce, theirs),
            machine: self.machine.clone(),
        });
        self.state = State::Idle;
        Ok(())
    }

    /// Says that the assignment is prepared. Nothing if none is being prepared.
    pub fn ready(&mut self) -> Option<ToController> {
        (self.state == State::Preparing).then(|| {
            self.state = State::Ready;
            ToController::Ready
        })
    }

    /// Says that the assignment cannot be carried out here.
    pub fn cannot(&mut self, reason: &str) -> Option<ToController> {
        (self.state == State::Preparing).then(|| {
            self.state = State::Ended;
            ToController::Cannot {
                reason: reason.to_owned(),
            }
        })
    }

    /// Reports an interval while there is a run.
    #[must_use]
    pub fn progress(&self, progress: Box<Progress>) -> Option<ToController> {
        matches!(self.state, State::Running | State::Stopping)
            .then_some(ToController::Progress(progress))
    }

    /// Says that a step has been carried out and reported.
    #[must_use]
    pub fn step_done(&self) -> Option<ToController> {
        matches!(self.state, State::Running | State::Stopping).then_some(ToController::StepDone)
    }

    /// Ends the run, once.
    pub fn done(&mut self) -> Option<ToController> {
        matches!(self.state, State::Running | State::Stopping).then(|| {
            self.state = State::Ended;
            ToController::Done
        })
    }
}
