//! Archives that come out the same each time: fixed owners, dates and order.

use std::io::Write as _;

use anyhow::Result;
use aws_lc_rs::digest::{SHA256, digest};
use flate2::{Compression, GzBuilder};
use tar::{EntryType, Header};

/// File or folder of an archive, in the order given. Folders end in `/`.
pub(crate) struct Entry {
    /// From the archive's root, without a slash in front.
    pub(crate) path: String,
    /// The bits of chmod(1).
    pub(crate) mode: u32,
    /// The numbers of its user and of its group, which are the same.
    pub(crate) owner: u64,
    /// Nothing for a folder.
    pub(crate) bytes: Vec<u8>,
}

impl Entry {
    /// A folder of root's.
    pub(crate) fn folder(path: &str) -> Self {
        Self {
            path: format!("{path}/"),
            mode: 0o755,
            owner: 0,
            bytes: Vec::new(),
        }
    }

    /// A file of root's.
    pub(crate) fn file(path: &str, mode: u32, bytes: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            mode,
            owner: 0,
            bytes,
        }
    }
}

/// A tar with these entries, all of this age.
pub(crate) fn tar(entries: &[Entry], epoch_s: u64) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_ustar();
        header.set_entry_type(match entry.path.ends_with('/') {
            true => EntryType::Directory,
            false => EntryType::Regular,
        });
        header.set_mode(entry.mode);
        header.set_uid(entry.owner);
        header.set_gid(entry.owner);
        header.set_mtime(epoch_s);
        header.set_size(entry.bytes.len() as u64);
        builder.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    Ok(builder.into_inner()?)
}

/// Compressed, without a name or a date of its own.
pub(crate) fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut out = GzBuilder::new().write(Vec::new(), Compression::best());
    out.write_all(bytes)?;
    Ok(out.finish()?)
}

/// The digest, as hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_entries_make_the_same_bytes() {
        let entries = || {
            [
                Entry::folder("usr"),
                Entry::file("usr/a", 0o755, b"text".to_vec()),
            ]
        };
        let once = gzip(&tar(&entries(), 1_700_000_000).unwrap()).unwrap();
        let twice = gzip(&tar(&entries(), 1_700_000_000).unwrap()).unwrap();
        assert_eq!(sha256(&once), sha256(&twice));
        let read = tar(&entries(), 7).unwrap();
        let mut archive = tar::Archive::new(read.as_slice());
        let found: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let path = entry.path().unwrap().display().to_string();
                (path, header.mode().unwrap(), header.mtime().unwrap())
            })
            .collect();
        assert_eq!(
            found,
            [
                ("usr/".to_owned(), 0o755, 7),
                ("usr/a".to_owned(), 0o755, 7)
            ]
        );
    }
}
