//! The start: the log is read, what is torn is cut off, and a new segment begins.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use throng_broker::{Head, HeadFault, Replay, Restored, SegmentRecords, Store, home_of};
use throng_types::units::format_bytes;

use crate::files::{Folder, Place};
use crate::lane::Common;
use crate::writer::{Journal, Writer};
use crate::{Options, ShardWaker};

/// A long start says where it is so often.
const PROGRESS: Duration = Duration::from_secs(2);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder, and did not let go within three seconds.
    #[error("{0} is in use by another process: each server needs a folder of its own")]
    InUse(PathBuf),
    /// A segment is of another version of the format; nothing was changed.
    #[error(
        "{path} is of version {version} of the format, which this program does not read; start the \
         version that wrote it, or remove the folder to begin without history"
    )]
    Version {
        path: PathBuf,
        /// Version of the format in the segment's head.
        version: u32,
    },
    #[error("{path}: {error}")]
    Io {
        /// The folder or file.
        path: PathBuf,
        error: io::Error,
    },
    #[error("no thread for the history: {0}")]
    Thread(io::Error),
}

/// A store before its writer runs.
pub struct OpenedStore {
    writer: Writer,
    common: Arc<Common>,
    /// State that each shard's home starts with, by shard; none with [`await_takeover`].
    pub restored: Vec<Option<Restored>>,
}

impl OpenedStore {
    /// Starts the writer. Each ring wakes a shard; gives each shard's end.
    ///
    /// # Errors
    /// If there is no thread.
    pub fn start(
        self,
        rings: Vec<ShardWaker>,
    ) -> Result<(Vec<Box<dyn Store>>, Journal), OpenError> {
        let lanes = self.common.lanes().into_iter();
        let lanes = lanes.map(|lane| Box::new(lane) as Box<dyn Store>).collect();
        let journal = Journal::start(self.common, self.writer, rings).map_err(OpenError::Thread)?;
        Ok((lanes, journal))
    }
}

/// A store whose folder another process has, which hands over: nothing is read, and nothing written
/// before [`Journal::begin`].
#[must_use]
pub fn await_takeover(options: Options) -> OpenedStore {
    let common = Common::new(options.shards, options.refuses);
    OpenedStore {
        restored: (0..options.shards).map(|_| None).collect(),
        writer: Writer::new(common.clone(), options, None),
        common,
    }
}

/// Takes the folder, reads what is there, and begins a segment.
///
/// # Errors
/// See [`OpenError`]. A full disk is none: then the server goes on without writing until there is
/// room.
pub fn open(options: Options) -> Result<OpenedStore, OpenError> {
    let wrong = |error| OpenError::Io {
        path: options.path.clone(),
        error,
    };
    let folder = Folder::take(&options.path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse(options.path.clone()),
        _ => wrong(error),
    })?;
    let segments = folder.segments().map_err(wrong)?;
    let mut replay = Replay::new(
        options.namespaces.clone(),
        options.hash_seed,
        options.unix_ms,
    );
    let is_whole = read(&folder, &segments, &mut replay)?;
    let is_crashed = replay.lineage().is_some() && !(is_whole && replay.is_closed());
    let (begins, lineage) = replay.next(options.nonce);
    let mut place = Place {
        folder,
        file: None,
        segments: segments.into_iter().collect(),
        begins,
    };
    if let Err(error) = place.roll(&lineage) {
        tracing::error!(
            path = %options.path.display(),
            "history is not written to disk: {error}; clients are served without it"
        );
    }
    let restored = replay.finish(&lineage, options.shards, home_of);
    let (mut streams, mut publications) = (0, 0);
    for home in &restored {
        let (some, of_them) = home.counts();
        (streams, publications) = (streams + some, publications + of_them);
    }
    tracing::info!(
        streams,
        publications,
        after_crash = is_crashed,
        "history was read"
    );
    let common = Common::new(options.shards, options.refuses);
    let mut writer = Writer::new(common.clone(), options, Some(place));
    writer.lineage = lineage;
    Ok(OpenedStore {
        restored: restored.into_iter().map(Some).collect(),
        writer,
        common,
    })
}

/// Reads all segments; whether they are whole.
fn read(folder: &Folder, segments: &[(u64, u64)], replay: &mut Replay) -> Result<bool, OpenError> {
    let all: u64 = segments.iter().map(|(_, bytes)| bytes).sum();
    let (mut done, mut said_at) = (0, Instant::now());
    let mut is_whole = true;
    for (place, (number, bytes)) in segments.iter().enumerate() {
        let path = folder.segment(*number);
        let wrong = |error| OpenError::Io {
            path: path.clone(),
            error,
        };
        let is_last = place + 1 == segments.len();
        // A segment is a few megabytes, so it is read as a whole.
        let content = match std::fs::read(&path) {
            Ok(content) => content,
            Err(error) if error.raw_os_error() == Some(EIO) => {
                tracing::error!(path = %path.display(), "a part of the history is lost: {error}");
                is_whole = false;
                continue;
            }
            Err(error) => return Err(wrong(error)),
        };
        let mut frames = SegmentRecords::new(&content);
        match frames.next().map(Head::of_record) {
            Some(Ok(head)) => {
                replay.head(&head);
                for record in frames.by_ref() {
                    is_whole &= replay.record(record);
                }
            }
            Some(Err(HeadFault::Version(version))) => {
                return Err(OpenError::Version { path, version });
            }
            Some(Err(HeadFault::Damaged)) | None => {
                is_whole = false;
                let bytes = content.len();
                let path = path.display();
                tracing::warn!(%path, bytes, "a segment has no head: it is not read");
            }
        }
        let torn = content.len() - frames.end();
        if torn > 0 {
            is_whole = false;
            let torn = format_bytes(torn as f64);
            tracing::warn!(path = %path.display(), "the last {torn} of a segment are torn");
        }
        if is_last {
            // What was read may have been in memory alone, and must not go later.
            let file = OpenOptions::new().write(true).open(&path);
            let cut = file.and_then(|file| cut(&file, frames.end() as u64, torn > 0));
            if let Err(error) = cut {
                tracing::warn!(path = %path.display(), "a segment cannot be cut: {error}");
            }
        }
        done += bytes;
        if said_at.elapsed() >= PROGRESS {
            said_at = Instant::now();
            let (done, all) = (format_bytes(done as f64), format_bytes(all as f64));
            tracing::info!("history: {done} of {all} are read");
        }
    }
    Ok(is_whole)
}

/// The kernel's number for "the device failed".
const EIO: i32 = 5;

fn cut(file: &File, end: u64, is_torn: bool) -> io::Result<()> {
    if is_torn {
        file.set_len(end)?;
    }
    file.sync_all()
}
