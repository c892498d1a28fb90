//! The binary: static, stripped, for one architecture.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use cargo_metadata::MetadataCommand;

use super::release::{Arch, Release, run_to_end};
use super::tools;

/// Builds the binary. It names the commit, and no path of this machine.
pub(crate) fn binary(release: &Release, arch: Arch) -> Result<PathBuf> {
    let root = &release.root;
    let target = format!("{}-unknown-linux-musl", arch.name);
    tools::rust_std(root, &target)?;
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()?;
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    let renamed = |option: &str| {
        let (root, home) = (root.display(), home.display());
        format!("{option}={root}=/throng {option}={home}=/cargo")
    };
    let mut cargo = Command::new("cargo");
    cargo
        .args(["zigbuild", "--locked", "--profile", "dist"])
        .args(["--package", "throng", "--target", &target])
        .current_dir(root)
        .env("PATH", tools::path_with_zig(root)?)
        .env("RUSTFLAGS", renamed("--remap-path-prefix"))
        .env("CFLAGS", renamed("-ffile-prefix-map"))
        .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string())
        .env("CARGO_INCREMENTAL", "0")
        .env(
            "THRONG_VERSION",
            format!("{} ({})", release.version, release.commit),
        );
    run_to_end(&mut cargo).with_context(|| format!("cargo zigbuild --target {target}"))?;
    let folder = metadata.target_directory.into_std_path_buf();
    Ok(folder.join(target).join("dist/throng"))
}
