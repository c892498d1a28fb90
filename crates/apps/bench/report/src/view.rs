//! View of the results of a run, of which `summary.txt` and `report.html` show what they name.
//! Figures of the summary have the names by which checks know them.
//!
//! Owns: figures that are made of others, and the order of lists.

use serde_json::{Map, Value, json};

use throng_bench_measure::{LatencySummary, PERCENTILES, RunCounters};
use throng_bench_plan::check::{Figure, LatencyKind, Metric};
use throng_types::date;
use throng_types::fill::fill;
use throng_types::units::{format_bytes, format_us, grouped, measured_bytes};

use crate::text::{measured, reasons};
use crate::{CheckResult, Results, ServerTotals, StepResult};

/// Most notes that the summary prints; the page has them all.
const NOTES_MAX: usize = 6;

/// Writes the summary that ends a run on a terminal: enough to decide from in ten seconds.
pub fn summary(results: &Results) -> String {
    fill(include_str!("summary.txt"), &view(results))
}

pub(crate) fn view(results: &Results) -> Value {
    let (manifest, totals) = (&results.manifest, &results.totals);
    let (counters, deliveries) = (&totals.counters, &totals.deliveries);
    let highest = results.series.iter().map(|sample| sample.alive).max();
    let highest = highest.unwrap_or_default().max(counters.alive());
    let limits = counters.limits_hit();
    let remarks: Vec<&String> = limits.iter().chain(&results.notes).collect();
    let figures = Metric::all().map(|metric| (metric.to_string(), json!(results.get(metric))));
    let latency = |kind, head, word| {
        let mut view = latency(kind, results.latency(kind)?);
        view["head"] = json!(head);
        view["word"] = json!(word);
        Some(view)
    };
    let delivery = latency(LatencyKind::Delivery, "delivery", "latency");
    let connect = latency(LatencyKind::Connect, "usable", "usable after");
    let lag = latency(LatencyKind::Lag, "lag", "lag");
    let latencies: Vec<&Value> = [&delivery, &connect, &lag].into_iter().flatten().collect();
    let due = deliveries.expected() + deliveries.received;
    let judged = !results.checks.is_empty() || results.verdict.is_valid();
    json!({
        "manifest": manifest,
        "schema": results.schema,
        "command": manifest.command.join(" "),
        "scenario": serde_json::to_string_pretty(&results.scenario).unwrap_or_default(),
        "facts": facts(results),
        "verdict": results.verdict,
        "warning": results.verdict.warning(),
        "limits": limits,
        "first_notes": results.notes.iter().take(NOTES_MAX).collect::<Vec<_>>(),
        "remarks": remarks,
        "totals": totals,
        "figures": figures.collect::<Map<_, _>>(),
        "highest": highest,
        "lost": counters.lost(),
        "failed": counters.failed(),
        "published": Some(counters.published).filter(|count| *count > 0),
        "expected": deliveries.expected(),
        "due": due > 0,
        "reach": results.get(Metric::Figure(Figure::Reach)).map(reach),
        "with_data": totals
            .connections_with_data
            .map(|(with, of)| format!("{} of {}", grouped(with), grouped(of))),
        "delivery": delivery,
        "connect": connect,
        "latencies": latencies,
        "server": results.server,
        "server_line": results.server.as_ref().map(server_line),
        "judged": judged,
        "checks": results.checks.iter().map(check).collect::<Value>(),
        "stages": stages(results),
        "messages": if due + counters.published > 0 { messages(results) } else { Value::Null },
        "reasons": named_reasons(counters),
        "steps": results.steps.iter().map(step).collect::<Value>(),
        "agents": results.agents,
    })
}

fn facts(results: &Results) -> Vec<String> {
    let (manifest, scenario) = (&results.manifest, &results.scenario);
    let length_ms = { manifest.finished_unix_ms }.saturating_sub(manifest.started_unix_ms);
    let mut facts = vec![
        scenario.kind.as_str().to_owned(),
        scenario.transport.as_str().to_owned(),
        format!("{} clients", grouped(scenario.clients)),
    ];
    facts.extend(scenario.publish.as_ref().map(|publish| {
        let size = format_bytes(publish.size_bytes as f64);
        format!("{}/s of {size}", grouped(publish.per_s.round() as u64))
    }));
    facts.extend(manifest.server.clone());
    facts.push(date::minute(manifest.started_unix_ms));
    facts.push(format!("{:.0} s", length_ms as f64 / 1000.0));
    facts
}

