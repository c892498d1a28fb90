//! The table, and what has to be known to believe it.

use std::fmt::Write as _;

use super::{Metric, Report, Row};
use crate::scenario::Scale;
use crate::suite::Suite;

impl Report {
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("# {}\n\n", self.suite.title());
        // Writing to a String cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}\n", self.machine.sentence())?;
        let method = method(self.rounds, self.payload_bytes);
        writeln!(out, "{method}{}\n", self.suite.method())?;
        table(out, &self.rows, self.suite, &self.scale)?;
        writeln!(
            out,
            "\nMade by `{}`, which starts the servers like this:\n",
            self.command
        )?;
        for row in &self.rows {
            writeln!(out, "- {}: `{}`", row.title, row.command)?;
        }
        notes(out, self)
    }
}

/// Describes the method common to all figures.
fn method(rounds: u32, payload_bytes: usize) -> String {
    let figures = match rounds {
        1 => String::from("Figures are those of one round."),
        _ => format!(
            "Figures are medians of {rounds} rounds, peers in turn, with the smallest and the \
             largest."
        ),
    };
    format!(
        "Everything runs on loopback. One client process reads every frame, and the measurement \
         fails if one is missing. The payload is {payload_bytes} B; compression, access logs and \
         pings are off. Memory is the PSS of all processes of a server, without the kernel's; per \
         connection it is a slope. CPU is their user and system time. A sender on loopback pays \
         for the receiver's TCP work too, so compare rows, not machines. {figures} The client \
         runs on the same machine, so its cores bound the latencies and the row with several \
         shards."
    )
}

fn table(out: &mut String, rows: &[Row], suite: Suite, scale: &Scale) -> std::fmt::Result {
    // With selected measurements, the table has only their columns.
    let found = |metric: &Metric| rows.iter().any(|row| row.samples.contains_key(metric));
    let metrics: Vec<_> = Metric::ALL.iter().copied().filter(found).collect();
    write!(out, "| server |")?;
    for metric in &metrics {
        write!(out, " {} |", metric.heading(suite, scale))?;
    }
    writeln!(out, "\n|{}", "---|".repeat(1 + metrics.len()))?;
    for row in rows {
        write!(out, "| {} |", row.title)?;
        for &metric in &metrics {
            let values = row.samples.get(&metric).map_or(&[][..], Vec::as_slice);
            write!(out, " {} |", cell(metric, values))?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn notes(out: &mut String, report: &Report) -> std::fmt::Result {
    let failures = report.rows.iter().flat_map(|row| {
        row.failures
            .iter()
            .map(|reason| format!("{}, {reason}", row.title))
    });
    let left_out = report
        .left_out
        .iter()
        .map(|reason| format!("left out: {reason}"));
    let notes: Vec<_> = failures.chain(left_out).collect();
    if !notes.is_empty() {
        writeln!(out, "\nNot measured:\n")?;
    }
    notes.iter().try_for_each(|note| writeln!(out, "- {note}"))
}

/// The median, and the range where there is one.
fn cell(metric: Metric, values: &[f64]) -> String {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.last()) {
        (Some(least), Some(most)) if 1 < sorted.len() => format!(
            "{} ({} to {})",
            metric.format(median(&sorted)),
            metric.format(*least),
            metric.format(*most)
        ),
        (Some(only), _) => metric.format(*only),
        _ => String::from("–"),
    }
}

/// Median of sorted values; there must be at least one.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_median_and_the_range() {
        for (values, text) in [
            (&[][..], "–"),
            (&[25.0], "25.0"),
            (&[30.0, 20.0], "25.0 (20.0 to 30.0)"),
            (&[9.0, 1.0, 5.0], "5.0 (1.0 to 9.0)"),
        ] {
            assert_eq!(cell(Metric::AcceptUs, values), text);
        }
    }

    #[test]
    fn every_line_of_the_table_has_every_column_that_was_measured() {
        let row = |title: &str, samples: &[(Metric, f64)]| Row {
            key: "a",
            title: title.to_owned(),
            command: String::new(),
            samples: samples
                .iter()
                .map(|&(metric, value)| (metric, vec![value]))
                .collect(),
            failures: Vec::new(),
        };
        let rows = [
            row("A", &[(Metric::Wide, 18_000.0)]),
            row("B", &[(Metric::AcceptUs, 20.0)]),
        ];
        let mut out = String::new();
        table(&mut out, &rows, Suite::Channels, &Scale::FULL).unwrap();
        let lines: Vec<_> = out.lines().skip(1).collect();
        assert_eq!(
            lines,
            ["|---|---|---|", "| A | – | 18,000 |", "| B | 20.0 | – |"]
        );
    }
}
