//! Lifting of limits for good: a sysctl.d file and a systemd drop-in.
//!
//! Owns: the text of both files. Never: reloads anything, or touches a file of another name.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::report::{Fix, Report};

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

/// Writes files below `root`, each in one step: a reader sees the old text or the new.
///
/// # Errors
/// Those of creating directories, writing and renaming.
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
