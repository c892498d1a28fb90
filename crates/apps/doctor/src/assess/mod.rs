//! The judgement: a pure function from facts and a plan to a report.
//!
//! Owns: the order of checks and what they say together. The checks themselves live beside it,
//! by what they bound.
//!
//! Invariants
//! - `holds_connections` is the lowest `allows_connections` among checks of `CheckKind::Holds`.
//! - Only a check that warns or fails carries a fix: what is unknown may be well.

mod limit;
mod memory;
mod network;
mod traffic;

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{CheckKind, CheckStatus, Report};

use limit::Context;

/// Judges a machine. Touches nothing.
///
/// With `plan.connections` a limit below that number fails. Without it, limits are compared
/// with what memory would allow, and of those below that only the one that binds first is a
/// warning: the others matter once it is lifted, or once somebody names a number.
pub fn assess(machine: &Machine, plan: &Plan) -> Report {
    let context = Context {
        machine,
        plan,
        goal: plan
            .connections
            .unwrap_or_else(|| memory::reach(machine, plan)),
    };
    let mut checks = Vec::new();
    memory::check_descriptors(&context, &mut checks);
    network::check(&context, &mut checks);
    memory::check(&context, &mut checks);
    traffic::check(&context, &mut checks);
    traffic::check_queues(&context, &mut checks);
    // Unknown limits go behind known ones; the sort is stable, so ties keep the order above.
    checks.sort_by_key(|check| (check.kind, check.allows_connections.unwrap_or(u64::MAX)));
    let first = checks
        .iter()
        .position(|check| check.kind == CheckKind::Holds && check.allows_connections.is_some());
    for (place, check) in checks.iter_mut().enumerate() {
        if plan.connections.is_none() && check.status == CheckStatus::Warn && Some(place) != first {
            check.status = CheckStatus::Info;
        }
        if check.status < CheckStatus::Warn {
            check.fix.clear();
        }
    }
    let first = first.and_then(|place| checks.get(place));
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

#[cfg(test)]
mod tests;
