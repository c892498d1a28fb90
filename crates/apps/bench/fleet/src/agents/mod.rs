//! Protocol between a controller and its agents: one run on many machines.
//!
//! Owns: the messages, their encoding, the proof of the token, the estimate of each agent's clock,
//! and both sides as state machines. Never: a socket, a clock, a source of randomness; time and
//! nonces are arguments.
//!
//! ```text
//! agent       → Challenge (nonce)
//! controller  → Hello (its nonce, proof of the token)
//! agent       → Welcome (proof of the token, its machine)     or Refused
//! controller  → Probe × 16                                    ← ProbeReply each
//! controller  → Assign (scenario, its part)
//! agent       → Ready                                         or Cannot
//! controller  → Start (when, on the agent's own clock)        after all are ready
//! agent       → Progress each interval
//! controller  → Step, again and again, then SearchOver   where a rate is searched; ← StepDone each
//! controller  → Stop
//! agent       → Done
//! ```
//!
//! Invariants
//! - Without the token a peer neither learns it nor starts a load: both sides prove it over both
//!   nonces.
//! - An agent that is lost is counted, and the run goes on with the others.

mod agent;
mod controller;
mod messages;

pub(crate) use agent::AgentSide;
pub(crate) use controller::{Controller, ControllerEvent};
pub(crate) use messages::{
    Assignment, Nonce, Progress, ProtocolError, RateStep, ToAgent, ToController, decode, encode,
};
