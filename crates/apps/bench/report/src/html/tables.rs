//! The tables of a report: everything that is read rather than looked at.

use std::fmt::{self, Write as _};

use super::escape::Escaped;
use crate::Results;
use throng_bench_measure::LatencySummary;
use throng_types::units::grouped;
use throng_types::units::{format_bytes, format_us};

pub(super) fn write_funnel(results: &Results, out: &mut String) -> fmt::Result {
    let counters = &results.totals.counters;
    out.push_str("<div class=\"panel\"><h3>Connections</h3><table class=\"funnel\">\n");
    for (name, count) in [
        ("attempted", counters.attempted),
        ("connected (TCP)", counters.tcp_connected),
        ("upgraded", counters.upgraded),
        ("subscribed", counters.subscribed),
        ("alive at the end", counters.alive()),
        ("closed as planned", counters.closed_by_plan),
        ("reconnected", counters.reconnected),
    ] {
        if count == 0 && matches!(name, "closed as planned" | "reconnected") {
            continue;
        }
        let share = count as f64 / counters.attempted.max(1) as f64 * 100.0;
        writeln!(
            out,
            "<tr><td>{name}<span class=\"bar\" style=\"width:{:.2}%\"></span></td><td \
             class=\"n\">{}</td></tr>",
            share.min(100.0),
            grouped(count)
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

pub(super) fn write_latencies(results: &Results, out: &mut String) -> fmt::Result {
    let kinds: Vec<(&str, &LatencySummary)> = [
        ("delivery", &results.totals.delivery),
        ("usable", &results.totals.connect),
        ("lag", &results.totals.lag),
    ]
    .into_iter()
    .filter_map(|(name, latency)| Some((name, latency.as_ref()?)))
    .collect();
    if kinds.is_empty() {
        return Ok(());
    }
    out.push_str("<div class=\"panel\"><h3>Latency</h3><table><tr><th></th>");
    for (name, _) in &kinds {
        write!(out, "<th class=\"n\">{name}</th>")?;
    }
    out.push_str("</tr>\n");
    let mut row = |name: &str, of: &dyn Fn(&LatencySummary) -> String| {
        write!(out, "<tr><td>{name}</td>")?;
        for (_, latency) in &kinds {
            write!(out, "<td class=\"n\">{}</td>", Escaped(of(latency)))?;
        }
        writeln!(out, "</tr>")
    };
    row("min", &|latency| format_us(latency.min_us as f64))?;
    for percentile in throng_bench_measure::PERCENTILES {
        row(&format!("p{percentile}"), &|latency| {
            latency
                .percentile_us(percentile)
                .map_or_else(|| "–".into(), |us| format_us(us as f64))
        })?;
    }
    row("max", &|latency| format_us(latency.max_us as f64))?;
    row("mean", &|latency| format_us(latency.mean_us))?;
    row("standard deviation", &|latency| format_us(latency.stdev_us))?;
    row("values", &|latency| grouped(latency.count))?;
    out.push_str("</table></div>\n");
    Ok(())
}

fn pairs(title: &str, rows: &[(String, String)], out: &mut String) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<div class=\"panel\"><h3>{}</h3><table>",
        Escaped(title)
    )?;
    for (name, value) in rows {
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td></tr>",
            Escaped(name),
            Escaped(value)
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

pub(super) fn write_deliveries(results: &Results, out: &mut String) -> fmt::Result {
    let deliveries = &results.totals.deliveries;
    let counters = &results.totals.counters;
    if deliveries.expected() + deliveries.received + counters.published == 0 {
        return Ok(());
    }
    let mut rows = vec![
        ("published", counters.published),
        ("publications failed", counters.publish_failed),
        ("deliveries expected", deliveries.expected()),
        ("received", deliveries.received),
        ("missing", deliveries.missing),
        ("duplicates", deliveries.duplicates),
        ("out of order", deliveries.out_of_order),
    ];
    for (name, count) in [
        ("too late to tell", deliveries.too_late),
        ("from before the subscription", deliveries.before_join),
        ("not followed", deliveries.untracked),
        ("damaged", deliveries.damaged),
    ] {
        if count > 0 {
            rows.push((name, count));
        }
    }
    let mut rows: Vec<(String, String)> = rows
        .into_iter()
        .map(|(name, count)| (name.to_owned(), grouped(count)))
        .collect();
    if let Some((with, of)) = results.totals.connections_with_data {
        rows.push((
            "connections with data".into(),
            format!("{} of {}", grouped(with), grouped(of)),
        ));
    }
    if let Some(count) = results.totals.connections_with_loss {
        rows.push(("connections with a loss".into(), grouped(count)));
    }
    pairs("Messages", &rows, out)
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
            (
                format!("failed: {}{limit}", reason.as_str().replace('_', " ")),
                grouped(count),
            )
        });
    let lost = counters.lost_reasons().into_iter().map(|(reason, count)| {
        (
            format!("lost: {}", reason.as_str().replace('_', " ")),
            grouped(count),
        )
    });
    pairs(
        "Failures by reason",
        &failed.chain(lost).collect::<Vec<_>>(),
        out,
    )
}

pub(super) fn write_steps(results: &Results, out: &mut String) -> fmt::Result {
    if results.steps.is_empty() {
        return Ok(());
    }
    out.push_str(
        "<div class=\"panel\"><h3>Search for the highest \
                  rate</h3><table><tr><th>rate</th><th class=\"n\">p50</th><th \
                  class=\"n\">p99</th><th class=\"n\">promise</th></tr>\n",
    );
    for step in &results.steps {
        let at = |p| {
            let us = step
                .delivery
                .as_ref()
                .and_then(|latency| latency.percentile_us(p));
            us.map_or_else(|| "–".into(), |us| format_us(us as f64))
        };
        let (class, word) = if step.held {
            ("better", "held")
        } else {
            ("worse", "broke")
        };
        writeln!(
            out,
            "<tr><td>{}/s</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n \
             {class}\">{word}</td></tr>",
            grouped(step.per_s.round() as u64),
            Escaped(at(50.0)),
            Escaped(at(99.0)),
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

pub(super) fn write_agents(results: &Results, out: &mut String) -> fmt::Result {
    if results.agents.is_empty() {
        return Ok(());
    }
    out.push_str(
        "<div class=\"panel\"><h3>Load machines</h3><table><tr><th>name</th><th \
                  class=\"n\">alive</th><th class=\"n\">clock offset</th></tr>\n",
    );
    for agent in &results.agents {
        let lost = if agent.lost {
            " <span class=\"worse\">lost</span>"
        } else {
            ""
        };
        writeln!(
            out,
            "<tr><td>{}{lost}</td><td class=\"n\">{}</td><td class=\"n\">{:+.3} ± {:.3} \
             ms</td></tr>",
            Escaped(&agent.name),
            grouped(agent.alive),
            agent.offset_us as f64 / 1000.0,
            agent.offset_error_us as f64 / 1000.0
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

pub(super) fn write_environment(results: &Results, out: &mut String) -> fmt::Result {
    let manifest = &results.manifest;
    out.push_str("<h2>How it was made</h2>\n<section class=\"panels\">\n");
    for machine in &manifest.machines {
        let mut rows = vec![
            ("kernel".to_owned(), machine.kernel.clone()),
            (
                "processors".to_owned(),
                format!("{} × {}", machine.cpus, machine.cpu_model),
            ),
            (
                "memory".to_owned(),
                format_bytes(machine.memory_bytes as f64),
            ),
        ];
        rows.extend(
            machine
                .limits
                .iter()
                .map(|limit| (limit.name.clone(), limit.value.clone())),
        );
        pairs(&format!("{} ({})", machine.name, machine.role), &rows, out)?;
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
