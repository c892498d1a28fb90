//! Where the writer is: the folder, its segments, and the one that is written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use throng_broker::{Begins, Frames, Head, Lineage};

use crate::files::{Folder, FolderFault};
use crate::options::Options;

/// The folder, and the segment that is written.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    /// The segment's number and bytes are the last of `segments`.
    pub(crate) file: Option<File>,
    pub(crate) segments: BTreeMap<u64, u64>,
    /// Relation of the next segment to those before it.
    pub(crate) begins: Begins,
}

impl Place {
    /// Writes to this segment from now on.
    pub(crate) fn go_on(&mut self, number: u64, file: File, bytes: u64) {
        self.segments.insert(number, bytes);
        self.file = Some(file);
        self.begins = Begins::Continues;
    }

    fn next(&self) -> u64 {
        self.segments
            .last_key_value()
            .map_or(1, |(last, _)| last + 1)
    }

    /// Returns the bytes of all segments together.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().sum()
    }

    /// Begins a segment; the one before it is synced.
    pub(crate) fn roll(&mut self, lineage: &Lineage) -> io::Result<u64> {
        if let Some(file) = &self.file {
            file.sync_data()?;
        }
        let head = Head {
            number: self.next(),
            begins: self.begins,
            lineage: lineage.clone(),
        };
        let (file, bytes) = self.folder.begin(&head)?;
        self.go_on(head.number, file, bytes);
        Ok(head.number)
    }

    /// The folder as another process has left it.
    pub(crate) fn take_over(options: &Options, lineage: &Lineage) -> io::Result<Self> {
        let folder = Folder::take(&options.path).map_err(|fault| match fault {
            FolderFault::InUse => io::Error::other("another process has it"),
            FolderFault::Io(error) => error,
        })?;
        let segments: BTreeMap<u64, u64> = folder.segments()?.into_iter().collect();
        let last = segments.last_key_value();
        let content = last.map(|(number, _)| std::fs::read(folder.segment(*number)));
        let content = content.transpose()?.unwrap_or_default();
        let head = Frames::new(&content).next().map(Head::of_record);
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
