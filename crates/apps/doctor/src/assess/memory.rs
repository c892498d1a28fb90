//! What connections take: memory, of the machine and of the control group; and descriptors.

use throng_types::units::grouped;

use super::limit::{Context, fixes, round_up};
use crate::machine::Machine;
use crate::plan::{Plan, Role};
use crate::report::{CheckStatus, LimitCheck};
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
        why,
        fix: fixes(
            "MemAvailable",
            &[],
            &[
                ("connections", &grouped(context.goal)),
                ("bytes", &bytes(needed(context))),
            ],
        ),
        ..context.check("MemAvailable", allowed)
    }
}

/// Silent where no group sets a limit.
fn group(context: &Context<'_>) -> Option<LimitCheck> {
    let group = context.machine.group.as_ref()?;
    let check = context.check(group.file, Some(fitting(group.free_bytes(), context.plan)));
    // Room for the goal, what is used already and the reserve, in whole mebibytes.
    let bare = needed(context).saturating_add(group.used_bytes);
    let target = bare
        .saturating_add(reserve(bare).saturating_mul(2))
        .div_ceil(1 << 20);
    let fix = match check.status {
        CheckStatus::Ok => Vec::new(),
        _ => fixes(group.file, &[context.place()], &[("mebibytes", &target)]),
    };
    Some(LimitCheck {
        current: Some(format!(
            "{} ({} in use) at {}",
            bytes(group.limit_bytes),
            bytes(group.used_bytes),
            group.path
        )),
        needed: Some(bytes(bare)),
        fix,
        ..check
    })
}

/// Descriptors a process needs beside its connections: listeners, epoll, logs, peers.
const OWN: u64 = 128;

/// Files the rest of the machine may still want to open.
const OTHERS: u64 = 4_096;

pub(super) fn check_descriptors(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    checks.extend([
        nofile(context),
        nr_open(context),
        file_max(context),
        watches(context),
    ]);
}

/// Processes that share the accepted or opened connections. Where both ends live here the limit
/// must do for the server, and that is one process, however many the clients are.
fn sharing(context: &Context<'_>) -> u64 {
    match context.plan.role {
        Role::Both => 1,
        Role::Server | Role::Loadgen => context.processes(),
    }
}

/// Descriptors the process with the most connections needs for the goal.
fn descriptors(context: &Context<'_>) -> u64 {
    context.goal.div_ceil(sharing(context)).saturating_add(OWN)
}

/// Number of connections that a limit per process allows.
fn allows(context: &Context<'_>, limit: u64) -> u64 {
    limit.saturating_sub(OWN).saturating_mul(sharing(context))
}

/// Throng raises its soft limit to the hard one by itself, so the hard one counts.
fn nofile(context: &Context<'_>) -> LimitCheck {
    let limit = context.machine.nofile;
    let allowed = limit.map(|limit| allows(context, limit.hard));
    LimitCheck {
        current: limit.map(|limit| match (limit.soft, limit.hard) {
            (soft, hard) if soft == hard => grouped_limit(hard),
            (soft, hard) => format!("soft {}, hard {}", grouped_limit(soft), grouped_limit(hard)),
        }),
        needed: Some(grouped(descriptors(context))),
        fix: fixes(
            "nofile",
            &[context.place()],
            &[("target", &nofile_target(context))],
        ),
        ..context.check("nofile", allowed)
    }
}

/// Above `nr_open` the kernel refuses the limit; where `nr_open` itself is too low, its own
/// check raises it to the same number.
fn nofile_target(context: &Context<'_>) -> u64 {
    let (needed, target) = (descriptors(context), round_up(descriptors(context)));
    match context.machine.nr_open {
        Some(ceiling) if needed <= ceiling => target.min(ceiling),
        _ => target,
    }
}

fn nr_open(context: &Context<'_>) -> LimitCheck {
    let limit = context.machine.nr_open;
    let allowed = limit.map(|limit| allows(context, limit));
    LimitCheck {
        current: limit.map(grouped),
        needed: Some(grouped(descriptors(context))),
        fix: fixes(
            "nr_open",
            &[],
            &[("target", &round_up(descriptors(context)))],
        ),
        ..context.check("nr_open", allowed)
    }
}

fn file_max(context: &Context<'_>) -> LimitCheck {
    let machine = context.machine;
    let ends = context.plan.role.ends();
    // What is allocated now is the rest of the machine.
    let others = machine.file_allocated.unwrap_or(0).max(OTHERS);
    let needed = context.ends().saturating_add(others);
    let allowed = machine
        .file_max
        .map(|max| max.saturating_sub(others) / ends);
    LimitCheck {
        current: machine.file_max.map(|max| match machine.file_allocated {
            Some(now) => format!("{} ({} in use)", grouped_limit(max), grouped(now)),
            None => grouped_limit(max),
        }),
        needed: Some(grouped(needed)),
        fix: fixes("file-max", &[], &[("target", &round_up(needed))]),
        ..context.check("file-max", allowed)
    }
}

fn watches(context: &Context<'_>) -> LimitCheck {
    let limit = context.machine.epoll_watches_max;
    let allowed = limit.map(|limit| limit.saturating_sub(OWN) / context.plan.role.ends());
    let needed = context.ends().saturating_add(OWN);
    LimitCheck {
        current: limit.map(grouped),
        needed: Some(grouped(needed)),
        fix: fixes("max_user_watches", &[], &[("target", &round_up(needed))]),
        ..context.check("max_user_watches", allowed)
    }
}

/// Kernels write "no limit" as one of several very large numbers.
fn grouped_limit(limit: u64) -> String {
    if (1 << 62) <= limit {
        String::from("unlimited")
    } else {
        grouped(limit)
    }
}
