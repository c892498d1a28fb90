//! Queues of what arrives: handshakes, packets for a core, packets of a network device.

use super::limit::{Context, MANY, short};
use crate::machine::NetworkDevice;
use crate::plan::Role;
use crate::report::{CheckStatus, Fix, LimitCheck};
use throng_types::units::grouped;

/// Up to here no burst of packets is worth a longer queue.
const FEW: u64 = 10_000;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    let machine = context.machine;
    if context.plan.role.accepts() {
        checks.extend([
            backlog_check(context, "net.core.somaxconn", machine.somaxconn),
            backlog_check(
                context,
                "net.ipv4.tcp_max_syn_backlog",
                machine.syn_backlog_max,
            ),
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

fn backlog_check(context: &Context<'_>, key: &'static str, value: Option<u64>) -> LimitCheck {
    let needed = backlog(context.goal);
    LimitCheck {
        current: value.map(grouped),
        needed: Some(grouped(needed)),
        status: value.map_or(CheckStatus::Unknown, |value| short(value < needed)),
        fix: vec![Fix::namespace(key, needed)],
        ..LimitCheck::of(key.rsplit('.').next().unwrap_or(key))
    }
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
    let value = context.machine.netdev_backlog_max;
    let needed = packets(context);
    let mut check = LimitCheck::of("netdev_max_backlog");
    if context.plan.role.ends() == 2 {
        check.why.push_str(
            ". Over loopback everything goes through this queue, deliveries and acknowledgements",
        );
    }
    LimitCheck {
        current: value.map(grouped),
        needed: Some(grouped(needed)),
        status: value.map_or(CheckStatus::Unknown, |value| short(value < needed)),
        fix: vec![Fix::host("net.core.netdev_max_backlog", needed)],
        ..check
    }
}

/// Arriving packets are served by one core unless queues or the kernel spread them.
fn nic(context: &Context<'_>, link: &NetworkDevice) -> LimitCheck {
    let cpus = context.machine.cpus;
    let one_core = 1 < link.rx_queues && link.irq_cpus.len() == 1;
    let few = cpus.is_some_and(|cpus| link.rx_queues < cpus) && !link.spread;
    let status = if cpus.is_none() {
        CheckStatus::Unknown
    } else {
        short(one_core || few)
    };
    let name = &link.name;
    let cores = cpus.unwrap_or(1);
    let mask = rps_mask(cores);
    let mut fix = Vec::new();
    if few {
        fix.push(Fix::Command(format!(
            "ethtool -L {name} combined {cores}   # if the device has that many"
        )));
        fix.push(Fix::Command(format!(
            "for q in /sys/class/net/{name}/queues/rx-*; do echo {mask} > $q/rps_cpus; done"
        )));
    }
    if one_core {
        fix.push(Fix::Command(format!(
            "i=0; for irq in $(ls /sys/class/net/{name}/device/msi_irqs); do echo $((i++ % \
                 {cores})) > /proc/irq/$irq/smp_affinity_list; done   # stop irqbalance first"
        )));
    }
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
        fix,
        ..LimitCheck::of(if one_core {
            "smp_affinity"
        } else {
            "rx_queues"
        })
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
