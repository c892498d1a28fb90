//! Messages of the protocol. JSON, so that an older side can say what it did not understand.

use serde::{Deserialize, Serialize};

use throng_bench_measure::{Counters, DeliveryCounts, Histograms, Sample, Sums};
use throng_bench_plan::Scenario;
use throng_bench_report::MachineInfo;

/// Version of the protocol; both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// Random 128 bits, written as hexadecimal digits.
pub type Nonce = u128;

/// Message of the controller to an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    /// Answers the agent's challenge.
    Hello {
        /// Value of [`PROTOCOL`] at the sender.
        protocol: u32,
        /// Challenge of the controller itself.
        nonce: String,
        /// Proof of the controller's token.
        proof: String,
    },
    /// Asks for the agent's clock.
    Probe {
        /// Controller's clock when it was sent, µs.
        sent_us: u64,
    },
    Assign(Box<Assignment>),
    Start {
        /// Agent's clock at the run's zero, µs.
        at_us: u64,
        /// Agent's clock minus the controller's, to subtract from every stamp, µs.
        offset_us: i64,
    },
    Step(RateStep),
    SearchOver,
    /// Drops all connections: a storm begins.
    DropAll,
    /// Ends the run early; the agent still reports.
    Stop,
}

/// Message of an agent to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToController {
    Challenge {
        /// Value of [`PROTOCOL`] at the sender.
        protocol: u32,
        nonce: String,
    },
    /// Accepts the controller's token.
    Welcome {
        /// Proof of the agent's token.
        proof: String,
        machine: MachineInfo,
    },
    Refused {
        /// Sentence that says what to change.
        reason: String,
    },
    /// Answers a probe with the agent's clock.
    ProbeReply {
        sent_us: u64,
        /// Agent's clock when the probe came, µs.
        received_us: u64,
        /// Agent's clock when this left, µs.
        replied_us: u64,
    },
    /// Reports that the assignment is prepared.
    Ready,
    /// Reports that the assignment cannot be carried out on this machine.
    Cannot {
        /// Limit that binds, in a sentence.
        reason: String,
    },
    Progress(Box<Progress>),
    /// Ends a step; the progress before this has all of its deliveries.
    StepDone,
    Done,
}

/// Share of an agent in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    pub scenario: Scenario,
    /// Number of the part: every event whose number modulo `agents` is this.
    pub index: u32,
    pub agents: u32,
}

/// Rate of a search to try. Its times are those of the controller's clock, which an agent reads
/// from its own once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateStep {
    /// Publications a second of all agents together.
    pub per_s: f64,
    pub begin_us: u64,
    /// Time from which none is due, µs.
    pub end_us: u64,
}

/// Report of an agent on an interval. Counts are totals so far, histograms are of the
/// interval, so that a lost agent's figures stay right up to its last report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    pub sample: Sample,
    /// Connections and publications so far.
    pub counters: Counters,
    pub deliveries: DeliveryCounts,
    #[serde(flatten)]
    pub interval: Histograms,
    pub sums: Sums,
}
