//! The chart of the first page: Throng beside its peers, drawn from the tables of `docs/results`.
//!
//! Each group of bars is one run on one machine, and has a scale of its own, because figures of
//! different runs may not be compared. Drawn twice, for light and for dark pages.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use crate::tree::Tree;

/// Title of a group, its page, and the rows it shows: how the row begins, and its short name.
type Group = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str)],
);

const GROUPS: [Group; 3] = [
    (
        "WebSockets",
        "docs/results/peers.md",
        &[
            ("Throng", "Throng"),
            ("Bun", "Bun (uWebSockets)"),
            ("nchan", "nchan (nginx)"),
        ],
    ),
    (
        "Pusher's protocol",
        "docs/results/pusher.md",
        &[("Throng", "Throng"), ("soketi", "soketi")],
    ),
    (
        "streams for GRIP",
        "docs/results/pushpin.md",
        &[("Throng", "Throng"), ("Pushpin", "Pushpin")],
    ),
];

/// Heading of a panel, and how its column begins.
const PANELS: [(&str, &str); 2] = [
    (
        "Bytes of an idle connection (less is better)",
        "idle B per connection (",
    ),
    (
        "Deliveries per CPU-second, 1 × 1,000 (more is better)",
        "deliveries per CPU-second, 1 channel × 1,000, 1 in flight",
    ),
];

/// Colours of a page.
pub(crate) struct Theme {
    text: &'static str,
    quiet: &'static str,
    ours: &'static str,
    others: &'static str,
}

pub(crate) const LIGHT: Theme = Theme {
    text: "#1f2328",
    quiet: "#59636e",
    ours: "#0b7a75",
    others: "#c4cbd3",
};
pub(crate) const DARK: Theme = Theme {
    text: "#f0f6fc",
    quiet: "#9198a1",
    ours: "#35c2b4",
    others: "#4a525c",
};

const PANEL_WIDTH: f64 = 430.0;
const LABEL_WIDTH: f64 = 132.0;
/// Width of the longest bar; its figure stands behind it.
const BAR_WIDTH: f64 = 210.0;
const ROW: f64 = 22.0;

/// Draws all groups of both panels; fails if a table or a row is missing.
pub(crate) fn draw(tree: &Tree, theme: &Theme) -> Result<String> {
    let rows: usize = GROUPS.iter().map(|(_, _, rows)| rows.len() + 1).sum();
    let height = 34.0 + rows as f64 * ROW + GROUPS.len() as f64 * 6.0;
    let width = PANEL_WIDTH * PANELS.len() as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" font-size=\"13\" \
         font-family=\"system-ui, sans-serif\" fill=\"{}\">\n\
         <title>Throng beside its peers: memory of an idle connection, and deliveries per \
         CPU-second</title>\n",
        theme.text
    );
    for (panel, (heading, column)) in PANELS.iter().enumerate() {
        let left = panel as f64 * PANEL_WIDTH;
        writeln!(
            svg,
            "<text x=\"{left}\" y=\"16\" font-weight=\"600\">{heading}</text>"
        )?;
        let mut top = 34.0;
        for (title, page, rows) in GROUPS {
            let quiet = theme.quiet;
            let text_at = top + 14.0;
            writeln!(
                svg,
                "<text x=\"{left}\" y=\"{text_at}\" fill=\"{quiet}\">{title}</text>"
            )?;
            top += ROW;
            let text = tree
                .text(page)
                .with_context(|| format!("{page} is missing"))?;
            let figures: Vec<f64> = rows
                .iter()
                .map(|(row, _)| {
                    figure(text, row, column).with_context(|| format!("{page}: no figure of {row}"))
                })
                .collect::<Result<_>>()?;
            let most = figures.iter().copied().fold(1.0, f64::max);
            for ((_, name), figure) in rows.iter().zip(figures) {
                bar(&mut svg, theme, (left, top), name, figure, most)?;
                top += ROW;
            }
            top += 6.0;
        }
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn bar(
    svg: &mut String,
    theme: &Theme,
    (left, top): (f64, f64),
    name: &str,
    figure: f64,
    most: f64,
) -> Result<()> {
    let is_ours = name == "Throng";
    let (colour, weight) = if is_ours {
        (theme.ours, 600)
    } else {
        (theme.others, 400)
    };
    let (text_at, bar_at) = (top + 14.0, left + LABEL_WIDTH);
    let length = (BAR_WIDTH * figure / most).max(2.0);
    let figure_at = bar_at + length + 6.0;
    let number = thousands(figure as u64);
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"{text_at}\" font-weight=\"{weight}\">{name}</text>\n\
         <rect x=\"{bar_at}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"14\" rx=\"2\" \
         fill=\"{colour}\"/>\n\
         <text x=\"{figure_at:.1}\" y=\"{text_at}\" font-weight=\"{weight}\">{number}</text>",
        top + 3.0
    )?;
    Ok(())
}

/// The number in the first row that begins with a name, in the first column that begins so.
fn figure(page: &str, row: &str, column: &str) -> Option<f64> {
    let cells = |line: &str| -> Vec<String> {
        line.split('|')
            .skip(1)
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    let mut lines = page.lines().filter(|line| line.starts_with('|')).map(cells);
    let at = lines.find_map(|header| header.iter().position(|cell| cell.starts_with(column)))?;
    let found = lines.find(|cells| cells.first().is_some_and(|cell| cell.starts_with(row)))?;
    found.get(at)?.replace(',', "").parse().ok()
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n| suite | green |\n|---|---|\n| a | 7 |\n\n\
        | server | idle B per connection (15) | rate |\n|---|---|---|\n\
        | Throng 0.1.0, 1 shard | 1,140 | 2 |\n| Throng 0.1.0, 2 shards | 9 | 3 |\n\
        | nchan | 4 | – |\n";

    #[test]
    fn figures_are_of_the_first_row_that_begins_so() {
        assert_eq!(figure(PAGE, "Throng", "idle B"), Some(1140.0));
        assert_eq!(figure(PAGE, "nchan", "idle B"), Some(4.0));
        for (row, column) in [("soketi", "idle B"), ("nchan", "rate"), ("nchan", "p99")] {
            assert_eq!(figure(PAGE, row, column), None);
        }
    }

    #[test]
    fn numbers_have_commas() {
        let shown = [7, 140, 1457, 262_000, 1_000_000].map(thousands);
        assert_eq!(shown, ["7", "140", "1,457", "262,000", "1,000,000"]);
    }
}
