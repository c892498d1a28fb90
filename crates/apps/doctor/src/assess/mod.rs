//! The judgement: a pure function from facts and a plan to a report.
//!
//! Owns: the order of checks and what they say together. The checks themselves live beside it,
//! by what they bound.
//!
//! Invariants
//! - `holds_connections` is the lowest `allows_connections` among checks of `Kind::Holds`.
//! - Only a check that warns or fails carries a fix: what is unknown may be well.

mod descriptors;
mod memory;
mod network;
mod queues;
mod traffic;

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{Check, Fix, Kind, Report, Status};

/// Judges a machine. Touches nothing.
///
/// With `plan.connections` a limit below that number fails. Without it, limits are compared
/// with what memory would allow, and one below that is a warning.
#[must_use]
pub fn assess(machine: &Machine, plan: &Plan) -> Report {
    let context = Context {
        machine,
        plan,
        goal: plan
            .connections
            .unwrap_or_else(|| memory::reach(machine, plan)),
    };
    let mut checks = Vec::new();
    descriptors::check(&context, &mut checks);
    network::check(&context, &mut checks);
    memory::check(&context, &mut checks);
    traffic::check(&context, &mut checks);
    queues::check(&context, &mut checks);
    // Unknown limits go behind known ones; the sort is stable, so ties keep the order above.
    checks.sort_by_key(|check| (check.kind, check.allows_connections.unwrap_or(u64::MAX)));
    for check in &mut checks {
        if check.status < Status::Warn {
            check.fix.clear();
        }
    }
    let first = checks
        .iter()
        .find(|check| check.kind == Kind::Holds && check.allows_connections.is_some());
    Report {
        role: plan.role,
        connections: plan.connections,
        goal: context.goal,
        connection_bytes: plan.connection_bytes(),
        container: machine.container,
        holds_connections: first.and_then(|check| check.allows_connections),
        binds_first: first.map(|check| check.id),
        checks,
    }
}

/// What every check looks at.
struct Context<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    /// Connections to judge against.
    goal: u64,
}

impl Context<'_> {
    /// The status of a limit that lets `allows` connections live.
    fn status(&self, allows: Option<u64>) -> Status {
        match allows {
            None => Status::Unknown,
            Some(allows) if self.goal <= allows => Status::Ok,
            Some(_) if self.plan.connections.is_some() => Status::Fail,
            Some(_) => Status::Warn,
        }
    }

    /// Ends of connections on this machine at the goal.
    fn ends(&self) -> u64 {
        self.goal.saturating_mul(self.plan.role.ends())
    }

    fn processes(&self) -> u64 {
        self.plan.processes.max(1)
    }
}

/// What a check is, apart from how it came out.
struct Limit {
    id: &'static str,
    title: &'static str,
    kind: Kind,
    cost: &'static str,
}

/// How a check came out.
struct Finding {
    current: Option<String>,
    needed: Option<String>,
    allows: Option<u64>,
    status: Status,
    why: String,
    fix: Vec<Fix>,
}

impl Limit {
    fn found(self, finding: Finding) -> Check {
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
fn round_up(needed: u64) -> u64 {
    const USUAL: u64 = 65_536;
    needed
        .max(USUAL)
        .checked_next_power_of_two()
        .unwrap_or(needed)
}

#[cfg(test)]
mod tests;
