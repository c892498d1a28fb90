//! Lifting of limits now: kernel settings and this process's own limit.
//!
//! Owns: writing below `/proc/sys`, and the outcome of each line. Never: asks, writes a file that
//! survives a reboot, or runs a command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
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

/// Note instead of a change: raising the limit of a process that is about to end would only make
/// the report look good.
const NOFILE_NOTE: &str = "a limit belongs to a process and this one ends with the diagnosis: \
                           use the lines below, or --persist";

/// Applies every fix of a report that may be applied; returns the outcome of each line.
///
/// Settings go below `root/proc/sys` and are read back, since the kernel may adjust a value.
pub fn apply(root: &Path, report: &Report) -> Vec<Applied> {
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
        let why = match fix {
            Fix::Sysctl { .. } | Fix::Advice(_) => continue,
            Fix::Nofile(_) => NOFILE_NOTE,
            Fix::Unit(_) => "written by --persist",
            Fix::Command(_) => "a command for you to judge",
        };
        let effect = ChangeOutcome::ByHand(why.to_owned());
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

const SYSCTL_PATH: &str = "etc/sysctl.d/60-throng.conf";

/// File that keeps limits lifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistedFile {
    /// Path below the root, without a leading slash.
    pub path: String,
    /// Whole text of the file.
    pub text: String,
    /// Command that brings it into force.
    pub activate: &'static str,
}

/// Makes the files that keep a report's fixes, for the systemd service `unit` (without `.service`).
/// Empty when there is nothing to keep.
///
/// Settings of an earlier run in the same files stay, so a machine whose limits were
/// lifted one after another keeps them all.
pub fn persist(root: &Path, report: &Report, unit: &str) -> Vec<PersistedFile> {
    let fixes = || report.checks.iter().flat_map(|check| &check.fix);
    let settings = fixes().filter_map(|fix| match fix {
        Fix::Sysctl { key, value, .. } => Some(((*key).to_owned(), value.clone())),
        _ => None,
    });
    let directives = fixes().filter_map(|fix| match fix {
        Fix::Unit(directive) => {
            let (key, value) = directive.split_once('=')?;
            Some((key.to_owned(), value.to_owned()))
        }
        _ => None,
    });
    let unit_path = format!("etc/systemd/system/{unit}.service.d/60-throng.conf");
    let sysctl = merged(root, SYSCTL_PATH, settings).map(|settings| PersistedFile {
        path: SYSCTL_PATH.to_owned(),
        text: render("", &settings, " = "),
        activate: "sysctl --system",
    });
    let drop_in = merged(root, &unit_path, directives).map(|directives| PersistedFile {
        path: unit_path.clone(),
        text: render("[Service]\n", &directives, "="),
        activate: "systemctl daemon-reload, then restart the service",
    });
    sysctl.into_iter().chain(drop_in).collect()
}

/// Writes files below `root`, each in one step: a reader sees the old text or the new. Errors:
/// those of creating directories, writing and renaming.
pub fn write_persisted(root: &Path, file: &PersistedFile) -> io::Result<()> {
    let path = root.join(&file.path);
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
    }
    // sysctl.d and drop-in directories ignore names that do not end in `.conf`.
    let fresh = path.with_extension("conf.new");
    std::fs::write(&fresh, &file.text)?;
    std::fs::rename(&fresh, &path)
}

/// Puts new settings over those of the file; `None` without new ones.
fn merged(
    root: &Path,
    path: &str,
    new: impl Iterator<Item = (String, String)>,
) -> Option<BTreeMap<String, String>> {
    let new: Vec<_> = new.collect();
    if new.is_empty() {
        return None;
    }
    let old = std::fs::read_to_string(root.join(path)).unwrap_or_default();
    let old = old
        .lines()
        .filter(|line| !line.trim_start().starts_with(['#', ';']))
        .filter_map(|line| {
            let (key, value) = line.split_once('=')?;
            Some((key.trim().to_owned(), value.trim().to_owned()))
        });
    Some(old.chain(new).collect())
}

fn render(section: &str, settings: &BTreeMap<String, String>, equals: &str) -> String {
    let mut text = String::from("# Written by throng doctor --persist.\n");
    text.push_str(section);
    for (key, value) in settings {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}{equals}{value}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{get, put, stock, tree};
    use crate::{Machine, Plan, Role, assess};

    fn report(root: &Path) -> Report {
        assess(
            &Machine::read(root),
            &Plan::new(Role::Server, Some(2_000_000)),
        )
    }

    #[test]
    fn settings_are_written_and_limits_of_processes_are_not() {
        let root = tree(&[stock()]);
        let before = report(root.path());
        let applied = apply(root.path(), &before);
        let nr_open = get(root.path(), "proc/sys/fs/nr_open");
        assert_eq!(nr_open.as_deref(), Some("2097152\n"));
        let effect = |line: &str| {
            let found = applied
                .iter()
                .find(|applied| applied.line.starts_with(line));
            found.unwrap_or_else(|| panic!("no {line}")).effect.name()
        };
        assert_eq!(effect("sysctl -w fs.nr_open=2097152"), "done");
        assert_eq!(effect("sysctl -w net.ipv4.tcp_mem="), "done");
        assert_eq!(effect("ulimit -n 2097152"), "by_hand");
        assert_eq!(effect("LimitNOFILE=2097152"), "by_hand");
        assert_eq!(effect("ethtool"), "by_hand");
        // What was written counts when the machine is read again.
        let after = report(root.path());
        for id in [
            "nr_open",
            "max_user_watches",
            "nf_conntrack_max",
            "tcp_mem",
            "somaxconn",
        ] {
            assert_ne!(
                before.check(id).unwrap().status,
                crate::CheckStatus::Ok,
                "{id}"
            );
            assert_eq!(
                after.check(id).unwrap().status,
                crate::CheckStatus::Ok,
                "{id}"
            );
        }
    }

    #[test]
    fn a_setting_the_kernel_does_not_show_is_not_invented() {
        let root = tree(&[]);
        let path = "net.core.somaxconn";
        let effect = write_setting(root.path(), path, "1", Scope::Namespace, false);
        assert!(
            matches!(&effect, ChangeOutcome::Refused(note) if note.contains("does not show")),
            "{effect:?}"
        );
        assert_eq!(get(root.path(), "proc/sys/net/core/somaxconn"), None);
    }

    #[test]
    fn a_refusal_names_who_could() {
        let root = tree(&[]);
        // A directory where a file should be refuses everybody, root too.
        put(root.path(), "proc/sys/fs/nr_open/x", "");
        for (scope, container, hint) in [
            (Scope::Host, false, "needs root"),
            (Scope::Host, true, "on the host"),
            (Scope::Namespace, true, "--sysctl"),
        ] {
            let effect = write_setting(root.path(), "fs.nr_open", "1", scope, container);
            assert!(
                effect.note().is_some_and(|note| note.contains(hint)),
                "{effect:?}"
            );
        }
    }
}
