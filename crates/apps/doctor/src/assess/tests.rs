//! Verdicts over fixture machines.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::machine::{Conntrack, GroupMemory};
use crate::plan::Role;
use crate::report::Fix;
use crate::tests::{self, container, tree};
use crate::text::{render_text, summary_line};

/// Makes a machine from its name and what differs there.
fn machine(text: &str) -> Machine {
    let mut words = text.split(' ');
    let name = words.next().unwrap_or_default();
    let layers: &[&[(&str, &str)]] = match name {
        "stock" => &[tests::stock()],
        "tuned" => &[tests::stock(), tests::tuned()],
        "container" => &[container()],
        _ => return Machine::default(),
    };
    let mut machine = Machine::read(tree(layers).path());
    machine.page_bytes = 4_096;
    for word in words.chain((name == "tuned").then_some("untracked")) {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number: Option<u64> = value.parse().ok();
        match key {
            "untracked" => machine.conntrack = Conntrack::Absent,
            "tracks-none" => {
                let (max, count) = (1_000, 0);
                machine.conntrack = Conntrack::Active { max, count };
            }
            "boxed" => machine.container = true,
            "nr_open" => machine.nr_open = number,
            "file_max" => machine.file_max = number,
            "file_allocated" => machine.file_allocated = number,
            "epoll_watches_max" => machine.epoll_watches_max = number,
            "nofile" => {
                let nofile = |limit| throng_sys::limits::Nofile {
                    soft: limit,
                    hard: limit,
                };
                machine.nofile = number.map(nofile);
            }
            "tcp_mem" => {
                let pages: Vec<u64> = value.split(',').map(|n| n.parse().unwrap()).collect();
                machine.tcp_mem = pages.try_into().ok();
            }
            other => panic!("no setting is called {other}"),
        }
    }
    machine
}

fn stock() -> Machine {
    machine("stock")
}

fn plan(text: &str) -> Plan {
    let mut words = text.split(' ');
    let role = match words.next() {
        Some("server") => Role::Server,
        Some("loadgen") => Role::Loadgen,
        _ => Role::Both,
    };
    let mut plan = Plan::new(role, None);
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or(("", word));
        let number = value.parse().unwrap();
        match key {
            "" => plan.connections = Some(number),
            "processes" => plan.processes = number,
            "sources" => plan.source_addresses = Some(number),
            "targets" => plan.targets = number,
            other => panic!("no part of a plan is called {other}"),
        }
    }
    plan
}

fn word(status: CheckStatus) -> String {
    format!("{status:?}").to_lowercase()
}

/// Asks a report; returns the answer, or that which was expected if it is a part of the answer.
fn answer(report: &Report, asked: &str, expected: &str) -> String {
    let part = |text: String| {
        if text.contains(expected) {
            expected.into()
        } else {
            text
        }
    };
    let (id, of) = asked.split_once(' ').unwrap_or((asked, "status"));
    let check = report.check(id);
    match (id, of, check) {
        ("summary", of, _) => summary_line(report, of == "shell"),
        ("text", ..) => part(render_text(report)),
        ("status", ..) => word(report.status()),
        ("all", ..) => {
            let statuses = report.checks.iter().map(|check| word(check.status));
            { statuses.collect::<BTreeSet<_>>().into_iter() }
                .collect::<Vec<_>>()
                .join(" ")
        }
        ("first", ..) => report.holds_connections.map_or_else(
            || "none".into(),
            |holds| format!("{} {holds}", report.binds_first.unwrap_or_default()),
        ),
        (_, _, None) => "absent".into(),
        (_, "status", Some(_)) if expected == "there" => expected.into(),
        (_, "status", Some(check)) => word(check.status),
        (_, "why", Some(check)) => part(check.why.clone()),
        (_, "line", Some(check)) => {
            let mut lines = check.fix.iter().map(Fix::line);
            match lines.any(|line| line.starts_with(expected)) {
                true => expected.into(),
                false => format!("{:?}", check.fix),
            }
        }
        (_, _, Some(check)) => check
            .allows_connections
            .map_or_else(|| "-".into(), |n| n.to_string()),
    }
}

