//! The messages. JSON, so that an older side can say what it did not understand.

use serde::{Deserialize, Serialize};

use throng_bench_measure::{Counters, DeliveryCounts, Latency, Sample, Sums, as_base64};
use throng_bench_plan::Scenario;
use throng_bench_report::Machine;

/// The version of the protocol; both sides must have the same.
pub const PROTOCOL: u32 = 2;

/// 128 random bits, written as hexadecimal digits.
pub type Nonce = u128;

/// From the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToAgent {
    /// Answers the challenge.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The controller's own challenge.
        nonce: String,
        /// Proof of the token.
        proof: String,
    },
    /// Asks for the time.
    Probe {
        /// The controller's clock when it was sent, µs.
        sent_us: u64,
    },
    /// Says what to do.
    Assign(Box<Assignment>),
    /// Says when, on the agent's clock.
    Start {
        /// The agent's clock at the run's zero, µs.
        at_us: u64,
        /// The agent's clock minus the controller's: subtract it from every stamp, µs.
        offset_us: i64,
    },
    /// In a search for a rate: the next one to try.
    Step(Step),
    /// There is no rate left to try.
    SearchOver,
    /// Drops all connections: a storm begins.
    DropAll,
    /// Ends the run early; the agent still reports.
    Stop,
}

/// From an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToController {
    /// The first message.
    Challenge {
        /// [`PROTOCOL`].
        protocol: u32,
        /// What the proof must cover.
        nonce: String,
    },
    /// The token is right.
    Welcome {
        /// The agent's own proof.
        proof: String,
        /// Where it runs.
        machine: Machine,
    },
    /// Not like this.
    Refused {
        /// What the controller must change.
        reason: String,
    },
    /// The time.
    ProbeReply {
        /// From the probe.
        sent_us: u64,
        /// The agent's clock when the probe came, µs.
        received_us: u64,
        /// The agent's clock when this left, µs.
        replied_us: u64,
    },
    /// The assignment is prepared.
    Ready,
    /// The assignment cannot be carried out on this machine.
    Cannot {
        /// Why: the limit that binds.
        reason: String,
    },
    /// An interval.
    Progress(Box<Progress>),
    /// The step's publications have come or are missing, and the progress before this has all of
    /// it.
    StepDone,
    /// The end, after the last progress.
    Done,
}

/// An agent's part of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// The whole scenario.
    pub scenario: Scenario,
    /// This agent takes every event whose number modulo `agents` is this.
    pub index: u32,
    /// How many agents there are.
    pub agents: u32,
}

/// One rate of a search. Its times are those of the controller's clock, which an agent reads from
/// its own once it is started.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Publications a second, all agents together.
    pub per_s: f64,
    /// When the first is due, µs.
    pub begin_us: u64,
    /// None is due from here on, µs.
    pub end_us: u64,
}

/// What happened on an agent in an interval. Counts are totals so far, histograms are of the
/// interval, so that a lost agent's figures stay right up to its last report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// The interval's row.
    pub sample: Sample,
    /// Counts so far.
    pub counters: Counters,
    /// Deliveries so far.
    pub deliveries: DeliveryCounts,
    /// Latencies of the interval.
    #[serde(with = "as_base64")]
    pub delivery: Latency,
    /// Times to be usable in the interval.
    #[serde(with = "as_base64")]
    pub connect: Latency,
    /// Lag of the interval.
    #[serde(with = "as_base64")]
    pub lag: Latency,
    /// What else is summed up so far.
    pub sums: Sums,
}

impl PartialEq for Progress {
    fn eq(&self, other: &Self) -> bool {
        // Histograms are equal when their figures are.
        self.sample == other.sample
            && self.counters == other.counters
            && self.deliveries == other.deliveries
            && self.delivery.summary() == other.delivery.summary()
            && self.connect.summary() == other.connect.summary()
            && self.lag.summary() == other.lag.summary()
            && self.sums == other.sums
    }
}
