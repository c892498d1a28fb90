//! Reports for machines.
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
//! | `steps` | array | what to do first, at most three: `id` of the check, and the `line` |
//! | `applied` | array | what `--fix` and `--persist` did; empty without them |
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
use crate::report::{Fix, Kind, Report, Scope, Status};
use crate::text::summary_line;

/// The version of the layout that [`render_json`] writes.
pub const SCHEMA: u32 = 2;

/// Renders a report and what was done about it as one JSON object, indented, with a final
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
        checks: report.checks.iter().map(CheckDocument::from).collect(),
        steps: { report.steps().into_iter() }
            .map(|(check, fix)| StepDocument {
                id: check.id,
                line: fix.line(),
            })
            .collect(),
        applied: applied.iter().map(AppliedDocument::from).collect(),
    };
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    status: Status,
    role: Role,
    container: bool,
    connections: Option<u64>,
    goal: u64,
    connection_bytes: u64,
    holds_connections: Option<u64>,
    binds_first: Option<&'a str>,
    summary: String,
    checks: Vec<CheckDocument<'a>>,
    steps: Vec<StepDocument<'a>>,
    applied: Vec<AppliedDocument<'a>>,
}

#[derive(Serialize)]
struct StepDocument<'a> {
    id: &'a str,
    line: String,
}

/// What people read as a number is one for programs, too.
#[derive(Serialize)]
#[serde(untagged)]
enum Amount<'a> {
    Number(u64),
    Text(&'a str),
}

impl<'a> From<&'a str> for Amount<'a> {
    fn from(text: &'a str) -> Self {
        let is_number = text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b',');
        let number = text.replace(',', "").parse().ok();
        match number.filter(|_| is_number) {
            Some(number) => Self::Number(number),
            None => Self::Text(text),
        }
    }
}

#[derive(Serialize)]
struct CheckDocument<'a> {
    id: &'a str,
    title: &'a str,
    kind: Kind,
    current: Option<Amount<'a>>,
    needed: Option<Amount<'a>>,
    allows_connections: Option<u64>,
    status: Status,
    why: &'a str,
    cost: &'a str,
    fix: Vec<FixDocument<'a>>,
}

impl<'a> From<&'a crate::report::Check> for CheckDocument<'a> {
    fn from(check: &'a crate::report::Check) -> Self {
        Self {
            id: check.id,
            title: check.title,
            kind: check.kind,
            current: check.current.as_deref().map(Amount::from),
            needed: check.needed.as_deref().map(Amount::from),
            allows_connections: check.allows_connections,
            status: check.status,
            why: &check.why,
            cost: check.cost,
            fix: check.fix.iter().map(FixDocument::from).collect(),
        }
    }
}

#[derive(Serialize)]
struct FixDocument<'a> {
    kind: &'static str,
    line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<Scope>,
}

impl<'a> From<&'a Fix> for FixDocument<'a> {
    fn from(fix: &'a Fix) -> Self {
        let (key, value, scope) = match fix {
            Fix::Sysctl { key, value, scope } => (Some(*key), Some(value.as_str()), Some(*scope)),
            _ => (None, None, None),
        };
        Self {
            kind: fix.kind(),
            line: fix.line(),
            key,
            value,
            scope,
        }
    }
}

#[derive(Serialize)]
struct AppliedDocument<'a> {
    line: &'a str,
    effect: &'static str,
    note: Option<&'a str>,
}

impl<'a> From<&'a Applied> for AppliedDocument<'a> {
    fn from(applied: &'a Applied) -> Self {
        Self {
            line: &applied.line,
            effect: applied.effect.name(),
            note: applied.effect.note(),
        }
    }
}
