//! The folder: its lock, its segments, how one is begun, and the one that is written.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use throng_broker::{Begins, Head, Lineage, SegmentRecords, write_frame};

use crate::Options;

/// Longest wait for another process to release the folder's lock: one that was killed, or one that
/// hands over and sent its state a moment ago.
const LETS_GO: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(2);
const SUFFIX: &str = ".history";
/// Permission bits of the folder for users that are neither its owner nor in its group.
const OTHERS: u32 = 0o007;
/// The lock is taken on this file, which has no content.
const LOCK: &str = "lock";

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    _lock: File,
}

fn not_a_file(name: &str) -> io::Error {
    io::Error::other(format!("{name} is not a regular file"))
}

impl Folder {
    /// Makes it if it is not there, and takes it. Another process may be about to let go; if it
    /// does not, that would block.
    pub(crate) fn take(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        if std::fs::metadata(path)?.permissions().mode() & OTHERS != 0 {
            let path = path.display();
            tracing::warn!(%path, "the history's folder is open to all: chmod 700 closes it");
        }
        // To open a pipe would wait for its other end.
        match std::fs::symlink_metadata(path.join(LOCK)) {
            Ok(lock) if !lock.is_file() => return Err(not_a_file(LOCK)),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(path.join(LOCK))?;
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if began.elapsed() < LETS_GO => {
                    std::thread::sleep(LOOK);
                }
                Err(TryLockError::WouldBlock) => {
                    let text = "another process has it";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }

    /// The numbers of all segments and their bytes, in order.
    pub(crate) fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let number = number.filter(|number| number.len() == 16);
            if let Some(Ok(number)) = number.map(|number| u64::from_str_radix(number, 16)) {
                let metadata = entry.metadata()?;
                if !metadata.is_file() {
                    return Err(not_a_file(&entry.file_name().to_string_lossy()));
                }
                all.push((number, metadata.len()));
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Begins a segment; its head is on the disk when this returns.
    fn begin(&self, head: &Head) -> io::Result<(File, u64)> {
        let path = self.segment(head.number);
        let mut options = OpenOptions::new();
        let mut file = options
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(&path)?;
        let mut bytes = Vec::new();
        write_frame(&head.to_record(), &mut bytes);
        let written = file.write_all(&bytes).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| self.sync()) {
            // Half a head is of no use to anybody.
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        Ok((file, bytes.len() as u64))
    }

    /// Lets the names of files reach the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        std::fs::remove_file(self.segment(number))
    }
}

/// The folder, and the segment that is written.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    /// The segment's number and bytes are the last of `segments`.
    pub(crate) file: Option<File>,
    pub(crate) segments: BTreeMap<u64, u64>,
    pub(crate) begins: Begins,
}

impl Place {
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Begins a segment; the one before it is synced.
    pub(crate) fn roll(&mut self, lineage: &Lineage) -> io::Result<u64> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        let last = self.segments.last_key_value();
        let number = last.map_or(1, |(last, _)| last + 1);
        let head = Head {
            number,
            begins: self.begins,
            lineage: lineage.clone(),
        };
        let (file, bytes) = self.folder.begin(&head)?;
        self.segments.insert(number, bytes);
        self.file = Some(file);
        self.begins = Begins::Continues;
        Ok(number)
    }

    /// The folder as another process has left it.
    pub(crate) fn take_over(options: &Options, lineage: &Lineage) -> io::Result<Self> {
        let folder = Folder::take(&options.path)?;
        let segments: BTreeMap<u64, u64> = folder.segments()?.into_iter().collect();
        let last = segments.last_key_value();
        let content = last.map(|(number, _)| std::fs::read(folder.segment(*number)));
        let content = content.transpose()?.unwrap_or_default();
        let head = SegmentRecords::new(&content).next().map(Head::of_record);
        let is_ours = matches!(head, Some(Ok(head)) if head.lineage.nonce == lineage.nonce);
        Ok(Self {
            folder,
            file: None,
            segments,
            begins: if is_ours {
                Begins::Continues
            } else {
                Begins::Fresh
            },
        })
    }
}
