//! Lifting of limits now: kernel settings and this process's own limit.
//!
//! Owns: writing below `/proc/sys`, and the outcome of each line. Never: asks, writes a file that
//! survives a reboot, or runs a command.

use std::io;
use std::path::Path;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use crate::report::{Fix, Report, Scope};

/// Line that was applied, with its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Line as [`Fix::line`] returns it, or the path of a file written.
    pub line: String,
    /// Diagnosis of the line.
    pub effect: ChangeOutcome,
}

/// Diagnosis of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// In force from now on.
    Done,
    /// Refused by the machine; the text says why and who could.
    Refused(String),
    /// Left to the user; the text says why.
    ByHand(String),
}

impl ChangeOutcome {
    /// Word for it in text and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused(_) => "refused",
            Self::ByHand(_) => "by_hand",
        }
    }

    /// Explanation of an outcome other than success.
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Refused(note) | Self::ByHand(note) => Some(note),
        }
    }
}

/// Applies every fix of a report that may be applied; returns the outcome of each line.
///
/// Settings go below `root/proc/sys` and are read back, since the kernel may adjust a value.
/// `set_nofile` raises the limit of the process that is to run; it is called after the settings,
/// because
/// `nr_open` bounds it.
pub fn apply(
    root: &Path,
    report: &Report,
    set_nofile: &mut dyn FnMut(u64) -> ChangeOutcome,
) -> Vec<Applied> {
    let fixes = || report.checks.iter().flat_map(|check| &check.fix);
    let settings = fixes().filter_map(|fix| match fix {
        Fix::Sysctl { key, value, scope } => {
            let effect = write_setting(root, key, value, *scope, report.container);
            Some(Applied {
                line: fix.line(),
                effect,
            })
        }
        _ => None,
    });
    let mut applied: Vec<Applied> = settings.collect();
    for fix in fixes() {
        let effect = match fix {
            Fix::Sysctl { .. } | Fix::Advice(_) => continue,
            Fix::Nofile(limit) => set_nofile(*limit),
            Fix::Unit(_) => ChangeOutcome::ByHand(String::from("written by --persist")),
            Fix::Command(_) => ChangeOutcome::ByHand(String::from("a command for you to judge")),
        };
        applied.push(Applied {
            line: fix.line(),
            effect,
        });
    }
    applied
}

fn write_setting(
    root: &Path,
    key: &str,
    value: &str,
    scope: Scope,
    container: bool,
) -> ChangeOutcome {
    let path = root.join("proc/sys").join(key.replace('.', "/"));
    match write_and_read_back(&path, value) {
        Ok(true) => ChangeOutcome::Done,
        Ok(false) => ChangeOutcome::Refused(String::from("the kernel kept another value")),
        Err(error) => {
            let hint = match (error.kind(), scope, container) {
                (io::ErrorKind::NotFound, _, _) => "this kernel does not show it here",
                (_, Scope::Host, true) => "set it on the host: a container cannot",
                (_, Scope::Namespace, true) => "start the container with --sysctl, or as root",
                _ => "needs root",
            };
            ChangeOutcome::Refused(format!("{error}; {hint}"))
        }
    }
}

/// Writes an existing file: creating one under a missing name would only pretend.
fn write_and_read_back(path: &Path, value: &str) -> io::Result<bool> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(path)?;
    io::Write::write_all(&mut file, format!("{value}\n").as_bytes())?;
    drop(file);
    let now = std::fs::read_to_string(path)?;
    Ok(now
        .split_ascii_whitespace()
        .eq(value.split_ascii_whitespace()))
}

impl Serialize for Applied {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("line", &self.line)?;
        map.serialize_entry("effect", self.effect.name())?;
        map.serialize_entry("note", &self.effect.note())?;
        map.end()
    }
}

#[cfg(test)]
mod tests;