/// Share of deliveries that arrived, in percent. Rounded down, so that 99.99996 % never reads
/// 100 %.
fn reach(share: f64) -> String {
    let percent = format!("{:.4}", (share * 1e6).floor() / 1e4);
    percent
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Stages of connections with their share of those attempted, in percent of the width of a bar.
fn stages(results: &Results) -> Value {
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
    let shown = { stages.into_iter() }.filter(|(_, count, always)| *always || *count > 0);
    let stage = |(name, count, _): (&str, u64, bool)| {
        let share = count as f64 / counters.attempted.max(1) as f64 * 100.0;
        json!({"name": name, "count": count, "width": format!("{:.2}", share.min(100.0))})
    };
    shown.map(stage).collect()
}

fn messages(results: &Results) -> Value {
    let (counters, deliveries) = (&results.totals.counters, &results.totals.deliveries);
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
    let shown = { counts.into_iter() }.filter(|(_, count, always)| *always || *count > 0);
    let message = |(name, count, _)| json!({"name": name, "count": count});
    shown.map(message).collect()
}

/// Reasons of failures and losses, each with the limit behind it if there is one.
fn named_reasons(counters: &RunCounters) -> Value {
    let limits = counters.connect_failures().into_iter();
    let limits = limits.map(|(reason, _)| Some(reason.limit()?.0));
    let limits = limits.chain(std::iter::repeat(None));
    let named = reasons(counters)
        .zip(limits)
        .map(|((fate, reason, count), limit)| {
            let words = reason.replace('_', " ");
            json!({"fate": fate, "reason": reason, "words": words, "limit": limit, "count": count})
        });
    named.collect()
}

/// Figures of a latency: its summary, its percentiles by name (`p99_9`), and a line of them.
fn latency(kind: LatencyKind, summary: &LatencySummary) -> Value {
    json!({"summary": summary, "at": percentiles(summary), "line": line(kind, summary)})
}

fn percentiles(summary: &LatencySummary) -> Map<String, Value> {
    let name = |percentile: f64| format!("p{percentile}").replace('.', "_");
    let named = PERCENTILES.map(|p| (name(p), json!(summary.percentile_us(p))));
    named.into_iter().collect()
}

fn line(kind: LatencyKind, latency: &LatencySummary) -> String {
    let named = |metric: Metric, us: f64| format!("{metric} {}", format_us(us));
    let shown =
        { latency.percentiles_us.iter() }.filter(|(p, _)| [50.0, 90.0, 99.0, 99.9].contains(p));
    let mut parts: Vec<String> = shown
        .map(|(p, us)| named(Metric::Percentile(kind, *p), *us as f64))
        .collect();
    parts.push(named(Metric::Max(kind), latency.max_us as f64));
    parts.join("  ")
}

fn server_line(server: &ServerTotals) -> String {
    let process = server.process_bytes_per_connection.map(|bytes| {
        let name = Figure::ServerMemory.as_str();
        format!("{name} {}", measured_bytes(bytes))
    });
    let kernel = server.kernel_bytes_per_connection;
    let kernel =
        kernel.map(|bytes| format!("{} per connection in the kernel", measured_bytes(bytes)));
    let cpu = { server.cpu_mean }.map(|cpu| format!("{} {cpu:.2}", Figure::ServerCpu.as_str()));
    let most = server.memory_bytes_max;
    let most = most.map(|bytes| format!("{} at most", format_bytes(bytes as f64)));
    let parts: Vec<String> = [process, kernel, cpu, most].into_iter().flatten().collect();
    parts.join(", ")
}

fn check(result: &CheckResult) -> Value {
    json!({
        "check": result.check,
        "passed": result.outcome.passed(),
        "actual": measured(result),
    })
}

fn step(step: &StepResult) -> Value {
    let delivery = step.delivery.as_ref();
    json!({
        "per_s": step.per_s,
        "whole": step.per_s as u64,
        "held": step.held,
        "word": if step.held { "held" } else { "broke" },
        "at": delivery.map(percentiles),
        "line": delivery.map(|delivery| line(LatencyKind::Delivery, delivery)),
    })
}
