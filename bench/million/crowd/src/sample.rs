//! Memory and sockets as the kernel reports them.

use std::collections::BTreeMap;

/// One look at the machine, in bytes unless the name has another unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Since the start of the run, in seconds of the guest's clock.
    pub(crate) at_s: u64,
    pub(crate) phase: &'static str,
    pub(crate) alive: u64,
    pub(crate) received: u64,
    pub(crate) pings: u64,
    /// The proportional set size of the server, and of the one that takes over from it.
    pub(crate) server_pss: u64,
    /// The most that the server had resident at once.
    pub(crate) server_peak: u64,
    pub(crate) clients_pss: u64,
    /// Bytes in all slab caches (`Slab`).
    pub(crate) slab: u64,
    /// Pages in socket buffers.
    pub(crate) tcp_pages: u64,
    pub(crate) tcp_sockets: u64,
    /// Bytes that programs may still get (`MemAvailable`).
    pub(crate) available: u64,
    /// Bytes in page tables (`PageTables`).
    pub(crate) page_tables: u64,
    /// The server's time on processors so far, in ticks of 10 ms.
    pub(crate) server_cpu_ticks: u64,
}

pub(crate) const COLUMNS: &str = "at_s,phase,alive,received,pings,\
    server_pss_bytes,server_peak_rss_bytes,clients_pss_bytes,slab_bytes,tcp_buffer_bytes,\
    tcp_sockets,available_bytes,page_table_bytes,server_cpu_ticks";

const PAGE: u64 = 4_096;

impl Sample {
    /// Looks, with the process ids of the server, or of both of them, and of the clients.
    pub(crate) fn take(servers: &[u32], clients: &[u32]) -> Self {
        let server = servers.first().copied().unwrap_or_default();
        let info = read("/proc/meminfo");
        let sockets = read("/proc/net/sockstat");
        let tcp = sockets
            .lines()
            .find_map(|line| line.strip_prefix("TCP: "))
            .unwrap_or_default();
        let tcp = |name: &str| {
            let mut words = tcp.split(' ').skip_while(|word| *word != name).skip(1);
            words.next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        let status = read(&format!("/proc/{server}/status"));
        Self {
            server_pss: servers.iter().map(|&pid| pss(pid)).sum(),
            server_peak: kib(&status, "VmHWM:"),
            clients_pss: clients.iter().map(|&pid| pss(pid)).sum(),
            slab: kib(&info, "Slab:"),
            available: kib(&info, "MemAvailable:"),
            page_tables: kib(&info, "PageTables:"),
            tcp_pages: tcp("mem"),
            tcp_sockets: tcp("inuse"),
            server_cpu_ticks: ticks(server),
            ..Self::default()
        }
    }

    pub(crate) fn row(&self) -> String {
        format!(
            "{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n",
            self.at_s,
            self.phase,
            self.alive,
            self.received,
            self.pings,
            self.server_pss,
            self.server_peak,
            self.clients_pss,
            self.slab,
            self.tcp_pages * PAGE,
            self.tcp_sockets,
            self.available,
            self.page_tables,
            self.server_cpu_ticks
        )
    }
}

/// Empty where the kernel has no such file.
pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The bytes of a line such as `Slab:   1234 kB`.
fn kib(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0) * 1_024
}

fn pss(pid: u32) -> u64 {
    pss_of(&rollup(pid))
}

/// The proportional set sizes of a process and of one that it has started, in bytes. Until the
/// second one runs a program of its own, both have the same memory, which counts once.
pub(crate) fn pss_of_both(old: u32, new: Option<u32>) -> [u64; 2] {
    let (old, new) = (rollup(old), new.map(rollup).unwrap_or_default());
    // The first line has the addresses, which no two programs share.
    let same = old.lines().next() == new.lines().next();
    [pss_of(&old), if same { 0 } else { pss_of(&new) }]
}

fn rollup(pid: u32) -> String {
    read(&format!("/proc/{pid}/smaps_rollup"))
}

fn pss_of(rollup: &str) -> u64 {
    kib(rollup, "Pss:")
}

fn ticks(pid: u32) -> u64 {
    let stat = read(&format!("/proc/{pid}/stat"));
    // The name in brackets may hold spaces; user and system time are the 12th and 13th words behind
    // it.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = rest.split_whitespace().skip(11).take(2);
    times.filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Bytes of each slab cache: pages in use, so that half-empty slabs count.
pub(crate) fn slabs() -> BTreeMap<String, u64> {
    slabs_of(&read("/proc/slabinfo"))
}

fn slabs_of(text: &str) -> BTreeMap<String, u64> {
    let mut caches = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        if let (Some(pages_per_slab), Some(slabs)) = (number(5), number(14)) {
            caches.insert(words[0].to_owned(), pages_per_slab * slabs * PAGE);
        }
    }
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabinfo_counts_whole_slabs() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> ...\n\
            TCP 26 26 2432 13 8 : tunables 0 0 0 : slabdata 2 2 0\n";
        let caches = slabs_of(text);
        assert_eq!(caches.len(), 1);
        assert_eq!(caches["TCP"], 2 * 8 * 4_096);
    }

    #[test]
    fn this_process_has_memory() {
        let sample = Sample::take(&[std::process::id()], &[]);
        assert!(sample.server_peak > 100_000);
        assert!(sample.available > 0);
        assert_eq!(COLUMNS.split(',').count(), sample.row().split(',').count());
    }
}
