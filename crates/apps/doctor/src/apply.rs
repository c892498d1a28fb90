//! Lifting limits now: kernel settings and this process's own limit.
//!
//! Owns: writing below `/proc/sys`, and saying what came of it. Never: asks, writes a file that
//! survives a reboot, or runs a command.

use std::io;
use std::path::Path;

use crate::report::{Fix, Report, Scope};

/// What became of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The line, as [`Fix::line`] gives it, or the path of a file written.
    pub line: String,
    /// The outcome.
    pub effect: Effect,
}

/// The outcome of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It holds now.
    Done,
    /// The machine said no; the text says why and who could.
    Refused(String),
    /// Not for this program to do; the text says why.
    ByHand(String),
}

impl Effect {
    /// The word used in text and JSON.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused(_) => "refused",
            Self::ByHand(_) => "by_hand",
        }
    }

    /// The explanation, if there is something to explain.
    #[must_use]
    pub fn note(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Refused(note) | Self::ByHand(note) => Some(note),
        }
    }
}

/// Applies every fix of a report that may be applied, and says what became of each line.
///
/// Settings go below `root/proc/sys` and are read back, since the kernel may adjust a value.
/// `set_nofile` raises the limit of whoever is to run; it is called after the settings, because
/// `nr_open` bounds it.
pub fn apply(
    root: &Path,
    report: &Report,
    set_nofile: &mut dyn FnMut(u64) -> Effect,
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
            Fix::Sysctl { .. } => continue,
            Fix::Nofile { limit } => set_nofile(*limit),
            Fix::Unit { .. } => Effect::ByHand(String::from("written by --persist")),
            Fix::Command { .. } => Effect::ByHand(String::from("a command for you to judge")),
            Fix::Advice { .. } => continue,
        };
        applied.push(Applied {
            line: fix.line(),
            effect,
        });
    }
    applied
}

fn write_setting(root: &Path, key: &str, value: &str, scope: Scope, container: bool) -> Effect {
    let path = root.join("proc/sys").join(key.replace('.', "/"));
    match write_and_read_back(&path, value) {
        Ok(true) => Effect::Done,
        Ok(false) => Effect::Refused(String::from("the kernel kept another value")),
        Err(error) => {
            let hint = match (error.kind(), scope, container) {
                (io::ErrorKind::NotFound, _, _) => "this kernel does not show it here",
                (_, Scope::Host, true) => "set it on the host: a container cannot",
                (_, Scope::Namespace, true) => "start the container with --sysctl, or as root",
                _ => "needs root",
            };
            Effect::Refused(format!("{error}; {hint}"))
        }
    }
}

/// The file must exist: creating one under a missing name would only pretend.
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

#[cfg(test)]
mod tests;
