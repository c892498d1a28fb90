//! Tables of a report: figures that are read rather than looked at.

use std::fmt::{self, Display, Write as _};

use throng_bench_measure::{LatencySummary, PERCENTILES};
use throng_types::units::{format_bytes, format_us, grouped};

use crate::Results;
use crate::text::time;

/// Text that cannot become markup.
pub(super) struct Escaped<T>(pub(super) T);

impl<T: Display> Display for Escaped<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.to_string().chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                _ => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Writes a panel with a table; without rows nothing. All columns but the first are numbers.
fn panel(
    title: &str,
    heads: &[&str],
    rows: impl IntoIterator<Item = String>,
    out: &mut String,
) -> fmt::Result {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    write!(
        out,
        "<div class=\"panel\"><h3>{}</h3><table>",
        Escaped(title)
    )?;
    if let [first, others @ ..] = heads {
        write!(out, "<tr><th>{first}</th>")?;
        for head in others {
            write!(out, "<th class=\"n\">{head}</th>")?;
        }
        out.push_str("</tr>");
    }
    out.push('\n');
    for row in rows {
        writeln!(out, "<tr>{row}</tr>")?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

fn name(text: impl Display) -> String {
    format!("<td>{}</td>", Escaped(text))
}

fn number(text: impl Display) -> String {
    format!("<td class=\"n\">{}</td>", Escaped(text))
}

fn pair((text, value): (impl Display, impl Display)) -> String {
    name(text) + &number(value)
}

pub(super) fn write_funnel(results: &Results, out: &mut String) -> fmt::Result {
    let counters = &results.totals.counters;
    let stages = [
        ("attempted", counters.attempted, true),
        ("connected (TCP)", counters.tcp_connected, true),
        ("upgraded", counters.upgraded, true),
        ("subscribed", counters.subscribed, true),
        ("alive at the end", counters.alive(), true),
        ("closed as planned", counters.closed_by_plan, false),
        ("reconnected", counters.reconnected, false),
    ];
    let rows = stages
        .into_iter()
        .filter(|(_, count, always)| *always || *count > 0);
    let rows = rows.map(|(name, count, _)| {
        let share = count as f64 / counters.attempted.max(1) as f64 * 100.0;
        let width = share.min(100.0);
        let bar = format!("<span class=\"bar\" style=\"width:{width:.2}%\"></span>");
        format!(
            "<td class=\"stage\">{name}{bar}</td>{}",
            number(grouped(count))
        )
    });
    panel("Connections", &[], rows, out)
}

pub(super) fn write_latencies(results: &Results, out: &mut String) -> fmt::Result {
    let totals = &results.totals;
    let kinds = [
        ("delivery", &totals.delivery),
        ("usable", &totals.connect),
        ("lag", &totals.lag),
    ];
    let kinds = kinds.map(|(name, latency)| Some((name, latency.as_ref()?)));
    let kinds: Vec<(&str, &LatencySummary)> = kinds.into_iter().flatten().collect();
    if kinds.is_empty() {
        return Ok(());
    }
    let row = |title: &str, of: &dyn Fn(&LatencySummary) -> String| {
        let cells: String = kinds
            .iter()
            .map(|(_, latency)| number(of(latency)))
            .collect();
        name(title) + &cells
    };
    let mut rows = vec![row("min", &|latency| format_us(latency.min_us as f64))];
    rows.extend(PERCENTILES.map(|percentile| {
        row(&format!("p{percentile}"), &|latency| {
            time(latency.percentile_us(percentile))
        })
    }));
    rows.push(row("max", &|latency| format_us(latency.max_us as f64)));
    rows.push(row("mean", &|latency| format_us(latency.mean_us)));
    rows.push(row("standard deviation", &|latency| {
        format_us(latency.stdev_us)
    }));
    rows.push(row("values", &|latency| grouped(latency.count)));
    let heads: Vec<&str> = std::iter::once("")
        .chain(kinds.iter().map(|(name, _)| *name))
        .collect();
    panel("Latency", &heads, rows, out)
}

pub(super) fn write_deliveries(results: &Results, out: &mut String) -> fmt::Result {
    let totals = &results.totals;
    let (deliveries, counters) = (&totals.deliveries, &totals.counters);
    if deliveries.expected() + deliveries.received + counters.published == 0 {
        return Ok(());
    }
    let counts = [
        ("published", counters.published, true),
        ("publications failed", counters.publish_failed, true),
        ("deliveries expected", deliveries.expected(), true),
        ("received", deliveries.received, true),
        ("missing", deliveries.missing, true),
        ("duplicates", deliveries.duplicates, true),
        ("out of order", deliveries.out_of_order, true),
        ("too late to tell", deliveries.too_late, false),
        (
            "from before the subscription",
            deliveries.before_join,
            false,
        ),
        ("not followed", deliveries.untracked, false),
        ("damaged", deliveries.damaged, false),
    ];
    let counts = counts
        .into_iter()
        .filter(|(_, count, always)| *always || *count > 0);
    let mut rows: Vec<String> = counts
        .map(|(name, n, _)| pair((name, grouped(n))))
        .collect();
    if let Some((with, of)) = totals.connections_with_data {
        let shown = format!("{} of {}", grouped(with), grouped(of));
        rows.push(pair(("connections with data", shown)));
    }
    if let Some(count) = totals.connections_with_loss {
        rows.push(pair(("connections with a loss", grouped(count))));
    }
    panel("Messages", &[], rows, out)
}

pub(super) fn write_reasons(results: &Results, out: &mut String) -> fmt::Result {
    let counters = &results.totals.counters;
    let failed = counters
        .connect_failures()
        .into_iter()
        .map(|(reason, count)| {
            let limit = reason
                .limit()
                .map_or_else(String::new, |(name, _)| format!(" — {name}"));
            let reason = reason.as_str().replace('_', " ");
            pair((format!("failed: {reason}{limit}"), grouped(count)))
        });
    let lost = counters.lost_reasons().into_iter().map(|(reason, count)| {
        let reason = reason.as_str().replace('_', " ");
        pair((format!("lost: {reason}"), grouped(count)))
    });
    panel("Failures by reason", &[], failed.chain(lost), out)
}

pub(super) fn write_steps(results: &Results, out: &mut String) -> fmt::Result {
    let rows = results.steps.iter().map(|step| {
        let at = |p| {
            number(time(
                step.delivery.as_ref().and_then(|it| it.percentile_us(p)),
            ))
        };
        let (class, word) = if step.held {
            ("better", "held")
        } else {
            ("worse", "broke")
        };
        let rate = name(format!("{}/s", grouped(step.per_s.round() as u64)));
        let verdict = format!("<td class=\"n {class}\">{word}</td>");
        [rate, at(50.0), at(99.0), verdict].concat()
    });
    panel(
        "Search for the highest rate",
        &["rate", "p50", "p99", "check"],
        rows,
        out,
    )
}

pub(super) fn write_agents(results: &Results, out: &mut String) -> fmt::Result {
    let rows = results.agents.iter().map(|agent| {
        let lost = if agent.lost {
            " <span class=\"worse\">lost</span>"
        } else {
            ""
        };
        let (offset, error) = (agent.offset_us as f64, agent.offset_error_us as f64);
        let clock = format!("{:+.3} ± {:.3} ms", offset / 1000.0, error / 1000.0);
        let alive = number(grouped(agent.alive));
        format!(
            "<td>{}{lost}</td>{alive}{}",
            Escaped(&agent.name),
            number(clock)
        )
    });
    panel(
        "Load machines",
        &["name", "alive", "clock offset"],
        rows,
        out,
    )
}

pub(super) fn write_environment(results: &Results, out: &mut String) -> fmt::Result {
    let manifest = &results.manifest;
    out.push_str("<h2>How it was made</h2>\n<section class=\"panels\">\n");
    for machine in &manifest.machines {
        let processors = format!("{} × {}", machine.cpus, machine.cpu_model);
        let memory = format_bytes(machine.memory_bytes as f64);
        let limits = machine
            .limits
            .iter()
            .map(|limit| pair((&limit.name, &limit.value)));
        let rows = [
            pair(("kernel", &machine.kernel)),
            pair(("processors", processors)),
            pair(("memory", memory)),
        ];
        let title = format!("{} ({})", machine.name, machine.role);
        panel(&title, &[], rows.into_iter().chain(limits), out)?;
    }
    out.push_str("</section>\n");
    writeln!(out, "<pre>{}</pre>", Escaped(manifest.command.join(" ")))?;
    let scenario = serde_json::to_string_pretty(&results.scenario).unwrap_or_default();
    writeln!(
        out,
        "<details><summary>The scenario</summary><pre>{}</pre></details>",
        Escaped(scenario)
    )?;
    writeln!(
        out,
        "<footer>throng {} · results schema {} · latencies from intended times, in histograms \
         that are merged and never averaged</footer>",
        Escaped(&manifest.version),
        results.schema
    )
}
