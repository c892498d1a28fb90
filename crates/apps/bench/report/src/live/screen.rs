//! Live screen of a terminal.
//!
//! Owns: the screen while it exists; when it is dropped, the terminal is as it was. It reads no
//! keys, so the terminal stays in its ordinary mode and Ctrl-C is a signal.

use std::collections::VecDeque;
use std::io::{self, Stderr};

use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Row, Table};
use ratatui::{Frame, Terminal};

use throng_bench_measure::Sample;
use throng_types::units::{format_bytes, grouped};

use crate::Snapshot;
use crate::text::{reasons, time};

const ROWS_MAX: usize = 120;

pub struct Screen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    rows: VecDeque<Sample>,
}

impl Screen {
    /// Takes the terminal at standard error.
    pub fn open() -> io::Result<Self> {
        execute!(io::stderr(), EnterAlternateScreen, Hide)?;
        Ok(Self {
            terminal: Terminal::new(CrosstermBackend::new(io::stderr()))?,
            rows: VecDeque::new(),
        })
    }

    /// Draws a row. A terminal that has gone away is no reason to end a run.
    pub fn on_row(&mut self, snapshot: &Snapshot<'_>) {
        remember(&mut self.rows, snapshot.sample);
        let _ = draw_on(&mut self.terminal, snapshot, &self.rows);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    }
}

fn remember(rows: &mut VecDeque<Sample>, sample: &Sample) {
    if rows.len() == ROWS_MAX {
        rows.pop_front();
    }
    rows.push_back(sample.clone());
}

fn draw_on<B: Backend>(
    terminal: &mut Terminal<B>,
    snapshot: &Snapshot<'_>,
    rows: &VecDeque<Sample>,
) -> Result<(), B::Error> {
    terminal
        .draw(|frame| draw(frame, snapshot, rows))
        .map(|_| ())
}

