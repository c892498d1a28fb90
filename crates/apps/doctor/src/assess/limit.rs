//! What the checks share: the machine and the plan that they judge, and what a check says.

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{Check, Fix, Kind, Status};

/// From here on a reconnect storm is large enough to want the longer backlog.
pub(super) const MANY: u64 = 100_000;

/// What every check looks at.
pub(super) struct Context<'a> {
    pub(super) machine: &'a Machine,
    pub(super) plan: &'a Plan,
    /// Connections to judge against.
    pub(super) goal: u64,
}

impl Context<'_> {
    /// The status of a limit that lets `allows` connections live.
    pub(super) fn status(&self, allows: Option<u64>) -> Status {
        match allows {
            None => Status::Unknown,
            Some(allows) if self.goal <= allows => Status::Ok,
            Some(_) if self.plan.connections.is_some() => Status::Fail,
            Some(_) => Status::Warn,
        }
    }

    /// Ends of connections on this machine at the goal.
    pub(super) fn ends(&self) -> u64 {
        self.goal.saturating_mul(self.plan.role.ends())
    }

    pub(super) fn processes(&self) -> u64 {
        self.plan.processes.max(1)
    }
}

/// What a check is, apart from how it came out.
pub(super) struct Limit {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    pub(super) cost: &'static str,
}

/// How a check came out.
pub(super) struct Finding {
    pub(super) current: Option<String>,
    pub(super) needed: Option<String>,
    pub(super) allows: Option<u64>,
    pub(super) status: Status,
    pub(super) why: String,
    pub(super) fix: Vec<Fix>,
}

impl Limit {
    pub(super) fn found(self, finding: Finding) -> Check {
        Check {
            id: self.id,
            title: self.title,
            kind: self.kind,
            current: finding.current,
            needed: finding.needed,
            allows_connections: finding.allows,
            status: finding.status,
            why: finding.why,
            cost: self.cost,
            fix: finding.fix,
        }
    }
}

/// A limit as people set it: the next power of two, and never less than the usual default.
pub(super) fn round_up(needed: u64) -> u64 {
    const USUAL: u64 = 65_536;
    needed
        .max(USUAL)
        .checked_next_power_of_two()
        .unwrap_or(needed)
}

/// A warning, never a failure: idle connections hold no buffers.
pub(super) const fn short(is_short: bool) -> Status {
    if is_short { Status::Warn } else { Status::Ok }
}
