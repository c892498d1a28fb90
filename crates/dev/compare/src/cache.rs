//! The folder for fetched peers and for what servers write while they run, and the way to run other
//! programs.
//!
//! Owns: `target/compare` of this checkout. Never: writes outside it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Folder `target/compare` of this checkout.
#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn open() -> Result<Self> {
        let root = target_folder().join("compare");
        std::fs::create_dir_all(&root)
            .with_context(|| format!("cannot create {}", root.display()))?;
        let root = root.canonicalize()?;
        Ok(Self { root })
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    }

    pub(crate) fn empty_folder(&self, name: &str) -> Result<PathBuf> {
        let path = self.root.join(name);
        if path.exists() {
            std::fs::remove_dir_all(&path)?;
        }
        self.folder(name)
    }
}

pub(crate) fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Where cargo builds this checkout.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout().join("target"), PathBuf::from)
}

/// Runs a program to its end and answers what it printed, without the white space around it.
///
/// # Errors
/// If it is not there, or fails; the error has the last of its complaints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    let complaint = String::from_utf8_lossy(&done.stderr);
    let complaint = complaint.trim_end().lines().next_back().unwrap_or_default();
    ensure!(
        done.status.success(),
        "{name} failed ({}): {complaint}",
        done.status
    );
    Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
}