fn draw(frame: &mut Frame<'_>, snapshot: &Snapshot<'_>, rows: &VecDeque<Sample>) {
    let [head, gauge, middle, charts, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(3),
        Constraint::Length(9),
        Constraint::Min(6),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let title = format!(
        " {}   {} s   {}",
        snapshot.scenario.name,
        snapshot.at_ms / 1000,
        snapshot.phase.as_str()
    );
    frame.render_widget(Line::from(title).bold(), head);
    draw_gauge(frame, gauge, snapshot);
    let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(middle);
    draw_figures(frame, left, snapshot);
    draw_errors(frame, right, snapshot);
    let [left, right] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(charts);
    let messages =
        |sample: &Sample| sample.received as f64 * 1000.0 / sample.length_ms.max(1) as f64;
    let latency = |index: usize| {
        move |row: &Sample| {
            row.latency_us
                .map_or(f64::NAN, |us| us[index] as f64 / 1000.0)
        }
    };
    let received = points(rows, messages);
    chart(
        frame,
        left,
        "received per second",
        &[("", Color::Cyan, &received)],
    );
    let (p50, p99) = (points(rows, latency(0)), points(rows, latency(2)));
    let lines = [("p50", Color::Green, &p50), ("p99", Color::Yellow, &p99)];
    chart(frame, right, "latency in ms", &lines);
    let help = " Ctrl-C ends the run early and keeps its results";
    frame.render_widget(Line::from(help).dim(), foot);
}

type Points = Vec<(f64, f64)>;

fn points(rows: &VecDeque<Sample>, of: impl Fn(&Sample) -> f64) -> Points {
    let all = rows.iter().map(|row| (row.at_ms as f64 / 1000.0, of(row)));
    all.filter(|(_, value)| value.is_finite()).collect()
}

fn draw_gauge(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot<'_>) {
    let (alive, wanted) = (snapshot.sample.alive, snapshot.scenario.clients.max(1));
    let gauge = Gauge::default()
        .block(Block::bordered().title(" connections "))
        .gauge_style(Style::new().fg(Color::Cyan))
        .ratio((alive as f64 / wanted as f64).clamp(0.0, 1.0))
        .label(format!("{} of {}", grouped(alive), grouped(wanted)));
    frame.render_widget(gauge, area);
}

fn draw_figures(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot<'_>) {
    let sample = snapshot.sample;
    let per_s = |count: u64| format!("{}/s", grouped(sample.per_s(count)));
    let percentile = |p: f64| time(snapshot.tally.interval.delivery.percentile_us(p));
    let bytes = |count: u64| {
        let per_s = count as f64 * 1000.0 / sample.length_ms.max(1) as f64;
        format!("{}/s", format_bytes(per_s))
    };
    let rows = [
        ("published", per_s(sample.published)),
        ("received", per_s(sample.received)),
        (
            "p50 / p99",
            format!("{} / {}", percentile(50.0), percentile(99.0)),
        ),
        ("p99.9", percentile(99.9)),
        ("bytes in", bytes(sample.received_bytes)),
        ("bytes out", bytes(sample.sent_bytes)),
        (
            "generator",
            format!("{:.0} % of a CPU", sample.generator_busy * 100.0),
        ),
    ];
    let rows = rows.map(|(name, value)| Row::new([name.to_owned(), value]));
    let table = Table::new(rows, [Constraint::Length(12), Constraint::Min(10)])
        .block(Block::bordered().title(" this second "));
    frame.render_widget(table, area);
}

fn draw_errors(frame: &mut Frame<'_>, area: Rect, snapshot: &Snapshot<'_>) {
    let (counters, deliveries) = (&snapshot.tally.counters, &snapshot.tally.deliveries);
    let mut lines: Vec<Line<'_>> = reasons(counters)
        .map(|(fate, reason, count)| format!(" {fate} {reason}: {}", grouped(count)))
        .map(|line| Line::from(line).red())
        .collect();
    for (what, count) in [
        ("publications failed", counters.publish_failed),
        ("duplicates", deliveries.duplicates),
        ("out of order", deliveries.out_of_order),
        ("missing so far", deliveries.missing),
    ] {
        if count > 0 {
            lines.push(Line::from(format!(" {what}: {}", grouped(count))).yellow());
        }
    }
    if lines.is_empty() {
        lines.push(Line::from(" none").green());
    }
    if let Some(server) = snapshot.sample.server {
        let cpu = server.cpu.map_or(0.0, |cpu| cpu * 100.0);
        let memory = server.memory_bytes.map_or(0.0, |bytes| bytes as f64);
        let memory = format_bytes(memory);
        lines.push(Line::from(format!(
            " server: {cpu:.0} % of a CPU, {memory}"
        )));
    }
    let block = Block::bordered().title(" errors ");
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn chart(frame: &mut Frame<'_>, area: Rect, title: &str, lines: &[(&str, Color, &Points)]) {
    let all = || lines.iter().flat_map(|(_, _, points)| points.iter());
    let (first, last) = all().fold((f64::MAX, f64::MIN), |(first, last), (x, _)| {
        (first.min(*x), last.max(*x))
    });
    let top = all().map(|(_, y)| *y).fold(0.0, f64::max) * 1.1;
    let block = Block::bordered().title(format!(" {title} "));
    if last < first {
        frame.render_widget(Paragraph::new(" no data yet").dim().block(block), area);
        return;
    }
    let datasets = lines.iter().map(|(name, color, points)| {
        Dataset::default()
            .name(*name)
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(Style::new().fg(*color))
            .data(points)
    });
    let digits = usize::from(top < 10.0);
    let chart = Chart::new(datasets.collect())
        .block(block)
        .x_axis(
            Axis::default()
                .bounds([first, last.max(first + 1.0)])
                .labels([format!("{first:.0} s"), format!("{last:.0} s")]),
        )
        .y_axis(
            Axis::default()
                .bounds([0.0, top.max(0.001)])
                .labels(["0".to_owned(), format!("{top:.digits$}")]),
        );
    frame.render_widget(chart, area);
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::live::testing::with_snapshot;

    #[test]
    fn the_screen_shows_connections_rates_and_troubles() {
        let mut terminal = Terminal::new(TestBackend::new(100, 30)).unwrap();
        with_snapshot(|snapshot| {
            let mut rows = VecDeque::new();
            remember(&mut rows, snapshot.sample);
            draw_on(&mut terminal, snapshot, &rows).unwrap();
        });
        let text = terminal.backend().to_string();
        for part in [
            "90 of 100",
            "5,000/s",
            "failed refused: 3",
            "latency in ms",
            "hold",
        ] {
            assert!(text.contains(part), "{part} is not on\n{text}");
        }
    }

    #[test]
    fn a_screen_of_any_size_is_drawn() {
        for (width, height) in [(1, 1), (10, 5), (40, 12), (300, 100)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            with_snapshot(|snapshot| {
                draw_on(&mut terminal, snapshot, &VecDeque::new()).unwrap();
            });
        }
    }
}
