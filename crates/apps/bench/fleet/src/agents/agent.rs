//! Agent's side of the connection with a controller.

use throng_bench_report::MachineInfo;

use super::messages::{self, Side};
use super::messages::{Nonce, PROTOCOL, ProtocolError, ToAgent, ToController};

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

/// Agent's side of one connection; a new connection is a new `AgentSide`.
#[derive(Debug)]
pub(crate) struct AgentSide {
    token: String,
    machine: MachineInfo,
    nonce: Nonce,
    state: State,
}

impl AgentSide {
    /// Challenges a controller that has connected. `nonce` is random and used once.
    pub(crate) fn new(token: &str, machine: MachineInfo, nonce: Nonce) -> (Self, ToController) {
        let side = Self {
            token: token.to_owned(),
            machine,
            nonce,
            state: State::AwaitHello,
        };
        let challenge = ToController::Challenge {
            protocol: PROTOCOL,
            nonce: messages::write_nonce(nonce),
        };
        (side, challenge)
    }

    /// Takes a message that came at `now_us` of the agent's clock, and returns it if it is a
    /// command to carry out: `Assign`, `Start`, `Step`, `SearchOver` or `Stop`; the
    /// outcome goes back by [`AgentSide::report`]. Replies go to `out`; after an error they are
    /// still to be sent, then the connection is to be closed.
    pub(crate) fn on_message(
        &mut self,
        message: ToAgent,
        now_us: u64,
        out: &mut Vec<ToController>,
    ) -> Result<Option<ToAgent>, ProtocolError> {
        match (self.state, &message) {
            (
                State::AwaitHello,
                ToAgent::Hello {
                    protocol,
                    nonce,
                    proof,
                },
            ) => {
                return self.hello(*protocol, nonce, proof, out).map(|()| None);
            }
            (State::AwaitHello, _) => {
                return Err(ProtocolError::Unexpected("a message before the hello"));
            }
            (_, ToAgent::Hello { .. }) => return Err(ProtocolError::Unexpected("hello")),
            (_, &ToAgent::Probe { sent_us }) => {
                out.push(ToController::ProbeReply {
                    sent_us,
                    received_us: now_us,
                    replied_us: now_us,
                });
                return Ok(None);
            }
            (State::Idle, ToAgent::Assign(assignment)) => {
                if assignment.index >= assignment.agents {
                    let why = "the index of the part is not below their number";
                    return Err(ProtocolError::Malformed(why.into()));
                }
                self.state = State::Preparing;
            }
            (_, ToAgent::Assign(_)) => return Err(ProtocolError::Unexpected("assign")),
            (State::Ready, ToAgent::Start { .. }) => self.state = State::Running,
            (_, ToAgent::Start { .. }) => return Err(ProtocolError::Unexpected("start")),
            (State::Running, ToAgent::Step(step)) => {
                let paces = step.per_s.is_finite() && step.per_s > 0.0;
                if !paces || step.end_us < step.begin_us {
                    return Err(ProtocolError::Malformed("the step".into()));
                }
            }
            (State::Running, ToAgent::SearchOver) => {}
            // The run goes on for the others after this one was told to stop.
            (
                State::Stopping | State::Ended,
                ToAgent::Step(_) | ToAgent::SearchOver | ToAgent::Stop,
            ) => return Ok(None),
            (_, ToAgent::Step(_) | ToAgent::SearchOver) => {
                return Err(ProtocolError::Unexpected("step"));
            }
            (_, ToAgent::Stop) => self.state = State::Stopping,
        }
        Ok(Some(message))
    }

    fn hello(
        &mut self,
        protocol: u32,
        nonce: &str,
        proof: &str,
        out: &mut Vec<ToController>,
    ) -> Result<(), ProtocolError> {
        let mut refuse = |error: ProtocolError, reason: &str| {
            let reason = reason.to_owned();
            out.push(ToController::Refused { reason });
            Err(error)
        };
        if protocol != PROTOCOL {
            let reason = format!("this agent speaks version {PROTOCOL} of the protocol");
            return refuse(ProtocolError::Version(protocol), &reason);
        }
        let Some(theirs) = messages::read_nonce(nonce) else {
            let error = ProtocolError::Malformed("the nonce".into());
            return refuse(error, "the nonce is malformed");
        };
        if !messages::verify(&self.token, Side::Controller, self.nonce, theirs, proof) {
            return refuse(ProtocolError::WrongToken, "the token is wrong");
        }
        out.push(ToController::Welcome {
            proof: messages::proof(&self.token, Side::Agent, self.nonce, theirs),
            machine: self.machine.clone(),
        });
        self.state = State::Idle;
        Ok(())
    }

    /// Returns a report of the run to send, if its time is now: `Ready` or `Cannot` of an
    /// assignment, then `Progress`, `StepDone` and `Done`.
    pub(crate) fn report(&mut self, message: ToController) -> Option<ToController> {
        let runs = matches!(self.state, State::Running | State::Stopping);
        self.state = match (&message, self.state) {
            (ToController::Ready, State::Preparing) => State::Ready,
            (ToController::Cannot { .. }, State::Preparing) => State::Ended,
            (ToController::Progress(_) | ToController::StepDone, state) if runs => state,
            (ToController::Done, _) if runs => State::Ended,
            _ => return None,
        };
        Some(message)
    }
}
