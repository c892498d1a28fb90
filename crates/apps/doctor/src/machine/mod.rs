//! The facts about a machine, read from `/proc` and `/sys` below a root.
//!
//! Owns: where each fact lives and how its file is written. Never: judges, or fails. What is
//! missing, unreadable or malformed is `None`.

mod cgroup;
mod net;
mod tree;

use std::path::Path;

use throng_sys::limits::Nofile;

use tree::{Tree, list_len, ranges};

pub use cgroup::GroupMemory;
pub use net::Link;

/// Whether connections are tracked by netfilter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conntrack {
    /// The machine does not tell.
    #[default]
    Unknown,
    /// The module is not loaded.
    Absent,
    /// It is, and may hold this many entries.
    Active {
        /// `nf_conntrack_max`.
        max: u64,
        /// Entries in use.
        count: u64,
    },
}

/// What bounds connections on a machine; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Bytes of one page, the unit of `tcp_mem`.
    pub page_bytes: u64,
    /// Cores that are on.
    pub cpus: Option<u64>,
    /// Whether a container runtime left its marks.
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
    /// All memory.
    pub memory_total_bytes: Option<u64>,
    /// What new work may take.
    pub memory_available_bytes: Option<u64>,
    /// The tightest memory limit of the process's control groups.
    pub group: Option<GroupMemory>,
    /// First and last port for outgoing connections.
    pub port_range: Option<(u16, u16)>,
    /// Ports of that range the kernel will not hand out.
    pub ports_reserved: u64,
    /// The lowest port that needs no privilege.
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
    /// 0 never, 1 always, 2 over loopback only.
    pub tw_reuse: Option<u64>,
    /// Connection tracking.
    pub conntrack: Conntrack,
    /// Buckets of the table of established connections.
    pub ehash_entries: Option<u64>,
    /// Network devices with hardware behind them.
    pub links: Vec<Link>,
}

impl Machine {
    /// Reads what bounds the calling process. `root` is `/`, or a tree laid out like it.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        Self::read_for(root, None)
    }

    /// Memory that the process may use at most: the machine's, or what its control group leaves it.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        let group = self.group.as_ref().map(|group| group.limit_bytes);
        { self.memory_total_bytes.into_iter() }.chain(group).min()
    }

    /// As [`Machine::read`], with the limits and control groups of another process.
    #[must_use]
    pub fn read_for(root: &Path, pid: Option<u32>) -> Self {
        let tree = Tree::new(root);
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
            group: cgroup::tightest(&tree, &process),
            port_range,
            ports_reserved: tree.ports_reserved(port_range),
            port_unprivileged_start: tree.number("proc/sys/net/ipv4/ip_unprivileged_port_start"),
            addresses: net::addresses(&tree),
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
            links: net::links(&tree),
        }
    }

    /// Ports the kernel hands out per source address and target.
    #[must_use]
    pub fn ports(&self) -> Option<u64> {
        let (first, last) = self.port_range?;
        let all = (u64::from(last) + 1).saturating_sub(u64::from(first));
        Some(all.saturating_sub(self.ports_reserved))
    }
}

/// Facts that take more than one number to tell.
impl Tree {
    fn is_container(&self) -> bool {
        [
            "/.dockerenv",
            "/run/.containerenv",
            "/run/systemd/container",
        ]
        .iter()
        .any(|mark| self.path(mark).exists())
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

    /// The files appear with the module. When even their neighbours are hidden, their absence
    /// says nothing.
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

    /// Negative where a network namespace shares the table of the machine.
    fn ehash_entries(&self) -> Option<u64> {
        let entries: i64 = self
            .text("proc/sys/net/ipv4/tcp_ehash_entries")?
            .trim()
            .parse()
            .ok()?;
        Some(entries.unsigned_abs())
    }
}

#[cfg(test)]
mod tests;
