//! What a run amounts to: the checks, and the files that are brought out of the machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use crate::drive::Upgraded;
use crate::plan::{Layout, Transport};
use crate::sample::{COLUMNS, Sample, read};
use crate::settings::Settings;
use crate::tally::Tally;

/// Slab caches are listed down to this share of the growth.
const SHOWN_BYTES_PER_CONNECTION: u64 = 8;

pub(crate) struct Check {
    what: String,
    expected: u64,
    found: u64,
}

impl Check {
    pub(crate) fn new(what: impl Into<String>, expected: u64, found: u64) -> Self {
        Self {
            what: what.into(),
            expected,
            found,
        }
    }

    pub(crate) const fn holds(&self) -> bool {
        self.expected == self.found
    }

    pub(crate) fn line(&self) -> String {
        let word = if self.holds() { "ok  " } else { "FAIL" };
        format!("{word} {}: {} of {}", self.what, self.found, self.expected)
    }
}

/// Samples of all phases; the later ones are empty if the run ended early.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) idle: Sample,
    pub(crate) end: Sample,
    pub(crate) slabs_start: BTreeMap<String, u64>,
    pub(crate) slabs_idle: BTreeMap<String, u64>,
    pub(crate) slabs_end: BTreeMap<String, u64>,
    pub(crate) metrics_idle: String,
    pub(crate) metrics: String,
    pub(crate) upgraded: Option<Upgraded>,
    /// The clients' count before they began to leave.
    pub(crate) tally: Option<Tally>,
    pub(crate) ended: bool,
}

pub(crate) struct Evidence {
    pub(crate) checks: Vec<Check>,
    pub(crate) tally: Tally,
    pub(crate) samples: Vec<Sample>,
    pub(crate) seen: Seen,
}

/// A series without labels, or the sum over those of a metric.
pub(crate) fn metric(text: &str, name: &str) -> u64 {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.split_once("} ")?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.parse::<u64>().ok()
    });
    values.sum()
}

/// Checks that the run must pass: by the clients' own count first, then by the server's.
pub(crate) fn checks(settings: &Settings, tally: &Tally, metrics: &str) -> Vec<Check> {
    let wanted = u64::from(settings.connections);
    let own = match settings.layout {
        Layout::Own => wanted,
        Layout::Groups => 0,
    };
    let published = settings.layout.round(0).len() as u64 * 2 + own;
    let transport = match settings.transport {
        Transport::Ws => "throng_connections{transport=\"websocket\"}",
        Transport::Sse => "throng_connections{transport=\"sse\"}",
    };
    let mut checks = vec![
        Check::new("connections opened", wanted, tally.opened),
        Check::new("alive at the end", wanted, tally.alive),
        Check::new("got at least one ping", wanted, tally.pinged),
        Check::new("got broadcast 1", wanted, tally.rounds[0]),
        Check::new("got broadcast 2", wanted, tally.rounds[1]),
        Check::new("got their own message", own, tally.own),
        Check::new("duplicates", 0, tally.duplicate),
        Check::new("messages for somebody else", 0, tally.stray),
        Check::new("nonsense", 0, tally.garbled),
    ];
    for (what, expected, name) in [
        ("server: connections", wanted, transport),
        (
            "server: subscriptions",
            settings.layout.subscriptions(settings.connections),
            "throng_subscriptions",
        ),
        (
            "server: publications",
            published,
            "throng_publications_total",
        ),
        (
            "server: deliveries",
            2 * wanted + own,
            "throng_deliveries_total",
        ),
        ("server: deliveries dropped", 0, "throng_dropped_total"),
    ] {
        checks.push(Check::new(what, expected, metric(metrics, name)));
    }
    checks
}

pub(crate) fn write(settings: &Settings, evidence: &Evidence) -> io::Result<()> {
    let put = |name: &str, text: &str| std::fs::write(settings.out.join(name), text);
    let mut series = format!("{COLUMNS}\n");
    for sample in &evidence.samples {
        series += &sample.row();
    }
    put("series.csv", &series)?;
    let mut slabs = String::from("cache,start_bytes,idle_bytes,end_bytes\n");
    for (cache, end) in &evidence.seen.slabs_end {
        let of = |slabs: &BTreeMap<String, u64>| slabs.get(cache).copied().unwrap_or(0);
        if *end > 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(
                slabs,
                "{cache},{},{},{end}",
                of(&evidence.seen.slabs_start),
                of(&evidence.seen.slabs_idle)
            );
        }
    }
    put("slab.csv", &slabs)?;
    put("clients.txt", &evidence.tally.text())?;
    put("metrics-idle.txt", &evidence.seen.metrics_idle)?;
    put("metrics-end.txt", &evidence.seen.metrics)?;
    put("figures.md", &figures(settings, evidence))
}

