//! Charts of a run, as data that the page's script draws.
//!
//! Invariant: a chart without data is not there; an unknown value is a gap, never zero.

use serde::Serialize;
use serde_json::Value;

use crate::Results;
use throng_types::fill::find;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) hint: &'static str,
    /// Unit of values: `count`, `us`, `bytes`, `share`, `per_s`, `bits`.
    pub(super) unit: &'static str,
    pub(super) axis: &'static str,
    pub(super) log: bool,
    pub(super) series: Vec<Series>,
    pub(super) measured: Option<(f64, f64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Series {
    pub(super) name: String,
    /// Class in the page's colours: `c1` … for kinds, `r1` … for a rising order.
    pub(super) color: &'static str,
    pub(super) dashed: bool,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// Most points of a line: a chart is some hundred pixels wide.
const POINTS_MAX: usize = 720;

/// The charts and their lines, in the order of the page.
const PLANS: &str = include_str!("charts.txt");

struct Plan {
    title: &'static str,
    /// Unit of values; times have a logarithmic axis.
    unit: &'static str,
    hint: &'static str,
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    color: &'static str,
    figure: &'static str,
    /// True for the line that a comparison shows.
    is_main: bool,
}

fn plans() -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    for (mark, row) in PLANS.lines().filter_map(|row| row.split_once(' ')) {
        let mut cells = row.split(" | ");
        let mut next = || cells.next().unwrap_or_default();
        match (mark, plans.last_mut()) {
            ("=", _) => plans.push(Plan {
                title: next(),
                unit: next(),
                hint: next(),
                lines: Vec::new(),
            }),
            ("-" | "*", Some(plan)) => plan.lines.push(Line {
                name: next(),
                color: next(),
                figure: next(),
                is_main: mark == "*",
            }),
            _ => {}
        }
    }
    plans
}

/// Reads a figure of `charts.txt` from a sample and the one before it.
fn pick(figure: &str, now: &Value, before: Option<&Value>) -> Option<f64> {
    let (kind, path) = figure.split_once(' ').unwrap_or(("", figure));
    let of = |sample: &Value, path: &str| find(&[sample], path).as_f64();
    let per_s = |count: f64| {
        let length_ms = of(now, "length_ms")?;
        (length_ms > 0.0).then(|| count * 1000.0 / length_ms)
    };
    let count = of(now, path)?;
    match kind {
        "rise" => {
            per_s((count - before.and_then(|before| of(before, path)).unwrap_or(0.0)).max(0.0))
        }
        "messages" if of(now, "published")? + of(now, "received")? == 0.0 => None,
        "messages" => per_s(count),
        "bits" => per_s(count * 8.0),
        _ => Some(count),
    }
}

pub(super) fn of_run(results: &Results) -> Vec<Chart> {
    let (measured, samples) = (measured(results), samples(results));
    let charts = plans().into_iter().filter_map(|plan| {
        let lines = plan.lines.iter();
        let series = lines.filter_map(|line| {
            series(
                &samples,
                line.name.to_owned(),
                line.color,
                false,
                line.figure,
            )
        });
        chart(&plan, series.collect(), measured)
    });
    let curve = curve(results, "delivery".into(), "c1", false);
    let curve = percentile_chart(curve.into_iter().collect());
    charts.chain(curve).collect()
}

/// Makes the charts of two runs over each other: one line of each.
pub(super) fn of_two(a: &Results, b: &Results, names: (&str, &str)) -> Vec<Chart> {
    let samples = (samples(a), samples(b));
    let charts = plans().into_iter().filter_map(|plan| {
        let line = plan.lines.iter().find(|line| line.is_main)?;
        let name = |run: &str| format!("{run} · {}", line.name);
        let both = [
            series(&samples.0, name(names.0), "c1", false, line.figure),
            series(&samples.1, name(names.1), "c3", true, line.figure),
        ];
        chart(&plan, both.into_iter().flatten().collect(), None)
    });
    let both = [
        curve(a, names.0.to_owned(), "c1", false),
        curve(b, names.1.to_owned(), "c3", true),
    ];
    let curves = percentile_chart(both.into_iter().flatten().collect());
    charts.chain(curves).collect()
}

/// Lists the samples of a run as JSON, of which figures are read by path.
fn samples(results: &Results) -> Vec<Value> {
    // Samples are plain numbers, which always become JSON.
    let samples = results.series.iter();
    samples
        .map(|sample| serde_json::to_value(sample).unwrap_or_default())
        .collect()
}

fn measured(results: &Results) -> Option<(f64, f64)> {
    let (begin, end) = results.totals.measured_ms;
    (end > begin).then(|| (begin as f64 / 1000.0, end as f64 / 1000.0))
}

/// Cuts the time after the last value of any line: connect times are known while connections come,
/// and half of the chart would be empty behind it.
fn cut(series: &mut [Series]) {
    let known = |series: &Series| {
        let known = series.points.iter().rposition(|(_, y)| y.is_some());
        known.map(|place| series.points[place].0)
    };
    let Some(end) = series.iter().filter_map(known).reduce(f64::max) else {
        return;
    };
    for series in series {
        series.points.retain(|(at, _)| *at <= end);
    }
}

fn chart(plan: &Plan, mut series: Vec<Series>, measured: Option<(f64, f64)>) -> Option<Chart> {
    cut(&mut series);
    let end = series
        .iter()
        .filter_map(|series| Some(series.points.last()?.0));
    let end = end.reduce(f64::max).unwrap_or_default();
    let measured = measured.filter(|(begin, _)| *begin < end);
    let measured = measured.map(|(begin, until)| (begin, until.min(end)));
    (!series.is_empty()).then_some(Chart {
        title: plan.title,
        hint: plan.hint,
        unit: plan.unit,
        axis: "time",
        log: plan.unit == "us",
        series,
        measured,
    })
}

fn percentile_chart(series: Vec<Series>) -> Option<Chart> {
    (!series.is_empty()).then_some(Chart {
        title: "Latency by percentile",
        hint: "All deliveries of the measured part. Each step to the right is ten times rarer.",
        unit: "us",
        axis: "percentile",
        log: true,
        series,
        measured: None,
    })
}

fn series(
    samples: &[Value],
    name: String,
    color: &'static str,
    dashed: bool,
    figure: &str,
) -> Option<Series> {
    let before = std::iter::once(None).chain(samples.iter().map(Some));
    let points = samples.iter().zip(before).map(|(now, before)| {
        let at_ms = now["at_ms"].as_f64().unwrap_or_default();
        (at_ms / 1000.0, pick(figure, now, before))
    });
    let points: Vec<_> = points.collect();
    let is_known = points.iter().any(|(_, y)| y.is_some());
    is_known.then(|| Series {
        name,
        color,
        dashed,
        points: thin(points),
    })
}

fn curve(results: &Results, name: String, color: &'static str, dashed: bool) -> Option<Series> {
    let curve = results.totals.delivery_curve.iter();
    let points: Vec<_> = curve.map(|&(p, us)| (p, Some(us as f64))).collect();
    (!points.is_empty()).then_some(Series {
        name,
        color,
        dashed,
        points,
    })
}

/// Keeps the highest point of each group, so that no peak is lost, and the very last point.
fn thin(points: Vec<(f64, Option<f64>)>) -> Vec<(f64, Option<f64>)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let group = points.len().div_ceil(POINTS_MAX - 1);
    let last = points.last().copied();
    let value = |point: &(f64, Option<f64>)| point.1.unwrap_or(-1.0);
    let highest = |group: &[(f64, Option<f64>)]| {
        { group.iter().copied() }.max_by(|a, b| value(a).total_cmp(&value(b)))
    };
    let mut kept: Vec<_> = points.chunks(group).filter_map(highest).collect();
    if kept.last() != last.as_ref() {
        kept.extend(last);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_ends_with_its_last_value() {
        let series = |name: &str, values: &[Option<f64>]| Series {
            name: name.to_owned(),
            color: "c1",
            dashed: false,
            points: (0..).map(f64::from).zip(values.iter().copied()).collect(),
        };
        let x = Some(1.0);
        let lines = vec![
            series("a", &[None, x, None, None, None, None]),
            series("b", &[x, None, None, x, None, None]),
        ];
        let made = |measured| chart(&plans()[0], lines.clone(), measured).expect("a chart");
        for series in made(None).series {
            assert_eq!(series.points.len(), 4, "{}", series.name);
        }
        assert_eq!(made(Some((2.0, 5.0))).measured, Some((2.0, 3.0)));
        assert_eq!(made(Some((4.0, 5.0))).measured, None);
    }

    #[test]
    fn thinning_keeps_peaks_and_the_end() {
        let points: Vec<_> = (0..10_000)
            .map(|k| (f64::from(k), Some(if k == 4321 { 99.0 } else { 1.0 })))
            .collect();
        let thinned = thin(points);
        assert!(thinned.len() <= POINTS_MAX);
        assert!(thinned.contains(&(4321.0, Some(99.0))));
        assert_eq!(thinned.last(), Some(&(9999.0, Some(1.0))));
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(thin(vec![(0.0, None)]), [(0.0, None)]);
    }
}
