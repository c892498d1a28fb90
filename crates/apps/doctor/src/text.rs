//! Reports as text, for people: plain text, aligned, without colour.

use std::fmt::Write as _;

use serde::Serialize;
use throng_types::units::grouped;

use crate::apply::Applied;
use crate::plan::Role;
use crate::report::{CheckStatus, Fix, LimitCheck, Report};

/// Renders a report: the verdict, one line per limit, and how to lift those that are short.
///
/// Every line of the table starts with its status in a column of its own, so a caller that
/// wants colour can paint lines by their first word.
pub fn render_text(report: &Report) -> String {
    let mut out = String::new();
    verdict(report, &mut out);
    out.push('\n');
    table(report, &mut out);
    for check in report.checks.iter().filter(|check| !check.fix.is_empty()) {
        // Writing to a String cannot fail.
        let _ = write!(out, "\n{} ({})\n", check.id, check.title);
        wrap(&format!("why:  {}.", check.why), &mut out);
        let _ = writeln!(out, "  cost: {}.", check.cost);
        out.push_str("  lift:\n");
        for fix in &check.fix {
            // Advice is a comment, so that the block can go through a shell as a whole.
            let hash = if matches!(fix, Fix::Advice(_)) {
                "# "
            } else {
                ""
            };
            let _ = writeln!(out, "    {hash}{}", fix.line());
        }
    }
    steps(report, &mut out);
    out
}

/// Writes the first steps, at the end, which stays on the screen.
fn steps(report: &Report, out: &mut String) {
    let steps = report.steps();
    let title = match steps.len() {
        0 => "Nothing has to be done",
        1 => "Do this",
        2 => "Do these two",
        _ => "Do these three",
    };
    out.push('\n');
    out.push_str(title);
    out.push_str(if steps.is_empty() { ".\n" } else { ":\n" });
    for (n, (check, fix)) in steps.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {}. {}: {}", n + 1, check.id, fix.line());
    }
    let short = report.checks.iter();
    let short = short
        .filter(|check| check.status >= CheckStatus::Warn)
        .count();
    let _ = match (report.connections, short.saturating_sub(steps.len())) {
        (None, _) => writeln!(
            out,
            "To have every limit judged, say how many connections you want: `throng doctor \
             --connections 100k`."
        ),
        (Some(_), 0) => Ok(()),
        (Some(_), left) => writeln!(out, "Then ask again: {left} more are above."),
    };
}

/// Sums a report up in one sentence, for a server's banner.
pub fn summary_line(report: &Report) -> String {
    let Some((holds, first)) = report.holds_connections.zip(report.first()) else {
        return String::from("this machine does not show how many connections it holds");
    };
    let mut line = match report.connections {
        Some(wanted) if wanted <= holds => format!(
            "this machine holds the {} connections planned, up to about {}",
            grouped(wanted),
            grouped(holds)
        ),
        Some(wanted) => format!(
            "this machine holds about {} connections of the {} planned",
            grouped(holds),
            grouped(wanted)
        ),
        None => format!("this machine holds about {} connections", grouped(holds)),
    };
    let current = first.current.as_deref().unwrap_or("unknown");
    // Writing to a String cannot fail.
    let _ = write!(
        line,
        "; {} binds first ({} = {current})",
        first.id, first.id
    );
    if let Some(fix) = first.fix.first() {
        let _ = match fix {
            Fix::Advice(text) => write!(line, ": {text}"),
            Fix::Unit(directive) => {
                write!(line, ": lift it with `{directive}` in the systemd unit")
            }
            _ => write!(line, ": lift it with `{}`", fix.line()),
        };
    }
    line
}

fn verdict(report: &Report, out: &mut String) {
    let mut sentence = summary_line(report);
    if let Some(start) = sentence.get_mut(..1) {
        start.make_ascii_uppercase();
    }
    let place = if report.container {
        ", in a container"
    } else {
        ""
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "Role {}{place}; {} bytes of memory per idle connection.",
        report.role.name(),
        grouped(report.connection_bytes)
    );
    let _ = writeln!(out, "{sentence}.");
    if report.connections.is_none() {
        let _ = writeln!(
            out,
            "Limits are compared with {} connections, which memory would allow; only the one that \
             binds first is judged.",
            grouped(report.goal)
        );
    }
}

