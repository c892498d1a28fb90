//! Finished runs of a results folder, for the live page to list, show and compare.
//!
//! Owns: the folder's name. Each question reads the folder anew, so a run that ends meanwhile is
//! there the next time. Never: writes, follows a name that a viewer sent, or reads below the
//! folders of runs.
//!
//! Bounds: the newest [`RUNS_MAX`] runs of the first [`FOLDERS_MAX`] folders are listed; a file of
//! more than [`FILE_BYTES_MAX`] is no run's.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Serialize;

use throng_types::date;

use crate::Results;

const RUNS_MAX: usize = 50;
/// Most entries of the folder that are looked at.
const FOLDERS_MAX: usize = 10_000;
/// Size of the largest file that is read: hours of rows fit.
const FILE_BYTES_MAX: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct LiveHistory {
    folder: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Run {
    /// Name in an address: plain letters, whatever the folder is called.
    id: String,
    name: String,
    title: String,
    started: String,
    scenario: &'static str,
    transport: &'static str,
    clients: u64,
    valid: bool,
}

#[derive(Serialize)]
pub(super) struct Listing {
    folder: String,
    runs: Vec<Run>,
}

impl LiveHistory {
    /// Takes the folder in which runs have theirs. It need not be there yet.
    pub const fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Lists the newest runs, the newest first, without those that cannot be read.
    pub(super) fn list(&self) -> Listing {
        let mut found: Vec<(SystemTime, PathBuf)> = self
            .folders()
            .filter_map(|path| {
                let written = fs::metadata(path.join("results.json")).ok()?.modified();
                Some((written.ok()?, path))
            })
            .collect();
        found.sort_unstable_by(|a, b| b.cmp(a));
        let runs = found
            .iter()
            .filter_map(|(_, path)| {
                let name = name(path);
                let results = Results::read(&text(&path.join("results.json"))?, None).ok()?;
                Some(Run {
                    id: id(&name),
                    name,
                    title: results.manifest.title.clone(),
                    started: date::minute(results.manifest.started_unix_ms),
                    scenario: results.scenario.kind.as_str(),
                    transport: results.scenario.transport.as_str(),
                    clients: results.scenario.clients,
                    valid: results.verdict.is_valid(),
                })
            })
            .take(RUNS_MAX)
            .collect();
        Listing {
            folder: self.folder.display().to_string(),
            runs,
        }
    }

    /// Reads the run with this id; also returns its name. None if it is not there or unreadable.
    pub(super) fn run(&self, wanted: &str) -> Option<(String, Results)> {
        let path = self.folders().find(|path| id(&name(path)) == wanted)?;
        // The series is a file of its own, and a run can be shown without it.
        let series = text(&path.join("series.json"));
        let results = Results::read(&text(&path.join("results.json"))?, series.as_deref()).ok()?;
        Some((name(&path), results))
    }

    fn folders(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten();
        entries
            .take(FOLDERS_MAX)
            .filter_map(|entry| Some(entry.ok()?.path()))
    }
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Makes a name that needs no escaping in an address: other bytes than letters, digits, `-`, `_`
/// and `.` are `~` and two digits.
fn id(name: &str) -> String {
    let mut id = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            id.push(byte.into());
        } else {
            // Writing to a String does not fail.
            let _ = write!(id, "~{byte:02x}");
        }
    }
    id
}

fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    let mut file = File::open(path).ok()?.take(FILE_BYTES_MAX + 1);
    let length = file.read_to_string(&mut text).ok()?;
    (length as u64 <= FILE_BYTES_MAX).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_plain_and_differ() {
        for (name, plain) in [
            ("run-1_b.2", "run-1_b.2"),
            ("a b", "a~20b"),
            ("a~20b", "a~7e20b"),
            ("ä<&", "~c3~a4~3c~26"),
            ("..", ".."),
        ] {
            assert_eq!(id(name), plain);
        }
    }

    #[test]
    fn a_folder_that_is_not_there_has_no_runs() {
        let history = LiveHistory::new(PathBuf::from("/nowhere/at/all"));
        assert!(history.list().runs.is_empty());
        assert!(history.run("..").is_none());
        assert!(history.run("").is_none());
    }
}
