//! Verdict: one check per limit, and the report over all of them.

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::plan::Role;

/// Most steps to take at once; after them the machine is another one.
const STEPS_MAX: usize = 3;

/// Status of a check, ordered from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Enough for the number asked for.
    Ok,
    /// Worth knowing, without anything to do: it does not count here, or another limit binds first
    /// and no number was asked.
    Info,
    /// The machine does not show the limit.
    Unknown,
    /// Works, with a drawback; or binds first below what memory would allow, when no number was
    /// asked.
    Warn,
    /// Short of the number asked for.
    Fail,
}

/// Quantity that a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckKind {
    /// Number of open connections. Only these decide `holds_connections`.
    Holds,
    /// Traffic of open connections.
    Load,
    /// Rate at which connections come and go.
    Rate,
}

/// Scope of a kernel setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Whole machine: a container cannot change it.
    Host,
    /// Network namespace: a container may have its own.
    Namespace,
}

/// Way to lift a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Kernel setting; can be applied and persisted.
    Sysctl {
        /// Name with dots, as sysctl(8) takes it.
        key: &'static str,
        /// Value to write, as text.
        value: String,
        /// Scope that says whether a container may set it.
        scope: Scope,
    },
    /// Soft and hard `RLIMIT_NOFILE`; can be applied to this process only.
    Nofile(u64),
    /// Line of the `[Service]` section, such as `LimitNOFILE=1048576`; can be persisted.
    Unit(String),
    /// Command for a human, as typed into a root shell.
    Command(String),
    /// Sentence on what no line can do.
    Advice(String),
}

impl Fix {
    pub(crate) fn host(key: &'static str, value: impl ToString) -> Self {
        let (value, scope) = (value.to_string(), Scope::Host);
        Self::Sysctl { key, value, scope }
    }

    pub(crate) fn namespace(key: &'static str, value: impl ToString) -> Self {
        let (value, scope) = (value.to_string(), Scope::Namespace);
        Self::Sysctl { key, value, scope }
    }

    /// Exact line to type, to write or to read.
    pub fn line(&self) -> String {
        match self {
            Self::Sysctl { key, value, .. } if value.contains(' ') => {
                format!("sysctl -w {key}='{value}'")
            }
            Self::Sysctl { key, value, .. } => format!("sysctl -w {key}={value}"),
            Self::Nofile(limit) => {
                format!("ulimit -n {limit}   # root: this shell and what it starts")
            }
            Self::Unit(directive) => format!("{directive}   # systemd unit, [Service]"),
            Self::Command(line) | Self::Advice(line) => line.clone(),
        }
    }

    /// Word for the fix in JSON.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sysctl { .. } => "sysctl",
            Self::Nofile(_) => "nofile",
            Self::Unit(_) => "unit",
            Self::Command(_) => "command",
            Self::Advice(_) => "advice",
        }
    }
}

/// Judgement of one limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitCheck {
    /// Name in the kernel, such as `nofile`.
    pub id: &'static str,
    /// Description in a few words.
    pub title: &'static str,
    /// Quantity that it bounds.
    pub kind: CheckKind,
    /// Value of the machine; `None` is unknown.
    #[serde(serialize_with = "amount")]
    pub current: Option<String>,
    /// Value that the goal needs, where that is a number.
    #[serde(serialize_with = "amount")]
    pub needed: Option<String>,
    /// Number of connections that it allows; `None` is unknown or not a matter of number.
    pub allows_connections: Option<u64>,
    /// Status against the goal.
    pub status: CheckStatus,
    /// Effect when it binds, or the reason why it does not.
    pub why: String,
    /// Cost of lifting the limit.
    pub cost: &'static str,
    /// Ways to lift it; empty when it is enough.
    pub fix: Vec<Fix>,
}

/// The limits: name, kind, title, cost, effect.
const LIMITS: &str = include_str!("limits.txt");

