//! Observation of the server from outside: its processes on this machine, or its `/metrics`.
//!
//! Owns: finding the processes that listen at a target, reading their CPU and memory, reading one
//! gauge from a metrics page. Never: asks the server for more.

use std::collections::HashSet;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use throng_client::IncomingResponse;

use throng_bench_measure::ServerSample;
use throng_bench_plan::Target;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WatchServer {
    /// By the processes that listen at the targets on this machine.
    #[default]
    Auto,
    Processes(Vec<u32>),
    Off,
}

/// Names that servers give to their metric of connections.
const CONNECTION_METRICS: [&str; 4] = [
    "throng_connections",
    "centrifugo_node_num_clients",
    "nchan_subscribers",
    "connections",
];
const METRICS_WITHIN: Duration = Duration::from_millis(500);
const METRICS_BYTES_MAX: usize = 4 << 20;

/// Observer of the server, with its last reading of CPU.
pub(crate) struct ServerWatch {
    pids: Vec<u32>,
    metrics: Option<Target>,
    before: Option<(Instant, u64)>,
}

impl ServerWatch {
    pub(crate) fn new(
        watch: &WatchServer,
        metrics: Option<Target>,
        targets: &[SocketAddr],
    ) -> Self {
        let pids = match watch {
            WatchServer::Off => Vec::new(),
            WatchServer::Processes(pids) => pids.clone(),
            WatchServer::Auto => listeners_at(targets),
        };
        let mut watch = Self {
            pids,
            metrics,
            before: None,
        };
        // The first reading of CPU is the zero of the next one.
        watch.before = watch.cpu_us().map(|us| (Instant::now(), us));
        watch
    }

    fn sees(&self) -> bool {
        !self.pids.is_empty() || self.metrics.is_some()
    }

    /// Name of the server's program, with the number of its processes.
    pub(crate) fn name(&self) -> Option<String> {
        let pid = self.pids.first()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let count = self.pids.len();
        let plural = if count == 1 { "process" } else { "processes" };
        Some(format!("{} ({count} {plural})", name.trim()))
    }

    fn cpu_us(&self) -> Option<u64> {
        let time = |&pid: &u32| throng_sys::cpu::process_time(Some(pid)).ok();
        let times = self.pids.iter().filter_map(time);
        (!self.pids.is_empty()).then(|| times.map(|time| time.total_us()).sum())
    }

    /// Reads CPU, memory and connections; none if the server cannot be observed.
    pub(crate) fn sample(&mut self) -> Option<ServerSample> {
        if !self.sees() {
            return None;
        }
        let now = Instant::now();
        let cpu_us = self.cpu_us();
        let cpu = match (cpu_us, self.before) {
            (Some(us), Some((at, before_us))) => {
                let wall_us = now.duration_since(at).as_micros().max(1) as f64;
                Some(us.saturating_sub(before_us) as f64 / wall_us)
            }
            _ => None,
        };
        self.before = cpu_us.map(|us| (now, us));
        let memory = |&pid: &u32| throng_sys::memory::process(Some(pid)).ok();
        let memory = self
            .pids
            .iter()
            .filter_map(memory)
            .map(|memory| memory.pss_bytes);
        let memory: Vec<u64> = memory.collect();
        let system = throng_sys::memory::system();
        Some(ServerSample {
            cpu,
            memory_bytes: (!memory.is_empty()).then(|| memory.iter().sum()),
            slab_bytes: system.slab_bytes,
            sockets: system.tcp_in_use,
            connections: self.metrics.as_ref().and_then(connections_of),
        })
    }
}

/// Finds the processes that listen at one of these ports, by the kernel's own tables.
fn listeners_at(targets: &[SocketAddr]) -> Vec<u32> {
    let here = targets.iter().filter(|target| is_here(target));
    let ports: HashSet<u16> = here.map(SocketAddr::port).collect();
    if ports.is_empty() {
        return Vec::new();
    }
    let inodes: HashSet<String> = { throng_sys::socket::listening().into_iter() }
        .filter(|listener| ports.contains(&listener.port))
        .map(|listener| format!("socket:[{}]", listener.inode))
        .collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    let own = std::process::id();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = processes
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid != own && holds_any(pid, &inodes))
        .collect()
}

/// Returns true if the address is one of this machine: it can be bound.
fn is_here(address: &SocketAddr) -> bool {
    std::net::UdpSocket::bind(SocketAddr::new(address.ip(), 0)).is_ok()
}

fn holds_any(pid: u32, inodes: &HashSet<String>) -> bool {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    entries.flatten().any(|entry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|link| link.to_str().is_some_and(|link| inodes.contains(link)))
    })
}

/// Reads the server's own count of its connections from its metrics page.
fn connections_of(metrics: &Target) -> Option<u64> {
    let address = (metrics.host.as_str(), metrics.port)
        .to_socket_addrs()
        .ok()?
        .next()?;
    let stream = TcpStream::connect_timeout(&address, METRICS_WITHIN).ok()?;
    stream.set_read_timeout(Some(METRICS_WITHIN)).ok()?;
    let mut request = Vec::new();
    let (host, close) = (metrics.authority(), [("Connection", "close")]);
    throng_http1::encode_request("GET", &metrics.path, &host, &close, None, &mut request);
    let mut answer = IncomingResponse::send(stream, &request).ok()?;
    let mut page = Vec::new();
    // A page that is cut by the timeout still has its first lines.
    while page.len() < METRICS_BYTES_MAX
        && let Ok(true) = answer.read_some(|data| page.extend_from_slice(data))
    {}
    connections_in(&String::from_utf8_lossy(&page))
}

/// Sums the first metric that is known to count connections, over all labels.
fn connections_in(page: &str) -> Option<u64> {
    CONNECTION_METRICS.iter().find_map(|name| {
        let values: Vec<f64> = page
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                let value = match rest.strip_prefix('{') {
                    Some(labels) => labels.rsplit_once('}')?.1,
                    None => rest.strip_prefix(' ')?,
                };
                value.split_whitespace().next()?.parse().ok()
            })
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_count_is_read_from_its_metrics() {
        let page = "# HELP throng_connections now\nthrong_connections{shard=\"0\"} 5\n\
                    throng_connections{shard=\"1\"} 7\nthrong_connections_total 99\n";
        assert_eq!(connections_in(page), Some(12));
        assert_eq!(connections_in("connections 3\n"), Some(3));
        assert_eq!(connections_in("nothing 3\n"), None);
    }
}
