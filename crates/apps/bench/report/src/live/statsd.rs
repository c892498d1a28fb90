//! Lines of statsd over UDP while a run goes on, under the names that TCPKali uses, so that graphs
//! made for it keep working.
//!
//! | name under the namespace | kind | what |
//! |---|---|---|
//! | `connections.opened` | counter | connections that became usable in the interval |
//! | `connections.total`, `.in`, `.out` | gauge | connections now; all are outgoing |
//! | `traffic.data`, `.rcvd`, `.sent` | counter | bytes |
//! | `traffic.msgs.rcvd`, `.sent` | counter | messages |
//! | `traffic.bitrate`, `.in`, `.out` | gauge | bits per second |
//! | `latency.connect.*`, `.message.*` | gauge | `min`, `mean`, `max`, `50` to `99_9`, in ms |
//!
//! `connections.failed` and `connections.lost` (counters) are ours.
//!
//! Never: waits, or fails a run: a statsd server that is not there misses its figures.

use std::fmt::Write as _;
use std::net::{ToSocketAddrs as _, UdpSocket};

use throng_bench_measure::{Histograms, Latency, Sample};
use throng_bench_plan::StatsdExport;

use crate::Snapshot;

/// Sender of each row; when it is dropped, every gauge falls to zero.
#[derive(Debug)]
pub struct Statsd {
    socket: UdpSocket,
    export: StatsdExport,
    window: Histograms,
    window_began_ms: u64,
}

impl Statsd {
    pub fn new(export: &StatsdExport) -> std::io::Result<Self> {
        let no_address = || std::io::Error::other("the host has no address");
        let address = (export.host.as_str(), export.port)
            .to_socket_addrs()?
            .next()
            .ok_or_else(no_address)?;
        let any: std::net::SocketAddr = if address.is_ipv4() {
            ([0, 0, 0, 0], 0).into()
        } else {
            (std::net::Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        Ok(Self {
            socket,
            export: export.clone(),
            window: Histograms::default(),
            window_began_ms: 0,
        })
    }

    pub fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        let window_us = self.export.latency_window_us.unwrap_or(u64::MAX);
        let window_ms = snapshot.at_ms.saturating_sub(self.window_began_ms);
        if window_ms.saturating_mul(1000) > window_us {
            self.window_began_ms = snapshot.at_ms;
            self.window = Histograms::default();
        }
        self.window.merge(&snapshot.tally.interval);
        let mut lines = String::new();
        let rows = (snapshot.sample, snapshot.before);
        write_statsd(&self.export.namespace, rows, &self.window, &mut lines);
        self.send(&lines);
    }

    fn send(&self, lines: &str) {
        for datagram in datagrams(lines) {
            // Nobody may be listening, and that is no reason to end a run.
            let _ = self.socket.send(datagram.as_bytes());
        }
    }
}

impl Drop for Statsd {
    fn drop(&mut self) {
        let mut zeros = String::new();
        write_statsd_zeros(&self.export.namespace, &mut zeros);
        self.send(&zeros);
    }
}

/// Bytes that most networks carry in one datagram.
const DATAGRAM_BYTES_MAX: usize = 1400;

/// Appends the lines of a row and of a latency window, one metric each.
fn write_statsd(
    namespace: &str,
    (now, before): (&Sample, Option<&Sample>),
    window: &Histograms,
    out: &mut String,
) {
    let risen = |of: fn(&Sample) -> u64| of(now).saturating_sub(before.map_or(0, of));
    let mut lines = Lines { namespace, out };
    lines.counter("connections.opened", risen(|s| s.upgraded));
    lines.counter("connections.failed", risen(|s| s.failed));
    lines.counter("connections.lost", risen(|s| s.lost));
    lines.connections(now.alive);
    lines.counter("traffic.data", now.sent_bytes + now.received_bytes);
    lines.counter("traffic.data.rcvd", now.received_bytes);
    lines.counter("traffic.data.sent", now.sent_bytes);
    lines.counter("traffic.msgs.rcvd", now.received);
    lines.counter("traffic.msgs.sent", now.published);
    lines.bitrate(
        now.per_s(now.received_bytes * 8),
        now.per_s(now.sent_bytes * 8),
    );
    lines.latency("connect", &window.connect);
    lines.latency("message", &window.delivery);
}

/// Appends zeros for every gauge, so that graphs fall when the run has ended.
fn write_statsd_zeros(namespace: &str, out: &mut String) {
    let mut lines = Lines { namespace, out };
    lines.connections(0);
    lines.bitrate(0, 0);
    for kind in ["connect", "message"] {
        for figure in ["min", "mean", "max", "50", "95", "99", "99_9"] {
            lines.gauge(&format!("latency.{kind}.{figure}"), 0.0);
        }
    }
}

/// Splits lines into datagrams at line ends.
fn datagrams(lines: &str) -> impl Iterator<Item = &str> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let fitting = rest.floor_char_boundary(DATAGRAM_BYTES_MAX);
        let end = if rest.len() <= DATAGRAM_BYTES_MAX {
            rest.len()
        } else {
            // A single line longer than a datagram goes out alone.
            rest[..fitting]
                .rfind('\n')
                .or_else(|| rest.find('\n'))
                .map_or(rest.len(), |at| at + 1)
        };
        let (datagram, after) = rest.split_at(end);
        rest = after;
        Some(datagram.trim_end_matches('\n'))
    })
}

