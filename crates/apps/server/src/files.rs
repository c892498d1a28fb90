//! Files that the configuration names: their text, and whether they have changed.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A file's text, or a sentence on why there is none.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Attributes that change when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp([i64; 5]);

impl Stamp {
    /// `None` if there is no such file.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let of = std::fs::metadata(path).ok()?;
        let [inode, bytes] = [of.ino(), of.len()].map(|number| number as i64);
        let times = [of.mtime(), of.mtime_nsec(), of.ctime_nsec()];
        let [changed_s, changed_ns, noted_ns] = times;
        Some(Self([inode, bytes, changed_s, changed_ns, noted_ns]))
    }
}
