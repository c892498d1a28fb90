//! Verdicts over fixture machines.

use proptest::prelude::*;

use super::*;
use crate::machine::{Conntrack, GroupMemory};
use crate::plan::Role;
use crate::report::Fix;
use crate::tests::{self, container, tree};
use crate::text::{render_text, summary_line};

fn machine(layers: &[&[(&str, &str)]]) -> Machine {
    let root = tree(layers);
    Machine {
        page_bytes: 4_096,
        ..Machine::read(root.path())
    }
}

fn stock() -> Machine {
    machine(&[tests::stock()])
}

fn tuned() -> Machine {
    let machine = machine(&[tests::stock(), tests::tuned()]);
    Machine {
        conntrack: Conntrack::Absent,
        ..machine
    }
}

fn with_nofile(limit: u64) -> Machine {
    let (soft, hard) = (limit, limit);
    Machine {
        nofile: Some(throng_sys::limits::Nofile { soft, hard }),
        ..tuned()
    }
}

#[track_caller]
fn check_first(machine: &Machine, plan: &Plan, first: &str, holds: u64) {
    let report = assess(machine, plan);
    assert_eq!(report.binds_first, Some(first), "{}", render_text(&report));
    assert_eq!(report.holds_connections, Some(holds), "{first}");
}

#[test]
fn what_binds_first() {
    let server = Plan::new(Role::Server, None);
    let loadgen = Plan::new(Role::Loadgen, None);
    let both = Plan::new(Role::Both, None);

    // Tracking, as on every stock firewall.
    check_first(&stock(), &server, "nf_conntrack_max", 32_700);
    let untracked = Machine {
        conntrack: Conntrack::Absent,
        ..stock()
    };
    check_first(&untracked, &server, "nofile", 524_288 - 128);
    // Two processes share the connections, and the user's epoll registrations are next.
    check_first(
        &untracked,
        &Plan {
            processes: 2,
            ..Plan::new(Role::Server, None)
        },
        "MemAvailable",
        871_494,
    );
    // Two addresses of this machine, one target.
    check_first(&untracked, &loadgen, "ip_local_port_range", 2 * 28_232);
    check_first(&untracked, &both, "ip_local_port_range", 28_232);
    let spread = Plan {
        source_addresses: Some(16),
        targets: 2,
        ..both
    };
    // Both ends: 8,682 bytes a connection.
    check_first(&untracked, &spread, "MemAvailable", 424_203);

    check_first(&tuned(), &server, "nofile", 8_388_608 - 128);
    let low_ceiling = Machine {
        nr_open: Some(1_048_576),
        ..tuned()
    };
    check_first(&low_ceiling, &server, "nr_open", 1_048_576 - 128);
    let few_files = Machine {
        file_max: Some(104_096),
        file_allocated: Some(4_096),
        ..tuned()
    };
    check_first(&few_files, &server, "file-max", 100_000);
    check_first(&few_files, &spread, "file-max", 50_000);
    let few_watches = Machine {
        epoll_watches_max: Some(50_128),
        ..tuned()
    };
    check_first(&few_watches, &server, "max_user_watches", 50_000);

    // 448 MiB free in the group, less the reserve of 64 MiB.
    check_first(&machine(&[container()]), &server, "memory.max", 95_305);
}

#[test]
fn statuses_follow_the_number_asked_for() {
    let cases: &[(&str, Option<u64>, CheckStatus)] = &[
        // Without a number only what binds first is a warning.
        ("nf_conntrack_max", None, CheckStatus::Warn),
        ("nofile", None, CheckStatus::Info),
        ("somaxconn", None, CheckStatus::Info),
        ("nofile", Some(524_160), CheckStatus::Ok),
        ("nofile", Some(524_161), CheckStatus::Fail),
        ("nr_open", Some(1_048_448), CheckStatus::Ok),
        ("nr_open", Some(1_048_449), CheckStatus::Fail),
        ("nf_conntrack_max", Some(32_700), CheckStatus::Ok),
        ("nf_conntrack_max", Some(32_701), CheckStatus::Fail),
        ("MemAvailable", Some(1_000_000), CheckStatus::Fail),
        ("MemAvailable", Some(100_000), CheckStatus::Ok),
        ("max_user_watches", Some(1_000_000), CheckStatus::Fail),
        ("file-max", Some(10_000_000), CheckStatus::Ok),
        // What binds under load warns and never fails.
        ("tcp_mem", Some(1_000_000), CheckStatus::Warn),
        ("tcp_mem", Some(91_609), CheckStatus::Warn),
        ("tcp_mem", Some(91_608), CheckStatus::Ok),
        ("tcp_rmem", Some(1_000_000), CheckStatus::Warn),
        ("tcp_rmem", Some(10_000), CheckStatus::Ok),
        ("tcp_max_orphans", Some(16_385), CheckStatus::Warn),
        ("tcp_ehash_entries", Some(262_145), CheckStatus::Warn),
        ("tcp_ehash_entries", Some(262_144), CheckStatus::Ok),
        ("somaxconn", Some(99_999), CheckStatus::Ok),
        ("somaxconn", Some(100_000), CheckStatus::Warn),
        ("tcp_max_syn_backlog", Some(1), CheckStatus::Warn),
        ("netdev_max_backlog", Some(9_999), CheckStatus::Ok),
        ("netdev_max_backlog", Some(10_000), CheckStatus::Warn),
        ("rx_queues", Some(1), CheckStatus::Warn),
    ];
    for &(id, connections, status) in cases {
        let report = assess(&stock(), &Plan::new(Role::Server, connections));
        let check = report.check(id).unwrap_or_else(|| panic!("no check {id}"));
        assert_eq!(check.status, status, "{id} at {connections:?}");
    }
}