impl LimitCheck {
    /// A limit of the table, of which nothing is known yet.
    pub(crate) fn of(id: &str) -> Self {
        let mut rows = LIMITS.lines().map(|row| row.split(" | "));
        let row = rows.find(|row| row.clone().next() == Some(id));
        let mut cells = row.into_iter().flatten();
        let mut next = || cells.next().unwrap_or_default();
        Self {
            id: next(),
            kind: match next() {
                "load" => CheckKind::Load,
                "rate" => CheckKind::Rate,
                _ => CheckKind::Holds,
            },
            title: next(),
            cost: next(),
            why: next().to_owned(),
            current: None,
            needed: None,
            allows_connections: None,
            status: CheckStatus::Unknown,
            fix: Vec::new(),
        }
    }
}

/// Judgement of all limits against one plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Role of the machine in the plan.
    pub role: Role,
    /// Number of connections asked for.
    pub connections: Option<u64>,
    /// Number judged against: the one asked for, or the one that memory allows.
    pub goal: u64,
    /// Memory of one idle connection, every end on this machine, in bytes.
    pub connection_bytes: u64,
    /// True if the facts come from inside a container.
    pub container: bool,
    /// Lowest of the limits that bound open connections; `None` when none is known.
    pub holds_connections: Option<u64>,
    /// Id of that lowest limit.
    pub binds_first: Option<&'static str>,
    /// Checks that bound open connections, lowest first; then load, then rate.
    pub checks: Vec<LimitCheck>,
}

impl Report {
    /// Worst status of all checks; an unknown one outweighs no other.
    pub fn status(&self) -> CheckStatus {
        let statuses = self.checks.iter().map(|check| check.status);
        let known = statuses.filter(|&status| status != CheckStatus::Unknown);
        known.max().unwrap_or(CheckStatus::Unknown)
    }

    /// Check with this id, if there is one.
    pub fn check(&self, id: &str) -> Option<&LimitCheck> {
        self.checks.iter().find(|check| check.id == id)
    }

    /// First steps, at most three: the worst checks, each with its first line that is no advice.
    pub fn steps(&self) -> Vec<(&LimitCheck, &Fix)> {
        let mut short: Vec<&LimitCheck> = self.checks.iter().collect();
        short.retain(|check| check.status >= CheckStatus::Warn);
        // The sort is stable: what binds first comes first.
        short.sort_by_key(|check| std::cmp::Reverse(check.status));
        let steps = short.into_iter().filter_map(|check| {
            let is_line = |fix: &&Fix| !matches!(fix, Fix::Advice(_));
            let fix = { check.fix.iter().find(is_line) }.or_else(|| check.fix.first());
            Some((check, fix?))
        });
        steps.take(STEPS_MAX).collect()
    }

    /// Check of the limit that binds first.
    pub fn first(&self) -> Option<&LimitCheck> {
        self.check(self.binds_first?)
    }
}

impl Serialize for Fix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.kind())?;
        map.serialize_entry("line", &self.line())?;
        if let Self::Sysctl { key, value, scope } = self {
            map.serialize_entry("key", key)?;
            map.serialize_entry("value", value)?;
            map.serialize_entry("scope", scope)?;
        }
        map.end()
    }
}

/// Writes a value that people read as a number as one, too.
fn amount<S: Serializer>(value: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let Some(text) = value else {
        return serializer.serialize_none();
    };
    let is_number = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b',');
    match text.replace(',', "").parse::<u64>() {
        Ok(number) if is_number => serializer.serialize_u64(number),
        _ => serializer.serialize_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_has_a_row_of_its_own() {
        let rows: Vec<&str> = LIMITS.lines().filter(|row| !row.starts_with('#')).collect();
        for row in &rows {
            let id = row.split(" | ").next().unwrap_or_default();
            let check = LimitCheck::of(id);
            assert_eq!(check.id, id);
            assert!(!check.title.is_empty() && !check.cost.is_empty(), "{row}");
            let known = ["holds", "load", "rate"];
            assert!(
                row.split(" | ")
                    .nth(1)
                    .is_some_and(|kind| known.contains(&kind))
            );
            let twins = rows
                .iter()
                .filter(|row| row.starts_with(&format!("{id} |")));
            assert_eq!(twins.count(), 1, "{id}");
        }
    }
}
