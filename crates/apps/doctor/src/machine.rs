//! Facts about a machine, read from `/proc` and `/sys` below a root.
//!
//! Owns: where each fact lives and how its file is written. Never: judges, or fails. A
//! missing, unreadable or malformed fact is `None`.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use throng_sys::limits::Nofile;

/// Connection tracking by netfilter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conntrack {
    /// The machine does not show it.
    #[default]
    Unknown,
    /// The module is not loaded.
    Absent,
    /// The module is loaded.
    Active {
        /// Most entries that it may hold.
        max: u64,
        /// Number of entries in use.
        count: u64,
    },
}

/// Facts that bound connections on a machine; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of one page, the unit of `tcp_mem`.
    pub page_bytes: u64,
    /// Cores that are on.
    pub cpus: Option<u64>,
    /// True if a container runtime left its marks.
    pub container: bool,
    /// `RLIMIT_NOFILE` of the process asked about.
    pub nofile: Option<Nofile>,
    /// Ceiling of any `RLIMIT_NOFILE`.
    pub nr_open: Option<u64>,
    /// Open files of the whole machine, at most.
    pub file_max: Option<u64>,
    /// Open files of the whole machine, now.
    pub file_allocated: Option<u64>,
    /// Epoll registrations of one user, at most.
    pub epoll_watches_max: Option<u64>,
    /// Total memory, in bytes.
    pub memory_total_bytes: Option<u64>,
    /// Memory that new work may take, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// Tightest memory limit of the process's control groups.
    pub group: Option<GroupMemory>,
    /// First and last port for outgoing connections.
    pub port_range: Option<(u16, u16)>,
    /// Ports of that range the kernel will not hand out.
    pub ports_reserved: u64,
    /// Lowest port that needs no privilege.
    pub port_unprivileged_start: Option<u64>,
    /// IPv4 addresses of this machine, loopback aside.
    pub addresses: Option<u64>,
    /// Pages of all TCP buffers: low, pressure, max.
    pub tcp_mem: Option<[u64; 3]>,
    /// Bytes of one receive buffer: min, default, max.
    pub tcp_rmem: Option<[u64; 3]>,
    /// Bytes of one send buffer: min, default, max.
    pub tcp_wmem: Option<[u64; 3]>,
    /// Ceiling of any listener's backlog.
    pub somaxconn: Option<u64>,
    /// Packets that wait for one core.
    pub netdev_backlog_max: Option<u64>,
    /// Half-open connections of one listener.
    pub syn_backlog_max: Option<u64>,
    /// Closing sockets without a process.
    pub orphans_max: Option<u64>,
    /// Reuse of ports in TIME_WAIT: 0 never, 1 always, 2 over loopback only.
    pub tw_reuse: Option<u64>,
    /// Connection tracking by netfilter.
    pub conntrack: Conntrack,
    /// Buckets of the table of established connections.
    pub ehash_entries: Option<u64>,
    /// Network devices with hardware behind them.
    pub links: Vec<NetworkDevice>,
}

impl Machine {
    /// Reads what bounds the calling process. `root` is `/`, or a tree laid out like it.
    pub fn read(root: &Path) -> Self {
        Self::read_for(root, None)
    }

    /// Memory that the process may use at most: the machine's, or what its control group leaves it.
    pub fn memory_bytes(&self) -> Option<u64> {
        let group = self.group.as_ref().map(|group| group.limit_bytes);
        { self.memory_total_bytes.into_iter() }.chain(group).min()
    }

    /// As [`Machine::read`], with the limits and control groups of another process.
    pub fn read_for(root: &Path, pid: Option<u32>) -> Self {
        let tree = Tree(root);
        let process = pid.map_or_else(|| String::from("self"), |pid| pid.to_string());
        let memory = throng_sys::memory::system_below(root);
        let port_range = tree.port_range();
        Self {
            page_bytes: throng_sys::memory::page_bytes(),
            cpus: tree
                .text("sys/devices/system/cpu/online")
                .map(|list| list_len(&list)),
            container: tree.is_container(),
            nofile: tree.nofile(&process),
            nr_open: tree.number("proc/sys/fs/nr_open"),
            file_max: tree.number("proc/sys/fs/file-max"),
            file_allocated: tree
                .numbers::<3>("proc/sys/fs/file-nr")
                .map(|[now, ..]| now),
            epoll_watches_max: tree.number("proc/sys/fs/epoll/max_user_watches"),
            memory_total_bytes: memory.total_bytes,
            memory_available_bytes: memory.available_bytes,
            group: tightest_group(&tree, &process),
            port_range,
            ports_reserved: tree.ports_reserved(port_range),
            port_unprivileged_start: tree.number("proc/sys/net/ipv4/ip_unprivileged_port_start"),
            addresses: addresses(&tree),
            tcp_mem: tree.numbers("proc/sys/net/ipv4/tcp_mem"),
            tcp_rmem: tree.numbers("proc/sys/net/ipv4/tcp_rmem"),
            tcp_wmem: tree.numbers("proc/sys/net/ipv4/tcp_wmem"),
            somaxconn: tree.number("proc/sys/net/core/somaxconn"),
            netdev_backlog_max: tree.number("proc/sys/net/core/netdev_max_backlog"),
            syn_backlog_max: tree.number("proc/sys/net/ipv4/tcp_max_syn_backlog"),
            orphans_max: tree.number("proc/sys/net/ipv4/tcp_max_orphans"),
            tw_reuse: tree.number("proc/sys/net/ipv4/tcp_tw_reuse"),
            conntrack: tree.conntrack(),
            ehash_entries: tree.ehash_entries(),
            links: links(&tree),
        }
    }

