//! The pages: one HTML file with everything in it, which opens from disk and needs no network.
//!
//! Owns: the tables and tiles (readable without a script), escaping, and handing the charts to `page.js`.
//!
//! Invariant: no text of a run reaches the page unescaped.

use std::fmt::{self, Write as _};

use super::charts::{self, Chart};
use super::compare::{Comparison, percent, show};
use super::{Results, compare};
use crate::check::{Facts, Figure, Metric, Outcome};
use crate::measure::{LatencySummary, Verdict, grouped};
use crate::units::{format_bytes, format_us};

const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

/// The report of one run.
#[must_use]
pub fn report_page(results: &Results) -> String {
    let mut body = String::new();
    // Writing to a String does not fail.
    let _ = write_report(results, &mut body);
    page(&results.manifest.title, &body, &charts::of_run(results))
}

/// The comparison of two runs.
#[must_use]
pub fn comparison_page(a: &Results, b: &Results, names: (&str, &str)) -> String {
    let mut body = String::new();
    // Writing to a String does not fail.
    let _ = write_comparison(a, b, names, &compare(a, b), &mut body);
    page(
        &format!("{} against {}", names.0, names.1),
        &body,
        &charts::of_two(a, b, names),
    )
}

fn page(title: &str, body: &str, charts: &[Chart]) -> String {
    // A chart is made of numbers and short texts, which always become JSON. Within a script element
    // only `<` can do harm.
    let data = serde_json::to_string(charts)
        .unwrap_or_else(|_| "[]".into())
        .replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<title>{}</title>\n<style>\n{CSS}</style>\n</head>\n<body>\n<main>\n{body}</main>\n\
<script type=\"application/json\" id=\"charts-data\">{data}</script>\n<script>\n{JS}</script>\n</body>\n</html>\n",
        Escaped(title)
    )
}

/// Text that cannot become markup.
struct Escaped<T>(T);

