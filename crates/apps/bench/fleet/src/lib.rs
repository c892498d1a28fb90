//! A run from a scenario to its results, on this machine or on several.
//!
//! Owns: the threads of a run, its course (ramp, warm-up, hold, drain), one row of figures a
//! second, the search for a rate, what is seen of the server, and the agents on other machines:
//! their protocol and both of its sides ([`agents`]).
//!
//! Never: prints, or writes a file. Whoever wants to see a run while it goes on hands in an
//! `Observer`. Nothing here uses a hub, a session or a server of ours: the generator shares no code
//! with what it measures except the wire formats and the reactor.

pub mod agents;
mod run;

pub use run::{
    AGENT_PORT, AgentOptions, AgentTls, ControllerTls, Finished, FleetError, RunOptions, TlsError,
    Watch, run_observed, run_on_agents, run_scenario, serve_agent,
};
