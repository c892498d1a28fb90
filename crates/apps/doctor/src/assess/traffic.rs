//! What binds once connections move: buffers, backlogs, hash chains, packet queues.

use super::{Context, Finding, Limit, round_up};
use crate::machine::Link;
use crate::report::{Check, Fix, Kind, Scope, Status};
use crate::text::{bytes, grouped};

/// From here on a reconnect storm is large enough to want the longer backlog.
const MANY: u64 = 100_000;

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
    if context.plan.role.accepts() {
        checks.extend([somaxconn(context), syn_backlog(context)]);
    }
    // Over loopback no device is involved.
    if context.plan.role.ends() == 1 {
        checks.extend(
            machine
                .links
                .iter()
                .filter(|link| 0 < link.rx_queues)
                .map(|link| nic(context, link)),
        );
    }
}

/// A warning, never a failure: idle connections hold no buffers.
const fn short(is_short: bool) -> Status {
    if is_short { Status::Warn } else { Status::Ok }
}

fn tcp_mem(context: &Context<'_>) -> Check {
    let (machine, plan) = (context.machine, context.plan);
    let page = machine.page_bytes.max(1);
    let per_connection = plan.buffered_bytes.saturating_mul(plan.role.ends()).max(1);
    let needed = context.goal.saturating_mul(per_connection).div_ceil(page);
    let allowed = machine
        .tcp_mem
        .map(|[_, _, max]| max.saturating_mul(page) / per_connection);
    let mut status = allowed.map_or(Status::Unknown, |allowed| short(allowed < context.goal));
    let mut why = format!(
        "pages of all TCP buffers of the machine. Idle connections have none; with {} bytes under \
         way at each end the goal needs this many. Beyond the last number connections stall \
         without an error",
        plan.buffered_bytes
    );
    let mut fix = vec![tcp_mem_fix(needed)];
    if let (Some([low, _, max]), Some(total)) = (machine.tcp_mem, machine.memory_total_bytes)
        && status == Status::Ok
    {
        if total < max.saturating_mul(page) {
            status = Status::Warn;
            why.push_str(". The last number exceeds the memory of the machine, so nothing brakes before it runs out");
            fix.clear();
            fix.push(Fix::Advice {
                text: String::from("lower the last number of net.ipv4.tcp_mem below half of memory; it counts pages, not bytes"),
            });
        } else if low == max {
            status = Status::Warn;
            why.push_str(". Equal numbers leave no stage of pressure before the stall");
            fix = vec![tcp_mem_fix(max.saturating_mul(2) / 3)];
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
        allows: allowed,
        status,
        why,
        fix,
    })
}

/// Pressure begins at `pages`, which the goal needs; half as much again is the end.
fn tcp_mem_fix(pages: u64) -> Fix {
    let pages = pages.max(4);
    let (low, max) = (pages.saturating_mul(3) / 4, pages.saturating_mul(3) / 2);
    Fix::Sysctl {
        key: "net.ipv4.tcp_mem",
        value: format!("{low} {pages} {max}"),
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
            "when all connections close at once, those beyond it are reset and lose what was unsent",
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
            Fix::Command { line: format!("kernel command line: thash_entries={needed}   # at the next boot") },
            Fix::Command {
                line: format!(
                    "sysctl -w net.ipv4.tcp_child_ehash_entries={needed}   # for network namespaces made afterwards"
                ),
            },
        ],
    })
}

/// Connections that may wait to be accepted, or to finish the handshake.
const fn backlog(goal: u64) -> u64 {
    if goal < MANY { 4_096 } else { 16_384 }
}

fn somaxconn(context: &Context<'_>) -> Check {
    let why = "ceiling of a listener's backlog. When clients come back all at once and it is full, \
               handshakes are dropped: they retry after 1, 3, 7 seconds";
    backlog_check(
        context,
        BacklogLimit {
            id: "somaxconn",
            title: "connections that wait for accept",
            key: "net.core.somaxconn",
            value: context.machine.somaxconn,
            why,
        },
    )
}

