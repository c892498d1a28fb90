//! Descriptors: `nofile`, `nr_open`, `file-max`, `max_user_watches`.

use super::limit::{Context, round_up};
use crate::plan::Role;
use crate::report::{Fix, LimitCheck};
use throng_types::units::grouped;

/// Descriptors a process needs beside its connections: listeners, epoll, logs, peers.
const OWN: u64 = 128;

/// Files the rest of the machine may still want to open.
const OTHERS: u64 = 4_096;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
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
fn needed(context: &Context<'_>) -> u64 {
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
    let target = nofile_target(context);
    let mut fix = vec![
        Fix::Unit(format!("LimitNOFILE={target}")),
        Fix::Nofile(target),
        Fix::Command(format!(
            "prlimit --pid PID --nofile={target}:{target}   # root: a process that runs already"
        )),
    ];
    if context.machine.container {
        let line = format!("docker run --ulimit nofile={target}:{target} ...");
        fix.insert(0, Fix::Command(line));
    } else {
        fix.push(Fix::Command(format!(
            "echo '* - nofile {target}' > /etc/security/limits.d/60-throng.conf   # later \
                 logins; not root, not services"
        )));
    }
    LimitCheck {
        current: limit.map(|limit| match (limit.soft, limit.hard) {
            (soft, hard) if soft == hard => grouped_limit(hard),
            (soft, hard) => format!("soft {}, hard {}", grouped_limit(soft), grouped_limit(hard)),
        }),
        needed: Some(grouped(needed(context))),
        status: context.status(allowed),
        allows_connections: allowed,
        why:
            "every connection is a descriptor; beyond the limit accept(2) and socket(2) fail with \
             EMFILE. Throng raises the soft limit to the hard one by itself"
                .into(),
        fix,
        ..LimitCheck::of("nofile")
    }
}

/// Above `nr_open` the kernel refuses the limit; where `nr_open` itself is too low, its own
/// check raises it to the same number.
fn nofile_target(context: &Context<'_>) -> u64 {
    let (needed, target) = (needed(context), round_up(needed(context)));
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
        needed: Some(grouped(needed(context))),
        status: context.status(allowed),
        allows_connections: allowed,
        fix: vec![Fix::host("fs.nr_open", round_up(needed(context)))],
        ..LimitCheck::of("nr_open")
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
        status: context.status(allowed),
        allows_connections: allowed,
        fix: vec![Fix::host("fs.file-max", round_up(needed))],
        ..LimitCheck::of("file-max")
    }
}

fn watches(context: &Context<'_>) -> LimitCheck {
    let limit = context.machine.epoll_watches_max;
    let allowed = limit.map(|limit| limit.saturating_sub(OWN) / context.plan.role.ends());
    let needed = context.ends().saturating_add(OWN);
    LimitCheck {
        current: limit.map(grouped),
        needed: Some(grouped(needed)),
        status: context.status(allowed),
        allows_connections: allowed,
        fix: vec![Fix::host("fs.epoll.max_user_watches", round_up(needed))],
        ..LimitCheck::of("max_user_watches")
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
