//! Context of all checks: the machine and the plan that they judge.

use std::fmt::Display;

use throng_types::units::grouped;

use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{CheckStatus, Fix, LimitCheck};

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

    /// Begins the check of a limit that allows so many connections.
    pub(super) fn check(&self, id: &str, allows: Option<u64>) -> LimitCheck {
        LimitCheck {
            status: self.status(allows),
            allows_connections: allows,
            ..LimitCheck::of(id)
        }
    }

    /// Case in which fixes differ: in a container, or on a bare machine.
    pub(super) const fn place(&self) -> &'static str {
        match self.machine.container {
            true => "container",
            false => "bare",
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

/// Status of a value that should be `needed`. Warns, and never fails: idle connections hold no
/// buffers.
pub(super) fn short_of(needed: u64, value: Option<u64>) -> CheckStatus {
    match value {
        None => CheckStatus::Unknown,
        Some(value) if value < needed => CheckStatus::Warn,
        Some(_) => CheckStatus::Ok,
    }
}

/// Check of a setting that is one number and should be `needed`.
pub(super) fn setting(id: &str, value: Option<u64>, needed: u64) -> LimitCheck {
    let target = round_up(needed);
    LimitCheck {
        current: value.map(grouped),
        needed: Some(grouped(needed)),
        status: short_of(needed, value),
        fix: fixes(id, &[], &[("needed", &needed), ("target", &target)]),
        ..LimitCheck::of(id)
    }
}

/// Lists the ways to lift a limit: its rows in `fixes.txt` that hold always or in one of the
/// `cases` at hand, with `values` for the words in braces.
pub(super) fn fixes(id: &str, cases: &[&str], values: &[(&str, &dyn Display)]) -> Vec<Fix> {
    let fill = |line: &str| {
        values.iter().fold(line.to_owned(), |line, (name, value)| {
            line.replace(&format!("{{{name}}}"), &value.to_string())
        })
    };
    let fix = |row: &'static str| {
        let [limits, case, kind, line] = row.split(" | ").collect::<Vec<_>>()[..] else {
            return None;
        };
        let is_its = limits.split(' ').any(|limit| limit == id);
        if !is_its || !(case == "always" || cases.contains(&case)) {
            return None;
        }
        let line = fill(line);
        Some(match kind.split_once(' ').unwrap_or((kind, "")) {
            ("host", key) => Fix::host(key, line),
            ("namespace", key) => Fix::namespace(key, line),
            ("unit", _) => Fix::Unit(line),
            ("nofile", _) => Fix::Nofile(line.parse().unwrap_or_default()),
            ("command", _) => Fix::Command(line),
            _ => Fix::Advice(line),
        })
    };
    include_str!("../fixes.txt")
        .lines()
        .filter_map(fix)
        .collect()
}
