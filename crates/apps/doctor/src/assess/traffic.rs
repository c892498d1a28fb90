//! What binds once connections move: buffers, orphans, hash chains.

use super::limit::{Context, Finding, Limit, MANY, round_up, short};
use crate::report::{Check, Fix, Kind, Scope, Status};
use crate::text::bytes;
use throng_types::units::grouped;

/// Longest hash chain that still fits a few cache lines per packet.
const CHAIN_MAX: u64 = 8;

/// A buffer maximum that a slow reader may fill without harm.
const BUFFER_BYTES_MAX: u64 = 256 << 10;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<Check>) {
    checks.push(tcp_mem(context));
    let machine = context.machine;
    checks.push(buffer(
        context,
        "tcp_rmem",
        "net.ipv4.tcp_rmem",
        machine.tcp_rmem,
    ));
    checks.push(buffer(
        context,
        "tcp_wmem",
        "net.ipv4.tcp_wmem",
        machine.tcp_wmem,
    ));
    checks.push(orphans(context));
    checks.push(ehash(context));
}

/// A broadcast waits in the buffers of everyone who has not read it yet, so all connections count
/// at once.
fn tcp_mem(context: &Context<'_>) -> Check {
    let (machine, plan) = (context.machine, context.plan);
    let page = machine.page_bytes.max(1);
    // The kernel counts whole pages for each socket: one byte that waits is a page.
    let per_connection = plan
        .buffered_bytes
        .max(page)
        .saturating_mul(plan.role.ends());
    let wanted = context.goal.saturating_mul(per_connection).div_ceil(page);
    let half = machine.memory_total_bytes.map(|total| total / 2 / page);
    // More than half of the memory is not to be had: sockets and processes need the rest.
    let needed = wanted.min(half.unwrap_or(u64::MAX));
    let mut why = format!(
        "pages of all TCP buffers of the machine. Idle connections have none; during a broadcast \
         to readers who are \
         slow, {} bytes wait at each end, which is this many pages for the goal{}. Beyond the \
         last number \
         connections stall without an error",
        plan.buffered_bytes.max(page),
        if needed < wanted {
            ", cut to half of the memory"
        } else {
            ""
        },
    );
    let mut status = machine
        .tcp_mem
        .map_or(Status::Unknown, |[.., max]| short(max < needed));
    // Half as much again as the goal needs, so that there is pressure before the stall.
    let most = wanted.saturating_mul(3) / 2;
    let mut fix = vec![tcp_mem_fix(most.min(half.unwrap_or(u64::MAX)))];
    if let (Some([low, _, max]), Some(total)) = (machine.tcp_mem, machine.memory_total_bytes)
        && status == Status::Ok
    {
        if total < max.saturating_mul(page) {
            status = Status::Warn;
            why.push_str(
                ". The last number exceeds the memory of the machine, so nothing brakes \
                          before it runs out",
            );
            fix.clear();
            fix.push(Fix::Advice {
                text: String::from(
                    "lower the last number of net.ipv4.tcp_mem below half of \
                                    memory; it counts pages, not bytes",
                ),
            });
        } else if low == max {
            status = Status::Warn;
            why.push_str(". Equal numbers leave no stage of pressure before the stall");
            fix = vec![tcp_mem_fix(max)];
        }
    }
    Limit {
        id: "tcp_mem",
        title: "TCP buffers of the machine",
        kind: Kind::Load,
        cost: "up to that many pages of memory while traffic flows, none when idle",
    }
    .found(Finding {
        current: machine.tcp_mem.map(|[low, pressure, max]| {
            format!(
                "{low} {pressure} {max} pages ({})",
                bytes(max.saturating_mul(page))
            )
        }),
        needed: Some(format!(
            "{} pages ({})",
            grouped(needed),
            bytes(needed.saturating_mul(page))
        )),
        allows: machine
            .tcp_mem
            .map(|[.., max]| max.saturating_mul(page) / per_connection),
        status,
        why,
        fix,
    })
}

/// At most `max` pages. Pressure begins at three quarters of them and ends at a half.
fn tcp_mem_fix(max: u64) -> Fix {
    let max = max.max(4);
    Fix::Sysctl {
        key: "net.ipv4.tcp_mem",
        value: format!("{} {} {max}", max / 2, max - max / 4),
        scope: Scope::Host,
    }
}

fn buffer(
    context: &Context<'_>,
    id: &'static str,
    key: &'static str,
    value: Option<[u64; 3]>,
) -> Check {
    let asked = context
        .plan
        .connections
        .is_some_and(|connections| MANY <= connections);
    let status = value.map_or(Status::Unknown, |[_, _, max]| {
        short(asked && BUFFER_BYTES_MAX < max)
    });
    let [min, default, _] = value.unwrap_or([4_096, 16_384, 0]);
    Limit {
        id,
        title: if id == "tcp_rmem" {
            "one receive buffer"
        } else {
            "one send buffer"
        },
        kind: Kind::Load,
        cost: "a smaller maximum slows bulk transfers over long paths, for the whole machine",
    }
    .found(Finding {
        current: value.map(|[min, default, max]| format!("{min} {default} {max} bytes")),
        needed: None,
        allows: None,
        status,
        why: String::from(
            "min, default and max per socket, taken by use. No matter to idle connections; a large \
             maximum lets each slow reader pin that much kernel memory",
        ),
        fix: vec![Fix::Sysctl {
            key,
            value: format!("{min} {} {BUFFER_BYTES_MAX}", default.min(BUFFER_BYTES_MAX)),
            scope: Scope::Namespace,
        }],
    })
}

fn orphans(context: &Context<'_>) -> Check {
    let value = context.machine.orphans_max;
    Limit {
        id: "tcp_max_orphans",
        title: "sockets that close without a process",
        kind: Kind::Load,
        cost: "kernel memory of a connection for each orphan, while it lasts",
    }
    .found(Finding {
        current: value.map(grouped),
        needed: Some(grouped(context.goal)),
        allows: value,
        status: value.map_or(Status::Unknown, |value| short(value < context.goal)),
        why: String::from(
            "when all connections close at once, those beyond it are reset and lose what was \
             unsent",
        ),
        fix: vec![Fix::Sysctl {
            key: "net.ipv4.tcp_max_orphans",
            value: round_up(context.goal).to_string(),
            scope: Scope::Host,
        }],
    })
}

fn ehash(context: &Context<'_>) -> Check {
    let entries = context.machine.ehash_entries;
    let ends = context.plan.role.ends();
    let allowed = entries.map(|entries| entries.saturating_mul(CHAIN_MAX) / ends);
    let needed = context
        .ends()
        .div_ceil(CHAIN_MAX)
        .checked_next_power_of_two();
    let needed = needed.unwrap_or(u64::MAX);
    Limit {
        id: "tcp_ehash_entries",
        title: "hash of established connections",
        kind: Kind::Load,
        cost: "8 bytes per bucket, taken at boot",
    }
    .found(Finding {
        current: entries.map(grouped),
        needed: Some(grouped(needed)),
        allows: allowed,
        status: allowed.map_or(Status::Unknown, |allowed| short(allowed < context.goal)),
        why: format!(
            "each packet walks the chain of its bucket; more than {CHAIN_MAX} connections per \
             bucket cost a cache miss each"
        ),
        fix: vec![
            Fix::Command {
                line: format!(
                    "kernel command line: thash_entries={needed}   # at the \
                                          next boot"
                ),
            },
            Fix::Command {
                line: format!(
                    "sysctl -w net.ipv4.tcp_child_ehash_entries={needed}   # for network \
                     namespaces made afterwards"
                ),
            },
        ],
    })
}