struct Lines<'a> {
    namespace: &'a str,
    out: &'a mut String,
}

impl Lines<'_> {
    fn counter(&mut self, name: &str, count: u64) {
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "{}.{name}:{count}|c", self.namespace);
    }

    fn gauge(&mut self, name: &str, value: f64) {
        let _ = writeln!(self.out, "{}.{name}:{value}|g", self.namespace);
    }

    fn connections(&mut self, alive: u64) {
        self.gauge("connections.total", alive as f64);
        self.gauge("connections.total.in", 0.0);
        self.gauge("connections.total.out", alive as f64);
    }

    fn bitrate(&mut self, received: u64, sent: u64) {
        self.gauge("traffic.bitrate", (received + sent) as f64);
        self.gauge("traffic.bitrate.in", received as f64);
        self.gauge("traffic.bitrate.out", sent as f64);
    }

    fn latency(&mut self, kind: &str, latency: &Latency) {
        let Some(summary) = latency.summary() else {
            return;
        };
        let figures = [
            ("min", summary.min_us as f64),
            ("mean", summary.mean_us.round()),
            ("max", summary.max_us as f64),
        ];
        for (name, us) in figures {
            self.gauge(&format!("latency.{kind}.{name}"), us / 1000.0);
        }
        for (name, percentile) in [("50", 50.0), ("95", 95.0), ("99", 99.0), ("99_9", 99.9)] {
            if let Some(us) = summary.percentile_us(percentile) {
                self.gauge(&format!("latency.{kind}.{name}"), us as f64 / 1000.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> String {
        let mut window = Histograms::default();
        for us in [1000, 2500] {
            window.delivery.record_us(us);
        }
        let before = Sample {
            upgraded: 90,
            ..Sample::default()
        };
        let now = Sample {
            length_ms: 500,
            upgraded: 100,
            alive: 99,
            lost: 1,
            sent_bytes: 1000,
            received_bytes: 3000,
            received: 7,
            ..Sample::default()
        };
        let mut out = String::new();
        write_statsd("b-1", (&now, Some(&before)), &window, &mut out);
        out
    }

    #[test]
    fn names_and_kinds_are_those_of_tcpkali() {
        let lines = lines();
        for line in [
            "b-1.connections.opened:10|c\n",
            "b-1.connections.lost:1|c\n",
            "b-1.connections.total:99|g\n",
            "b-1.traffic.data:4000|c\n",
            "b-1.traffic.msgs.rcvd:7|c\n",
            "b-1.traffic.bitrate.in:48000|g\n",
            "b-1.latency.message.min:1|g\n",
            "b-1.latency.message.99:2.5|g\n",
        ] {
            assert!(lines.contains(line), "{line} is not in\n{lines}");
        }
        assert!(!lines.contains("latency.connect"), "no data is no line");
    }

    #[test]
    fn at_the_end_every_gauge_falls_to_zero() {
        let mut zeros = String::new();
        write_statsd_zeros("b-1", &mut zeros);
        for line in lines().lines().filter(|line| line.ends_with("|g")) {
            let name = line.split(':').next().unwrap();
            assert!(zeros.contains(&format!("{name}:0|g\n")), "{name}");
        }
    }

    #[test]
    fn datagrams_end_at_line_ends_and_lose_nothing() {
        let text = lines().repeat(9);
        let parts: Vec<&str> = datagrams(&text).collect();
        assert!(parts.iter().all(|part| part.len() <= DATAGRAM_BYTES_MAX));
        assert!(
            parts
                .iter()
                .all(|part| part.ends_with("|c") || part.ends_with("|g"))
        );
        assert_eq!(parts.join("\n") + "\n", text);
        assert_eq!(datagrams("").count(), 0);
        let long = format!("{}\nb:1|c\n", "a".repeat(2000));
        assert_eq!(datagrams(&long).count(), 2);
    }

    #[test]
    fn the_end_is_zeros() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let export = StatsdExport {
            host: "127.0.0.1".into(),
            port: server.local_addr().unwrap().port(),
            namespace: "b".into(),
            latency_window_us: None,
        };
        drop(Statsd::new(&export).unwrap());
        let mut datagram = [0; 2000];
        let length = server.recv(&mut datagram).unwrap();
        let text = str::from_utf8(&datagram[..length]).unwrap();
        assert!(text.contains("b.connections.total:0|g"), "{text}");
    }
}
