//! Machines made of files, for tests.

use std::path::Path;

use tempfile::TempDir;

/// A machine as distributions ship it, two cores and 4 GiB, with connection tracking loaded.
pub(crate) const STOCK: &[(&str, &str)] = &[
    ("proc/self/limits", LIMITS_STOCK),
    ("proc/self/cgroup", "0::/user.slice/session.scope\n"),
    ("proc/sys/fs/nr_open", "1048576\n"),
    ("proc/sys/fs/file-max", "9223372036854775807\n"),
    ("proc/sys/fs/file-nr", "1504\t0\t9223372036854775807\n"),
    ("proc/sys/fs/epoll/max_user_watches", "897634\n"),
    (
        "proc/meminfo",
        "MemTotal: 4194304 kB\nMemFree: 3000000 kB\nMemAvailable: 3670016 kB\n",
    ),
    ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
    ("proc/sys/net/ipv4/ip_local_reserved_ports", "\n"),
    ("proc/sys/net/ipv4/ip_unprivileged_port_start", "1024\n"),
    ("proc/sys/net/ipv4/tcp_mem", "45804\t61072\t91608\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t4194304\n"),
    ("proc/sys/net/core/somaxconn", "4096\n"),
    ("proc/sys/net/core/netdev_max_backlog", "1000\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "256\n"),
    ("proc/sys/net/ipv4/tcp_max_orphans", "16384\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "2\n"),
    ("proc/sys/net/ipv4/tcp_ehash_entries", "32768\n"),
    ("proc/sys/net/netfilter/nf_conntrack_max", "32768\n"),
    ("proc/sys/net/netfilter/nf_conntrack_count", "68\n"),
    ("proc/net/fib_trie", FIB_TRIE),
    ("sys/devices/system/cpu/online", "0-1\n"),
    ("sys/fs/cgroup/user.slice/session.scope/memory.max", "max\n"),
    (
        "sys/fs/cgroup/user.slice/session.scope/memory.current",
        "1000\n",
    ),
    ("sys/class/net/lo/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth0/device/msi_irqs/41", "msi\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "0\n"),
    ("sys/class/net/eth0/queues/tx-0/xps_cpus", "0\n"),
    ("proc/irq/41/effective_affinity_list", "1\n"),
];

/// What a tuned machine of 24 cores and 64 GiB has instead.
pub(crate) const TUNED: &[(&str, &str)] = &[
    ("proc/self/limits", LIMITS_TUNED),
    ("proc/sys/fs/nr_open", "16777216\n"),
    ("proc/sys/fs/epoll/max_user_watches", "67108864\n"),
    (
        "proc/meminfo",
        "MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 62914560 kB\n",
    ),
    ("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535\n"),
    (
        "proc/sys/net/ipv4/ip_local_reserved_ports",
        "1000-1033,8000,9000-8000,x,,65536-70000\n",
    ),
    ("proc/sys/net/ipv4/tcp_mem", "2000000\t3000000\t4000000\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "1024\t4096\t16384\n"),
    ("proc/sys/net/ipv4/tcp_wmem", "1024\t4096\t16384\n"),
    ("proc/sys/net/core/somaxconn", "65535\n"),
    ("proc/sys/net/core/netdev_max_backlog", "16384\n"),
    ("proc/sys/net/ipv4/tcp_max_syn_backlog", "65535\n"),
    ("proc/sys/net/ipv4/tcp_max_orphans", "4194304\n"),
    ("proc/sys/net/ipv4/tcp_tw_reuse", "1\n"),
    ("proc/sys/net/ipv4/tcp_ehash_entries", "-524288\n"),
    ("sys/devices/system/cpu/online", "0-23\n"),
    ("sys/class/net/eth0/queues/rx-0/rps_cpus", "00ffffff\n"),
    ("sys/class/net/eth0/queues/rx-1/rps_cpus", "00ffffff\n"),
    ("sys/class/net/eth0/device/msi_irqs/42", "msi\n"),
    ("proc/irq/42/effective_affinity_list", "\n"),
    ("proc/irq/42/smp_affinity_list", "2,4-5\n"),
];

/// What a container sees: its own limits and group, little else.
pub(crate) const CONTAINER: &[(&str, &str)] = &[
    (".dockerenv", ""),
    ("proc/self/limits", LIMITS_CONTAINER),
    ("proc/self/cgroup", "0::/\n"),
    (
        "proc/meminfo",
        "MemTotal: 67108864 kB\nMemAvailable: 62914560 kB\n",
    ),
    ("sys/fs/cgroup/memory.max", "536870912\n"),
    ("sys/fs/cgroup/memory.current", "100000000\n"),
    (
        "sys/fs/cgroup/memory.stat",
        "anon 10\ninactive_file 33000000\nactive_file 7\n",
    ),
];

const LIMITS_STOCK: &str = "\
Limit                     Soft Limit           Hard Limit           Units
Max processes             15000                15000                processes
Max open files            1024                 524288               files
";
const LIMITS_TUNED: &str = "\
Max open files            8388608              8388608              files
";
const LIMITS_CONTAINER: &str = "\
Max open files            1024                 unlimited            files
";
const FIB_TRIE: &str = "\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 127.0.0.0
        /8 host LOCAL
        |-- 127.0.0.1
           /32 host LOCAL
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 192.0.2.255
        /32 link BROADCAST
     |-- 192.0.2.3
        /32 host LOCAL
Local:
     |-- 192.0.2.2
        /32 host LOCAL
";

/// A tree of `layers`, later ones over earlier ones.
pub(crate) fn tree(layers: &[&[(&str, &str)]]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory for a fixture");
    for (path, text) in layers.iter().copied().flatten() {
        put(root.path(), path, text);
    }
    root
}

/// One file of a tree.
pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a file in a tree")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

/// What a tree holds.
pub(crate) fn get(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok()
}
