//! Run from a scenario to its results, on this machine or on several.
//!
//! Owns: the threads of a run, its course (ramp, warm-up, hold, drain), one row of figures a
//! second, the search for a rate, the observation of the server, and the agents on other machines:
//! their protocol and both of its sides ([`agents`]).
//!
//! Never: prints, or writes a file. An `Observer` sees a run while it goes on. Nothing here uses a
//! hub, a session or a server of ours: the generator shares no code with the server except the wire
//! formats and the reactor.

pub mod agents;
mod run;

pub use run::{
    AGENT_PORT, AgentOptions, AgentTls, ControllerTls, Finished, FleetError, RunOptions, TlsError,
    WatchServer, run_observed, run_on_agents, run_scenario, serve_agent,
};