    /// Ports the kernel hands out per source address and target.
    pub fn ports(&self) -> Option<u64> {
        let (first, last) = self.port_range?;
        let all = (u64::from(last) + 1).saturating_sub(u64::from(first));
        Some(all.saturating_sub(self.ports_reserved))
    }
}

/// Root below which paths are looked up.
struct Tree<'a>(&'a Path);

impl Tree<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.trim().parse().ok()
    }

    /// Reads the first `N` numbers of a file.
    fn numbers<const N: usize>(&self, path: &str) -> Option<[u64; N]> {
        let text = self.text(path)?;
        let mut words = text.split_ascii_whitespace();
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = words.next()?.parse().ok()?;
        }
        Some(numbers)
    }

    /// Lists the names in a directory, sorted; empty when it is missing.
    fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }

    fn is_container(&self) -> bool {
        let marks = [
            "/.dockerenv",
            "/run/.containerenv",
            "/run/systemd/container",
        ];
        marks.iter().any(|mark| self.path(mark).exists())
    }

    fn nofile(&self, process: &str) -> Option<Nofile> {
        let limits = self.text(&format!("proc/{process}/limits"))?;
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))?;
        let mut words = line.split_ascii_whitespace();
        let mut next = || match words.next()? {
            "unlimited" => Some(u64::MAX),
            number => number.parse().ok(),
        };
        Some(Nofile {
            soft: next()?,
            hard: next()?,
        })
    }

    fn port_range(&self) -> Option<(u16, u16)> {
        let [first, last] = self.numbers("proc/sys/net/ipv4/ip_local_port_range")?;
        Some((first.try_into().ok()?, last.try_into().ok()?))
    }

    fn ports_reserved(&self, range: Option<(u16, u16)>) -> u64 {
        let Some((first, last)) = range else { return 0 };
        let list = self
            .text("proc/sys/net/ipv4/ip_local_reserved_ports")
            .unwrap_or_default();
        ranges(&list)
            .map(|(from, to)| {
                let (from, to) = (from.max(first.into()), to.min(last.into()));
                (to + 1).saturating_sub(from)
            })
            .sum()
    }

    /// Reads connection tracking. Its files appear with the module. When even their neighbours are
    /// hidden, their absence says nothing.
    fn conntrack(&self) -> Conntrack {
        let max = self.number("proc/sys/net/netfilter/nf_conntrack_max");
        let count = self.number("proc/sys/net/netfilter/nf_conntrack_count");
        match max {
            Some(max) => Conntrack::Active {
                max,
                count: count.unwrap_or(0),
            },
            None if self.path("proc/sys/net/ipv4").is_dir() => Conntrack::Absent,
            None => Conntrack::Unknown,
        }
    }

    /// Reads the size of the hash, negative where a network namespace shares the table of the
    /// machine.
    fn ehash_entries(&self) -> Option<u64> {
        let entries = self.text("proc/sys/net/ipv4/tcp_ehash_entries")?;
        Some(entries.trim().parse::<i64>().ok()?.unsigned_abs())
    }
}

/// Reads the ranges of a list such as `0-3,8`; malformed ones are skipped.
fn ranges(list: &str) -> impl Iterator<Item = (u64, u64)> {
    list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (first <= last && last < u64::MAX).then_some((first, last))
    })
}

/// Counts the numbers of a list such as `0-3,8`.
fn list_len(list: &str) -> u64 {
    ranges(list).fold(0, |sum, (first, last)| sum.saturating_add(last - first + 1))
}

/// Memory limit of a control group, version 1 or 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// File that sets it, such as `memory.max`.
    pub file: &'static str,
    /// Group, as the kernel names it.
    pub path: String,
    /// Limit in bytes, against which sockets and their buffers count.
    pub limit_bytes: u64,
    /// Bytes in use that cannot be dropped.
    pub used_bytes: u64,
}

