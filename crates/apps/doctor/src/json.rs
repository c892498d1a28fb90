//! Reports as JSON, for programs.
//!
//! Schema 2, one object. Fields may be added; a change of meaning raises `schema`. `null` is
//! unknown or not asked.
//!
//! | Field | Type | Meaning |
//! |---|---|---|
//! | `schema` | number | [`SCHEMA`] |
//! | `status` | string | worst of all checks: `ok`, `info`, `unknown`, `warn`, `fail` |
//! | `role` | string | `server`, `loadgen`, `both` |
//! | `container` | bool | the facts come from inside a container |
//! | `connections` | number or null | the number asked for |
//! | `goal` | number | the number judged against |
//! | `connection_bytes` | number | memory of one idle connection on this machine |
//! | `holds_connections` | number or null | how many can be open |
//! | `binds_first` | string or null | `id` of the check that decides it |
//! | `summary` | string | one sentence |
//! | `checks` | array | one object per limit |
//! | `steps` | array | first steps, at most three: `id` of the check, and the `line` |
//! | `applied` | array | changes by `--fix` and `--persist`; empty without them |
//!
//! A check: `id` (the kernel's name), `title`, `kind` (`holds`, `load`, `rate`), `current`
//! and `needed` (a number where it is one, else a string, or null), `allows_connections` (number
//! or null), `status`, `why`, `cost`, `fix` (array). A fix: `kind` (`sysctl`, `nofile`, `unit`,
//! `command`, `advice`), `line`, and for `sysctl` also `key`, `value` and `scope` (`host`,
//! `namespace`).
//! An applied line: `line`, `effect` (`done`, `refused`, `by_hand`), `note` (string or null).

use serde::Serialize;

use crate::apply::Applied;
use crate::plan::Role;
use crate::report::{CheckStatus, LimitCheck, Report};
use crate::text::summary_line;

/// Version of the layout that [`render_json`] writes.
pub const SCHEMA: u32 = 2;

/// Renders a report and the changes made as one JSON object, indented, with a final
/// newline.
///
/// # Errors
/// None in practice: the layout has no map with keys that are not strings.
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
