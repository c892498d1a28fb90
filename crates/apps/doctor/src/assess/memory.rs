//! Memory: the machine's, and that of the control group.

use super::limit::Context;
use crate::machine::Machine;
use crate::plan::Plan;
use crate::report::{CheckStatus, Fix, LimitCheck};
use crate::text::bytes;

/// Connections to judge against when not even memory is known.
const GOAL_UNKNOWN: u64 = 1_000_000;

/// Least memory that stays free for everything else.
const RESERVE_BYTES_MIN: u64 = 64 << 20;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    checks.push(available(context));
    checks.extend(group(context));
}

/// Number of connections that memory alone would allow: the goal when no number is asked for.
pub(super) fn reach(machine: &Machine, plan: &Plan) -> u64 {
    let group = machine.group.as_ref().map(|group| group.free_bytes());
    let free = [machine.memory_available_bytes, group]
        .into_iter()
        .flatten()
        .min();
    free.map_or(GOAL_UNKNOWN, |free| fitting(free, plan))
}

/// Connections that fit into `free` bytes, with a fiftieth of it left for everything else.
fn fitting(free: u64, plan: &Plan) -> u64 {
    free.saturating_sub(reserve(free)) / plan.connection_bytes()
}

fn reserve(free: u64) -> u64 {
    (free / 50).max(RESERVE_BYTES_MIN)
}

fn needed(context: &Context<'_>) -> u64 {
    context.goal.saturating_mul(context.plan.connection_bytes())
}

fn available(context: &Context<'_>) -> LimitCheck {
    let (machine, plan) = (context.machine, context.plan);
    let allowed = machine
        .memory_available_bytes
        .map(|free| fitting(free, plan));
    let ends = if plan.role.ends() == 2 {
        "both its ends"
    } else {
        "its end"
    };
    let mut why = format!(
        "an idle connection takes {} bytes here, kernel and process, {ends} counted",
        plan.connection_bytes()
    );
    if plan.role.ends() == 2 {
        why.push_str("; clients on another machine would halve that");
    }
    LimitCheck {
        current: machine
            .memory_available_bytes
            .map(|free| match machine.memory_total_bytes {
                Some(total) => format!("{} of {}", bytes(free), bytes(total)),
                None => bytes(free),
            }),
        needed: Some(bytes(needed(context))),
        status: context.status(allowed),
        allows_connections: allowed,
        why,
        fix: vec![Fix::Advice(format!(
            "free or add memory: {} connections take {}",
            throng_types::units::grouped(context.goal),
            bytes(needed(context))
        ))],
        ..LimitCheck::of("MemAvailable")
    }
}

/// Silent where no group sets a limit.
fn group(context: &Context<'_>) -> Option<LimitCheck> {
    let group = context.machine.group.as_ref()?;
    let allowed = Some(fitting(group.free_bytes(), context.plan));
    let status = context.status(allowed);
    // Room for the goal, what is used already and the reserve, in whole mebibytes.
    let bare = needed(context).saturating_add(group.used_bytes);
    let target = bare
        .saturating_add(reserve(bare).saturating_mul(2))
        .div_ceil(1 << 20);
    let mut fix = vec![Fix::Unit(format!("MemoryMax={target}M"))];
    if context.machine.container {
        fix.push(Fix::Command(format!("docker run --memory={target}m ...")));
    }
    if status == CheckStatus::Ok {
        fix.clear();
    }
    let check = LimitCheck {
        current: Some(format!(
            "{} ({} in use) at {}",
            bytes(group.limit_bytes),
            bytes(group.used_bytes),
            group.path
        )),
        needed: Some(bytes(bare)),
        status,
        allows_connections: allowed,
        fix,
        ..LimitCheck::of(group.file)
    };
    Some(check)
}