impl GroupMemory {
    /// Bytes that may still be taken.
    pub const fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// File names of a hierarchy.
struct Version {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Field of `memory.stat` that counts pages of files not used lately, which the kernel
    /// drops before it refuses memory.
    droppable: &'static str,
}

const V2: Version = Version {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    droppable: "inactive_file ",
};

const V1: Version = Version {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: "total_inactive_file ",
};

/// Version 1 writes "no limit" as the largest page-aligned number.
const V1_UNLIMITED: u64 = 1 << 62;

/// Finds the group with the least free memory on the way from the process up to the root.
fn tightest_group(tree: &Tree<'_>, process: &str) -> Option<GroupMemory> {
    let groups = tree.text(&format!("proc/{process}/cgroup"))?;
    groups
        .lines()
        .filter_map(parse_line)
        .fold(None, |best, (version, path)| {
            walk(tree, version, path)
                .chain(best)
                .min_by_key(GroupMemory::free_bytes)
        })
}

/// Reads a line `hierarchy:controllers:path` of cgroups(7); version 2 has no controllers.
fn parse_line(line: &str) -> Option<(&'static Version, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        Some((&V2, path))
    } else if controllers.split(',').any(|name| name == "memory") {
        Some((&V1, path))
    } else {
        None
    }
}

/// Walks up from a group. Inside a container the path may be the host's while the mount shows the
/// group itself as its root: groups that do not exist below the mount are passed over.
fn walk<'a>(
    tree: &'a Tree<'_>,
    version: &'static Version,
    path: &'a str,
) -> impl Iterator<Item = GroupMemory> + use<'a> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
    .filter_map(move |path| read_group(tree, version, path))
}

fn read_group(tree: &Tree<'_>, version: &'static Version, path: &str) -> Option<GroupMemory> {
    // A path of a group outside the namespace starts with "/..": not ours to follow.
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let dir = format!("{}{path}", version.mount);
    let limit_bytes = tree.number(&format!("{dir}/{}", version.limit))?;
    if V1_UNLIMITED <= limit_bytes {
        return None;
    }
    let used = tree.number(&format!("{dir}/{}", version.used)).unwrap_or(0);
    let stat = tree.text(&format!("{dir}/memory.stat")).unwrap_or_default();
    let droppable: u64 = stat
        .lines()
        .find_map(|line| line.strip_prefix(version.droppable)?.trim().parse().ok())
        .unwrap_or(0);
    Some(GroupMemory {
        file: version.limit,
        path: if path.is_empty() { "/" } else { path }.to_owned(),
        limit_bytes,
        used_bytes: used.saturating_sub(droppable),
    })
}

/// Network device with hardware behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDevice {
    /// Name such as `eth0`.
    pub name: String,
    /// Number of hardware queues for arriving packets.
    pub rx_queues: u64,
    /// True if the kernel spreads arriving packets over cores (`rps_cpus`).
    pub spread: bool,
    /// Cores that serve its interrupts; empty is unknown.
    pub irq_cpus: BTreeSet<u64>,
}

/// Counts IPv4 addresses of this machine, loopback aside, from the routing trie: an address of ours
/// is a line `|-- ADDRESS` followed by `/32 host LOCAL`. Each appears in two tables.
fn addresses(tree: &Tree<'_>) -> Option<u64> {
    let trie = tree.text("proc/net/fib_trie")?;
    let mut own = BTreeSet::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            own.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    Some(own.len() as u64)
}

fn links(tree: &Tree<'_>) -> Vec<NetworkDevice> {
    let names = tree.names("sys/class/net");
    // Loopback, bridges and other devices made of software have no `device`.
    let names = names
        .into_iter()
        .filter(|name| tree.path(&device(name)).exists());
    names.map(|name| link(tree, name)).collect()
}

fn device(name: &str) -> String {
    format!("sys/class/net/{name}/device")
}

fn link(tree: &Tree<'_>, name: String) -> NetworkDevice {
    let queues_dir = format!("sys/class/net/{name}/queues");
    let queues = tree.names(&queues_dir);
    let rx: Vec<&String> = queues
        .iter()
        .filter(|queue| queue.starts_with("rx-"))
        .collect();
    let spread = rx.iter().any(|queue| {
        let mask = tree
            .text(&format!("{queues_dir}/{queue}/rps_cpus"))
            .unwrap_or_default();
        mask.contains(|c: char| matches!(c, '1'..='9' | 'a'..='f'))
    });
    NetworkDevice {
        rx_queues: rx.len() as u64,
        spread,
        irq_cpus: irq_cpus(tree, &name),
        name,
    }
}

/// Lists the cores of interrupts; those of a virtio device belong to the PCI device above it.
fn irq_cpus(tree: &Tree<'_>, name: &str) -> BTreeSet<u64> {
    let device = device(name);
    let own = tree.names(&format!("{device}/msi_irqs"));
    let irqs = if own.is_empty() {
        tree.names(&format!("{device}/../msi_irqs"))
    } else {
        own
    };
    let cores = irqs.iter().filter_map(|irq| {
        let file = |name| tree.text(&format!("proc/irq/{irq}/{name}"));
        file("effective_affinity_list")
            .filter(|list| !list.trim().is_empty())
            .or_else(|| file("smp_affinity_list"))
    });
    let mut all = BTreeSet::new();
    for list in cores {
        for (first, last) in ranges(&list) {
            // No machine has more cores than this; a longer range is not a list of cores.
            all.extend(first..=last.min(first.saturating_add(8_192)));
        }
    }
    all
}

#[cfg(test)]
mod tests;
