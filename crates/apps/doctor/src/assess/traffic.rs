//! Checks of limits that bind once traffic flows: buffers, orphans, hash chains; and
//! queues of bursts.

use std::fmt::Display;

use throng_types::units::grouped;

use super::limit::{Context, MANY, fixes, setting, short_of};
use crate::machine::NetworkDevice;
use crate::plan::Role;
use crate::report::{CheckStatus, Fix, LimitCheck};
use crate::text::bytes;

/// Longest hash chain that still fits a few cache lines per packet.
const CHAIN_MAX: u64 = 8;

/// A buffer maximum that a slow reader may fill without harm.
const BUFFER_BYTES_MAX: u64 = 256 << 10;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    checks.push(tcp_mem(context));
    let machine = context.machine;
    checks.push(buffer(context, "tcp_rmem", machine.tcp_rmem));
    checks.push(buffer(context, "tcp_wmem", machine.tcp_wmem));
    checks.push(orphans(context));
    checks.push(ehash(context));
}

/// Bytes that wait in the kernel's buffers at each end under load, where a page is the least that
/// is counted. Idle connections have none.
const BUFFERED_BYTES: u64 = 4_096;

/// Judges all TCP buffers. A broadcast waits in those of every slow reader, so all connections
/// count at once.
fn tcp_mem(context: &Context<'_>) -> LimitCheck {
    let (machine, plan) = (context.machine, context.plan);
    let page = machine.page_bytes.max(1);
    // The kernel counts whole pages for each socket: one byte that waits is a page.
    let buffered = BUFFERED_BYTES.max(page);
    let per_connection = buffered.saturating_mul(plan.role.ends());
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
        buffered,
        if needed < wanted {
            ", cut to half of the memory"
        } else {
            ""
        },
    );
    let mut status = short_of(needed, machine.tcp_mem.map(|[.., max]| max));
    // Half as much again as the goal needs, so that there is pressure before the stall.
    let most = wanted.saturating_mul(3) / 2;
    let mut fix = tcp_mem_fix(most.min(half.unwrap_or(u64::MAX)));
    if let (Some([low, _, max]), Some(total)) = (machine.tcp_mem, machine.memory_total_bytes)
        && status == CheckStatus::Ok
    {
        if total < max.saturating_mul(page) {
            status = CheckStatus::Warn;
            why.push_str(
                ". The last number exceeds the memory of the machine, so nothing brakes \
                          before it runs out",
            );
            fix = fixes("tcp_mem", &["too much"], &[]);
        } else if low == max {
            status = CheckStatus::Warn;
            why.push_str(". Equal numbers leave no stage of pressure before the stall");
            fix = tcp_mem_fix(max);
        }
    }
    LimitCheck {
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
        allows_connections: machine
            .tcp_mem
            .map(|[.., max]| max.saturating_mul(page) / per_connection),
        status,
        why,
        fix,
        ..LimitCheck::of("tcp_mem")
    }
}

/// At most `max` pages. Pressure begins at three quarters of them and ends at a half.
fn tcp_mem_fix(max: u64) -> Vec<Fix> {
    let max = max.max(4);
    let (low, pressure) = (max / 2, max - max / 4);
    let values: [(&str, &dyn Display); 3] = [("low", &low), ("pressure", &pressure), ("max", &max)];
    fixes("tcp_mem", &["short"], &values)
}

fn buffer(context: &Context<'_>, id: &str, value: Option<[u64; 3]>) -> LimitCheck {
    let asked = context.plan.connections.is_some_and(|count| MANY <= count);
    let status = match value {
        None => CheckStatus::Unknown,
        Some([.., max]) if asked && BUFFER_BYTES_MAX < max => CheckStatus::Warn,
        Some(_) => CheckStatus::Ok,
    };
    let [min, default, _] = value.unwrap_or([4_096, 16_384, 0]);
    LimitCheck {
        current: value.map(|[min, default, max]| format!("{min} {default} {max} bytes")),
        status,
        fix: fixes(
            id,
            &[],
            &[
                ("min", &min),
                ("default", &default.min(BUFFER_BYTES_MAX)),
                ("max", &BUFFER_BYTES_MAX),
            ],
        ),
        ..LimitCheck::of(id)
    }
}

fn orphans(context: &Context<'_>) -> LimitCheck {
    let value = context.machine.orphans_max;
    LimitCheck {
        allows_connections: value,
        ..setting("tcp_max_orphans", value, context.goal)
    }
}

