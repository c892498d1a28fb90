//! What is being released: the version, the commit, the machines; and how programs are asked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A machine that Throng is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arch {
    /// Name used by Rust, the kernel and RPM.
    pub(crate) name: &'static str,
    /// Name used by Debian and container engines.
    pub(crate) short: &'static str,
}

/// Architectures that are released.
pub(crate) const ARCHITECTURES: [Arch; 2] = [
    Arch {
        name: "x86_64",
        short: "amd64",
    },
    Arch {
        name: "aarch64",
        short: "arm64",
    },
];

impl Arch {
    /// Finds the one with this name.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let known = ARCHITECTURES.iter().find(|arch| arch.name == name);
        known.copied().context("x86_64 or aarch64")
    }
}

/// Facts about the release being built.
pub(crate) struct Release {
    /// The root of the checkout.
    pub(crate) root: PathBuf,
    /// Folder that receives all artifacts.
    pub(crate) out: PathBuf,
    /// Version without a leading `v`, as in `0.1.0`.
    pub(crate) version: String,
    /// The first digits of the commit, with `+changes` if files differ from it.
    pub(crate) commit: String,
    /// When the commit was made: seconds since 1970.
    pub(crate) epoch_s: u64,
    /// Time of the commit in UTC, as `2026-11-22T21:54:47Z`.
    pub(crate) date: String,
}

impl Release {
    /// Asks git about the checkout.
    pub(crate) fn of(root: PathBuf) -> Result<Self> {
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(&root).env("TZ", "UTC");
            output(&mut git)
        };
        let changes = match git(&["status", "--porcelain"])?.is_empty() {
            true => "",
            false => "+changes",
        };
        let commit = git(&["rev-parse", "--short=10", "HEAD"])?;
        let epoch_s = git(&["show", "--no-patch", "--format=%ct"])?.parse()?;
        let form = "--date=format-local:%Y-%m-%dT%H:%M:%SZ";
        let date = git(&["show", "--no-patch", "--format=%cd", form])?;
        let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
        let manifest: toml::Table = manifest.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        Ok(Self {
            out: root.join("target/packages"),
            version: version.context("Cargo.toml has no version")?.to_owned(),
            commit: format!("{commit}{changes}"),
            epoch_s,
            date,
            root,
        })
    }
}

/// The files of a folder, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    inside(folder, Path::is_file)
}

/// The folders of a folder, sorted.
pub(crate) fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    inside(folder, Path::is_dir)
}

fn inside(folder: &Path, is_wanted: fn(&Path) -> bool) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<Result<Vec<_>>>()?;
    paths.retain(|path| is_wanted(path));
    paths.sort();
    Ok(paths)
}

/// Runs a program that prints what it does.
///
/// # Errors
/// If it does not start or ends badly.
pub(crate) fn run_to_end(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {name}"))?;
    if !status.success() {
        bail!("{name} failed");
    }
    Ok(())
}

/// Runs a program and returns its output, trimmed.
///
/// # Errors
/// If it does not start or ends badly; with what it said.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command
        .output()
        .with_context(|| format!("cannot start {name}"))?;
    if !done.status.success() {
        bail!("{name}: {}", String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8(done.stdout)?.trim().to_owned())
}
