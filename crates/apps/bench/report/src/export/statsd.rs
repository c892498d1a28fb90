//! statsd lines under the names that TCPKali uses, so that graphs made for it keep working.
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

use std::fmt::Write as _;

use throng_bench_measure::{Latency, Sample};

/// Most networks carry this in one datagram.
const DATAGRAM_BYTES_MAX: usize = 1400;

/// What happened in an interval.
#[derive(Clone, Copy, Debug)]
pub struct Interval<'a> {
    /// The row of the interval.
    pub now: &'a Sample,
    /// The row before it; none for the first.
    pub before: Option<&'a Sample>,
    /// Deliveries of the latency window.
    pub delivery: &'a Latency,
    /// Connects of the latency window.
    pub connect: &'a Latency,
}

/// Appends the lines of an interval, one metric each.
pub fn write_statsd(namespace: &str, interval: &Interval<'_>, out: &mut String) {
    let Interval { now, before, .. } = interval;
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
    let bits_per_s = |bytes: u64| {
        (bytes * 8)
            .saturating_mul(1000)
            .checked_div(now.length_ms)
            .unwrap_or(0)
    };
    lines.bitrate(bits_per_s(now.received_bytes), bits_per_s(now.sent_bytes));
    lines.latency("connect", interval.connect);
    lines.latency("message", interval.delivery);
}

/// Appends zeros for every gauge, so that graphs fall when the run has ended.
pub fn write_statsd_zeros(namespace: &str, out: &mut String) {
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
pub fn datagrams(lines: &str) -> impl Iterator<Item = &str> {
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
        let mut latency = Latency::new();
        [1000, 2500]
            .into_iter()
            .for_each(|us| latency.record_us(us));
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
        let interval = Interval {
            now: &now,
            before: Some(&before),
            delivery: &latency,
            connect: &Latency::new(),
        };
        write_statsd("b-1", &interval, &mut out);
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
}