fn table(report: &Report, out: &mut String) {
    let header = ["", "LIMIT", "HOLDS", "NEEDED", "NOW"].map(String::from);
    let rows = report.checks.iter().map(|check| {
        let status = match check.status {
            CheckStatus::Ok => "ok",
            CheckStatus::Info => "INFO",
            CheckStatus::Unknown => "?",
            CheckStatus::Warn => "WARN",
            CheckStatus::Fail => "FAIL",
        };
        let holds = check
            .allows_connections
            .map_or_else(|| String::from("-"), holds);
        let needed = check.needed.clone().unwrap_or_else(|| String::from("-"));
        let current = check
            .current
            .clone()
            .unwrap_or_else(|| String::from("unknown"));
        [
            status.to_owned(),
            check.id.to_owned(),
            holds,
            needed,
            current,
        ]
    });
    let rows: Vec<[String; 5]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].len())
            .max()
            .unwrap_or_default()
    };
    let [a, b, c, d] = std::array::from_fn(width);
    for [status, limit, holds, needed, now] in &rows {
        let _ = writeln!(
            out,
            "{status:<a$}  {limit:<b$}  {holds:>c$}  {needed:>d$}  {now}"
        );
    }
}

/// Writes a number of connections; above all that a machine can hold it only confuses.
fn holds(connections: u64) -> String {
    if 1_000_000_000 < connections {
        String::from(">1,000,000,000")
    } else {
        grouped(connections)
    }
}

/// Breaks a paragraph at 96 columns, indented; lines after the first align with its text.
fn wrap(paragraph: &str, out: &mut String) {
    const WIDTH: usize = 96;
    let mut line = String::from(" ");
    for word in paragraph.split(' ') {
        if WIDTH < line.len() + 1 + word.len() {
            out.push_str(&line);
            out.push('\n');
            line = String::from("       ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// Writes a size in the largest unit that keeps it above one.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let mut units = units.into_iter().map(|(name, bits)| (name, 1_u64 << bits));
    match units.find(|(_, unit)| *unit <= bytes) {
        None => format!("{bytes} B"),
        Some((name, unit)) => format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    }
}

/// Version of the layout that [`render_json`] writes.
pub const SCHEMA: u32 = 2;

/// Renders a report and the changes made as one JSON object, indented, with a final newline.
/// Errors: none in practice: the layout has no map with keys that are not strings.
pub fn render_json(report: &Report, applied: &[Applied]) -> Result<String, serde_json::Error> {
    let document = Document {
        schema: SCHEMA,
        status: report.status(),
        role: report.role,
        container: report.container,
        connections: report.connections,
        goal: report.goal,
        connection_bytes: report.connection_bytes,
        holds_connections: report.holds_connections,
        binds_first: report.binds_first,
        summary: summary_line(report),
        checks: &report.checks,
        steps: { report.steps().into_iter() }
            .map(|(check, fix)| Step {
                id: check.id,
                line: fix.line(),
            })
            .collect(),
        applied,
    };
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    status: CheckStatus,
    role: Role,
    container: bool,
    connections: Option<u64>,
    goal: u64,
    connection_bytes: u64,
    holds_connections: Option<u64>,
    binds_first: Option<&'a str>,
    summary: String,
    checks: &'a [LimitCheck],
    steps: Vec<Step<'a>>,
    applied: &'a [Applied],
}

#[derive(Serialize)]
struct Step<'a> {
    id: &'a str,
    line: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (size, expect) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_536, "1.5 KiB"),
            (16 << 30, "16.0 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(size), expect);
        }
    }

    #[test]
    fn paragraphs_break_between_words() {
        let mut out = String::new();
        let words = vec!["word"; 60].join(" ");
        wrap(&words, &mut out);
        assert!(
            out.lines()
                .all(|line| line.len() <= 96 && line.starts_with("  "))
        );
        assert_eq!(out.split_whitespace().count(), 60);
    }
}