/// The body of the report; the machine that started this one puts a head on it.
fn figures(settings: &Settings, evidence: &Evidence) -> String {
    let n = u64::from(settings.connections);
    let mut text = String::new();
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a String cannot fail.
        let _ = text.write_fmt(words);
        text.push('\n');
    };
    let holds = evidence.checks.iter().all(Check::holds);
    let verdict = if holds {
        "Every check holds."
    } else {
        "**At least one check fails.**"
    };
    let transport = match settings.transport {
        Transport::Ws => "WebSockets",
        Transport::Sse => "SSE streams",
    };
    line(format_args!("{verdict}\n"));
    line(format_args!("## What was counted\n"));
    let tls = match &settings.tls {
        None => String::new(),
        Some(records) => format!(" over TLS, with {records}'s records"),
    };
    line(format_args!(
        "{n} {transport}{tls}, {}, opened by {} client processes; \
         held for {} s and until everyone had a ping (one each {} s).\n",
        settings.layout.words(),
        settings.clients,
        settings.hold_s,
        settings.ping_s
    ));
    line(format_args!(
        "| check | expected | found | |\n|---|--:|--:|---|"
    ));
    for check in &evidence.checks {
        let word = if check.holds() { "ok" } else { "**no**" };
        line(format_args!(
            "| {} | {} | {} | {word} |",
            check.what, check.expected, check.found
        ));
    }
    for (reason, count) in &evidence.tally.reasons {
        line(format_args!(
            "\nEnded: {count}, {}",
            reason.replace('_', " ")
        ));
    }
    let start = evidence.samples.first().cloned().unwrap_or_default();
    memory(&mut line, n, &start, evidence);
    if let Some(upgraded) = &evidence.seen.upgraded {
        upgrade(&mut line, upgraded);
    }
    kernel(&mut line, n, evidence);
    text
}

fn memory(
    line: &mut impl FnMut(std::fmt::Arguments<'_>),
    n: u64,
    start: &Sample,
    evidence: &Evidence,
) {
    let Seen { idle, end, .. } = &evidence.seen;
    let left = evidence.samples.last().cloned().unwrap_or_default();
    line(format_args!(
        "\n## Memory\n\nMiB; bytes for each connection are the growth since the start, divided.\n"
    ));
    line(format_args!(
        "| | at the start | idle | a connection, idle | \
         after all publications | a connection | all have left |\n\
         |---|--:|--:|--:|--:|--:|--:|"
    ));
    let mib = |bytes: u64| bytes >> 20;
    type Field = fn(&Sample) -> u64;
    let rows: [(&str, Field); 5] = [
        ("server process (PSS)", |s| s.server_pss),
        ("client processes (PSS)", |s| s.clients_pss),
        ("kernel slab, both ends", |s| s.slab),
        ("socket buffers", |s| s.tcp_pages * 4_096),
        ("page tables", |s| s.page_tables),
    ];
    for (name, of) in rows {
        let each = |sample: &Sample| of(sample).saturating_sub(of(start)) / n.max(1);
        line(format_args!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            mib(of(start)),
            mib(of(idle)),
            each(idle),
            mib(of(end)),
            each(end),
            mib(of(&left))
        ));
    }
    line(format_args!(
        "\nThe server's highest resident size was {} MiB. \
         The kernel held {} sockets when all were idle.",
        mib(left.server_peak.max(end.server_peak)),
        idle.tcp_sockets
    ));
}

fn upgrade(line: &mut impl FnMut(std::fmt::Arguments<'_>), upgraded: &Upgraded) {
    let Upgraded {
        alive: [alive_before, alive_after],
        memory: [before, most, after],
        told,
    } = upgraded;
    line(format_args!("\n## The upgrade\n"));
    line(format_args!(
        "{alive_before} connections before and {alive_after} after. The server's memory (PSS) was \
         {} MiB before, {} MiB at most for both processes together ({:.2} times), and {} MiB after \
         ({:.2} times). What was published came afterwards, and was counted by the new process \
         alone.\n\n```text\n{told}\n```",
        before >> 20,
        most >> 20,
        *most as f64 / *before.max(&1) as f64,
        after >> 20,
        *after as f64 / *before.max(&1) as f64,
    ));
}

fn kernel(line: &mut impl FnMut(std::fmt::Arguments<'_>), n: u64, evidence: &Evidence) {
    let (before, idle) = (&evidence.seen.slabs_start, &evidence.seen.slabs_idle);
    line(format_args!(
        "\n## Kernel slab by cache\n\n\
         Growth from the start to idle; both ends of each connection are in this machine.\n"
    ));
    line(format_args!(
        "| cache | MiB | bytes a connection, both ends |\n|---|--:|--:|"
    ));
    let mut grown: Vec<(u64, &String)> = idle
        .iter()
        .map(|(cache, bytes)| {
            let old = before.get(cache).copied().unwrap_or(0);
            (bytes.saturating_sub(old), cache)
        })
        .filter(|(bytes, _)| bytes / n.max(1) >= SHOWN_BYTES_PER_CONNECTION)
        .collect();
    grown.sort_unstable_by(|a, b| b.cmp(a));
    for (bytes, cache) in grown {
        line(format_args!(
            "| `{cache}` | {} | {} |",
            bytes >> 20,
            bytes / n.max(1)
        ));
    }
    let kernel = read("/proc/version");
    line(format_args!("\nKernel: {}", kernel.trim()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_labels_and_not_over_names() {
        let text =
            "# HELP a_total A.\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3\na_total_more 9\nb 7\n";
        for (name, expect) in [("a_total", 5), ("a_total{x=\"2\"}", 3), ("b", 7), ("c", 0)] {
            assert_eq!(metric(text, name), expect, "{name}");
        }
    }
}
