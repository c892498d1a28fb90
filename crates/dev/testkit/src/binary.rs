//! The `throng` binary of this checkout, and a place where another one can be installed.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(3)
        .expect("crates/dev/testkit is three below the root")
        .to_owned()
}

/// The folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    // A test's binary is in target/PROFILE/deps.
    let test = std::env::current_exe().expect("a test knows its path");
    test.ancestors()
        .nth(3)
        .expect("a test is three below target")
        .to_owned()
}

/// Path of the binary, built if it is not up to date: `cargo test -p` builds only what it tests. On
/// a machine without cargo, `THRONG_BIN` gives the path.
pub fn throng() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os("THRONG_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--package",
            "throng",
            "--bin",
            "throng",
            "--message-format",
            "json",
        ])
        .arg("--target-dir")
        .arg(target())
        .current_dir(root());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command
        .output()
        .expect("cargo, which runs this test, starts again");
    let said = String::from_utf8_lossy(&built.stdout);
    let executable = said.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours =
            message["target"]["name"] == "throng" && message["reason"] == "compiler-artifact";
        message["executable"]
            .as_str()
            .filter(|_| ours)
            .map(PathBuf::from)
    });
    assert!(
        built.status.success(),
        "cannot build throng:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    executable.expect("cargo says where it put the binary")
}

/// Where the binary of a server seems to be: the next upgrade starts what is installed there then.
pub struct Installed(TempDir);

impl Default for Installed {
    fn default() -> Self {
        let this = Self(tempfile::tempdir().expect("a folder"));
        this.install(throng());
        this
    }
}

impl Installed {
    /// Gives the path that [`Setup::binary`](crate::Setup::binary) wants.
    pub fn path(&self) -> PathBuf {
        self.0.path().join("throng")
    }

    /// Replaces the program, in one step.
    pub fn install(&self, binary: &Path) {
        let new = self.0.path().join("new");
        symlink(binary, &new).expect("a link");
        fs::rename(&new, self.path()).expect("another link");
    }

    /// Installs a script of the shell.
    pub fn install_script(&self, script: &str) {
        let path = self.0.path().join("script");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("its permissions");
        self.install(&path);
    }
}