#[test]
fn a_table_of_connections_that_tracks_none_binds_nobody() {
    let untracking = Machine {
        conntrack: Conntrack::Active {
            max: 1_000,
            count: 0,
        },
        ..stock()
    };
    for connections in [None, Some(1_000_000)] {
        let report = assess(&untracking, &Plan::new(Role::Server, connections));
        let check = report.check("nf_conntrack_max").unwrap();
        assert_eq!(check.status, CheckStatus::Info, "{connections:?}");
        assert_eq!(check.allows_connections, None);
        assert!(check.fix.is_empty(), "{:?}", check.fix);
        assert_ne!(report.binds_first, Some("nf_conntrack_max"));
        let text = render_text(&report);
        assert!(text.contains("INFO  nf_conntrack_max"), "{text}");
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
    assert_eq!(end(&tuned(), Some(1_000_000)), "Nothing has to be done.\n");
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
fn a_tuned_machine_passes_a_million() {
    let report = assess(&tuned(), &Plan::new(Role::Server, Some(1_000_000)));
    for check in &report.checks {
        assert_eq!(check.status, CheckStatus::Ok, "{}", check.id);
    }
    assert_eq!(report.status(), CheckStatus::Ok);
}

#[test]
fn a_container_leaves_much_unknown_and_fails_on_what_it_knows() {
    let report = assess(
        &machine(&[container()]),
        &Plan::new(Role::Server, Some(1_000_000)),
    );
    for (id, status) in [
        ("nr_open", CheckStatus::Unknown),
        ("nf_conntrack_max", CheckStatus::Unknown),
        ("nofile", CheckStatus::Ok),
        ("memory.max", CheckStatus::Fail),
    ] {
        assert_eq!(report.check(id).unwrap().status, status, "{id}");
    }
    assert_eq!(report.status(), CheckStatus::Fail);
    let empty = assess(&Machine::default(), &Plan::new(Role::Both, None));
    assert_eq!((empty.holds_connections, empty.binds_first), (None, None));
    assert_eq!(
        empty.status(),
        CheckStatus::Unknown,
        "{}",
        render_text(&empty)
    );
}

#[test]
fn roles_ask_what_concerns_them() {
    let ids = |role| -> Vec<&str> {
        let report = assess(&stock(), &Plan::new(role, None));
        report.checks.iter().map(|check| check.id).collect()
    };
    for (id, server, loadgen, both) in [
        ("ip_local_port_range", false, true, true),
        ("tcp_tw_reuse", false, true, true),
        ("somaxconn", true, false, true),
        ("netdev_max_backlog", true, false, true),
        ("rx_queues", true, true, false),
        ("nofile", true, true, true),
    ] {
        for (role, expect) in [
            (Role::Server, server),
            (Role::Loadgen, loadgen),
            (Role::Both, both),
        ] {
            assert_eq!(ids(role).contains(&id), expect, "{id} {role:?}");
        }
    }
}

/// Rows of machine, role, connections, limit, and a line that lifts it.
const LINES: &str = "\
stock server 1000000 nofile LimitNOFILE=1048576
stock server 1000000 nofile ulimit -n 1048576
stock server 2000000 nofile LimitNOFILE=2097152
stock server 2000000 nr_open sysctl -w fs.nr_open=2097152
odd server 1200000 nofile LimitNOFILE=1500000
stock server 1000000 tcp_mem sysctl -w net.ipv4.tcp_mem='262144 393216 524288'
stock server 100000 tcp_mem sysctl -w net.ipv4.tcp_mem='75000 112500 150000'
stock server 1000000 netdev_max_backlog sysctl -w net.core.netdev_max_backlog=16384
stock both 20000 netdev_max_backlog sysctl -w net.core.netdev_max_backlog=40000
stock server 1000000 nf_conntrack_max sysctl -w net.netfilter.nf_conntrack_max=1048576
stock server 1000000 nf_conntrack_max iptables -t raw
stock both 1000000 ip_local_port_range sysctl -w net.ipv4.ip_local_port_range='1024 65535'
stock both 1000000 ip_local_port_range use 32 source addresses
stock server 1000000 tcp_ehash_entries kernel command line: thash_entries=131072
stock server 1000000 rx_queues ethtool -L eth0 combined 2
boxed server 1000000 nofile docker run --ulimit nofile=1048576:1048576
";

#[test]
fn lines_lift_what_they_belong_to() {
    for row in LINES.lines() {
        let [name, role, connections, id, line] = row.splitn(5, ' ').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let machine = Machine {
            container: name == "boxed",
            // A power of two above it would be refused.
            nr_open: match name {
                "odd" => Some(1_500_000),
                _ => stock().nr_open,
            },
            ..stock()
        };
        let role = match role {
            "both" => Role::Both,
            _ => Role::Server,
        };
        let report = assess(&machine, &Plan::new(role, connections.parse().ok()));
        let fixes: Vec<String> = { report.check(id).unwrap().fix.iter() }
            .map(Fix::line)
            .collect();
        let found = fixes.iter().any(|fix| fix.starts_with(line));
        assert!(found, "{row}: {fixes:#?}");
    }
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
        ..tuned()
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
        ..tuned()
    };
    assert_eq!(
        assess(&lifted, &plan).check("memory.max").unwrap().status,
        CheckStatus::Ok
    );
}

#[test]
fn tcp_mem_is_told_apart_from_bytes() {
    let plan = Plan::new(Role::Server, Some(1_000));
    for (tcp_mem, status, says) in [
        ([10, 20, 4_000], CheckStatus::Ok, "pages"),
        ([9_000, 9_000, 9_000], CheckStatus::Warn, "Equal numbers"),
        (
            [10, 20, 10_000_000],
            CheckStatus::Warn,
            "exceeds the memory",
        ),
        ([1, 2, 3], CheckStatus::Warn, "stall"),
    ] {
        let report = assess(
            &Machine {
                tcp_mem: Some(tcp_mem),
                ..stock()
            },
            &plan,
        );
        let check = report.check("tcp_mem").unwrap();
        assert_eq!(check.status, status, "{tcp_mem:?}");
        assert!(check.why.contains(says), "{tcp_mem:?}: {}", check.why);
    }
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
fn clients_share_and_the_server_beside_them_does_not() {
    // Enough for a quarter of the connections, and not for all of them.
    let low = Machine {
        nr_open: Some(60_000),
        ..with_nofile(30_000)
    };
    for (role, processes, nofile, nr_open) in [
        (Role::Server, 1, 29_872, 59_872),
        (Role::Server, 4, 119_488, 239_488),
        (Role::Loadgen, 4, 119_488, 239_488),
        (Role::Both, 1, 29_872, 59_872),
        (Role::Both, 4, 29_872, 59_872),
    ] {
        let plan = Plan {
            processes,
            ..Plan::new(role, Some(100_000))
        };
        let report = assess(&low, &plan);
        for (id, allows) in [("nofile", nofile), ("nr_open", nr_open)] {
            let check = report.check(id).unwrap();
            assert_eq!(
                check.allows_connections,
                Some(allows),
                "{id} {role:?} {processes}"
            );
            let status = if allows < 100_000 {
                CheckStatus::Fail
            } else {
                CheckStatus::Ok
            };
            assert_eq!(check.status, status, "{id} {role:?} {processes}");
        }
    }
}

#[test]
fn half_a_port_range_is_a_knee() {
    let at = |connections| {
        let plan = Plan {
            source_addresses: Some(1),
            ..Plan::new(Role::Loadgen, Some(connections))
        };
        assess(&stock(), &plan)
            .check("ip_local_port_range")
            .unwrap()
            .status
    };
    assert_eq!(at(14_116), CheckStatus::Ok);
    assert_eq!(at(14_117), CheckStatus::Warn);
    assert_eq!(at(28_232), CheckStatus::Warn);
    assert_eq!(at(28_233), CheckStatus::Fail);
}

#[test]
fn the_banner_names_the_limit_and_the_line() {
    let low = with_nofile(20_000);
    for (connections, expect) in [
        (
            None,
            "this machine holds about 19,872 connections; nofile binds first (nofile = 20,000): \
             lift it with `LimitNOFILE=16777216` in the systemd unit",
        ),
        (
            Some(50_000),
            "this machine holds about 19,872 connections of the 50,000 planned; nofile binds first \
             (nofile = 20,000): lift it with `LimitNOFILE=65536` in the systemd unit",
        ),
        (
            Some(10_000),
            "this machine holds the 10,000 connections planned, up to about 19,872; nofile binds \
             first (nofile = 20,000)",
        ),
    ] {
        let report = assess(&low, &Plan::new(Role::Server, connections));
        assert_eq!(summary_line(&report), expect);
    }
    let nothing = assess(&Machine::default(), &Plan::new(Role::Server, None));
    assert!(summary_line(&nothing).contains("does not show"));
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
        shape in any::<[u64; 3]>(),
        role in prop::sample::select(vec![Role::Server, Role::Loadgen, Role::Both]),
    ) {
        let [processes, targets, server_user_bytes] = shape;
        let plan = Plan { processes, targets, server_user_bytes, ..Plan::new(role, connections) };
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
        prop_assert!(!render_text(&report).is_empty() && !summary_line(&report).is_empty());
    }
}
