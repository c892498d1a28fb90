//! The records of webhooks: one file beside the history, written by the thread that tells webhooks.
//!
//! What was written survives the process. It reaches the disk when the kernel likes, or when the
//! file is written anew.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use throng_broker::HookJournal;

use crate::files::Folder;

const NAME: &str = "webhooks";

/// File with the records of webhooks.
pub struct HookFile {
    path: PathBuf,
    /// A history in the same folder has taken it.
    is_taken: bool,
    folder: Option<Folder>,
    file: Option<File>,
    bytes: u64,
    is_failing: bool,
}

impl HookFile {
    /// Names the file in a folder, which nobody else may write meanwhile: a history has taken it
    /// for this process, or else this does.
    #[must_use]
    pub fn new(folder: &Path, is_taken: bool) -> Self {
        Self {
            path: folder.join(NAME),
            is_taken,
            folder: None,
            file: None,
            bytes: 0,
            is_failing: false,
        }
    }

    fn take(&mut self) -> io::Result<()> {
        if !self.is_taken && self.folder.is_none() {
            let folder = self.path.with_file_name("");
            self.folder = Some(Folder::take(&folder)?);
        }
        Ok(())
    }

    /// Reads what an earlier process wrote; nothing if there is no file.
    ///
    /// # Errors
    /// If there is one that cannot be read, or another process has the folder.
    pub fn read(&mut self) -> io::Result<Vec<u8>> {
        self.take()?;
        match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn write_anew(&mut self, records: &[u8]) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(records)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        self.file = Some(file);
        Ok(())
    }

    /// Records are lost for the next process if the disk refuses them, and no event is.
    fn judge(&mut self, written: io::Result<()>) {
        let was_failing = std::mem::replace(&mut self.is_failing, written.is_err());
        if let Err(error) = written {
            if !was_failing {
                let path = self.path.display();
                tracing::error!(%path, "webhooks: cannot write what a restart needs: {error}");
            }
            // The next copy of everything tries again.
            self.file = None;
            self.bytes = u64::MAX;
        }
    }
}

impl HookJournal for HookFile {
    fn append(&mut self, records: &[u8]) {
        if let Some(file) = &mut self.file {
            let written = file.write_all(records);
            self.bytes += records.len() as u64;
            self.judge(written);
        }
    }

    fn replace(&mut self, records: &[u8]) {
        self.bytes = records.len() as u64;
        let written = self.take().and_then(|()| self.write_anew(records));
        self.judge(written);
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn let_go(&mut self) {
        (self.file, self.folder) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_appended_and_replaced() {
        let folder = std::env::temp_dir().join(format!("throng-hooks-{}", std::process::id()));
        let mut file = HookFile::new(&folder, false);
        assert_eq!(file.read().expect("nothing"), b"");
        file.replace(b"ab");
        file.append(b"c");
        assert_eq!(
            (file.read().expect("a file"), file.bytes()),
            (b"abc".to_vec(), 3)
        );
        file.replace(b"d");
        file.append(b"e");
        let mut next = HookFile::new(&folder, false);
        file.let_go();
        assert_eq!(next.read().expect("a file"), b"de");
        std::fs::remove_dir_all(&folder).expect("the folder");
        // Where nothing can be written, everything is tried again.
        next.replace(b"f");
        assert_eq!(next.bytes(), u64::MAX);
    }
}
