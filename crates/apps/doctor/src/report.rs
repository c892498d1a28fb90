//! The verdict: one check per limit, and what they say together.

use serde::Serialize;

use crate::plan::Role;

/// What a reader is told to do at once; after that the machine is another one.
const STEPS_MAX: usize = 3;

/// How a check came out. Ordered from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It holds what is asked for.
    Ok,
    /// Nothing to do about it now, and worth knowing: it does not count here, or something else
    /// binds first and no number was asked.
    Info,
    /// The machine does not tell.
    Unknown,
    /// Works, with a drawback; or binds first below what memory would allow, when no number was
    /// asked.
    Warn,
    /// Short of the number asked for.
    Fail,
}

impl Status {
    /// The word used in text and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Info => "info",
            Self::Unknown => "unknown",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// What a limit bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// How many connections can be open. Only these decide `holds_connections`.
    Holds,
    /// What they can do once traffic flows.
    Load,
    /// How fast they can come and go.
    Rate,
}

/// Where a kernel setting lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One per machine: a container cannot change it.
    Host,
    /// One per network namespace: a container may have its own.
    Namespace,
}

/// One way to lift a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A kernel setting; can be applied and persisted.
    Sysctl {
        /// With dots, as sysctl(8) takes it.
        key: &'static str,
        /// The value to write.
        value: String,
        /// Whether a container may set it.
        scope: Scope,
    },
    /// `RLIMIT_NOFILE`; can be applied to this process only.
    Nofile {
        /// Soft and hard alike.
        limit: u64,
    },
    /// A line of the `[Service]` section; can be persisted.
    Unit {
        /// Such as `LimitNOFILE=1048576`.
        directive: String,
    },
    /// A command for a human.
    Command {
        /// As typed into a root shell.
        line: String,
    },
    /// What no line can do.
    Advice {
        /// A sentence.
        text: String,
    },
}

impl Fix {
    /// The exact line to type, to write or to read.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::Sysctl { key, value, .. } if value.contains(' ') => {
                format!("sysctl -w {key}='{value}'")
            }
            Self::Sysctl { key, value, .. } => format!("sysctl -w {key}={value}"),
            Self::Nofile { limit } => {
                format!("ulimit -n {limit}   # root: this shell and what it starts")
            }
            Self::Unit { directive } => format!("{directive}   # systemd unit, [Service]"),
            Self::Command { line } => line.clone(),
            Self::Advice { text } => text.clone(),
        }
    }

    /// The word used in JSON.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sysctl { .. } => "sysctl",
            Self::Nofile { .. } => "nofile",
            Self::Unit { .. } => "unit",
            Self::Command { .. } => "command",
            Self::Advice { .. } => "advice",
        }
    }
}

/// One limit, judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The kernel's name, such as `nofile`.
    pub id: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// What it bounds.
    pub kind: Kind,
    /// What the machine has; `None` is unknown.
    pub current: Option<String>,
    /// What the goal needs, where that is a number.
    pub needed: Option<String>,
    /// How many connections it lets live; `None` is unknown or not a matter of number.
    pub allows_connections: Option<u64>,
    /// The judgement.
    pub status: Status,
    /// What happens when it binds, or why it does not.
    pub why: String,
    /// What lifting it costs.
    pub cost: &'static str,
    /// How to lift it; empty when it is enough.
    pub fix: Vec<Fix>,
}

/// All limits, judged against one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which end was asked about.
    pub role: Role,
    /// The number asked for.
    pub connections: Option<u64>,
    /// The number judged against: the one asked for, or what memory allows.
    pub goal: u64,
    /// Memory of one idle connection, every end on this machine, in bytes.
    pub connection_bytes: u64,
    /// Whether the facts come from inside a container.
    pub container: bool,
    /// The lowest of the limits that bound open connections; `None` when none is known.
    pub holds_connections: Option<u64>,
    /// The id of that limit.
    pub binds_first: Option<&'static str>,
    /// Those that bound open connections first, lowest first; then load, then rate.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst status of all checks; what is unknown does not outweigh what is known.
    #[must_use]
    pub fn status(&self) -> Status {
        let known = self.checks.iter().map(|check| check.status);
        known
            .filter(|&status| status != Status::Unknown)
            .max()
            .unwrap_or(Status::Unknown)
    }

    /// The check with this id.
    #[must_use]
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }

    /// What to do first: the checks that are worst, of each the first line that is no advice if it
    /// has one. At most three.
    #[must_use]
    pub fn steps(&self) -> Vec<(&Check, &Fix)> {
        let mut short: Vec<&Check> = self.checks.iter().collect();
        short.retain(|check| check.status >= Status::Warn);
        // The sort is stable: what binds first comes first.
        short.sort_by_key(|check| std::cmp::Reverse(check.status));
        let steps = short.into_iter().filter_map(|check| {
            let is_line = |fix: &&Fix| !matches!(fix, Fix::Advice { .. });
            let fix = { check.fix.iter().find(is_line) }.or_else(|| check.fix.first());
            Some((check, fix?))
        });
        steps.take(STEPS_MAX).collect()
    }

    /// The limit that binds first.
    #[must_use]
    pub fn first(&self) -> Option<&Check> {
        self.check(self.binds_first?)
    }
}