fn syn_backlog(context: &Context<'_>) -> Check {
    let why = "handshakes under way per listener. When it is full the kernel answers with SYN \
               cookies, or drops";
    backlog_check(
        context,
        BacklogLimit {
            id: "tcp_max_syn_backlog",
            title: "handshakes under way",
            key: "net.ipv4.tcp_max_syn_backlog",
            value: context.machine.syn_backlog_max,
            why,
        },
    )
}

struct BacklogLimit {
    id: &'static str,
    title: &'static str,
    key: &'static str,
    value: Option<u64>,
    why: &'static str,
}

fn backlog_check(context: &Context<'_>, limit: BacklogLimit) -> Check {
    let needed = backlog(context.goal);
    Limit {
        id: limit.id,
        title: limit.title,
        kind: Kind::Rate,
        cost: "about 320 bytes per waiting handshake, while it waits",
    }
    .found(Finding {
        current: limit.value.map(grouped),
        needed: Some(grouped(needed)),
        allows: None,
        status: limit
            .value
            .map_or(Status::Unknown, |value| short(value < needed)),
        why: limit.why.to_owned(),
        fix: vec![Fix::Sysctl {
            key: limit.key,
            value: needed.to_string(),
            scope: Scope::Namespace,
        }],
    })
}

/// Arriving packets are served by one core unless queues or the kernel spread them.
fn nic(context: &Context<'_>, link: &Link) -> Check {
    let cpus = context.machine.cpus;
    let one_core = 1 < link.rx_queues && link.irq_cpus.len() == 1;
    let few = cpus.is_some_and(|cpus| link.rx_queues < cpus) && !link.spread;
    let status = if cpus.is_none() {
        Status::Unknown
    } else {
        short(one_core || few)
    };
    let name = &link.name;
    let cores = cpus.unwrap_or(1);
    let mask = rps_mask(cores);
    let mut fix = Vec::new();
    if few {
        fix.push(Fix::Command {
            line: format!("ethtool -L {name} combined {cores}   # if the device has that many"),
        });
        fix.push(Fix::Command {
            line: format!(
                "for q in /sys/class/net/{name}/queues/rx-*; do echo {mask} > $q/rps_cpus; done"
            ),
        });
    }
    if one_core {
        fix.push(Fix::Command {
            line: format!(
                "i=0; for irq in $(ls /sys/class/net/{name}/device/msi_irqs); do echo $((i++ % {cores})) > /proc/irq/$irq/smp_affinity_list; done   # stop irqbalance first"
            ),
        });
    }
    let served = match link.irq_cpus.len() {
        0 => String::from("interrupts unknown"),
        1 => String::from("interrupts on 1 core"),
        n => format!("interrupts on {n} cores"),
    };
    let spread = if link.spread { ", rps on" } else { "" };
    Limit {
        id: if one_core {
            "smp_affinity"
        } else {
            "rx_queues"
        },
        title: "cores that take packets from the network device",
        kind: Kind::Rate,
        cost: "nothing",
    }
    .found(Finding {
        current: Some(format!(
            "{name}: {} rx queues{spread}, {served}",
            link.rx_queues
        )),
        needed: cpus.map(|cpus| format!("{cpus} queues, one per core, or rps")),
        allows: None,
        status,
        why: String::from("packets of one queue are served by one core, which fills up first"),
        fix,
    })
}

/// A mask of the first `cores` cores as `rps_cpus` takes it: hexadecimal words of 32 bits,
/// highest first.
fn rps_mask(cores: u64) -> String {
    let cores = cores.clamp(1, 8_192);
    let word = |bits: u64| {
        if bits == 32 {
            u32::MAX
        } else {
            (1_u32 << bits) - 1
        }
    };
    let top = match cores % 32 {
        0 => 32,
        bits => bits,
    };
    let mut mask = format!("{:x}", word(top));
    for _ in 0..(cores - top) / 32 {
        mask.push_str(",ffffffff");
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::rps_mask;

    #[test]
    fn masks_cover_every_core() {
        for (cores, mask) in [
            (0, "1"),
            (1, "1"),
            (2, "3"),
            (8, "ff"),
            (32, "ffffffff"),
            (33, "1,ffffffff"),
            (64, "ffffffff,ffffffff"),
            (96, "ffffffff,ffffffff,ffffffff"),
        ] {
            assert_eq!(rps_mask(cores), mask, "{cores}");
        }
    }
}
