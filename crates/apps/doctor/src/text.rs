//! Reports as text, for people: plain text, aligned, without colour.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::json;
use throng_types::fill::fill;
use throng_types::units::{format_bytes, grouped};

use crate::apply::Applied;
use crate::report::{CheckStatus, Fix, LimitCheck, Report};

/// Renders a report: the verdict, one line per limit, and how to lift those that are short.
///
/// Every line of the table starts with its status in a column of its own, so a caller that
/// wants colour can paint lines by their first word.
pub fn render_text(report: &Report) -> String {
    // Advice is a comment, so that the block can go through a shell as a whole.
    let line = |fix: &Fix| match fix {
        Fix::Advice(text) => format!("# {text}"),
        _ => fix.line(),
    };
    let lift = |check: &LimitCheck| {
        json!({
            "id": check.id, "title": check.title, "cost": check.cost,
            "why": wrapped(&format!("why:  {}.", check.why)),
            "fix": check.fix.iter().map(line).collect::<Vec<_>>(),
        })
    };
    let mut summary = summary_line(report, false);
    if let Some(start) = summary.get_mut(..1) {
        start.make_ascii_uppercase();
    }
    let short = report.checks.iter().filter(|check| !check.fix.is_empty());
    let steps = report.steps();
    let warned = report
        .checks
        .iter()
        .filter(|check| check.status >= CheckStatus::Warn);
    let left = warned.count().saturating_sub(steps.len());
    let steps_told = (1_u32..).zip(&steps);
    let steps_told = steps_told.map(|(n, (check, fix))| {
        let line = fix.line();
        json!({"n": n, "id": check.id, "line": line})
    });
    let view = json!({
        "report": report,
        "summary": summary,
        "table": table(report),
        "short": short.map(lift).collect::<Vec<_>>(),
        "steps": steps_told.collect::<Vec<_>>(),
        "these": match steps.len() {
            1 => "this",
            2 => "these two",
            _ => "these three",
        },
        "left": report.connections.is_some().then_some(left).filter(|left| *left > 0),
    });
    fill(include_str!("report.txt"), &view)
}

/// Sums a report up in one sentence, for a server's banner too. Who was started from a shell has no
/// unit to write in.
pub fn summary_line(report: &Report, from_shell: bool) -> String {
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
    let is_for_shell = |fix: &&Fix| !from_shell || !matches!(fix, Fix::Unit(_));
    let fix = first
        .fix
        .iter()
        .find(is_for_shell)
        .or_else(|| first.fix.first());
    if let Some(fix) = fix {
        let _ = match fix {
            Fix::Nofile(limit) => write!(line, ": lift it with `ulimit -n {limit}` as root"),
            Fix::Advice(text) => write!(line, ": {text}"),
            Fix::Unit(directive) => {
                write!(line, ": lift it with `{directive}` in the systemd unit")
            }
            _ => write!(line, ": lift it with `{}`", fix.line()),
        };
    }
    line
}

fn table(report: &Report) -> String {
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
    let line = |[status, limit, holds, needed, now]: &[String; 5]| {
        format!("{status:<a$}  {limit:<b$}  {holds:>c$}  {needed:>d$}  {now}\n")
    };
    rows.iter().map(line).collect()
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
fn wrapped(paragraph: &str) -> String {
    const WIDTH: usize = 96;
    let mut out = String::new();
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
    out
}

/// Writes a size as people read it.
pub(crate) fn bytes(bytes: u64) -> String {
    format_bytes(bytes as f64)
}

/// Version of the layout that [`render_json`] writes.
pub const SCHEMA: u32 = 2;

/// Renders a report and the changes made as one JSON object, indented, with a final newline.
/// Errors: none in practice: the layout has no map with keys that are not strings.
pub fn render_json(report: &Report, applied: &[Applied]) -> Result<String, serde_json::Error> {
    let document = Document {
        schema: SCHEMA,
        status: report.status(),
        summary: summary_line(report, false),
        report,
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
    summary: String,
    #[serde(flatten)]
    report: &'a Report,
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
    fn paragraphs_break_between_words() {
        let out = wrapped(&vec!["word"; 60].join(" "));
        assert!(
            out.lines()
                .all(|line| line.len() <= 96 && line.starts_with("  "))
        );
        assert_eq!(out.split_whitespace().count(), 60);
    }
}
