//! Files that a command writes for its user: nothing is overwritten that was not meant to be.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Options for writing a new file.
pub(crate) struct NewFile {
    /// Overwrites one that is there.
    pub(crate) force: bool,
    /// Secrets are in it: if it is new, only its owner may read it.
    pub(crate) is_secret: bool,
    /// Advice to the user if the file is there already.
    pub(crate) advice: &'static str,
}

impl NewFile {
    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written, or is there already.
    pub(crate) fn write(&self, path: &Path, text: &str) -> Result<()> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        #[cfg(unix)]
        if self.is_secret {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let written = options.open(path);
        let written = written.and_then(|mut out| out.write_all(text.as_bytes()));
        written.map_err(|error| {
            let what = format!("cannot write {}: {error}", path.display());
            let failure = Failure::new(Exit::Failed, what);
            if error.kind() == io::ErrorKind::AlreadyExists {
                failure.advise(self.advice)
            } else {
                failure
            }
        })
    }
}
