//! Context of all checks: the machine and the plan that they judge.

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::CheckStatus;

/// Number of connections from which a reconnect storm wants the longer backlog.
pub(super) const MANY: u64 = 100_000;

/// Machine and plan that every check judges.
pub(super) struct Context<'a> {
    pub(super) machine: &'a Machine,
    pub(super) plan: &'a Plan,
    /// Number of connections to judge against.
    pub(super) goal: u64,
}

impl Context<'_> {
    /// Status of a limit that allows so many connections.
    pub(super) fn status(&self, allows: Option<u64>) -> CheckStatus {
        match allows {
            None => CheckStatus::Unknown,
            Some(allows) if self.goal <= allows => CheckStatus::Ok,
            Some(_) if self.plan.connections.is_some() => CheckStatus::Fail,
            Some(_) => CheckStatus::Warn,
        }
    }

    /// Number of connection ends on this machine at the goal.
    pub(super) fn ends(&self) -> u64 {
        self.goal.saturating_mul(self.plan.role.ends())
    }

    pub(super) fn processes(&self) -> u64 {
        self.plan.processes.max(1)
    }
}

/// Rounds a limit as people set it: the next power of two, and never less than the usual default.
pub(super) fn round_up(needed: u64) -> u64 {
    const USUAL: u64 = 65_536;
    needed
        .max(USUAL)
        .checked_next_power_of_two()
        .unwrap_or(needed)
}

/// Warns, and never fails: idle connections hold no buffers.
pub(super) const fn short(is_short: bool) -> CheckStatus {
    if is_short {
        CheckStatus::Warn
    } else {
        CheckStatus::Ok
    }
}
