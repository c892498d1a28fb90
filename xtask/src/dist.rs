//! `cargo xtask dist`: what a release consists of, made on any machine, without a container engine.
//!
//! Owns `target/packages`. For each architecture: a static binary, an archive with it, packages for
//! Debian and Red Hat, a container image; for all together: a list of what is inside (SBOM),
//! checksums, and a signature if a key is given.
//!
//! Invariants: dates come from the commit, owners and orders are fixed, so the same commit gives
//! the same bytes.

mod archive;
mod build;
mod documentation;
mod image;
mod packages;
mod release;
mod sbom;
mod stage;
mod tools;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::release::{ARCHITECTURES, Arch, Release, files};
pub(crate) use self::release::{output, run_to_end};
use crate::tree;

/// Largest allowed size; a larger binary is a mistake, such as debug information left in.
const BINARY_BYTES_MAX: u64 = 20_000_000;

/// Makes target/packages: static binaries, archives, .deb, .rpm, container images, SBOM, SHA256SUMS
///
/// It downloads the compilers and tools that it needs into target/tools: python3 with venv, go,
/// rustup and a network are what has to be here. Two runs at the same commit make the same bytes.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Options {
    /// x86_64 or aarch64; may be repeated [default: both]
    #[arg(long = "arch", value_name = "ARCH", value_parser = Arch::named)]
    architectures: Vec<Arch>,
    /// Signs SHA256SUMS with this secret key of minisign
    #[arg(long, value_name = "FILE")]
    sign: Option<PathBuf>,
}

/// Makes them; false if some of them could not be made.
pub(crate) fn run(mut options: Options) -> Result<bool> {
    if options.architectures.is_empty() {
        options.architectures = ARCHITECTURES.to_vec();
    }
    let release = Release::of(tree::root()?)?;
    if release.out.exists() {
        fs::remove_dir_all(&release.out).context("cannot empty target/packages")?;
    }
    fs::create_dir_all(&release.out)?;
    // This machine's own is first: its program writes the manual for the other.
    let is_foreign = |arch: &Arch| arch.name != env::consts::ARCH;
    options.architectures.sort_by_key(is_foreign);
    let (mut lacking, mut own) = (Vec::new(), None);
    for arch in options.architectures {
        if let Err(error) = make(&release, arch, &mut own) {
            lacking.push(format!("{}: {error:#}", arch.name));
        }
    }
    match sbom::document(&release) {
        Ok(text) => {
            let name = format!("throng-{}.cdx.json", release.version);
            fs::write(release.out.join(name), text)?;
        }
        Err(error) => lacking.push(format!("SBOM: {error:#}")),
    }
    checksums(&release.out)?;
    if let Some(key) = &options.sign {
        sign(&release.out, key)?;
    }
    list(&release)?;
    for what in &lacking {
        eprintln!("error: not made: {what}");
    }
    Ok(lacking.is_empty())
}

/// Everything for one architecture. `own` is the program that this machine can run, once made.
fn make(release: &Release, arch: Arch, own: &mut Option<PathBuf>) -> Result<()> {
    println!("=== {}", arch.name);
    let binary = build::binary(release, arch)?;
    if arch.name == env::consts::ARCH {
        *own = Some(binary.clone());
    }
    let bytes = fs::metadata(&binary)?.len();
    if bytes > BINARY_BYTES_MAX {
        bail!("the binary has {bytes} bytes, more than {BINARY_BYTES_MAX}");
    }
    let staged = stage::stage(release, arch, &binary, own.as_deref())?;
    let name = format!("throng-{}-linux-{}.tar.gz", release.version, arch.name);
    fs::write(
        release.out.join(name),
        stage::archive(release, arch, &staged)?,
    )?;
    packages::make(release, arch, &staged)?;
    image::make(release, arch, &binary)
}

/// The lines that `sha256sum --check` reads.
fn checksums(folder: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("{}  {name}\n", archive::sha256(&fs::read(&path)?)));
    }
    Ok(fs::write(folder.join("SHA256SUMS"), lines.concat())?)
}

/// Signs the checksums, and with them all files.
fn sign(folder: &Path, key: &Path) -> Result<()> {
    let key = key
        .canonicalize()
        .with_context(|| format!("no key {}", key.display()))?;
    let mut minisign = Command::new("minisign");
    minisign.args(["-S", "-m", "SHA256SUMS", "-s"]).arg(key);
    run_to_end(minisign.current_dir(folder)).context("Debian's package is named minisign")
}

fn list(release: &Release) -> Result<()> {
    println!("\nthrong {} ({})", release.version, release.commit);
    for path in files(&release.out)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        println!("{:>12}  {name}", fs::metadata(&path)?.len());
    }
    println!("in {}", release.out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_known_by_their_names() {
        assert_eq!(Arch::named("aarch64").unwrap().short, "arm64");
        assert!(Arch::named("riscv").is_err());
    }

    #[test]
    fn checksums_are_those_that_sha256sum_reads() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "hello\n").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        checksums(folder.path()).unwrap();
        let mut sha256sum = Command::new("sha256sum");
        sha256sum.args(["--check", "SHA256SUMS"]);
        sha256sum.current_dir(folder.path());
        assert_eq!(output(&mut sha256sum).unwrap(), "a: OK\nb: OK");
    }
}
