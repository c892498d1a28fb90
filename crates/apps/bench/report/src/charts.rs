//! Charts of a run, as data that the page's script draws.
//!
//! Invariant: a chart without data is not there; an unknown value is a gap, never zero.

use serde::Serialize;

use throng_bench_measure::Sample;

use crate::Results;

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

type Pick = fn(&Row<'_>) -> Option<f64>;

struct Row<'a> {
    now: &'a Sample,
    before: Option<&'a Sample>,
}

impl Row<'_> {
    fn per_s(&self, count: f64) -> Option<f64> {
        (self.now.length_ms > 0).then(|| count * 1000.0 / self.now.length_ms as f64)
    }

    fn risen(&self, of: fn(&Sample) -> u64) -> Option<f64> {
        let before = self.before.map_or(0, of);
        self.per_s(of(self.now).saturating_sub(before) as f64)
    }
}

struct Plan {
    title: &'static str,
    hint: &'static str,
    /// Unit of values; times have a logarithmic axis.
    unit: &'static str,
    /// Index of the line that a comparison shows.
    main: usize,
    lines: &'static [(&'static str, &'static str, Pick)],
}

/// Picks one of the five figures of a latency.
macro_rules! figure {
    ($figures:ident, $place:literal) => {
        |row| row.now.$figures.map(|figures| figures[$place] as f64)
    };
}

macro_rules! latency {
    ($figures:ident) => {
        &[
            ("p50", "r1", figure!($figures, 0)),
            ("p90", "r2", figure!($figures, 1)),
            ("p99", "r3", figure!($figures, 2)),
            ("max", "r4", figure!($figures, 4)),
        ]
    };
}

/// Rate of a count of the interval, where there are messages.
fn messages(row: &Row<'_>, count: u64) -> Option<f64> {
    (row.now.published + row.now.received > 0).then(|| row.per_s(count as f64))?
}

const PLANS: &[Plan] = &[
    Plan {
        title: "Connections",
        hint: "Opened so far, and usable at each moment.",
        unit: "count",
        main: 3,
        lines: &[
            ("attempted", "c5", |row| Some(row.now.attempted as f64)),
            ("server's own count", "c3", |row| {
                row.now.server?.connections.map(|n| n as f64)
            }),
            ("subscribed", "c2", |row| Some(row.now.subscribed as f64)),
            ("alive", "c1", |row| Some(row.now.alive as f64)),
        ],
    },
    Plan {
        title: "Connects and losses",
        hint: "Per second.",
        unit: "per_s",
        main: 0,
        lines: &[
            ("became usable", "c1", |row| row.risen(|s| s.upgraded)),
            ("failed", "c4", |row| row.risen(|s| s.failed)),
            ("lost", "c3", |row| row.risen(|s| s.lost)),
        ],
    },
    Plan {
        title: "Delivery latency",
        hint: "From the moment each publication was due. Logarithmic.",
        unit: "us",
        main: 2,
        lines: latency!(latency_us),
    },
    Plan {
        title: "Messages",
        hint: "Per second.",
        unit: "per_s",
        main: 1,
        lines: &[
            ("published", "c2", |row| messages(row, row.now.published)),
            ("received", "c1", |row| messages(row, row.now.received)),
        ],
    },
    Plan {
        title: "Time to be usable",
        hint: "From the moment each connect was due: TCP, handshake, subscription. Logarithmic.",
        unit: "us",
        main: 2,
        lines: latency!(connect_us),
    },
    Plan {
        title: "Traffic",
        hint: "As the generator sees it, without TCP and TLS.",
        unit: "bits",
        main: 1,
        lines: &[
            ("to the server", "c2", |row| {
                row.per_s(row.now.sent_bytes as f64 * 8.0)
            }),
            ("from the server", "c1", |row| {
                row.per_s(row.now.received_bytes as f64 * 8.0)
            }),
        ],
    },
    Plan {
        title: "Server memory",
        hint: "Its processes (PSS), and the kernel's slab of its machine.",
        unit: "bytes",
        main: 0,
        lines: &[
            ("processes", "c1", |row| {
                row.now.server?.memory_bytes.map(|n| n as f64)
            }),
            ("kernel slab", "c5", |row| {
                row.now.server?.slab_bytes.map(|n| n as f64)
            }),
        ],
    },
    Plan {
        title: "Processors",
        hint: "As a share of one CPU.",
        unit: "share",
        main: 0,
        lines: &[
            ("server", "c1", |row| row.now.server?.cpu),
            ("generator's busiest thread", "c3", |row| {
                Some(row.now.generator_busy)
            }),
        ],
    },
    Plan {
        title: "Generator lag",
        hint: "How late the generator itself was. It must stay far below the latency that it \
               measures.",
        unit: "us",
        main: 0,
        lines: &[
            ("p99", "r3", figure!(lag_us, 2)),
            ("max", "r4", figure!(lag_us, 4)),
        ],
    },
];

pub(super) fn of_run(results: &Results) -> Vec<Chart> {
    let measured = measured(results);
    let mut charts: Vec<Chart> = PLANS
        .iter()
        .filter_map(|plan| {
            let lines = plan.lines.iter();
            let series =
                lines.filter_map(|line| series(results, line.0.to_owned(), line.1, false, line.2));
            chart(plan, series.collect(), measured)
        })
        .collect();
    let curve = curve(results, "delivery".into(), "c1", false);
    charts.extend(percentile_chart(curve.into_iter().collect()));
    charts
}

/// Makes the charts of two runs over each other: one line of each.
pub(super) fn of_two(a: &Results, b: &Results, names: (&str, &str)) -> Vec<Chart> {
    let mut charts: Vec<Chart> = PLANS
        .iter()
        .filter_map(|plan| {
            let (line, _, pick) = plan.lines.get(plan.main)?;
            let both = [
                series(a, format!("{} · {line}", names.0), "c1", false, *pick),
                series(b, format!("{} · {line}", names.1), "c3", true, *pick),
            ];
            chart(plan, both.into_iter().flatten().collect(), None)
        })
        .collect();
    let both = [
        curve(a, names.0.to_owned(), "c1", false),
        curve(b, names.1.to_owned(), "c3", true),
    ];
    charts.extend(percentile_chart(both.into_iter().flatten().collect()));
    charts
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
    results: &Results,
    name: String,
    color: &'static str,
    dashed: bool,
    pick: Pick,
) -> Option<Series> {
    let before = std::iter::once(None).chain(results.series.iter().map(Some));
    let rows = results.series.iter().zip(before);
    let points: Vec<_> = rows
        .map(|(now, before)| (now.at_ms as f64 / 1000.0, pick(&Row { now, before })))
        .collect();
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
        let made = |measured| chart(&PLANS[0], lines.clone(), measured).expect("a chart");
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