fn ehash(context: &Context<'_>) -> LimitCheck {
    let entries = context.machine.ehash_entries;
    let ends = context.plan.role.ends();
    let allowed = entries.map(|entries| entries.saturating_mul(CHAIN_MAX) / ends);
    let needed = context
        .ends()
        .div_ceil(CHAIN_MAX)
        .checked_next_power_of_two();
    let needed = needed.unwrap_or(u64::MAX);
    LimitCheck {
        current: entries.map(grouped),
        needed: Some(grouped(needed)),
        allows_connections: allowed,
        status: short_of(context.goal, allowed),
        why: format!(
            "each packet walks the chain of its bucket; more than {CHAIN_MAX} connections per \
             bucket cost a cache miss each"
        ),
        fix: fixes("tcp_ehash_entries", &[], &[("needed", &needed)]),
        ..LimitCheck::of("tcp_ehash_entries")
    }
}

/// Up to here no burst of packets is worth a longer queue.
const FEW: u64 = 10_000;

pub(super) fn check_queues(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    let machine = context.machine;
    if context.plan.role.accepts() {
        let needed = backlog(context.goal);
        checks.extend([
            setting("somaxconn", machine.somaxconn, needed),
            setting("tcp_max_syn_backlog", machine.syn_backlog_max, needed),
            netdev_backlog(context),
        ]);
    }
    // Over loopback no device is involved.
    if context.plan.role.ends() == 1 {
        let links = context.machine.links.iter();
        checks.extend(
            links
                .filter(|link| 0 < link.rx_queues)
                .map(|link| nic(context, link)),
        );
    }
}

/// Connections that may wait to be accepted, or to finish the handshake.
const fn backlog(goal: u64) -> u64 {
    if goal < MANY { 4_096 } else { 16_384 }
}

/// Largest value that the kernel takes, a signed number of 32 bits.
const PACKETS_MAX: u64 = i32::MAX as u64;

/// Packets that may wait for one core. Over loopback each delivery of a broadcast is one, and its
/// acknowledgement another, and all of them may wait for the same core.
fn packets(context: &Context<'_>) -> u64 {
    let arriving = match context.goal {
        ..FEW => 1_000,
        goal => backlog(goal),
    };
    let looped = match context.plan.role {
        Role::Both => context.ends(),
        Role::Server | Role::Loadgen => 0,
    };
    arriving.max(looped).min(PACKETS_MAX)
}

fn netdev_backlog(context: &Context<'_>) -> LimitCheck {
    let (value, needed) = (context.machine.netdev_backlog_max, packets(context));
    let mut check = setting("netdev_max_backlog", value, needed);
    if context.plan.role.ends() == 2 {
        check.why.push_str(
            ". Over loopback everything goes through this queue, deliveries and acknowledgements",
        );
    }
    check
}

/// Arriving packets are served by one core unless queues or the kernel spread them.
fn nic(context: &Context<'_>, link: &NetworkDevice) -> LimitCheck {
    let cpus = context.machine.cpus;
    let one_core = 1 < link.rx_queues && link.irq_cpus.len() == 1;
    let few = cpus.is_some_and(|cpus| link.rx_queues < cpus) && !link.spread;
    let status = match cpus {
        None => CheckStatus::Unknown,
        Some(_) if one_core || few => CheckStatus::Warn,
        Some(_) => CheckStatus::Ok,
    };
    let name = &link.name;
    let cores = cpus.unwrap_or(1);
    let id = if one_core {
        "smp_affinity"
    } else {
        "rx_queues"
    };
    let cases: &[&str] = if few { &["few"] } else { &[] };
    let served = match link.irq_cpus.len() {
        0 => String::from("interrupts unknown"),
        1 => String::from("interrupts on 1 core"),
        n => format!("interrupts on {n} cores"),
    };
    let spread = if link.spread { ", rps on" } else { "" };
    LimitCheck {
        current: Some(format!(
            "{name}: {} rx queues{spread}, {served}",
            link.rx_queues
        )),
        needed: cpus.map(|cpus| format!("{cpus} queues, one per core, or rps")),
        status,
        fix: fixes(
            id,
            cases,
            &[
                ("device", name),
                ("cores", &cores),
                ("mask", &rps_mask(cores)),
            ],
        ),
        ..LimitCheck::of(id)
    }
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
