//! Facts from fixture trees.

use super::*;
use crate::tests::{container, put, stock, tree, tuned};

const fn nofile(soft: u64, hard: u64) -> Option<Nofile> {
    Some(Nofile { soft, hard })
}

#[test]
fn a_stock_machine_is_read() {
    let root = tree(&[stock()]);
    let machine = Machine::read(root.path());
    let link = NetworkDevice {
        name: "eth0".into(),
        rx_queues: 1,
        spread: false,
        irq_cpus: [1].into(),
    };
    let (max, count) = (32_768, 68);
    assert_eq!((machine.cpus, machine.container), (Some(2), false));
    assert_eq!(machine.nofile, nofile(1_024, 524_288));
    assert_eq!(machine.nr_open, Some(1_048_576));
    assert_eq!(machine.file_max, Some(i64::MAX as u64));
    assert_eq!(machine.file_allocated, Some(1_504));
    assert_eq!(machine.epoll_watches_max, Some(897_634));
    assert_eq!(machine.memory_total_bytes, Some(4 << 30));
    assert_eq!((machine.group, machine.addresses), (None, Some(2)));
    assert_eq!(machine.tcp_mem, Some([45_804, 61_072, 91_608]));
    assert_eq!(machine.conntrack, Conntrack::Active { max, count });
    assert_eq!(machine.ehash_entries, Some(32_768));
    assert_eq!(machine.links, [link]);
    let ports = Machine::read(root.path()).ports();
    assert_eq!(ports, Some(28_232));
}

#[test]
fn a_tuned_machine_is_read() {
    let root = tree(&[stock(), tuned()]);
    let machine = Machine::read(root.path());
    assert_eq!(machine.cpus, Some(24));
    // 64,512 ports, less 1024 to 1033 and 8000.
    let ports = (machine.ports_reserved, machine.ports());
    assert_eq!(ports, (11, Some(64_501)));
    assert_eq!(machine.ehash_entries, Some(524_288));
    let link = &machine.links[0];
    assert_eq!((link.rx_queues, link.spread), (2, true));
    assert_eq!(link.irq_cpus, [1, 2, 4, 5].into());
}

#[test]
fn a_container_hides_much() {
    let root = tree(&[container()]);
    let machine = Machine::read(root.path());
    let group = machine.group.clone().unwrap();
    assert!(machine.container && machine.links.is_empty());
    assert_eq!(machine.nofile, nofile(1_024, u64::MAX));
    assert_eq!((group.file, group.path.as_str()), ("memory.max", "/"));
    let bytes = (group.limit_bytes, group.used_bytes);
    assert_eq!(bytes, (512 << 20, 67_000_000));
    assert_eq!(machine.conntrack, Conntrack::Unknown);
    let unknown = (machine.nr_open, machine.ports(), machine.tcp_mem);
    assert_eq!(unknown, (None, None, None));
}

#[test]
fn a_module_that_is_not_loaded_is_absent() {
    let root = tree(&[&[("proc/sys/net/ipv4/tcp_mem", "1 2 3")]]);
    assert_eq!(Machine::read(root.path()).conntrack, Conntrack::Absent);
}

#[test]
fn nothing_is_known_of_an_empty_tree() {
    let root = tree(&[]);
    let machine = Machine::read(root.path());
    assert_eq!(
        machine,
        Machine {
            page_bytes: machine.page_bytes,
            ..Machine::default()
        }
    );
}

#[test]
fn malformed_files_are_unknown() {
    let garbage: Vec<(&str, &str)> = stock()
        .iter()
        .map(|(path, _)| (*path, "?? -1 \u{fffd}\n"))
        .collect();
    let root = tree(&[&garbage]);
    let machine = Machine::read(root.path());
    assert_eq!(
        (machine.nofile, machine.nr_open, machine.tcp_mem),
        (None, None, None)
    );
    assert_eq!(
        (machine.port_range, machine.group, machine.ehash_entries),
        (None, None, None)
    );
}

#[test]
fn the_tightest_group_on_the_way_up_counts() {
    let root = tree(&[&[
        ("proc/7/cgroup", "0::/a/b/c\n"),
        ("sys/fs/cgroup/a/b/c/memory.max", "max\n"),
        ("sys/fs/cgroup/a/b/memory.max", "3000\n"),
        ("sys/fs/cgroup/a/b/memory.current", "100\n"),
        ("sys/fs/cgroup/a/memory.max", "4000\n"),
        ("sys/fs/cgroup/a/memory.current", "3500\n"),
    ]]);
    let group = Machine::read_for(root.path(), Some(7)).group.unwrap();
    assert_eq!((group.path.as_str(), group.free_bytes()), ("/a", 500));
    assert_eq!(Machine::read(root.path()).group, None);
}

#[test]
fn version_one_groups_count_too() {
    let root = tree(&[&[
        ("proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/box\n"),
        (
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes",
            "1000000\n",
        ),
        ("sys/fs/cgroup/memory/box/memory.usage_in_bytes", "400000\n"),
        (
            "sys/fs/cgroup/memory/box/memory.stat",
            "inactive_file 1\ntotal_inactive_file 100000\n",
        ),
        (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        ),
    ]]);
    let group = Machine::read(root.path()).group.unwrap();
    assert_eq!(
        (group.file, group.free_bytes()),
        ("memory.limit_in_bytes", 700_000)
    );
    // A path that leaves the namespace is not followed.
    put(root.path(), "proc/self/cgroup", "4:memory:/../box\n");
    assert_eq!(Machine::read(root.path()).group, None);
}

#[test]
fn lists_are_counted() {
    for (list, len) in [
        ("", 0),
        ("0", 1),
        ("0-3,8\n", 5),
        ("3-1", 0),
        ("0-18446744073709551615", 0),
        ("a-b,2", 1),
    ] {
        assert_eq!(list_len(list), len, "{list:?}");
    }
}

#[test]
fn this_machine_is_read() {
    let machine = Machine::read(Path::new("/"));
    assert!(machine.nofile.is_some() && machine.memory_available_bytes.is_some());
}