#[test]
fn verdicts_are_those_of_the_table() {
    let rows = include_str!("../../fixtures/verdicts.txt").lines();
    for row in rows.filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let [on, planned, asked, expected] = row.splitn(4, " | ").collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let report = assess(&machine(on), &plan(planned));
        assert_eq!(answer(&report, asked, expected), expected, "{row}");
    }
}

#[test]
fn the_end_says_what_to_do_first() {
    let end = |machine: &Machine, connections| {
        let report = assess(machine, &Plan::new(Role::Server, connections));
        let text = render_text(&report);
        let (_, end) = text.rsplit_once("\n\n").expect("an end");
        end.to_owned()
    };
    let many = end(&stock(), Some(1_000_000));
    let lines: Vec<_> = many.lines().collect();
    assert_eq!(lines[0], "Do these three:", "{many}");
    assert!(
        lines[1].starts_with("  1. nf_conntrack_max: sysctl -w net."),
        "{many}"
    );
    assert!(lines[2].starts_with("  2. "), "{many}");
    assert!(lines[3].starts_with("  3. "), "{many}");
    assert!(lines[4].starts_with("Then ask again: "), "{many}");
    assert_eq!(lines.len(), 5, "{many}");
    assert_eq!(
        end(&machine("tuned"), Some(1_000_000)),
        "Nothing has to be done.\n"
    );
    // Without a number: what binds first, and how to ask for more.
    let first = end(&stock(), None);
    assert!(
        first.starts_with("Do this:\n  1. nf_conntrack_max: "),
        "{first}"
    );
    let last = "To have every limit judged, say how many connections you want: `throng doctor \
                --connections 100k`.\n";
    assert!(first.ends_with(last), "{first}");
}

#[test]
fn a_group_limit_has_a_line() {
    let group = GroupMemory {
        file: "memory.max",
        path: "/x".into(),
        limit_bytes: 1 << 30,
        used_bytes: 0,
    };
    let boxed = Machine {
        group: Some(group.clone()),
        ..machine("tuned")
    };
    let plan = Plan::new(Role::Server, Some(1_000_000));
    let report = assess(&boxed, &plan);
    let Some(Fix::Unit(directive)) = report.check("memory.max").unwrap().fix.first() else {
        panic!("no directive");
    };
    let mebibytes = directive
        .strip_prefix("MemoryMax=")
        .and_then(|rest| rest.strip_suffix('M'));
    let limit_bytes = mebibytes.unwrap().parse::<u64>().unwrap() << 20;
    // What the line asks for is enough.
    let lifted = Machine {
        group: Some(GroupMemory {
            limit_bytes,
            ..group
        }),
        ..machine("tuned")
    };
    assert_eq!(
        assess(&lifted, &plan).check("memory.max").unwrap().status,
        CheckStatus::Ok
    );
}

#[test]
fn what_is_lifted_as_told_is_enough() {
    for (role, connections) in [
        (Role::Server, 100_000),
        (Role::Server, 10_000_000),
        (Role::Both, 50_000),
        (Role::Both, u64::MAX),
    ] {
        let plan = Plan::new(role, Some(connections));
        let report = assess(&stock(), &plan);
        let value = |id| match report.check(id).unwrap().fix.first() {
            Some(Fix::Sysctl { value, .. }) => value.clone(),
            other => panic!("{id} at {connections}: {other:?}"),
        };
        let pages: Vec<u64> = value("tcp_mem")
            .split(' ')
            .map(|number| number.parse().unwrap())
            .collect();
        let [low, pressure, max] = pages[..] else {
            panic!("{pages:?}");
        };
        assert!(low < pressure && pressure < max, "{pages:?}");
        assert!(max * 4_096 <= 2 << 30, "{pages:?} at {connections}");
        let lifted = Machine {
            tcp_mem: Some([low, pressure, max]),
            netdev_backlog_max: value("netdev_max_backlog").parse().ok(),
            ..stock()
        };
        for id in ["tcp_mem", "netdev_max_backlog"] {
            let report = assess(&lifted, &plan);
            assert_eq!(report.check(id).unwrap().status, CheckStatus::Ok, "{id}");
        }
    }
}

