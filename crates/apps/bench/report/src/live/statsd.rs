//! Lines of statsd over UDP while a run goes on, under the names that TCPKali uses, so that graphs
//! made for it keep working.
//!
//! The lines are those of `statsd.txt`, filled: counters (`c`) of the interval, gauges (`g`) of
//! now, latencies in ms. All connections are outgoing.
//!
//! `connections.failed` and `connections.lost` (counters) are ours.
//!
//! Never: waits, or fails a run: a statsd server that is not there misses its figures.

use std::net::{ToSocketAddrs as _, UdpSocket};

use serde_json::{Value, json};

use throng_bench_measure::{Histograms, LatencySummary, Sample};
use throng_bench_plan::StatsdExport;

use crate::Snapshot;
use throng_types::fill::fill;

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
        let rows = (snapshot.sample, snapshot.before);
        self.send(&lines_of(&self.export.namespace, rows, &self.window));
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
        self.send(&zeros(&self.export.namespace));
    }
}

/// Bytes that most networks carry in one datagram.
const DATAGRAM_BYTES_MAX: usize = 1400;

/// Writes the lines of a row and of a latency window, one metric each.
fn lines_of(
    namespace: &str,
    (now, before): (&Sample, Option<&Sample>),
    window: &Histograms,
) -> String {
    let risen = |of: fn(&Sample) -> u64| of(now).saturating_sub(before.map_or(0, of));
    let bits = [now.received_bytes, now.sent_bytes].map(|bytes| now.per_s(bytes * 8));
    let latencies = [("connect", &window.connect), ("message", &window.delivery)];
    let latencies = latencies.map(|(kind, figures)| Some(latency(kind, &figures.summary()?)));
    let latencies: Value = latencies.into_iter().flatten().collect();
    let view = json!({
        "now": now,
        "namespace": namespace,
        "opened": risen(|sample| sample.upgraded),
        "failed": risen(|sample| sample.failed),
        "lost": risen(|sample| sample.lost),
        "bytes": now.sent_bytes + now.received_bytes,
        "bits": bits[0] + bits[1],
        "received_bits": bits[0],
        "sent_bits": bits[1],
        "latencies": latencies,
    });
    fill(include_str!("statsd.txt"), &view)
}

/// Figures of a latency in ms.
fn latency(kind: &str, summary: &LatencySummary) -> Value {
    let at = |percentile| {
        summary
            .percentile_us(percentile)
            .map(|us| us as f64 / 1000.0)
    };
    json!({
        "kind": kind,
        "min": summary.min_us as f64 / 1000.0,
        "mean": summary.mean_us.round() / 1000.0,
        "max": summary.max_us as f64 / 1000.0,
        "p50": at(50.0),
        "p95": at(95.0),
        "p99": at(99.0),
        "p99_9": at(99.9),
    })
}

/// Writes zeros for every gauge, so that graphs fall when the run has ended.
fn zeros(namespace: &str) -> String {
    let mut window = Histograms::default();
    window.connect.record_us(0);
    window.delivery.record_us(0);
    let lines = lines_of(namespace, (&Sample::default(), None), &window);
    { lines.split_inclusive('\n') }
        .filter(|line| line.ends_with("|g\n"))
        .collect()
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
        lines_of("b-1", (&now, Some(&before)), &window)
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
        let zeros = zeros("b-1");
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
