//! Limits that bind in silence: the kernel drops or stalls, and only counts it.
//!
//! A rig reads the counters before and after a run; what grew names the limit.

use std::path::Path;

use crate::explain::Explanation;

/// Counters of the kernel, this network namespace; a missing file counts zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Symptoms {
    counts: [u64; SIGNS.len()],
}

/// Where a counter is, and what its growth means.
struct Sign {
    source: Source,
    explanation: Explanation,
}

enum Source {
    /// A column of the `TcpExt` lines of `/proc/net/netstat`.
    TcpExt(&'static str),
    /// The second column of `/proc/net/softnet_stat`, over all cores, hexadecimal.
    SoftnetDropped,
    /// A column of `/proc/net/stat/nf_conntrack`, over all cores, hexadecimal.
    Conntrack(&'static str),
}

const fn sign(source: Source, limit: &'static str, sentence: &'static str) -> Sign {
    Sign {
        source,
        explanation: Explanation { limit, sentence },
    }
}

const SIGNS: [Sign; 9] = [
    sign(
        Source::TcpExt("ListenOverflows"),
        "somaxconn",
        "a listener's backlog was full and handshakes were dropped",
    ),
    sign(
        Source::TcpExt("TCPReqQFullDrop"),
        "tcp_max_syn_backlog",
        "too many handshakes were under way and some were dropped",
    ),
    sign(
        Source::TcpExt("TCPReqQFullDoCookies"),
        "tcp_max_syn_backlog",
        "too many handshakes were under way and SYN cookies stood in",
    ),
    sign(
        Source::TcpExt("TCPMemoryPressures"),
        "tcp_mem",
        "TCP buffers reached the pressure mark and connections slowed down",
    ),
    sign(
        Source::TcpExt("TCPAbortOnMemory"),
        "tcp_max_orphans",
        "closing sockets were reset: too many of them (tcp_max_orphans) or no buffers (tcp_mem)",
    ),
    sign(
        Source::TcpExt("TCPTimeWaitOverflow"),
        "tcp_max_tw_buckets",
        "connections in TIME_WAIT exceeded their number and were dropped",
    ),
    sign(
        Source::SoftnetDropped,
        "netdev_max_backlog",
        "a core could not take packets as fast as they came and dropped some",
    ),
    sign(
        Source::Conntrack("drop"),
        "nf_conntrack_max",
        "the table of tracked connections was full and packets were dropped",
    ),
    sign(
        Source::Conntrack("early_drop"),
        "nf_conntrack_max",
        "the table of tracked connections was full and older entries were thrown out",
    ),
];

impl Symptoms {
    /// Reads the counters below a root.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let text = |path| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let netstat = text("proc/net/netstat");
        let softnet = text("proc/net/softnet_stat");
        let conntrack = text("proc/net/stat/nf_conntrack");
        let count = |sign: &Sign| match sign.source {
            Source::TcpExt(name) => tcp_ext(&netstat, name),
            Source::SoftnetDropped => hex_sum(softnet.lines(), 1),
            Source::Conntrack(name) => conntrack_sum(&conntrack, name),
        };
        Self {
            counts: SIGNS.each_ref().map(count),
        }
    }

    /// What grew since an earlier reading, with by how much.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<(Explanation, u64)> {
        let grown = self.counts.iter().zip(before.counts);
        let grown = grown.map(|(now, before)| now.saturating_sub(before));
        SIGNS
            .iter()
            .zip(grown)
            .filter(|(_, by)| 0 < *by)
            .map(|(sign, by)| (sign.explanation, by))
            .collect()
    }
}

/// The file gives names on one line and values on the next, both starting with `TcpExt:`.
fn tcp_ext(text: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    let mut columns = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    columns
        .find(|(column, _)| *column == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0)
}

/// The first line names the columns; one line per core follows.
fn conntrack_sum(text: &str, name: &str) -> u64 {
    let mut lines = text.lines();
    let names = lines.next().unwrap_or_default();
    let column = names
        .split_ascii_whitespace()
        .position(|column| column == name);
    column.map_or(0, |column| hex_sum(lines, column))
}

fn hex_sum<'a>(lines: impl Iterator<Item = &'a str>, column: usize) -> u64 {
    lines
        .filter_map(|line| line.split_ascii_whitespace().nth(column))
        .filter_map(|value| u64::from_str_radix(value, 16).ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(netstat: &str, softnet: &str, conntrack: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/net/stat")).unwrap();
        for (path, text) in [
            ("netstat", netstat),
            ("softnet_stat", softnet),
            ("stat/nf_conntrack", conntrack),
        ] {
            std::fs::write(root.path().join("proc/net").join(path), text).unwrap();
        }
        root
    }

    #[test]
    fn growth_names_the_limit() {
        let before = tree(
            "TcpExt: TW ListenOverflows TCPMemoryPressures\nTcpExt: 9 5 1\nIpExt: A\nIpExt: 1\n",
            "00000010 00000001 0\n00000010 00000000 0\n",
            "entries searched drop early_drop\n0001 00 0 a\n0001 00 1 0\n",
        );
        let after = tree(
            "TcpExt: TW ListenOverflows TCPMemoryPressures\nTcpExt: 99 25 1\nIpExt: A\nIpExt: 1\n",
            "00000010 00000001 0\n00000010 00000010 0\n",
            "entries searched drop early_drop\n0001 00 0 a\n0001 00 3 0\n",
        );
        let (before, after) = (Symptoms::read(before.path()), Symptoms::read(after.path()));
        let grown: Vec<(&str, u64)> = after
            .since(&before)
            .iter()
            .map(|(explanation, by)| (explanation.limit, *by))
            .collect();
        assert_eq!(
            grown,
            [
                ("somaxconn", 20),
                ("netdev_max_backlog", 16),
                ("nf_conntrack_max", 2)
            ]
        );
        assert!(after.since(&after).is_empty());
        assert!(before.since(&after).is_empty());
    }

    #[test]
    fn missing_and_malformed_files_count_zero() {
        let nothing = Symptoms::read(Path::new("/nonexistent"));
        assert_eq!(nothing, Symptoms::default());
        let odd = tree("TcpExt: ListenOverflows\n", "zz\n\n1", "drop\nnot-hex\n");
        assert_eq!(Symptoms::read(odd.path()), Symptoms::default());
    }
}
