//! Pages: one HTML file with everything in it, which opens from disk and needs no network.
//!
//! Owns: the tables and tiles (readable without a script), escaping, and handing the charts to
//! `page.js`.
//!
//! Invariant: no text of a run reaches the page unescaped.

use std::fmt::{self, Display, Write as _};

use throng_bench_measure::{LatencySummary, PERCENTILES, RunVerdict};
use throng_bench_plan::check::{Figure, Metric};
use throng_types::date;
use throng_types::units::{format_bytes, format_us, grouped};

use crate::Results;
use crate::charts::{self, Chart};
use crate::compare::{Comparison, compare, percent};
use crate::text::{measured, measured_bytes, time, written};

const CSS: &str = include_str!("page.css");
const JS: &str = include_str!("page.js");

pub fn report_page(results: &Results) -> String {
    let body = written(|out| write_report(results, out));
    page(&results.manifest.title, &body, &charts::of_run(results))
}

pub fn comparison_page(a: &Results, b: &Results, names: (&str, &str)) -> String {
    let body = written(|out| write_comparison(a, b, names, &compare(a, b), out));
    let title = format!("{} against {}", names.0, names.1);
    page(&title, &body, &charts::of_two(a, b, names))
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
<script type=\"application/json\" id=\"charts-data\">{data}</script>\n<script>\n{JS}</script>\n\
</body>\n</html>\n",
        Escaped(title)
    )
}

