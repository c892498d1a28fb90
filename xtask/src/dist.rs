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
mod image;
mod packages;
mod release;
mod sbom;
mod stage;
mod tools;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use self::release::{ARCHITECTURES, Arch, Release, files};
use crate::tree;

const HELP: &str = "\
Usage: cargo xtask dist [OPTIONS]

Makes target/packages: static binaries, archives, .deb, .rpm, container images, SBOM, SHA256SUMS.

  --arch ARCH      x86_64 or aarch64; may be repeated (default: both)
  --sign FILE      Signs SHA256SUMS with this secret key of minisign
  --help           Prints this

It downloads the compilers and tools that it needs into target/tools: python3 with venv, go,
rustup and a network are what has to be here. Two runs at the same commit make the same bytes.
";

/// Largest allowed size; a larger binary is a mistake, such as debug information left in.
const BINARY_BYTES_MAX: u64 = 17_500_000;

#[derive(Debug, PartialEq, Eq)]
struct Options {
    architectures: Vec<Arch>,
    sign: Option<PathBuf>,
}

/// Makes them; false if some of them could not be made.
pub(crate) fn run(arguments: &[&str]) -> Result<bool> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(true);
    };
    let release = Release::of(tree::root()?)?;
    if release.out.exists() {
        fs::remove_dir_all(&release.out).context("cannot empty target/packages")?;
    }
    fs::create_dir_all(&release.out)?;
    let mut lacking = Vec::new();
    for arch in options.architectures {
        if let Err(error) = make(&release, arch) {
            lacking.push(format!("{}: {error:#}", arch.name));
        }
    }
    let sbom = release
        .out
        .join(format!("throng-{}.cdx.json", release.version));
    fs::write(sbom, sbom::document(&release)?)?;
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

fn parse(arguments: &[&str]) -> Result<Option<Options>> {
    let mut options = Options {
        architectures: Vec::new(),
        sign: None,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} needs a value"))
        };
        match *word {
            "--arch" => {
                let name = *value()?;
                let known = ARCHITECTURES.iter().find(|arch| arch.name == name);
                let known = known.with_context(|| format!("{name}: x86_64 or aarch64"))?;
                options.architectures.push(*known);
            }
            "--sign" => options.sign = Some(value()?.into()),
            "--help" | "-h" => return Ok(None),
            other => bail!("{other} is not understood; see cargo xtask dist --help"),
        }
    }
    if options.architectures.is_empty() {
        options.architectures = ARCHITECTURES.to_vec();
    }
    Ok(Some(options))
}

/// Everything for one architecture.
fn make(release: &Release, arch: Arch) -> Result<()> {
    println!("=== {}", arch.name);
    let binary = build::binary(release, arch)?;
    let bytes = fs::metadata(&binary)?.len();
    if bytes > BINARY_BYTES_MAX {
        bail!("the binary has {bytes} bytes, more than {BINARY_BYTES_MAX}");
    }
    let staged = stage::stage(release, arch, &binary)?;
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
    let status = Command::new("minisign")
        .args(["-S", "-m", "SHA256SUMS", "-s"])
        .arg(key)
        .current_dir(folder)
        .status()
        .context("cannot start minisign; Debian's package has that name")?;
    if !status.success() {
        bail!("minisign failed");
    }
    Ok(())
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
    use super::release::output;
    use super::*;

    #[test]
    fn options_are_understood_or_named() {
        let both = parse(&[]).unwrap().unwrap();
        assert_eq!(both.architectures, ARCHITECTURES);
        let one = parse(&["--arch", "aarch64", "--sign", "key"]).unwrap();
        let one = one.unwrap();
        assert_eq!(one.architectures[0].short, "arm64");
        assert_eq!(one.sign.as_deref(), Some(Path::new("key")));
        assert_eq!(parse(&["--help"]).unwrap(), None);
        for wrong in [&["--arch", "riscv"][..], &["--arch"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
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