#[test]
fn text_has_a_line_per_limit_and_the_lines_that_lift() {
    let report = assess(&stock(), &Plan::new(Role::Both, Some(1_000_000)));
    let text = render_text(&report);
    for check in &report.checks {
        let rows = text
            .lines()
            .filter(|line| line.split_whitespace().nth(1) == Some(check.id));
        assert_eq!(rows.count(), 1, "{}:\n{text}", check.id);
        for fix in &check.fix {
            assert!(text.contains(&fix.line()), "{}", fix.line());
        }
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    assert!(text.is_ascii());
}

prop_compose! {
    fn any_machine()(
        numbers in prop::collection::vec(prop::option::of(any::<u64>()), 12),
        triple in prop::option::of(any::<[u64; 3]>()),
        ports in prop::option::of(any::<(u16, u16)>()),
        hard in prop::option::of(any::<u64>()),
        conntrack in prop::option::of(any::<(u64, u64)>()),
        used_bytes in any::<u64>(),
        container in any::<bool>(),
    ) -> Machine {
        Machine {
            page_bytes: used_bytes,
            container,
            nofile: hard.map(|hard| throng_sys::limits::Nofile { soft: hard / 2, hard }),
            nr_open: numbers[0],
            file_max: numbers[1],
            file_allocated: numbers[2],
            epoll_watches_max: numbers[3],
            memory_available_bytes: numbers[4],
            memory_total_bytes: numbers[5],
            port_unprivileged_start: numbers[6],
            addresses: numbers[7],
            somaxconn: numbers[8],
            netdev_backlog_max: numbers[8],
            tw_reuse: numbers[9],
            ehash_entries: numbers[10],
            cpus: numbers[11],
            tcp_mem: triple,
            tcp_rmem: triple,
            port_range: ports,
            ports_reserved: used_bytes,
            conntrack: conntrack.map_or(Conntrack::Unknown, |(max, count)| {
            Conntrack::Active { max, count }
        }),
            group: numbers[0].map(|limit_bytes| GroupMemory {
                file: "memory.max", path: "/".into(), limit_bytes, used_bytes,
            }),
            ..Machine::default()
        }
    }
}

proptest! {
    #[test]
    fn a_report_agrees_with_its_checks(
        machine in any_machine(),
        connections in prop::option::of(any::<u64>()),
        shape in any::<[u64; 2]>(),
        role in prop::sample::select(vec![Role::Server, Role::Loadgen, Role::Both]),
    ) {
        let [processes, targets] = shape;
        let plan = Plan { processes, targets, ..Plan::new(role, connections) };
        let report = assess(&machine, &plan);
        let lowest = report.checks.iter()
            .filter(|check| check.kind == CheckKind::Holds)
            .filter_map(|check| check.allows_connections)
            .min();
        prop_assert_eq!(report.holds_connections, lowest);
        prop_assert_eq!(report.first().and_then(|check| check.allows_connections), lowest);
        if let Some((wanted, holds)) = connections.zip(lowest) {
            prop_assert_eq!(holds < wanted, report.status() == CheckStatus::Fail);
        }
        for check in &report.checks {
            let (status, has_fix) = (check.status, !check.fix.is_empty());
            prop_assert!(CheckStatus::Warn <= status || !has_fix, "{}", check.id);
            prop_assert!(status != CheckStatus::Fail || has_fix, "{}", check.id);
            let holds = check.kind == CheckKind::Holds;
            prop_assert!(check.status != CheckStatus::Fail || holds, "{}", check.id);
        }
        prop_assert!(!render_text(&report).is_empty() && !summary_line(&report, false).is_empty());
    }
}
