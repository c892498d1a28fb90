//! Checks of the network stack: source ports and tracked connections.

use std::fmt::Display;

use super::limit::{Context, fixes, round_up};
use crate::machine::Conntrack;
use crate::report::{CheckStatus, Fix, LimitCheck};
use throng_types::units::grouped;

/// The widest range that leaves privileged ports alone.
const RANGE_FIRST: u64 = 1_024;
const RANGE_LAST: u64 = 65_535;

pub(super) fn check(context: &Context<'_>, checks: &mut Vec<LimitCheck>) {
    if context.plan.role.opens() {
        checks.push(port_range(context));
        checks.push(tw_reuse(context));
    }
    checks.push(conntrack(context));
}

/// Each source address has the whole range once per target.
fn port_range(context: &Context<'_>) -> LimitCheck {
    let (machine, plan) = (context.machine, context.plan);
    let assumed = if plan.role.accepts() {
        None
    } else {
        machine.addresses
    };
    let sources = plan.source_addresses.or(assumed).unwrap_or(1).max(1);
    let pairs = sources.saturating_mul(plan.targets.max(1));
    let ports = machine.ports();
    let allowed = ports.map(|ports| ports.saturating_mul(pairs));
    let mut check = context.check("ip_local_port_range", allowed);
    // connect(2) tries ports of one parity first and the rest only after all of those.
    let is_past_half = allowed.is_some_and(|allowed| allowed / 2 < context.goal);
    if check.status == CheckStatus::Ok && is_past_half {
        check.status = CheckStatus::Warn;
        check
            .why
            .push_str(". Past half of the range each connect(2) searches the first half in vain");
    }
    LimitCheck {
        current: machine.port_range.zip(ports).map(|((first, last), ports)| {
            format!(
                "{first}-{last}: {} ports x {} x {}",
                grouped(ports),
                counted(sources, "address", "addresses"),
                counted(plan.targets.max(1), "target", "targets")
            )
        }),
        needed: Some(grouped(context.goal)),
        fix: port_fixes(context, pairs),
        ..check
    }
}

fn counted(number: u64, one: &str, many: &str) -> String {
    format!(
        "{} {}",
        grouped(number),
        if number == 1 { one } else { many }
    )
}

fn port_fixes(context: &Context<'_>, pairs: u64) -> Vec<Fix> {
    let machine = context.machine;
    // Newer kernels refuse a range that starts among privileged ports.
    let first = machine
        .port_unprivileged_start
        .unwrap_or(RANGE_FIRST)
        .clamp(RANGE_FIRST, 32_768);
    let widest = RANGE_LAST + 1 - first;
    let range = machine
        .port_range
        .map(|(from, to)| (u64::from(from), u64::from(to)));
    let mut cases = Vec::new();
    if range.is_none_or(|(from, to)| first < from || to < RANGE_LAST) {
        cases.push("narrow");
    }
    // Pairs that keep each range at most half full.
    let wanted = context.goal.div_ceil((widest / 2).max(1));
    if pairs < wanted {
        cases.push(match context.plan.role.accepts() {
            true => "few here",
            false => "few",
        });
    }
    let values: [(&str, &dyn Display); 3] =
        [("first", &first), ("last", &RANGE_LAST), ("pairs", &wanted)];
    fixes("ip_local_port_range", &cases, &values)
}

/// Over loopback the default, 2, is enough.
fn tw_reuse(context: &Context<'_>) -> LimitCheck {
    let value = context.machine.tw_reuse;
    let enough = |value| value == 1 || (value == 2 && context.plan.role.accepts());
    let status = match value {
        None => CheckStatus::Unknown,
        Some(value) if enough(value) => CheckStatus::Ok,
        Some(_) => CheckStatus::Warn,
    };
    LimitCheck {
        current: value.map(|value| value.to_string()),
        needed: Some(String::from(if context.plan.role.accepts() {
            "1 or 2"
        } else {
            "1"
        })),
        status,
        fix: fixes("tcp_tw_reuse", &[], &[]),
        ..LimitCheck::of("tcp_tw_reuse")
    }
}

/// Over loopback a connection is one entry as well: both directions share it.
fn conntrack(context: &Context<'_>) -> LimitCheck {
    let (current, allowed, status) = match context.machine.conntrack {
        Conntrack::Unknown => (None, None, CheckStatus::Unknown),
        Conntrack::Absent => (Some(String::from("not loaded")), None, CheckStatus::Ok),
        // No rule asks for it, or this very look would have found somebody's connection.
        Conntrack::Active { max, count: 0 } => (
            Some(format!("{} (none in use)", grouped(max))),
            None,
            CheckStatus::Info,
        ),
        Conntrack::Active { max, count } => {
            let allowed = max.saturating_sub(count);
            let current = format!("{} ({} in use)", grouped(max), grouped(count));
            (Some(current), Some(allowed), context.status(Some(allowed)))
        }
    };
    let in_use = match context.machine.conntrack {
        Conntrack::Active { count, .. } => count,
        Conntrack::Unknown | Conntrack::Absent => 0,
    };
    let needed = context.goal.saturating_add(in_use);
    let target = round_up(needed);
    let check = LimitCheck::of("nf_conntrack_max");
    LimitCheck {
        current,
        needed: Some(grouped(needed)),
        status,
        allows_connections: allowed,
        why: match status {
            CheckStatus::Info => {
                "the module is loaded and tracks nothing, so it binds nobody; a firewall rule that \
                 needs it, or Docker's NAT, would change that"
                    .to_owned()
            }
            _ => check.why,
        },
        fix: fixes(
            "nf_conntrack_max",
            &[],
            &[("target", &target), ("buckets", &(target / 4))],
        ),
        ..check
    }
}
