//! Tools that make a release and that most machines lack, installed below `target/tools`.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::release::{output, run_to_end};

/// Compiles and links C for any Linux, with musl.
const ZIG: [&str; 2] = ["cargo-zigbuild==0.24.0", "ziglang==0.17.1"];
/// Writes packages for Debian and Red Hat.
const NFPM: &str = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2";
/// Lists what a program consists of (SBOM).
const CYCLONEDX: &str = "cargo-cyclonedx@0.5.9";

/// The search path with the cross compiler in front.
pub(crate) fn path_with_zig(root: &Path) -> Result<OsString> {
    let folder = root.join("target/tools").join(ZIG.join("-"));
    let programs = folder.join("bin");
    if !programs.join("cargo-zigbuild").exists() {
        println!("installing {}", ZIG.join(" and "));
        let done =
            output(Command::new("python3").args(["-m", "venv"]).arg(&folder)).and_then(|_| {
                let mut pip = Command::new(programs.join("pip"));
                output(pip.args(["install", "--quiet"]).args(ZIG))
            });
        if let Err(error) = done {
            // Half of it would be taken for the whole.
            let _ = fs::remove_dir_all(&folder);
            return Err(error.context("cannot install the cross compiler with python3 -m venv"));
        }
    }
    let rest = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(
        [programs].into_iter().chain(env::split_paths(&rest)),
    )?)
}

/// The program that writes packages.
pub(crate) fn nfpm(root: &Path) -> Result<PathBuf> {
    let version = NFPM.rsplit('@').next().unwrap_or_default();
    let folder = root.join("target/tools").join(format!("nfpm-{version}"));
    let program = folder.join("nfpm");
    if !program.exists() {
        println!("installing {NFPM}");
        let mut go = Command::new("go");
        let installed = run_to_end(go.args(["install", NFPM]).env("GOBIN", &folder));
        installed.context("go install, which brings nfpm for .deb and .rpm")?;
    }
    Ok(program)
}

/// The program that lists what is inside.
pub(crate) fn cyclonedx(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/tools").join(CYCLONEDX);
    let program = folder.join("bin/cargo-cyclonedx");
    if !program.exists() {
        println!("installing {CYCLONEDX}");
        let mut cargo = Command::new("cargo");
        cargo.args(["install", "--quiet", "--locked", CYCLONEDX, "--root"]);
        let installed = run_to_end(cargo.arg(&folder).current_dir(root));
        installed.context("cargo install, which brings cargo-cyclonedx for the SBOM")?;
    }
    Ok(program)
}

/// Sees to it that Rust can build for a target.
pub(crate) fn rust_std(root: &Path, target: &str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", target]);
    let folder = output(rustc.current_dir(root))?;
    if Path::new(&folder).exists() {
        return Ok(());
    }
    let mut rustup = Command::new("rustup");
    let added = output(rustup.args(["target", "add", target]).current_dir(root));
    added
        .map(|_| ())
        .with_context(|| format!("Rust's library for {target} is missing, and cannot be had here"))
}