fn write_report(results: &Results, out: &mut String) -> fmt::Result {
    write_header(results, out)?;
    write_tiles(results, out)?;
    write_checks(results, out)?;
    out.push_str(
        "<h2>Over time</h2>\n<section class=\"charts\" id=\"charts\"></section>\n\
                  <noscript><p class=\"meta\">The charts need a script; the figures below do \
                  not.</p></noscript>\n",
    );
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
    let title = Escaped(&manifest.title);
    writeln!(
        out,
        "<header>\n<p class=\"eyebrow\">throng bench</p>\n<h1>{title}</h1>"
    )?;
    let length_ms = manifest
        .finished_unix_ms
        .saturating_sub(manifest.started_unix_ms);
    let mut facts = vec![
        scenario.kind.as_str().to_owned(),
        scenario.transport.as_str().to_owned(),
        format!("{} clients", grouped(scenario.clients)),
    ];
    if let Some(publish) = &scenario.publish {
        let size = format_bytes(publish.size_bytes as f64);
        facts.push(format!(
            "{}/s of {size}",
            grouped(publish.per_s.round() as u64)
        ));
    }
    facts.extend(manifest.server.clone());
    facts.push(date::minute(manifest.started_unix_ms));
    facts.push(format!("{:.0} s", length_ms as f64 / 1000.0));
    out.push_str("<p class=\"meta\">");
    for fact in facts {
        write!(out, "<span>{}</span>", Escaped(fact))?;
    }
    out.push_str("</p>\n");
    if let RunVerdict::Invalid { reasons, .. } = &results.verdict {
        let warning = Escaped(results.verdict.warning().unwrap_or_default());
        write!(
            out,
            "<div class=\"banner\"><strong>Invalid: {warning}.</strong>"
        )?;
        list(reasons, out)?;
        out.push_str("</div>\n");
    }
    let limits = results.totals.counters.limits_hit().into_iter();
    let notes: Vec<String> = limits.chain(results.notes.iter().cloned()).collect();
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

fn write_tiles(results: &Results, out: &mut String) -> fmt::Result {
    let (totals, server) = (&results.totals, results.server.as_ref());
    let metric = |figure| results.get(Metric::Figure(figure));
    out.push_str("<section class=\"tiles\">\n");
    let mut tile = |name: &str, value: &str, detail: &str| {
        let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
        writeln!(
            out,
            "<div class=\"tile\"><div class=\"name\">{}</div><div class=\"value\">{}<span \
             class=\"unit\">{}</span></div><div class=\"detail\">{}</div></div>",
            Escaped(name),
            Escaped(number),
            Escaped(unit),
            Escaped(detail)
        )
    };
    let highest = results.series.iter().map(|sample| sample.alive).max();
    let highest = highest.unwrap_or_default().max(totals.counters.alive());
    let (lost, failed) = (totals.counters.lost(), totals.counters.failed());
    let detail = format!("{} lost, {} failed", grouped(lost), grouped(failed));
    tile("connections at once", &grouped(highest), &detail)?;
    if let Some(reach) = metric(Figure::Reach) {
        let (distinct, expected) = (totals.deliveries.distinct, totals.deliveries.expected());
        // Rounded down, so that 99.99996 % never reads 100 %.
        let percent = format!("{:.4}", (reach * 1e6).floor() / 1e4);
        let percent = percent.trim_end_matches('0').trim_end_matches('.');
        let detail = format!("{} of {}", grouped(distinct), grouped(expected));
        tile("deliveries that arrived", &format!("{percent} %"), &detail)?;
    }
    if let Some(delivery) = &totals.delivery {
        let at = |p| time(delivery.percentile_us(p));
        let detail = format!("p50 {}, max {}", at(50.0), time(Some(delivery.max_us)));
        tile("delivery latency, p99", &at(99.0), &detail)?;
    }
    if let Some(rate) = metric(Figure::DeliveryRate) {
        let rate = grouped(rate.round() as u64);
        tile("deliveries a second", &rate, "mean over the measured part")?;
    }
    if let Some(connect) = &totals.connect {
        let at = |p| time(connect.percentile_us(p));
        let detail = format!("p50 {}", at(50.0));
        tile("time to be usable, p99", &at(99.0), &detail)?;
    }
    if totals.reconnected_us.is_some() {
        let back = totals.back_us.map(|us| time(Some(us)));
        let usable = time(totals.reconnected_us);
        let detail = format!("with what was missed; usable after {usable}");
        tile(
            "back after the storm",
            back.as_deref().unwrap_or("never"),
            &detail,
        )?;
    }
    if let Some(bytes) = server.and_then(|server| server.process_bytes_per_connection) {
        let detail = match server.and_then(|server| server.kernel_bytes_per_connection) {
            Some(kernel) => format!("and {} in the kernel", measured_bytes(kernel)),
            None => "its processes".into(),
        };
        tile(
            "server memory per connection",
            &measured_bytes(bytes),
            &detail,
        )?;
    }
    if let Some(cpu) = server.and_then(|server| server.cpu_mean) {
        let cpu = format!("{:.0} %", cpu * 100.0);
        tile("server CPU", &cpu, "of one CPU, mean")?;
    }
    if let Some(bytes) = totals.generator_bytes_per_connection {
        let busiest = totals.generator_busiest * 100.0;
        let detail = format!("busiest thread {busiest:.0} % of a CPU");
        tile(
            "generator memory per connection",
            &measured_bytes(bytes),
            &detail,
        )?;
    }
    out.push_str("</section>\n");
    Ok(())
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
        let (class, mark) = if result.outcome.passed() {
            ("ok", "✓")
        } else {
            ("no", "✗")
        };
        let (check, shown) = (Escaped(&result.check), Escaped(measured(result)));
        writeln!(
            out,
            "<li class=\"{class}\">{mark} <code>{check}</code> · {shown}</li>"
        )?;
    }
    out.push_str("</ul>\n");
    Ok(())
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
        "<header>\n<p class=\"eyebrow\">throng bench · comparison</p>\n<h1>{} against {}</h1>\n<p \
         class=\"meta\"><span>A: {}, {}</span><span>B: {}, {}</span></p>",
        Escaped(names.0),
        Escaped(names.1),
        Escaped(&a.manifest.title),
        date::minute(a.manifest.started_unix_ms),
        Escaped(&b.manifest.title),
        date::minute(b.manifest.started_unix_ms),
    )?;
    if !comparison.warnings.is_empty() {
        out.push_str("<div class=\"banner note\"><strong>To know when comparing them</strong>");
        list(&comparison.warnings, out)?;
        out.push_str("</div>\n");
    }
    writeln!(
        out,
        "</header>\n<div class=\"panel compared\"><table><tr><th>figure</th><th \
         class=\"n\">{}</th><th class=\"n\">{}</th><th class=\"n\">change</th><th class=\"n \
         reading\">reading</th></tr>",
        Escaped(names.0),
        Escaped(names.1)
    )?;
    for row in &comparison.rows {
        let word = row.reading.as_str();
        // The change has its colour too: on a narrow screen the word has no room.
        let class = word.replace(' ', "-");
        writeln!(
            out,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td \
             class=\"n {class}\">{}</td><td class=\"n reading {class}\">{word}</td></tr>",
            row.name,
            Escaped(&row.a),
            Escaped(&row.b),
            percent(row.change),
        )?;
    }
    out.push_str(
        "</table></div>\n<h2>Over time</h2>\n<section class=\"charts\" id=\"charts\"></section>\n",
    );
    Ok(())
}

/// Text that cannot become markup.
struct Escaped<T>(T);

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

fn write_funnel(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_latencies(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_deliveries(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_reasons(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_steps(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_agents(results: &Results, out: &mut String) -> fmt::Result {
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

fn write_environment(results: &Results, out: &mut String) -> fmt::Result {
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

#[cfg(test)]
mod tests;
