//! Pages: one HTML file with everything in it, which opens from disk and needs no network.
//!
//! Owns: the tables and tiles (readable without a script), escaping, and handing the charts to
//! `page.js`.
//!
//! Invariant: no text of a run reaches the page unescaped.

mod tables;

use std::fmt::{self, Write as _};

use tables::{
    Escaped, write_agents, write_deliveries, write_environment, write_funnel, write_latencies,
    write_reasons, write_steps,
};

use throng_bench_measure::Verdict;
use throng_bench_plan::check::{Figure, Metric};
use throng_types::date;
use throng_types::units::{format_bytes, grouped};

use crate::charts::{self, Chart};
use crate::compare::{Comparison, percent};
use crate::text::{measured, measured_bytes, time, written};
use crate::{Results, compare};

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
    if let Verdict::Invalid { reasons, .. } = &results.verdict {
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

#[cfg(test)]
mod tests;