impl<T: fmt::Display> fmt::Display for Escaped<T> {
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

fn write_report(results: &Results, out: &mut String) -> fmt::Result {
    write_header(results, out)?;
    write_tiles(results, out)?;
    write_checks(results, out)?;
    out.push_str("<h2>Over time</h2>\n<section class=\"charts\" id=\"charts\"></section>\n<noscript><p class=\"meta\">The charts need a script; the figures below do not.</p></noscript>\n");
    out.push_str("<h2>Figures</h2>\n<section class=\"panels\">\n");
    write_funnel(results, out)?;
    write_latencies(results, out)?;
    write_deliveries(results, out)?;
    write_reasons(results, out)?;
    write_steps(results, out)?;
    write_agents(results, out)?;
    out.push_str("</section>\n");
    write_environment(results, out)
}

fn write_header(results: &Results, out: &mut String) -> fmt::Result {
    let manifest = &results.manifest;
    let scenario = &results.scenario;
    writeln!(
        out,
        "<header>\n<p class=\"eyebrow\">throng bench</p>\n<h1>{}</h1>",
        Escaped(&manifest.title)
    )?;
    let length_s = manifest
        .finished_unix_ms
        .saturating_sub(manifest.started_unix_ms) as f64
        / 1000.0;
    let mut facts = vec![
        scenario.kind.as_str().to_owned(),
        scenario.transport.as_str().to_owned(),
        format!("{} clients", grouped(scenario.clients)),
    ];
    if let Some(publish) = &scenario.publish {
        facts.push(format!(
            "{}/s of {}",
            grouped(publish.per_s.round() as u64),
            format_bytes(publish.size_bytes as f64)
        ));
    }
    facts.extend(manifest.server.clone());
    facts.push(utc(manifest.started_unix_ms));
    facts.push(format!("{length_s:.0} s"));
    out.push_str("<p class=\"meta\">");
    for fact in facts {
        write!(out, "<span>{}</span>", Escaped(fact))?;
    }
    out.push_str("</p>\n");
    if let Verdict::Invalid { reasons } = &results.verdict {
        out.push_str("<div class=\"banner\"><strong>Invalid: the generator was the bottleneck. The figures are not the server’s.</strong>");
        list(reasons, out)?;
        out.push_str("</div>\n");
    }
    let notes: Vec<String> = results
        .totals
        .counters
        .limits_hit()
        .into_iter()
        .chain(results.notes.iter().cloned())
        .collect();
    if !notes.is_empty() {
        out.push_str("<div class=\"banner note\"><strong>To know when reading this</strong>");
        list(&notes, out)?;
        out.push_str("</div>\n");
    }
    out.push_str("</header>\n");
    Ok(())
}

fn list(items: &[String], out: &mut String) -> fmt::Result {
    out.push_str("<ul>");
    for item in items {
        write!(out, "<li>{}</li>", Escaped(item))?;
    }
    out.push_str("</ul>");
    Ok(())
}

fn tile(name: &str, value: &str, detail: &str, out: &mut String) -> fmt::Result {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    writeln!(
        out,
        "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"value\">{}<span class=\"unit\">{}</span></div><div class=\"detail\">{}</div></div>",
        Escaped(name),
        Escaped(number),
        Escaped(unit),
        Escaped(detail)
    )
}

fn write_tiles(results: &Results, out: &mut String) -> fmt::Result {
    let counters = &results.totals.counters;
    out.push_str("<section class=\"tiles\">\n");
    let highest = results.series.iter().map(|sample| sample.alive).max();
    tile(
        "connections at once",
        &grouped(highest.unwrap_or_default().max(counters.alive())),
        &format!(
            "{} lost, {} failed",
            grouped(counters.lost()),
            grouped(counters.failed())
        ),
        out,
    )?;
    let metric = |figure| results.get(Metric::Figure(figure));
    if let Some(reach) = metric(Figure::Reach) {
        let deliveries = &results.totals.deliveries;
        tile(
            "deliveries that arrived",
            &format!(
                "{} %",
                trim_zeros(&format!("{:.4}", floor_share(reach) * 100.0))
            ),
            &format!(
                "{} of {}",
                grouped(deliveries.distinct),
                grouped(deliveries.expected())
            ),
            out,
        )?;
    }
    if let Some(delivery) = &results.totals.delivery {
        let at = |p| {
            delivery
                .percentile_us(p)
                .map_or_else(String::new, |us| format_us(us as f64))
        };
        tile(
            "delivery latency, p99",
            &at(99.0),
            &format!(
                "p50 {}, max {}",
                at(50.0),
                format_us(delivery.max_us as f64)
            ),
            out,
        )?;
    }
    if let Some(rate) = metric(Figure::DeliveryRate) {
        tile(
            "deliveries a second",
            &grouped(rate.round() as u64),
            "mean over the measured part",
            out,
        )?;
    }
    if let Some(connect) = &results.totals.connect {
        let at = |p| {
            connect
                .percentile_us(p)
                .map_or_else(String::new, |us| format_us(us as f64))
        };
        tile(
            "time to be usable, p99",
            &at(99.0),
            &format!("p50 {}", at(50.0)),
            out,
        )?;
    }
    if let Some(us) = results.totals.back_us {
        tile(
            "back after the storm",
            &format_us(us as f64),
            "reconnected and caught up",
            out,
        )?;
    }
    if let Some(server) = &results.server {
        if let Some(bytes) = server.process_bytes_per_connection {
            let kernel = server.kernel_bytes_per_connection.map_or_else(
                || "its processes".into(),
                |kernel| format!("and {} in the kernel", format_bytes(kernel)),
            );
            tile(
                "server memory per connection",
                &format_bytes(bytes),
                &kernel,
                out,
            )?;
        }
        if let Some(cpu) = server.cpu_mean {
            tile(
                "server CPU",
                &format!("{:.0} %", cpu * 100.0),
                "of one CPU, mean",
                out,
            )?;
        }
    }
    if let Some(bytes) = results.totals.generator_bytes_per_connection {
        tile(
            "generator memory per connection",
            &format_bytes(bytes),
            &format!(
                "busiest thread {:.0} % of a CPU",
                results.totals.generator_busiest * 100.0
            ),
            out,
        )?;
    }
    out.push_str("</section>\n");
    Ok(())
}

/// Rounded down, so that 99.99996 % never reads 100 %.
fn floor_share(share: f64) -> f64 {
    (share * 1e6).floor() / 1e6
}

fn trim_zeros(text: &str) -> &str {
    text.trim_end_matches('0').trim_end_matches('.')
}

fn write_checks(results: &Results, out: &mut String) -> fmt::Result {
    if results.checks.is_empty() && !results.verdict.is_valid() {
        return Ok(());
    }
    out.push_str("<ul class=\"checks\">\n");
    if results.verdict.is_valid() {
        out.push_str("<li class=\"ok\">✓ the generator kept up</li>\n");
    }
    for result in &results.checks {
        let (class, mark, actual) = match result.outcome {
            Outcome::Passed { actual } => ("ok", "✓", Some(actual)),
            Outcome::Failed { actual } => ("no", "✗", Some(actual)),
            Outcome::NoData => ("no", "✗", None),
        };
        let actual = actual.map_or_else(
            || "no data".into(),
            |value| show(result.check.metric(), value),
        );
        writeln!(
            out,
            "<li class=\"{class}\">{mark} <code>{}</code> · {}</li>",
            Escaped(&result.check),
            Escaped(actual)
        )?;
    }
    out.push_str("</ul>\n");
    Ok(())
}

fn write_funnel(results: &Results, out: &mut String) -> fmt::Result {
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
            "<tr><td>{name}<span class=\"bar\" style=\"width:{:.2}%\"></span></td><td class=\"n\">{}</td></tr>",
            share.min(100.0),
            grouped(count)
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

fn write_latencies(results: &Results, out: &mut String) -> fmt::Result {
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
    for percentile in crate::measure::PERCENTILES {
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

fn write_deliveries(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_reasons(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_steps(results: &Results, out: &mut String) -> fmt::Result {
    if results.steps.is_empty() {
        return Ok(());
    }
    out.push_str("<div class=\"panel\"><h3>Search for the highest rate</h3><table><tr><th>rate</th><th class=\"n\">p50</th><th class=\"n\">p99</th><th class=\"n\">promise</th></tr>\n");
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
            "<tr><td>{}/s</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n {class}\">{word}</td></tr>",
            grouped(step.per_s.round() as u64),
            Escaped(at(50.0)),
            Escaped(at(99.0)),
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

fn write_agents(results: &Results, out: &mut String) -> fmt::Result {
    if results.agents.is_empty() {
        return Ok(());
    }
    out.push_str("<div class=\"panel\"><h3>Load machines</h3><table><tr><th>name</th><th class=\"n\">alive</th><th class=\"n\">clock offset</th></tr>\n");
    for agent in &results.agents {
        let lost = if agent.lost {
            " <span class=\"worse\">lost</span>"
        } else {
            ""
        };
        writeln!(
            out,
            "<tr><td>{}{lost}</td><td class=\"n\">{}</td><td class=\"n\">{:+.3} ± {:.3} ms</td></tr>",
            Escaped(&agent.name),
            grouped(agent.alive),
            agent.offset_us as f64 / 1000.0,
            agent.offset_error_us as f64 / 1000.0
        )?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

fn write_environment(results: &Results, out: &mut String) -> fmt::Result {
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
        "<footer>throng {} · results schema {} · latencies from intended times, in histograms that are merged and never averaged</footer>",
        Escaped(&manifest.version),
        results.schema
    )
}

fn write_comparison(
    a: &Results,
    b: &Results,
    names: (&str, &str),
    comparison: &Comparison,
    out: &mut String,
) -> fmt::Result {
    writeln!(
        out,
        "<header>\n<p class=\"eyebrow\">throng bench · comparison</p>\n<h1>{} against {}</h1>\n<p class=\"meta\"><span>A: {}, {}</span><span>B: {}, {}</span></p>",
        Escaped(names.0),
        Escaped(names.1),
        Escaped(&a.manifest.title),
        utc(a.manifest.started_unix_ms),
        Escaped(&b.manifest.title),
        utc(b.manifest.started_unix_ms),
    )?;
    if !comparison.warnings.is_empty() {
        out.push_str("<div class=\"banner note\"><strong>The two runs differ in more than their figures</strong>");
        list(&comparison.warnings, out)?;
        out.push_str("</div>\n");
    }
    writeln!(
        out,
        "</header>\n<div class=\"panel\"><table><tr><th>figure</th><th class=\"n\">{}</th><th class=\"n\">{}</th><th class=\"n\">change</th><th class=\"n\">reading</th></tr>",
        Escaped(names.0),
        Escaped(names.1)
    )?;
    for row in &comparison.rows {
        let word = row.reading.as_str();
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n {}\">{word}</td></tr>",
            row.name,
            Escaped(&row.a),
            Escaped(&row.b),
            percent(row.change),
            word.replace(' ', "-")
        )?;
    }
    out.push_str(
        "</table></div>\n<h2>Over time</h2>\n<section class=\"charts\" id=\"charts\"></section>\n",
    );
    Ok(())
}

/// A moment as people write it, in UTC.
fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = civil(seconds / 86_400);
    let of_day = seconds % 86_400;
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        of_day / 3600,
        of_day % 3600 / 60
    )
}

/// The Gregorian date of a day since 1970-01-01, counting from March so that leap days come last.
const fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests;
